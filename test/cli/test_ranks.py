"""qwenrun on several ranks: what a user sees of faults, disks and dry runs."""

import os
import pathlib
import shutil
import signal
import subprocess
import unittest

import numpy as np
from safetensors.numpy import load_file, save_file

from cli_testing import (GOLDEN, TIED, UNTIED, CliTest, build_plan,
                         rank_command, rank_environment, snapshot,
                         token_tensors, with_small_disk, write_tokens)

WEIGHTS = GOLDEN / TIED / "checkpoint"


class OnRanks(CliTest):
    """Shares plans of a tied model in bf16."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        rank_command()  # skips the class where there is no launcher
        for ranks in (1, 3):
            build_plan(cls.shared / f"{ranks}.fb", f"--world-size={ranks}",
                       dtype="bf16")
        write_tokens(cls.shared / "data", token_tensors([40, 50, 60, 45, 55]))

    def arguments(self, *more, plan=3, start=("--weights", WEIGHTS),
                  data=None, out="out", steps=3):
        return [self.shared / f"{plan}.fb", *start, "--data",
                data or self.shared / "data", "--out", out, "--steps", steps,
                "--log-every", 1, *more]

    def run_ranks(self, *groups, prefix=()):
        done = subprocess.run([*prefix, *rank_command(*groups)],
                              cwd=self.folder, env=rank_environment(),
                              stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=240)
        # The launcher has words of its own.
        done.said = [line for line in done.stderr.splitlines()
                     if line.startswith("qwenrun")]
        return done

    def run_good_ranks(self, *arguments, ranks=3):
        done = self.run_ranks((ranks, *arguments))
        self.assertEqual(done.returncode, 0, done.stderr or done.stdout)
        self.assertEqual(done.said, [])
        return done.stdout

    def refused(self, *groups, says, writes=False):
        """All ranks end, and one line tells why."""
        before = snapshot(self.folder)
        done = self.run_ranks(*groups)
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(len(done.said), 1, done.stderr)
        self.assertTrue(done.said[0].startswith("qwenrun: error: "))
        for part in [says] if isinstance(says, str) else says:
            self.assertIn(part, done.said[0])
        if not writes:
            self.assertEqual(snapshot(self.folder), before)


class Faults(OnRanks):

    def test_one_line_however_many_ranks(self):
        wrong = self.folder / "wrong"
        shutil.copytree(WEIGHTS, wrong)
        tensors = load_file(wrong / "model.safetensors")
        # The last element is a last rank's.
        tensors["model.norm.weight"][-1] = np.inf
        save_file(tensors, wrong / "model.safetensors", {"format": "pt"})
        (self.folder / "file").write_text("")
        good = self.arguments
        for arguments, says in (
            (good("--lr", "fast"), "fast"),
            (good("--rank-timeout", 0), "--rank-timeout: expected a whole"),
            (good("--packs-per-step", 4, "--accumulation", 2),
             "--packs-per-step and --accumulation"),
            (good("--device", 1), "--device is for a GPU"),
            (good(plan=1), "the plan is for 1 rank, 3 were started"),
            (good(plan="none"), "none.fb"),
            (good(data="none"), "'none'"),
            (good(out="file/out"), "file/out"),
            (good(start=("--weights", "none")), "'none'"),
            (good(start=("--weights", GOLDEN / UNTIED / "checkpoint")),
             "does not fit the plan"),
            (good(start=("--weights", wrong)),
             ("model.norm.weight", "NaN or infinity")),
            (good("--resume", "none"), "'none/"),
            (["--selfcheck", self.shared / "3.fb"], "needs a plan for one"),
        ):
            with self.subTest(says=says):
                self.refused((3, *arguments), says=says)

    def test_fault_of_one_rank_names_it(self):
        good = self.arguments
        write_tokens(self.folder / "other", token_tensors([40, 50], seed=2))
        for arguments, says in (
            (good(data="none"), "rank 2: cannot open 'none'"),
            (good(data="other"), "rank 2: --data: expected those of rank 0"),
            (good("--seed", 7), ("rank 2: options:", "seed 7")),
            (good("--save-every", 1), "rank 2: options: expected those of"),
            (good("--bogus"), "rank 2: no option '--bogus'"),
        ):
            with self.subTest(says=says):
                self.refused((2, *good()), (1, *arguments), says=says)

    def test_help_and_info_are_printed_once(self):
        self.assertEqual(self.run_good_ranks("--help").count("--lr"), 1)
        text = self.run_good_ranks(self.shared / "3.fb", "--info")
        self.assertEqual(text.count("target x86-64-v3, 3 ranks"), 1)

    def test_update_that_is_not_finite_ends_all_and_is_never_saved(self):
        self.refused((3, *self.arguments(
            "--lr", 1e30, "--save-every", 1, "--keep", 9, "--max-nonfinite", 2,
            steps=9)), says=("2 steps in a row were not finite",
                             "first NaN or infinity: "), writes=True)
        saved = list(self.folder.glob("out/checkpoint-*/model.safetensors"))
        self.assertNotEqual(saved, [])
        for path in saved:
            for name, tensor in load_file(path).items():
                self.assertTrue(np.isfinite(tensor).all(), (path, name))


class Runs(OnRanks):

    def test_weights_come_out_byte_for_byte_with_more_ranks_than_elements(self):
        """Fused, sharded and unsharded again: nothing is cut or mixed up."""
        build_plan(self.folder / "plan.fb", "--world-size=40", config=UNTIED,
                   dtype="bf16")
        source = GOLDEN / UNTIED / "checkpoint"
        self.run_good_ranks(
            "plan.fb", "--weights", source, "--data", self.shared / "data",
            "--out", "out", "--steps", 1, "--lr", 0, ranks=40)
        found = snapshot(self.folder / "out" / "checkpoint-1")
        for name, digest in snapshot(source).items():
            self.assertEqual(found[name], digest, name)

    def test_steps_without_supervised_tokens_change_nothing(self):
        tensors = token_tensors([60, 61, 62])
        tensors["loss_mask"][:] = 0
        write_tokens(self.folder / "data", tensors)
        text = self.run_good_ranks(*self.arguments(data="data"))
        self.assertEqual(text.count("has no supervised token and was"), 3)
        self.assertEqual(
            snapshot(self.folder / "out" / "checkpoint-3")["model.safetensors"],
            snapshot(WEIGHTS)["model.safetensors"])

    def test_log_is_whole_lines(self):
        """The launcher's ranks have terminals, wherever their output goes."""
        text = self.run_good_ranks(*self.arguments())
        self.assertNotIn("\x1b", text)
        steps = [line for line in text.splitlines() if line.startswith("step ")]
        self.assertEqual(len(steps), 3, text)

    def test_dry_run_prints_what_would_run_and_writes_nothing(self):
        text = self.run_good_ranks(*self.arguments("--dry-run"))
        for part in ("5 documents, 250 tokens", "reduce_scatter", "memory of each rank: ",
                     "a checkpoint takes", "3 steps of 3 micro-batches on 3 "
                     "ranks", "dry run: "):
            self.assertEqual(text.count(part), 1, part)
        self.assertNotIn("step 1/", text)
        self.assertEqual(snapshot(self.folder), {})
        other = ("--weights", GOLDEN / UNTIED / "checkpoint")
        self.refused((3, *self.arguments("--dry-run", start=other)),
                     says="does not fit the plan")

    def test_full_disk_keeps_the_last_good_checkpoint(self):
        out = self.folder / "disk"
        out.mkdir()
        # Room for one checkpoint; outside there is none of it, so it is
        # looked at from inside.
        look = ["sh", "-c", '"$@"; echo "status $?"; ls disk', "sh"]
        call = with_small_disk(out, "8m", look)
        if call is None:
            self.skipTest("this machine gives no user a file system")
        done = self.run_ranks((3, *self.arguments("--save-every", 1,
                                                  out="disk")), prefix=call)
        self.assertIn("saved disk/checkpoint-1", done.stdout)
        self.assertIn("warning: checkpoint of step 2 not saved", done.stdout)
        self.assertIn("No space left on device", done.stdout)
        self.assertIn("status 1", done.stdout)
        names = done.stdout[done.stdout.index("status 1"):].split()
        self.assertIn("checkpoint-1", names)
        self.assertEqual([n for n in names if n.startswith(".tmp")], [])
        self.assertEqual(len(done.said), 1, done.stderr)
        self.assertIn("checkpoint not saved: ", done.said[0])


