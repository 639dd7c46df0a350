#!/usr/bin/env python3
"""tools/bench/compare_ranks: what it runs on how many ranks, and what it makes of it. A script plays all programs."""

import json
import os
import stat
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "bench" / "compare_ranks"

# One program under all names. Times: 100 ms and 10 ms a layer, of the peer 100 ms and 20 ms; 5 % more on several ranks.
FAKE = '''#!{python}
import json, os, re, sys
name, arguments = os.path.basename(sys.argv[0]), sys.argv[1:]
ranks = int(os.environ.get("FAKE_RANKS", "1"))

def times(milliseconds):
    return {{"median_ms": milliseconds, "min_ms": milliseconds - 1, "max_ms": milliseconds + 1, "step_ms": [milliseconds] * 4}}

if name == "nvidia-smi":
    known = {{"name": "Fake GPU", "driver_version": "1.2", "memory.total": "1000", "memory.used": "100"}}
    fields = next(a for a in arguments if a.startswith("--query-gpu=")).partition("=")[2]
    print(", ".join(known[field] for field in fields.split(",")))
elif name == "mpirun":
    at = arguments.index("-n")
    os.environ["FAKE_RANKS"] = arguments[at + 1]
    os.execvp(arguments[at + 2], arguments[at + 2:])
elif name == "qwen-bench":
    plan = os.path.basename(arguments[1])
    layers, count = int(re.search("-([0-9]+)l-", plan)[1]), re.search("-([0-9]+)r", plan)
    if (int(count[1]) if count else 1) != ranks:
        sys.exit("the plan is for other ranks")
    if layers == 99:
        sys.exit("qwen-bench: error: out of memory")
    flags = "--recompute=cheap --moment-type=bf16 --masters=none" + (" --grad-dtype=bf16" if "bf16-gradients" in plan else "")
    print(json.dumps({{"bench": "step", "side": "ours", "plan": plan, "flags": flags, "layers": layers, "ranks": ranks,
                      "tokens": 4 * ranks * 8192, "mfu": 0.5, "hfu": 0.6, "gpu_kernels": 9, "driver_calls": 8,
                      "first_step_s": 5.0, "before_bytes": 0, "library_bytes": 0, "forecast_bytes": 10**9,
                      **times((100 + 10 * layers) * (1.05 if ranks > 1 else 1))}}))
elif name == "qwenrun" and "--profile" in arguments:
    print("kernel  calls\\nexposed communication: 4.20 ms a step (2.0 %)")
elif name == "qwenrun" and "--benchmark" in arguments:
    for i in range(20):
        print(f"step {{i + 1}}: 2.00 ms, loss {{9 - i / 4}}", file=sys.stderr)
    print(json.dumps({{**times(2.0), "tokens_per_s": 1.0, "forecast_bytes": 5}}))
elif name == "qwenrun":
    assert json.load(open(arguments[arguments.index("--model-config") + 1]))
    print("saved run/checkpoint-6; training paused for 1.25 s\\nsaved run/checkpoint-12; training paused for 0.75 s")
elif name == "python":
    count = int(arguments[arguments.index("--nproc-per-node") + 1])
    print(json.dumps({{"bench": "versions", "side": "peer", "torch": "9.9", "ranks": count}}))
    for configuration in arguments[arguments.index("--steps") + 2:]:
        layers, activations = configuration.split(":")
        print(json.dumps({{"bench": "step", "side": "peer", "peer": "transformers + FSDP2", "activations": activations,
                          "layers": int(layers), "ranks": count, "real_tokens": 8192, "peak_bytes": 10**9,
                          **times(100 + 20 * int(layers))}}))
'''


