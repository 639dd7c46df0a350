#!/usr/bin/env python3
"""Options of the scripts that measure: values that are not allowed are one line that says which are, before anything runs."""

import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[2] / "tools"
BENCH = TOOLS / "bench"
COUNT = "expected a whole number from 1 to 1000000000, found '{}'"
# What each script needs at least; "none" is nowhere.
NEEDED = {
    "compare": ("--bin", "none", "--plan-dir", "none"),
    "compare_ranks": ("--bin", "none", "--plan-dir", "none", "--set", "two", "--data", __file__),
    "train_sizes": ("--qwenrun", __file__, "--data", __file__, "plan.fb"),
    "make_plans": ("--bin", "none", "-o", "plans", "qwen3.8-27b:4"),
    "cpu_step": ("--ours", "none"),
    "cpu_step_torch.py": (),
    "cpu_step_data.py": ("-o", "data"),
}


class OptionsTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)

    def refused(self, script, *arguments, says, status=2):
        done = subprocess.run([sys.executable, "-B", BENCH / script, *map(str, (*NEEDED[script], *arguments))], cwd=self.folder,
                              text=True, capture_output=True, timeout=60, check=False)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertTrue(done.stderr.startswith(f"{script}: error: "), done.stderr)
        self.assertIn(says, done.stderr)
        self.assertEqual((done.returncode, done.stdout, list(self.folder.iterdir())), (status, "", []))

    def test_counts(self):
        for script, names in {
            "compare": ("--steps", "--rounds"), "compare_ranks": ("--steps", "--rounds"),
            "make_plans": ("--tokens", "--max-documents", "--world-size"), "cpu_step": ("--rounds",),
            "cpu_step_torch.py": ("--tokens", "--steps"),
        }.items():
            for name in names:
                for value in ("0", "1.5", 10**12):
                    with self.subTest(script=script, name=name, value=value):
                        self.refused(script, name, value, says=f"argument {name}: {COUNT.format(value)}")

    def test_other_numbers(self):
        for script, name, value, says in (
            ("compare_ranks", "--rank-timeout", 0, "from 1 to 86400"), ("train_sizes", "--steps", 9, "from 10 to"),
            ("train_sizes", "--lr", "-1", "a number of at least 0, found '-1'"), ("train_sizes", "--lr", "nan", "found 'nan'"),
            ("train_sizes", "--peak-tflops", "inf", "found 'inf'"), ("cpu_step", "--threads", 0, "from 1 to 4096"),
            ("cpu_step_torch.py", "--warmup", "-1", "from 0 to"), ("cpu_step_data.py", "--vocabulary", 2**31, "to 2147483647"),
            ("compare", "--layers", "4,x", "with commas between, found '4,x'"), ("compare", "--documents", "5,0", "found '5,0'"),
            ("cpu_step_data.py", "--lengths", "", "found ''"),
        ):
            with self.subTest(script=script, name=name, value=value):
                self.refused(script, name, value, says=says)

    def test_words(self):
        for script, name, value, says in (
            ("compare", "--peers", "fla:packed", "torch|fla|compiled:packed|padded:ckpt|keep, found 'fla:packed'"),
            ("compare", "--kernel-models", "27B,8B", "some of 27B,9B,0.8B"), ("compare", "--only", "x", "'kernels', 'steps'"),
            ("compare_ranks", "--set", "three", "'two', 'eight'"), ("make_plans", "--states", "f16", "'bf16', 'f32'"),
            ("make_plans", "--recompute", "all", "'none', 'cheap', 'full'"), ("cpu_step_torch.py", "--form", "x", "'buckets'"),
        ):
            with self.subTest(script=script, name=name):
                self.refused(script, name, value, says=says)

    def test_unknown_names_the_nearest(self):
        for script in NEEDED:
            with self.subTest(script=script):
                self.refused(script, "--bogus=1", says="--bogus=1")
        self.refused("compare", "--kernels-model", "27B", says="did you mean --kernel-models?")

    def test_what_is_missing(self):
        self.refused("compare", says="no qwen-bench in none", status=1)
        self.refused("compare_ranks", "--data", "none", says="--data: no file 'none'")
        self.refused("train_sizes", "--qwenrun", "none", says="no program 'none'")
        self.refused("train_sizes", "--launcher", "none -n 2", says="no program 'none -n 2'")
        self.refused("cpu_step", "--peer-python", "none", says="no program 'none'")

    def test_text_for_what_is_trained_on_it(self):
        with unittest.mock.patch.dict(NEEDED, compare_ranks=NEEDED["compare_ranks"][:6]):
            self.refused("compare_ranks", says="training and saving need --data")


if __name__ == "__main__":
    unittest.main()