class Signals(OnRanks):

    def start(self, *more, data=None):
        """A run on three ranks that has done a step, and their processes."""
        process = subprocess.Popen(
            rank_command((3, *self.arguments(*more, data=data, steps=10**9))),
            cwd=self.folder, env=rank_environment(), stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        for line in process.stdout:
            if line.startswith("step 1/"):
                break
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}")
        self.ranks = list(map(int, (children / "children").read_text().split()))
        self.assertEqual(len(self.ranks), 3)
        return process

    def end(self, process):
        out, err = process.communicate(timeout=120)
        for rank in self.ranks:
            status = pathlib.Path(f"/proc/{rank}/status")
            self.assertTrue(not status.exists() or
                            "State:\tZ" in status.read_text(), "an orphan")
        return out, [line for line in err.splitlines()
                     if line.startswith("qwenrun: error: ")]

    def test_second_signal_ends_at_once_and_harms_no_checkpoint(self):
        process = self.start("--save-every", 1)
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(self.ranks[1], number)
        # Between the two the first may have done its work.
        _, said = self.end(process)
        self.assertEqual(process.returncode == 0, said == [], said)
        for path in (self.folder / "out").glob("checkpoint-*"):
            self.run_good("qwenrun", self.shared / "1.fb", "--weights", path,
                          "--eval", self.shared / "data", "--eval-only")

    def test_data_file_cut_short_ends_all(self):
        data = self.folder / "cut"
        write_tokens(data, token_tensors([60] * 5000))
        process = self.start(data=data)
        os.truncate(data, 4096)
        _, said = self.end(process)
        self.assertNotEqual(process.returncode, 0)
        self.assertIn(len(said), (1, 2, 3))
        for line in said:
            self.assertRegex(line, "cut short|was lost in step")

    def test_removed_data_file_goes_on(self):
        data = self.folder / "gone"
        shutil.copy(self.shared / "data", data)
        process = self.start(data=data)
        data.unlink()
        for line in process.stdout:
            if line.startswith("step 20/"):
                break
        os.kill(self.ranks[2], signal.SIGTERM)
        out, said = self.end(process)
        self.assertEqual((process.returncode, said), (0, []))
        self.assertIn("stopped after", out)


del OnRanks  # has no tests of its own

if __name__ == "__main__":
    unittest.main()
