"""From config.json to checkpoints: import, compile, train, interrupt, resume."""

import fcntl
import json
import math
import os
import re
import resource
import shutil
import signal
import subprocess
import time
import unittest

import numpy as np
from safetensors.numpy import load_file, save_file

from cli_testing import (GOLDEN, SOURCE, TIED, TOKENS, UNTIED, CliTest,
                         build_plan, command, environment,
                         read_raw_safetensors, run, snapshot, token_tensors,
                         with_small_disk, write_tokens)

try:
    from tensorboard.backend.event_processing import event_accumulator
except ImportError:
    event_accumulator = None

CONFIG = SOURCE / "models" / "configs" / f"{TIED}.json"
# Any two of them exceed a pack: five packs an epoch.
LENGTHS = [33, 40, 64, 50, 45]
CHECKPOINT_FILES = {
    "config.json", "model.safetensors", "optimizer.safetensors",
    "trainer_state.json"
}


class Training(CliTest):
    flags = ()
    dtype = "f32"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        build_plan(cls.shared / "plan.fb", *cls.flags, dtype=cls.dtype)
        write_tokens(cls.shared / "train", token_tensors(LENGTHS))
        write_tokens(cls.shared / "eval", token_tensors([10, 60], seed=2))

    def arguments(self, *more, out="out", init=True):
        start = ("--init", "random") if init else ()
        return (self.shared / "plan.fb", *start, "--data",
                self.shared / "train", "--out", out, "--seed", 3, "--lr",
                "1e-3", "--warmup", 2, "--model-config", CONFIG,
                "--log-every", 1, *more)

    def train(self, *more, **options):
        return self.run_good("qwenrun", *self.arguments(*more, **options))

    def metrics(self, group):
        lines = (self.folder / "out" / "metrics.jsonl").read_text()
        rows = map(json.loads, lines.splitlines())
        return [row for row in rows if row["group"] == group]


