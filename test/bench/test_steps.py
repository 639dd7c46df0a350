#!/usr/bin/env python3
"""qwen-bench step on plans that make_plans cuts from a tiny config, on the CPU: lines of JSON, and one line for what is wrong."""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

BENCH = Path(__file__).resolve().parents[2] / "tools" / "bench"
TOOLS = Path(os.environ["QWEN_TOOLS"])
DOCUMENTS = [40, 50, 6]
TOKENS = sum(DOCUMENTS)


def run(*command):
    return subprocess.run([str(part) for part in command], env=dict(os.environ, OMP_NUM_THREADS="1"), text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=240, check=False)


def make_plans(folder, *plans):
    return run(BENCH / "make_plans", "--bin", TOOLS, "-o", folder, "--target", "x86-64-v3", "--tokens", TOKENS,
               "--max-documents", 8, *plans)


def bench(*arguments):
    return run(TOOLS / "qwen-bench" / "qwen-bench", "step", "--documents", ",".join(map(str, DOCUMENTS)), "--steps", 2,
               "--warm-up", 1, *arguments)


class StepBenchmarkTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        done = make_plans(cls.folder.name, "tiny:2", "tiny")
        if done.returncode != 0:
            raise AssertionError(done.stderr)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_depths_and_the_cost_of_a_block(self):
        done = bench("--plan-dir", self.folder.name, "--model", "tiny", "--tokens", TOKENS, "--layers", "2,4")
        self.assertEqual(done.returncode, 0, done.stderr)
        shallow, deep, block = map(json.loads, done.stdout.splitlines())
        for row, layers in ((shallow, 2), (deep, 4)):
            self.assertEqual((row["bench"], row["layers"], row["documents"]), ("step", layers, DOCUMENTS))
            self.assertEqual(row["tokens"], 2 * TOKENS)
            self.assertEqual(len(row["step_ms"]), 2)
            self.assertLessEqual(row["min_ms"], row["median_ms"])
            self.assertEqual(row["plan_bytes"], row["forecast_bytes"])
            self.assertLess(row["last_loss"], row["first_loss"])
        self.assertGreater(deep["model_flops"], shallow["model_flops"])
        self.assertAlmostEqual(block["block_ms"], 2 * (deep["median_ms"] - shallow["median_ms"]), places=2)

    def test_utilisation_of_a_given_peak(self):
        plan = Path(self.folder.name, f"tiny-2l-{TOKENS}.fb")
        row = json.loads(bench(plan, "--peak-tflops", 1).stdout)
        seconds = sum(row["step_ms"]) / 1e3
        self.assertAlmostEqual(row["mfu"], row["model_flops"] / seconds / 1e12, places=3)
        self.assertNotIn("mfu", json.loads(bench(plan).stdout))

    def test_a_missing_plan_names_the_command_that_makes_it(self):
        done = bench("--plan-dir", self.folder.name, "--model", "tiny", "--tokens", TOKENS, "--layers", 3)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn("make_plans", done.stderr)
        self.assertIn("tiny:3", done.stderr)

    def test_documents_that_do_not_fit(self):
        done = run(TOOLS / "qwen-bench" / "qwen-bench", "step", Path(self.folder.name, f"tiny-2l-{TOKENS}.fb"),
                   "--documents", TOKENS + 1)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn(str(TOKENS + 1), done.stderr)

    def test_unknown_config(self):
        done = make_plans(self.folder.name, "nosuch:4")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("no config 'nosuch'", done.stderr)


if __name__ == "__main__":
    unittest.main()