class CompareRanksTest(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.folder = Path(self.temporary.name)
        for name in ("bin", "plans", "results"):
            (self.folder / name).mkdir()
        for name in ("nvidia-smi", "mpirun", "qwen-bench", "qwenrun", "python"):
            program = self.folder / "bin" / name
            program.write_text(FAKE.format(python=sys.executable))
            program.chmod(program.stat().st_mode | stat.S_IXUSR)
        for plan in ("8l-8192", "16l-8192", "8l-8192-2r", "16l-8192-2r", "8l-8192-2r-bf16-gradients", "99l-8192-2r"):
            (self.folder / "plans" / f"qwen3.8-27b-{plan}.fb").touch()

    def compare(self, *arguments):
        """Status, rows, report and errors."""
        bin_folder = self.folder / "bin"
        command = [SCRIPT, "--bin", bin_folder, "--plan-dir", self.folder / "plans", "--peer-python", bin_folder / "python",
                   "--cache", self.folder / "cache", "-o", self.folder / "results", *arguments]
        environment = dict(os.environ, PATH=f"{bin_folder}:{os.environ['PATH']}")
        environment.pop("QWEN_MPIRUN", None)
        done = subprocess.run([sys.executable, "-B", *map(str, command)], env=environment, text=True, capture_output=True,
                              timeout=120, check=False)
        rows = [json.loads(line) for path in self.folder.glob("results/*.jsonl") for line in path.read_text().splitlines()]
        text = "".join(path.read_text() for path in self.folder.glob("results/*.md"))
        return done.returncode, rows, text, done.stderr

    def found(self, rows, part):
        checks = [row for row in rows if row["bench"] == "check" and part in row["what"]]
        self.assertEqual(len(checks), 1, f"{part}: {checks}")
        return checks[0]["value"], checks[0]["passed"]

    def test_depths_on_one_and_two_gpus_beside_the_peer(self):
        status, rows, text, errors = self.compare("--cases", "1:8", "1:16", "2:8", "2:16", "--peers", "2:8:ckpt", "2:16:ckpt",
                                                  "--rounds", 2, "--steps", 4)
        self.assertEqual((status, errors), (0, ""))
        steps = [(row["side"], row["ranks"], row["layers"], row["round"]) for row in rows if row["bench"] == "step"]
        once = [("ours", 1, 8), ("ours", 1, 16), ("ours", 2, 8), ("ours", 2, 16), ("peer", 2, 8), ("peer", 2, 16)]
        self.assertEqual(steps, [(*step, number) for number in (0, 1) for step in once])
        # 80 ms for four layers against 42.
        self.assertEqual(self.found(rows, "block on 2 ranks"), ("1.905", True))
        self.assertEqual(self.found(rows, "on 2 ranks, 16 layers"), ("95.2%", True))
        self.assertIn("| ours, bf16 states | 2 | 16 | 273 (272-274) | 30007 |", text)

    def test_profile_training_and_saves(self):
        data = self.folder / "data.safetensors"
        data.touch()
        status, rows, text, errors = self.compare("--cases", "2:8", "2:8:bf16:bf16", "--profiled", "2:8", "--trained", "2:8",
                                                  "--saved", "2:8", "--data", data, "--rounds", 1)
        self.assertEqual((status, errors), (0, ""))
        kinds = {row["bench"]: row for row in rows}
        self.assertEqual(kinds["profile"]["exposed_ms"], 4.2)
        self.assertTrue(kinds["train"]["ok"])
        self.assertEqual(kinds["save"]["pause_s"], [1.25, 0.75])
        self.assertIn("4.20 ms, 2.22% of a step", text)
        self.assertIn("bf16 states, bf16 gradients", text)
        self.assertEqual(len(list(self.folder.glob("results/*-profile-qwen3.8-27b-8l-8192-2r.txt"))), 1)

    def test_one_failure_does_not_end_the_rest(self):
        status, rows, text, errors = self.compare("--cases", "2:99", "2:12", "2:8", "--peers", "--rounds", 1)
        self.assertEqual(status, 1)
        self.assertEqual([row["layers"] for row in rows if row["bench"] == "step"], [8])
        self.assertIn("2r ended with status 1", errors)
        self.assertIn("no plan", errors)
        self.assertEqual(text.partition("## Failed measurements")[2].count("\n- "), 2)

    def test_arguments(self):
        for arguments, says in ((("--cases", "8"), "expected ranks:layers"), (("--cases", "2:8:f16"), "found '2:8:f16'"),
                                (("--peers", "2:8"), "ranks:layers:ckpt"), ((), "--set, --cases or --peers")):
            with self.subTest(arguments=arguments):
                status, rows, _, errors = self.compare(*arguments)
                self.assertEqual((status, rows), (2, []))
                self.assertIn(says, errors)


if __name__ == "__main__":
    unittest.main()
