#!/usr/bin/env python3
"""qwen-bench step on plans that make_plans cuts from a tiny config, on the CPU, alone and under mpirun."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

BENCH = Path(__file__).resolve().parents[2] / "tools" / "bench"
TOOLS = Path(os.environ["QWEN_TOOLS"])
DOCUMENTS = [40, 50, 6]
TOKENS = sum(DOCUMENTS)


# Ranks may be more than processors, also as root in a container.
ENVIRONMENT = dict(os.environ, OMP_NUM_THREADS="1", OMP_WAIT_POLICY="passive", OMPI_ALLOW_RUN_AS_ROOT="1",
                   OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1",
                   OMPI_MCA_hwloc_base_binding_policy="none")
HAS_MPI = (TOOLS / "qwen-bench" / "libqwen_mpi.so").exists() and shutil.which("mpirun")


def run(*command):
    return subprocess.run([str(part) for part in command], env=ENVIRONMENT, text=True, stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=240, check=False)


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

    def test_a_step_of_several_packs(self):
        row = json.loads(bench(Path(self.folder.name, f"tiny-2l-{TOKENS}.fb"), "--accumulation", 3).stdout)
        self.assertEqual((row["accumulation"], row["tokens"]), (3, 2 * 3 * TOKENS))

    def test_documents_of_which_several_packs_are_packed_otherwise(self):
        done = run(TOOLS / "qwen-bench" / "qwen-bench", "step", Path(self.folder.name, f"tiny-2l-{TOKENS}.fb"), "--documents",
                   "34,32,30", "--accumulation", 2)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn("34,32,30", done.stderr)

    @unittest.skipUnless(HAS_MPI, "MPI and mpirun are not installed")
    def test_ranks_run_a_plan_together(self):
        done = make_plans(self.folder.name, "--world-size", 2, "tiny:2")
        self.assertEqual(done.returncode, 0, done.stderr)
        plan = Path(self.folder.name, f"tiny-2l-{TOKENS}-2r.fb")
        command = [TOOLS / "qwen-bench" / "qwen-bench", "step", plan, "--documents", ",".join(map(str, DOCUMENTS)), "--steps", 2,
                   "--warm-up", 1]
        done = run("mpirun", "-n", 2, *command)
        self.assertEqual(done.returncode, 0, done.stderr)
        row = json.loads(done.stdout)
        self.assertEqual((row["ranks"], row["layers"], row["tokens"]), (2, 2, 2 * 2 * TOKENS))
        self.assertLess(row["last_loss"], row["first_loss"])
        one = json.loads(bench(Path(self.folder.name, f"tiny-2l-{TOKENS}.fb")).stdout)
        self.assertAlmostEqual(row["model_flops"], 2 * one["model_flops"], delta=1e-6 * row["model_flops"])
        # The other way round: one line, and no rank goes on alone.
        done = run("mpirun", "-n", 3, *command)
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(done.stdout, "")
        self.assertIn("2", done.stderr)
        self.assertIn("3", done.stderr)

    def test_unknown_config(self):
        done = make_plans(self.folder.name, "nosuch:4")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("no config 'nosuch'", done.stderr)


if __name__ == "__main__":
    unittest.main()