class OneRun(Training):

    def setUp(self):
        super().setUp()
        self.train("--steps", 6, "--eval", self.shared / "eval",
                   "--eval-every", 3)

    def test_checkpoint(self):
        checkpoint = self.folder / "out" / "checkpoint-6"
        self.assertEqual({path.name for path in checkpoint.iterdir()},
                         CHECKPOINT_FILES)
        self.assertEqual((checkpoint / "config.json").read_bytes(),
                         CONFIG.read_bytes())
        tensors = load_file(checkpoint / "model.safetensors")
        expected = load_file(GOLDEN / TIED / "checkpoint" /
                             "model.safetensors")
        self.assertEqual({name: (array.shape, array.dtype)
                          for name, array in tensors.items()},
                         {name: (array.shape, array.dtype)
                          for name, array in expected.items()})
        for name, array in tensors.items():
            self.assertTrue(np.isfinite(array).all(), name)

    def test_metrics(self):
        rows = self.metrics("train")
        self.assertEqual([row["step"] for row in rows], list(range(1, 7)))
        for row in rows:
            self.assertGreater(row["grad_norm"], 0)
            self.assertTrue(math.isfinite(row["loss"]))
        # One pack a step, one document a pack: each once in an epoch.
        tokens = np.diff([0] + [row["tokens"] for row in rows[:5]])
        self.assertEqual(sorted(tokens), sorted(LENGTHS))
        # A new model knows nothing: near the loss of equal odds.
        self.assertAlmostEqual(rows[0]["loss"], math.log(256), delta=0.5)
        self.assertEqual([row["step"] for row in self.metrics("eval")], [3, 6])

    @unittest.skipUnless(event_accumulator, "needs the package tensorboard")
    def test_tensorboard(self):
        events = event_accumulator.EventAccumulator(
            str(self.folder / "out" / "tensorboard"))
        events.Reload()
        for group in ("train", "eval"):
            for name in ("loss", "tokens"):
                rows = self.metrics(group)
                scalars = events.Scalars(f"{group}/{name}")
                self.assertEqual(
                    [(scalar.step, scalar.value) for scalar in scalars],
                    [(row["step"], float(np.float32(row[name])))
                     for row in rows])

    def test_evaluation_alone(self):
        before = snapshot(self.folder)
        done = self.run_good("qwenrun", self.shared / "plan.fb", "--weights",
                             "out/checkpoint-6", "--eval",
                             self.shared / "eval", "--eval-only")
        self.assertEqual(snapshot(self.folder), before)
        result = json.loads(done.stdout)
        last = self.metrics("eval")[-1]
        self.assertEqual({key: result[key] for key in result},
                         {key: last[key] for key in result})

    def test_a_second_run_does_not_overwrite(self):
        self.run_bad("qwenrun", *self.arguments("--steps", 7), says="--resume")

    def test_nothing_left_to_do(self):
        before = snapshot(self.folder / "out" / "checkpoint-6")
        self.train("--steps", 6, "--resume", init=False)
        self.assertEqual(snapshot(self.folder / "out" / "checkpoint-6"),
                         before)

    def test_resumed_run_must_be_the_same(self):
        write_tokens(self.folder / "other", token_tensors(LENGTHS, seed=9))
        plan, out = self.shared / "plan.fb", ("--out", "out", "--resume")
        data = ("--data", self.shared / "train")
        for arguments, says in (
            ((*data, "--seed", 4), "seed"),
            ((*data, "--seed", 3, "--accumulation", 2), "accumulation"),
            (("--data", "other", "--seed", 3), "data"),
        ):
            with self.subTest(says=says):
                self.run_bad("qwenrun", plan, *out, *arguments, "--steps", 9,
                             says=says)

    def test_broken_checkpoint_to_resume(self):
        checkpoint = self.folder / "out" / "checkpoint-6"
        for name in ("model.safetensors", "optimizer.safetensors",
                     "trainer_state.json"):
            with self.subTest(name=name):
                content = (checkpoint / name).read_bytes()
                (checkpoint / name).write_bytes(content[:len(content) // 2])
                self.run_bad("qwenrun",
                             *self.arguments("--steps", 9, "--resume",
                                             "out/checkpoint-6", init=False),
                             says=name)
                (checkpoint / name).unlink()
                self.run_bad("qwenrun",
                             *self.arguments("--steps", 9, "--resume",
                                             "out/checkpoint-6", init=False),
                             says=name.split(".")[0])
                (checkpoint / name).write_bytes(content)


class Resume(Training):
    """Five packs an epoch, two a step: steps end within epochs and at one's
    end, step 5."""
    steps = 6

    def resume_everywhere(self):
        options = ("--steps", self.steps, "--accumulation", 2, "--save-every",
                   1, "--keep", 99)
        self.train(*options)
        whole = self.folder / "out"
        states = [
            json.loads((whole / f"checkpoint-{step}" /
                        "trainer_state.json").read_text())
            for step in range(1, self.steps + 1)
        ]
        self.assertGreater(len({state["pack"] for state in states}), 2)
        for step in range(1, self.steps):
            with self.subTest(step=step):
                part = self.folder / f"part-{step}"
                part.mkdir()
                shutil.copytree(whole / f"checkpoint-{step}",
                                part / f"checkpoint-{step}")
                self.train(*options, "--resume", out=part, init=False)
                for later in range(step, self.steps + 1):
                    name = f"checkpoint-{later}"
                    self.assertEqual(snapshot(part / name),
                                     snapshot(whole / name))

    def test_every_step(self):
        self.resume_everywhere()


class ResumeBf16(Resume):
    dtype = "bf16"


class ResumeStochasticRounding(Resume):
    dtype = "bf16"
    flags = ("--masters=none", "--moment-type=bf16")


class Interrupted(Training):
    steps = 150

    def start(self, *more):
        """A run whose output fits a small pipe only while we read it, so that
        it cannot end before we want it to."""
        reader, writer = os.pipe()
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
        process = subprocess.Popen(
            command("qwenrun", *self.arguments("--steps", self.steps, *more)),
            cwd=self.folder, env=environment(), stdout=writer,
            stderr=subprocess.STDOUT)
        os.close(writer)
        return process, os.fdopen(reader)

    def interrupt(self, number):
        process, output = self.start()
        with output:
            for line in output:
                if line.startswith("step 3/"):
                    break
            process.send_signal(number)
            rest = output.read()
        self.assertEqual(process.wait(timeout=240), 0, rest)
        self.assertIn("stopped after", rest)
        (checkpoint,) = (self.folder / "out").glob("checkpoint-*")
        step = int(checkpoint.name.split("-")[1])
        self.assertLess(step, self.steps)
        self.assertGreaterEqual(step, 3)

    def test_signals(self):
        last = f"checkpoint-{self.steps}"
        self.train("--steps", self.steps, out="whole")
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=number):
                self.interrupt(number)
                self.train("--steps", self.steps, "--resume", init=False)
                self.assertEqual(snapshot(self.folder / "out" / last),
                                 snapshot(self.folder / "whole" / last))
                rows = self.metrics("train")
                self.assertEqual([row["step"] for row in rows],
                                 list(range(1, self.steps + 1)))
                shutil.rmtree(self.folder / "out")

    def test_killed(self):
        process, output = self.start("--save-every", 4)
        with output:
            for line in output:
                if line.startswith("saved"):
                    break
            process.kill()
            output.read()
        process.wait(timeout=240)
        self.train("--steps", self.steps, "--save-every", 4, "--resume",
                   init=False)
        self.train("--steps", self.steps, "--save-every", 4, out="whole")
        last = f"checkpoint-{self.steps}"
        self.assertEqual(snapshot(self.folder / "out" / last),
                         snapshot(self.folder / "whole" / last))
        # Metrics of the steps done twice are not there twice.
        self.assertEqual([row["step"] for row in self.metrics("train")],
                         list(range(1, self.steps + 1)))

    def test_a_second_process_is_kept_out(self):
        process, output = self.start()
        with output:
            for line in output:
                if line.startswith("step 3/"):
                    break
            done = run("qwenrun", *self.arguments("--steps", self.steps),
                       cwd=self.folder)
            self.assertEqual(done.returncode, 1)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            process.send_signal(signal.SIGINT)
            output.read()
        self.assertEqual(process.wait(timeout=240), 0)

    def test_full_disk_at_the_end(self):
        """Files may not grow over 64 KiB: the checkpoint cannot be written."""

        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))

        done = subprocess.run(command("qwenrun",
                                      *self.arguments("--steps", 2)),
                              cwd=self.folder, env=environment(),
                              capture_output=True, text=True, timeout=240,
                              preexec_fn=limit)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn("checkpoint not saved", done.stderr)
        self.assertEqual([name for name in snapshot(self.folder)
                          if "checkpoint" in name or ".tmp" in name], [])


    def test_disk_that_fills_up_keeps_the_last_good_checkpoint(self):
        """Room for one checkpoint and a half."""
        (self.folder / "disk").mkdir()
        # The disk is gone with the process: look at it from inside.
        inside = with_small_disk(
            self.folder / "disk", "5m",
            ["sh", "-c", '"$@"; echo "exit $?"; cd disk/out && ls -A && '
             'ls checkpoint-2', "-",
             *command("qwenrun", *self.arguments(
                 "--steps", 6, "--save-every", 2, out="disk/out"))])
        if inside is None:
            self.skipTest("no file system of one's own here")
        done = subprocess.run(inside, cwd=self.folder, env=environment(),
                              capture_output=True, text=True, timeout=240)
        self.assertIn("saved disk/out/checkpoint-2", done.stdout)
        self.assertRegex(done.stdout, "warning: checkpoint of step 4 not "
                         "saved: .*No space left on device")
        self.assertIn("step 6/6", done.stdout)
        self.assertIn("exit 1\n", done.stdout)
        self.assertEqual(
            set(done.stdout.split("exit 1\n")[1].split()),
            {".lock", "checkpoint-2", "metrics.jsonl", "tensorboard",
             *CHECKPOINT_FILES})
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn("checkpoint not saved", done.stderr)

    def test_disk_too_small_for_a_checkpoint_is_refused_at_the_start(self):
        (self.folder / "disk").mkdir()
        call = with_small_disk(
            self.folder / "disk", "2m",
            command("qwenrun", *self.arguments("--steps", 6,
                                               out="disk/out")))
        if call is None:
            self.skipTest("no file system of one's own here")
        done = subprocess.run(call, cwd=self.folder, env=environment(),
                              capture_output=True, text=True, timeout=240)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn("are needed", done.stderr)
        self.assertNotIn("step 1/", done.stdout)

    def test_killed_while_saving(self):
        """Killed at any moment of a save: the run goes on from a checkpoint
        that is whole."""
        for delay in (0.0, 0.002, 0.005, 0.01):
            process, output = self.start("--save-every", 1)
            with output:
                for line in output:
                    if line.startswith("step 4/"):
                        break
                time.sleep(delay)
                process.kill()
                output.read()
            process.wait(timeout=240)
            done = self.train("--steps", 6, "--resume", init=False)
            self.assertIn("resuming from 'out/checkpoint-", done.stdout)
            self.assertNotIn("passing over", done.stdout)
            self.assertEqual(
                [name for name in snapshot(self.folder / "out")
                 if ".tmp" in name or ".old" in name], [])
            shutil.rmtree(self.folder / "out")


