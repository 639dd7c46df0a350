"""qwen-plan --scale: the forecast's tables, and one line for what is wrong."""

import json
import re
import unittest

from cli_testing import TIED, UNTIED, CliTest, build_plan

SIZE = re.compile(
    r"^ *(?P<ranks>\d+) +(?P<step>[\d.]+) +(?P<compute>[\d.]+) +"
    r"(?P<gather>[\d.]+) +(?P<scatter>[\d.]+) +(?P<exposed>[\d.]+) +"
    r"(?P<part>[\d.]+) % +(?P<rate>\d+) +(?P<efficiency>[\d.]+) % +"
    r"(?P<memory>[\d.e+-]+)$", re.MULTILINE)
# Slow enough for the tiny model's times to have digits.
SLOW = ("--peak-tflops=0.001", "--memory-bandwidth=1", "--link-bandwidth=1",
        "--network-bandwidth=1")


class Scale(CliTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        build_plan(cls.shared / "two.fb", "--world-size=2", config=UNTIED)
        build_plan(cls.shared / "one.fb", config=TIED)

    def scale(self, *arguments, plan="two.fb"):
        text = self.run_good("qwen-plan", self.shared / plan,
                             *arguments).stdout
        rows = [{name: float(value) for name, value in row.groupdict().items()}
                for row in SIZE.finditer(text)]
        return text, rows

    def test_sizes(self):
        text, rows = self.scale("--scale=2,8,64", *SLOW)
        self.assertEqual([row["ranks"] for row in rows], [1, 2, 8, 64])
        one, two, eight, many = rows
        self.assertEqual((one["gather"], one["scatter"], one["exposed"]),
                         (0, 0, 0))
        self.assertEqual(one["efficiency"], 100)
        for row in rows:
            # A step is what is computed and what is exposed.
            self.assertAlmostEqual(row["step"],
                                   row["compute"] + row["exposed"], delta=0.11)
            self.assertLessEqual(row["exposed"],
                                 row["gather"] + row["scatter"] + 0.11)
        for fewer, more in ((one, two), (two, eight), (eight, many)):
            self.assertGreater(more["gather"], fewer["gather"])
            self.assertLess(more["memory"], fewer["memory"])
        summary = json.loads(
            self.run_good("qwen-plan", self.shared / "two.fb", "--summary",
                          "--json").stdout)
        self.assertAlmostEqual(two["memory"] * 1e9 /
                               summary["memory"]["total"], 1, delta=1e-3)

    def test_units_and_the_limit(self):
        text, _ = self.scale("--scale=2", *SLOW)
        self.assertIn("embed_tokens", text)
        self.assertIn("layers.0", text)
        self.assertEqual(text.count("plain FSDP"), 1)
        fast, rows = self.scale("--scale=16", "--peak-tflops=1e-3",
                                "--memory-bandwidth=1")
        self.assertLess(rows[1]["part"], 1)
        self.assertRegex(fast, r"plain FSDP (scales|stops scaling at \d{3,})")

    def test_given_rates(self):
        _, rows = self.scale("--scale=2", *SLOW)
        _, halved = self.scale("--scale=2", *SLOW, "--link-efficiency=0.285")
        self.assertAlmostEqual(halved[1]["gather"] / rows[1]["gather"], 2,
                               delta=0.1)
        _, measured = self.scale("--scale=2", *SLOW, "--measured-ms=1000")
        self.assertAlmostEqual(measured[0]["step"], 1000, delta=0.1)
        _, twice = self.scale("--scale=2", *SLOW, "--micro-batches=2")
        self.assertGreater(twice[0]["step"], 1.5 * rows[0]["step"])

    def test_a_plan_for_one_rank(self):
        self.run_bad("qwen-plan", self.shared / "one.fb", "--scale=8",
                     says=("one rank", "--world-size"))

    def test_order_of_arguments_and_help(self):
        plan = self.shared / "two.fb"
        texts = {self.run_good("qwen-plan", *arguments).stdout
                 for arguments in (("--scale", "2,4", plan),
                                   (plan, "--scale=2", "--scale=4"))}
        self.assertEqual(len(texts), 1)
        help_text = self.run_good("qwen-plan", "--help").stdout
        for part in ("--network-bandwidth FLOAT=50 ",
                     "--peak-tflops FLOAT=989.4 ", "--micro-batches FLOAT=1 "):
            self.assertIn(part, help_text)

    def test_values(self):
        for arguments, says in (
            (("--scale=8,x",),
             ("--scale: expected a whole number from 1 to 1048576", "'x'")),
            (("--scale=0",), ("--scale: expected", "'0'")),
            (("--scale=",), "--scale: expected a value"),
            (("--scale=12",), ("nodes of 8", "found 12")),
            (("--scale=8", "--link-bandwidth=0"),
             ("--link-bandwidth", "a number from 1 to 100000", "'0'")),
            (("--scale=8", "--node-size=1.5"),
             ("--node-size", "a whole number from 1 to 1024", "'1.5'")),
            (("--scale=8", "--peak-tflops"),
             "--peak-tflops: expected a value, found none"),
            (("--program",), "--program: expected a value"),
            (("--scale=8", "--link-bandwith=9"),
             ("no option", "did you mean --link-bandwidth?")),
            (("--peak-tflops=5",), ("--peak-tflops", "--scale")),
            (("--scale=8", "--memory"), ("--scale", "exclude")),
        ):
            with self.subTest(arguments=arguments):
                self.run_bad("qwen-plan", self.shared / "two.fb", *arguments,
                             says=says)


if __name__ == "__main__":
    unittest.main()
