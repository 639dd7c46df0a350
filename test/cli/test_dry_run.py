"""qwenrun --dry-run: everything is checked, nothing is written."""

import re
import unittest

from cli_testing import (GOLDEN, TIED, UNTIED, CliTest, build_plan, snapshot,
                         token_tensors, write_tokens)


class DryRun(CliTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        build_plan(cls.shared / "plan.fb")
        write_tokens(cls.shared / "data", token_tensors([20, 30, 40]))

    def arguments(self, *more, start=("--init", "random"), out="out", steps=3):
        return (self.shared / "plan.fb", *start, "--data",
                self.shared / "data", "--out", out, "--steps", steps, *more)

    def test_prints_what_would_run_and_writes_nothing(self):
        done = self.run_good("qwenrun", *self.arguments("--dry-run"))
        self.assertEqual(snapshot(self.folder), {})
        for text in ("3 documents, 90 tokens", "gated_delta_grad", "memory: ",
                     "weight decay 0.1 on", "a checkpoint takes",
                     "3 steps of 1 micro-batch", "dry run: "):
            self.assertIn(text, done.stdout)
        self.assertNotIn("step 1/", done.stdout)
        self.assertEqual(done.stderr, "")

    def test_disk_space_that_a_checkpoint_takes(self):
        """Of float32 weights trained in bf16, with masters and without."""
        start = ("--weights", GOLDEN / TIED / "checkpoint")
        for masters in ("f32", "none"):
            plan = self.folder / f"{masters}.fb"
            build_plan(plan, f"--masters={masters}", dtype="bf16")
            done = self.run_good("qwenrun", plan, *self.arguments(
                start=start, out=masters, steps=1)[1:])
            said = re.search(r"a checkpoint takes ([0-9.]+) MB", done.stdout)
            takes = sum(
                path.stat().st_size
                for path in (self.folder / masters / "checkpoint-1").iterdir()
                if path.name != "trainer_state.json")
            # Two digits behind the point.
            self.assertLessEqual(abs(float(said[1]) * 1e6 - takes), 5e3)

    def test_resumed_run(self):
        self.run_good("qwenrun", *self.arguments())
        before = snapshot(self.folder)
        done = self.run_good("qwenrun", *self.arguments(
            "--resume", "--dry-run", start=(), steps=9))
        self.assertIn("resuming from 'out/checkpoint-3'", done.stdout)
        self.assertEqual(snapshot(self.folder), before)

    def test_optimizer_state_that_the_plan_does_not_have(self):
        plan = self.folder / "bf16.fb"
        build_plan(plan, "--moment-type=bf16")
        self.run_good("qwenrun", *self.arguments())
        for more in ((), ("--dry-run",)):
            self.run_bad("qwenrun", plan, *self.arguments(
                "--resume", *more, start=(), steps=9)[1:],
                         says="optimizer state in 'out/checkpoint-3'")

    def test_faults_are_those_of_training(self):
        other = ("--weights", GOLDEN / UNTIED / "checkpoint")
        self.run_bad("qwenrun", *self.arguments("--dry-run", start=other),
                     says="does not fit the plan")
        self.run_bad("qwenrun", *self.arguments("--dry-run", out="/proc/out"),
                     says="/proc/out")
        self.run_bad("qwenrun", self.shared / "plan.fb", "--init", "random",
                     "--data", "none", "--out", "out", "--dry-run",
                     says="none")

    def test_prefix_to_carry_that_no_tensor_has(self):
        start = ("--weights", GOLDEN / TIED / "checkpoint")
        for more in ((), ("--dry-run",)):
            self.run_bad("qwenrun", *self.arguments(
                "--carry", "nosuch.", *more, start=start), says="nosuch.")

    def test_weights_that_fit(self):
        weights = GOLDEN / TIED / "checkpoint"
        self.run_good("qwenrun", *self.arguments(
            "--dry-run", start=("--weights", weights)))
        self.assertEqual(snapshot(self.folder), {})


if __name__ == "__main__":
    unittest.main()