class SameBits(Training):

    def test_runs_of_the_same_seed_are_equal(self):
        for out in ("a", "b"):
            self.train("--steps", 6, out=out)
        self.train("--steps", 6, "--threads", 2, out="c")
        expected = snapshot(self.folder / "a" / "checkpoint-6")
        for out in ("b", "c"):
            self.assertEqual(snapshot(self.folder / out / "checkpoint-6"),
                             expected)


class WhatMoves(CliTest):
    """Which tensors a run changes, and what it says of them."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        build_plan(cls.shared / "plan.fb")
        write_tokens(cls.shared / "data", token_tensors(LENGTHS))

    def moved(self, *options):
        """Names of the tensors that three steps change."""
        weights = GOLDEN / TIED / "checkpoint"
        self.run_good("qwenrun", self.shared / "plan.fb", "--weights", weights,
                      "--data", self.shared / "data", "--out", "out",
                      "--steps", 3, "--schedule", "constant", *options)
        before = load_file(weights / "model.safetensors")
        after = load_file(self.folder / "out" / "checkpoint-3" /
                          "model.safetensors")
        return {name for name in before
                if not np.array_equal(before[name], after[name])}, set(before)

    def test_decay_alone_leaves_norms_and_gates(self):
        """An epsilon that large leaves nothing of the gradients."""
        moved, every = self.moved("--lr", "1e-2", "--weight-decay", "0.1",
                                  "--eps", "1e30")
        kept = {name for name in every
                if "norm" in name or name.endswith(("A_log", "dt_bias"))}
        self.assertEqual(moved, every - kept)
        self.assertGreater(len(kept), 0)

    def test_every_tensor_moves(self):
        moved, every = self.moved("--lr", "1e-3", "--weight-decay", "0")
        self.assertEqual(moved, every)

    def test_gates_move_by_less_than_bf16_can_show(self):
        """A_log and dt_bias are float32 in the plan and on the disk, whatever
        the type of the model."""
        weights = GOLDEN / UNTIED / "checkpoint"
        build_plan(self.folder / "bf16.fb", "--masters=none", config=UNTIED,
                   dtype="bf16")
        self.run_good("qwenrun", "bf16.fb", "--weights", weights, "--data",
                      self.shared / "data", "--out", "out", "--steps", 1,
                      "--lr", "1e-6", "--schedule", "constant")

        def gates(folder):
            found = {}
            for path in folder.glob("model*.safetensors"):
                header, data = read_raw_safetensors(path)
                for name, entry in header.items():
                    if name.endswith("A_log"):
                        begin, end = entry["data_offsets"]
                        self.assertEqual(entry["dtype"], "F32")
                        found[name] = np.frombuffer(data[begin:end], "<f4")
            return found

        before = gates(weights)
        after = gates(self.folder / "out" / "checkpoint-1")
        self.assertEqual(set(after), set(before))
        self.assertGreater(len(before), 0)
        for name, values in before.items():
            change = np.abs(after[name] - values)
            self.assertGreater(change.max(), 0, name)
            self.assertLess((change / np.abs(values)).max(), 2**-9, name)

    def test_parameter_that_the_loss_does_not_reach(self):
        text = (self.shared / "plan.mlir").read_text()
        (self.folder / "more.mlir").write_text(text.replace(
            "  func.func",
            "  qwen.parameter @model.extra.weight : tensor<8x8xf32> "
            '{init = "one"}\n  func.func', 1))
        self.assertIn("'@model.extra.weight' does not influence the loss",
                      self.run_good("qwenc", "more.mlir", "-o",
                                    "more.fb").stderr)
        done = self.run_good("qwenrun", "more.fb", "--init", "random",
                             "--data", self.shared / "data", "--out", "out",
                             "--dry-run")
        self.assertIn("not trained: 1 tensors: model.extra.weight",
                      done.stdout)
        self.assertEqual(done.stdout.count("model.extra.weight"), 1)

    def test_casts_and_norm_conventions_are_reported(self):
        """Norms of 1 + w have means near 0, the gated ones near 1."""
        build_plan(self.folder / "bf16.fb", dtype="bf16")
        done = self.run_good(
            "qwenrun", "bf16.fb", "--weights", GOLDEN / TIED / "checkpoint",
            "--data", self.shared / "data", "--out", "out", "--steps", 1)
        # A_log and dt_bias stay in float32.
        self.assertRegex(done.stdout, r"55 tensors from .*; 49 cast F32 -> "
                         r"bf16 \(")
        zero, one = re.search(
            r"norms of 1 \+ w: mean (\S+) over 11 tensors; gated norms: mean "
            r"(\S+) over 3 tensors", done.stdout).groups()
        self.assertAlmostEqual(float(zero), 0, delta=0.2)
        self.assertAlmostEqual(float(one), 1, delta=0.2)
        self.assertNotIn("as if one was taken for the other", done.stdout)

    def test_norm_conventions_that_were_exchanged_are_warned_of(self):
        """Loads, trains, and is fluent-looking garbage."""
        source = self.folder / "source"
        shutil.copytree(GOLDEN / TIED / "checkpoint", source)
        tensors = load_file(source / "model.safetensors")
        for name in tensors:
            if name.endswith("norm.weight"):
                gated = name.endswith("linear_attn.norm.weight")
                tensors[name] += np.float32(-1 if gated else 1)
        save_file(tensors, source / "model.safetensors", {"format": "pt"})
        done = self.run_good(
            "qwenrun", self.shared / "plan.fb", "--weights", "source",
            "--data", self.shared / "data", "--out", "out", "--steps", 1)
        self.assertIn("warning: norms of 1 + w have means near 1 and gated "
                      "norms near 0", done.stdout)


class RoundTrip(CliTest):
    """Weights that training leaves alone come out as they went in."""

    def test_sharded_checkpoint(self):
        source = self.folder / "source"
        shutil.copytree(GOLDEN / UNTIED / "checkpoint", source)
        extra = {
            "tokenizer.json": '{"version": "1.0"}',
            "tokenizer_config.json": "{}",
            "chat_template.jinja": "{{ messages }}",
            "generation_config.json": "{}",
        }
        for name, text in extra.items():
            (source / name).write_text(text)
        build_plan(self.folder / "plan.fb", config=UNTIED, dtype="bf16")
        write_tokens(self.folder / "train", token_tensors(LENGTHS))
        self.run_good("qwenrun", "plan.fb", "--weights", "source", "--data",
                      "train", "--out", "out", "--steps", 3, "--lr", 0,
                      "--weight-decay", 0.1)
        found = snapshot(self.folder / "out" / "checkpoint-3")
        for name, digest in snapshot(source).items():
            with self.subTest(name=name):
                self.assertEqual(found.pop(name, "missing"), digest)
        self.assertEqual(
            {name for name in found if not name.startswith("optimizer")},
            {"trainer_state.json"})


del Training  # has no tests of its own

if __name__ == "__main__":
    unittest.main()
