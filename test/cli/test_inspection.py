"""qwenrun --profile and --selfcheck: tables, the trace, exit codes."""

import json
import re
import unittest

from cli_testing import (UNTIED, CliTest, build_plan, token_tensors,
                         write_tokens)

KERNEL_ROW = re.compile(
    r"^(?P<name>.+?) +(?P<calls>\d+) +(?P<kernels>\d+) +(?P<mean>[\d.]+) +"
    r"(?P<total>[\d.]+) +(?P<share>[\d.]+) %")


def tables(text):
    """Rows of each table by its title; a row is a dictionary of its cells."""
    result, rows = {}, None
    for line in text.splitlines():
        title = re.match(r"^(\S.*?) +calls +kernels +mean us", line)
        if title:
            rows = result.setdefault(title.group(1), [])
        elif not line.strip():
            rows = None
        elif rows is not None:
            match = KERNEL_ROW.match(line)
            assert match, line
            rows.append(match.groupdict())
    return result


class WithPlan(CliTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        build_plan(cls.shared / "plan.fb", "--recompute=cheap", config=UNTIED)

    def setUp(self):
        super().setUp()
        self.plan = self.shared / "plan.fb"

    def kernels_of_plan(self, programs=("first_micro_step", "update")):
        """Kernel names and launches of programs, as qwen-plan says."""
        counts = {}
        for program in programs:
            text = self.run_good("qwen-plan", "--program", program,
                                 self.plan).stdout
            for line in text.splitlines():
                launch = re.match(r"^ *\d+ (\w+)", line)
                if launch:
                    kernel = launch.group(1)
                    counts[kernel] = counts.get(kernel, 0) + 1
        return counts


class Profile(WithPlan):

    def profile(self, *arguments):
        return self.run_good("qwenrun", self.plan, *arguments).stdout

    def test_tables_hold_every_launch(self):
        found = tables(self.profile("--profile=2"))
        self.assertEqual(set(found), {"kernel", "stage", "part of the model"})
        counts = {}
        for row in found["kernel"][:-1]:
            kernel = row["name"].split()[0]
            counts[kernel] = counts.get(kernel, 0) + int(row["calls"])
        self.assertEqual(counts, self.kernels_of_plan())
        self.assertEqual({row["name"] for row in found["stage"]},
                         {"forward", "loss", "backward", "recompute", "update",
                          "all"})
        self.assertLessEqual({"gdn_layer", "attention_layer", "optimizer"},
                             {row["name"] for row in found["part of the model"]})
        for rows in found.values():
            self.assertEqual(rows[-1]["name"], "all")
            self.assertEqual(int(rows[-1]["calls"]), sum(counts.values()))
            # Printed shares are rounded to a tenth.
            shares = sum(float(row["share"]) for row in rows[:-1])
            self.assertAlmostEqual(shares, 100, delta=0.05 * len(rows) + 0.01)
            totals = [float(row["total"]) for row in rows]
            self.assertAlmostEqual(sum(totals[:-1]), totals[-1],
                                   delta=0.0005 * len(rows) + 1e-6)
        kernels = [float(row["total"]) for row in found["kernel"][:-1]]
        self.assertEqual(kernels, sorted(kernels, reverse=True))

    def test_trace_is_json_with_nested_slices(self):
        self.profile("--profile", "--accumulation", "2", "--profile-trace",
                     "trace.json")
        trace = json.loads((self.folder / "trace.json").read_text())
        slices = [event for event in trace["traceEvents"]
                  if event["ph"] == "X"]
        launches = sum(self.kernels_of_plan(
            ("first_micro_step", "micro_step", "update")).values())
        self.assertEqual(sum(event["cat"] == "launch" for event in slices),
                         3 * launches)
        order = {"step": 0, "program": 1, "pass": 2, "layer": 3, "launch": 4}
        enclosing, layers = [], set()
        for event in slices:
            begin, end = event["ts"], event["ts"] + event["dur"]
            while enclosing and enclosing[-1][1] <= begin + 1e-3:
                enclosing.pop()
            for parent, parent_end in enclosing:
                self.assertLess(order[parent["cat"]], order[event["cat"]])
                self.assertLessEqual(end, parent_end + 1e-2)
            if event["cat"] == "launch" and event["args"]["stage"] == "recompute":
                self.assertIn("_layer", enclosing[-1][0]["name"])
            if event["cat"] == "layer":
                layers.add(event["name"].split()[0].split(".")[-1])
            enclosing.append((event, end))
        self.assertEqual(layers, set("0123"))

    def test_data_and_output_folder(self):
        write_tokens(self.folder / "data", token_tensors([20, 30, 10]))
        (self.folder / "out").mkdir()
        text = self.profile("--profile=1", "--data", "data", "--out", "out")
        self.assertIn("out/profile.json", text)
        self.assertTrue((self.folder / "out" / "profile.json").exists())

    def test_trace_that_cannot_be_written(self):
        self.run_bad("qwenrun", self.plan, "--profile=1", "--profile-trace",
                     "missing/trace.json", says="missing/trace.json")

    def test_trace_has_its_place_before_anything_is_measured(self):
        """The weights, which come first, are not there either."""
        self.run_bad("qwenrun", self.plan, "--profile=1", "--weights", "none",
                     "--profile-trace", "missing/x", says="missing/x")
        self.profile("--profile=1", "--out", "new/out")
        self.assertTrue((self.folder / "new/out/profile.json").exists())


class Selfcheck(WithPlan):

    def test_good_plan(self):
        done = self.run_good("qwenrun", "--selfcheck", self.plan)
        for check in ("document isolation", "graph replay", "run to run",
                      *(f"gated_delta_grad {name}"
                        for name in ("dq", "dk", "dv", "dg", "dbeta")),
                      *(f"attention_grad {name}"
                        for name in ("dq", "dk", "dv")),
                      "causal_conv1d_grad dx", "causal_conv1d_grad dweight"):
            self.assertRegex(done.stdout, rf"(?m)^{check} .*(ok|skipped)$")
        self.assertNotIn("MISS", done.stdout)
        counts = re.search(r"(\d+) of (\d+) checks passed in", done.stdout)
        self.assertEqual(counts.group(1), counts.group(2))
        self.assertEqual(done.stderr, "")

    def test_plan_of_one_document(self):
        single = self.folder / "single.fb"
        build_plan(single, config=UNTIED, documents=1)
        done = self.run_good("qwenrun", "--selfcheck", single)
        self.assertRegex(done.stdout,
                         r"(?m)^document isolation .*one document.* skipped$")

    def test_one_way_of_running_at_a_time(self):
        self.run_bad("qwenrun", "--selfcheck", "--profile", self.plan,
                     says="--selfcheck")


if __name__ == "__main__":
    unittest.main()
