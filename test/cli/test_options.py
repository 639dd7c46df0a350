"""Options of the tools: unknown, out of range, conflicting, from run.toml."""

import json
import os
import shutil
import unittest

from cli_testing import (GOLDEN, SOURCE, TIED, CliTest, build_plan,
                         token_tensors, write_tokens)

CONFIG = SOURCE / "models" / "configs" / f"{TIED}.json"


class WithPlan(CliTest):
    """The plan lies in the test's own folder: a run.toml beside it counts."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        build_plan(cls.shared / "plan.fb")

    def setUp(self):
        super().setUp()
        shutil.copy(self.shared / "plan.fb", self.folder)
        write_tokens(self.folder / "data", token_tensors([20, 30, 40]))


GOOD = ("plan.fb", "--init", "random", "--data", "data", "--out", "out",
        "--steps", "1")


class CommandLine(WithPlan):

    def test_unknown_and_malformed(self):
        for extra, says in (
            (("--bogus",), "--bogus"),
            (("other.fb",), "other.fb"),
            (("--lr", "fast"), "fast"),
            (("--lr", "-1"), "--lr"),
            (("--lr", "nan"), "--lr"),
            (("--lr", "inf"), "--lr"),
            (("--lr", "1e39"), "from 0 to 3.402"),
            (("--eps", "1e39"), "from 1.17"),
            (("--min-lr", "1"), "--min-lr"),
            (("--schedule", "square"), "square"),
            (("--warmup", "many"), "warmup"),
            (("--warmup", "-3"), "warmup"),
            (("--accumulation", "0"), "--accumulation"),
            (("--accumulation", "1.5"), "1.5"),
            (("--seed", "-1"), "seed"),
            (("--beta1", "1"), "--beta1"),
            (("--beta2", "-0.1"), "--beta2"),
            (("--eps", "0"), "--eps"),
            (("--eps", "1e-50"), "--eps"),
            (("--clip", "-1"), "--clip"),
            (("--weight-decay", "nan"), "--weight-decay"),
            (("--keep", "0"), "--keep"),
            (("--threads", "-1"), "--threads"),
            (("--threads", "4097"), "--threads"),
            (("--save-every", "99999999999999999999"), "1000000000"),
            (("--lrr", "1"), "did you mean --lr?"),
            (("--eval-every", "3"), "--eval-every needs --eval"),
        ):
            with self.subTest(extra=extra):
                self.run_bad("qwenrun", *GOOD, *extra, says=says)

    def test_options_of_a_gpu_need_a_plan_for_one(self):
        for extra in (("--device", "1"), ("--wait-each-launch",)):
            self.run_bad("qwenrun", *GOOD, *extra, says=(extra[0], "x86-64-v3"))
        self.run_bad("qwenrun", *GOOD, "--nccl-gathers", says="--nccl-gathers is for several ranks, but ")

    def test_warm_up_longer_than_the_run_is_said(self):
        done = self.run_good("qwenrun", *GOOD, "--warmup", "100", "--dry-run")
        self.assertIn("warning: a warm-up of 100 steps in a run of 1",
                      done.stdout)

    def test_missing_value(self):
        self.run_bad("qwenrun", *GOOD, "--lr", says="--lr")

    def test_repeated(self):
        self.run_bad("qwenrun", *GOOD, "--out", "other", says="--out")

    def test_conflicts(self):
        self.run_bad("qwenrun", *GOOD, "--epochs", "1", says="--epochs")
        self.run_bad("qwenrun", *GOOD, "--weights", "w", says="--weights")
        self.run_bad("qwenrun", *GOOD, "--init", "zero", says="zero")
        self.run_bad("qwenrun", *GOOD, "--eval-only", says="--eval")
        self.run_bad("qwenrun", *GOOD, "--info", "--dry-run", says="--info")
        self.run_bad("qwenrun", *GOOD, "--schedule", "wsd", "--warmup", "60%",
                     "--decay", "0.5", says="--warmup and --decay")
        # What is resumed is a run; an evaluation has no weights then.
        self.run_bad("qwenrun", "plan.fb", "--eval", "data", "--eval-only",
                     "--resume", "out", says="--weights")

    def test_what_is_needed(self):
        self.run_bad("qwenrun", says="plan")
        self.run_bad("qwenrun", "plan.fb", says="--weights")
        self.run_bad("qwenrun", "plan.fb", "--init", "random", says="--data")
        self.run_bad("qwenrun", "plan.fb", "--init", "random", "--data",
                     "data", says="--out")

    def test_files_beside_the_weights(self):
        self.run_bad("qwenrun", *GOOD, "--model-config", "none.json",
                     says="none.json")
        self.run_bad("qwenrun", *GOOD, "--tokenizer", "none", says="none")

    def test_unwritable_output(self):
        (self.folder / "file").write_text("")
        for out in ("file", "file/out", "/proc/out"):
            with self.subTest(out=out):
                self.run_bad("qwenrun", "plan.fb", "--init", "random",
                             "--data", "data", "--out", out, says=out)

    @unittest.skipIf(os.geteuid() == 0, "root may write anywhere")
    def test_output_without_permission(self):
        (self.folder / "locked").mkdir(mode=0o500)
        self.run_bad("qwenrun", "plan.fb", "--init", "random", "--data",
                     "data", "--out", "locked/out", says="locked")

    def test_resume_of_nothing(self):
        self.run_bad("qwenrun", "plan.fb", "--data", "data", "--out", "out",
                     "--resume", says="out")
        self.run_bad("qwenrun", "plan.fb", "--data", "data", "--out", "out",
                     "--resume", "none", says="none")

    def test_help_and_info(self):
        self.assertIn("--lr", self.run_good("qwenrun", "--help").stdout)
        self.assertIn("x86-64-v3",
                      self.run_good("qwenrun", "plan.fb", "--info").stdout)


class ConfigFile(WithPlan):
    good = ('init = "random"\ndata = "data"\nout = "out"\nsteps = 1\n'
            "threads = 1\n")

    def write(self, text, name="run.toml"):
        data = text if isinstance(text, bytes) else text.encode()
        (self.folder / name).write_bytes(data)

    def test_beside_the_plan(self):
        self.write(self.good)
        # Its paths are relative to the file, not to where we are.
        self.run_good("qwenrun", self.folder / "plan.fb", cwd="/")
        self.assertTrue((self.folder / "out" / "checkpoint-1").is_dir())

    def test_command_line_wins(self):
        self.write(self.good)
        self.run_good("qwenrun", "plan.fb", "--steps", 2, "--out", "other")
        self.assertTrue((self.folder / "other" / "checkpoint-2").is_dir())
        self.assertFalse((self.folder / "out").exists())

    def test_named(self):
        self.write("bogus = 1\n")
        self.write(self.good, "mine.toml")
        self.run_good("qwenrun", "plan.fb", "--config", "mine.toml")
        self.run_bad("qwenrun", "plan.fb", "--config", "none.toml",
                     says="none.toml")

    def test_faults(self):
        for line, says in (
            ("bogus = 1", "bogus"),
            ("[section]\nlr = 1", "section"),
            ('lr = "fast"', "fast"),
            ("lr = -1", "--lr"),
            ("lr = [1, 2]", "lr"),
            ("steps = 2", "'steps': expected one value, found 2"),
            ("lr = 1\nseed = 1\nlr = 1", "'lr' is given twice"),
            ('eval = ["data", "none"]', "'eval': expected one value, found 2"),
            ('schedule = "square"', "square"),
            ("accumulation = 0", "--accumulation"),
            ("epochs = 2", "--epochs"),
            ('weights = "w"', "--weights"),
            ("steps = 99999999999999999999999", "steps"),
            ("steps", "run.toml"),
            ("= 3", "run.toml"),
            ("<<<<<<< ours", "run.toml"),
        ):
            with self.subTest(line=line):
                self.write(self.good.replace("steps = 1\n", "steps = 1\n" +
                                             line + "\n"))
                self.run_bad("qwenrun", "plan.fb", says=says)

    def test_binary_and_folder(self):
        self.write(bytes(range(256)) * 4)
        self.run_bad("qwenrun", "plan.fb")
        (self.folder / "run.toml").unlink()
        (self.folder / "run.toml").mkdir()
        self.run_bad("qwenrun", "plan.fb", says="run.toml")


class Import(CliTest):

    def refused(self, text, *says):
        (self.folder / "config.json").write_text(text)
        self.run_bad("qwen-import", "config.json", "--tokens", 64,
                     "--max-documents", 8, "-o", "model.mlir", says=says)

    def test_files(self):
        self.refused("", "config.json")
        self.refused("{", "config.json")
        self.refused("[]", "config.json")
        self.refused('{"a":' * 100000, "config.json")
        self.run_bad("qwen-import", "none.json", "--tokens", 64,
                     "--max-documents", 8, says="none.json")

    def test_fields(self):
        config = json.loads(CONFIG.read_text())
        for name, value in (("model_type", "qwen3_5_moe"),
                            ("hidden_size", None), ("hidden_size", -1),
                            ("hidden_size", 2**62), ("head_dim", 15),
                            ("num_attention_heads", 3),
                            ("num_hidden_layers", 10**9),
                            ("vocab_size", "many")):
            with self.subTest(name=name, value=value):
                changed = dict(config, **{name: value})
                if value is None:
                    del changed[name]
                self.refused(json.dumps(changed), name)

    def test_options(self):
        for arguments, says in (
            (("--tokens", 0, "--max-documents", 8), "tokens"),
            (("--tokens", 64, "--max-documents", 0), "documents"),
            (("--tokens", 2**62, "--max-documents", 8), "tokens"),
            (("--tokens", "x", "--max-documents", 8), "tokens"),
            (("--max-documents", 8), "tokens"),
            (("--tokens", 64, "--max-documents", 8, "--dtype", "f16"), "f16"),
            (("--tokens", 64, "--max-documents", 8, "--bogus"), "--bogus"),
            (("--tokns=64", "--max-documents", 8),
             "did you mean --tokens=64?"),
            (("--tokens", 64, "--max-documents", 8, "-o", "none/x"), "none/x"),
        ):
            with self.subTest(arguments=arguments):
                if "-o" not in arguments:
                    arguments += ("-o", "model.mlir")
                self.run_bad("qwen-import", CONFIG, *arguments, says=says)

    def test_config_is_not_overwritten_by_the_model(self):
        shutil.copy(CONFIG, self.folder / "config.json")
        self.run_bad("qwen-import", "config.json", "--tokens", 64,
                     "--max-documents", 8, "-o", "config.json",
                     says="config.json")

    def test_full_disk(self):
        self.run_into_full_disk("qwen-import", CONFIG, "--tokens", 64,
                                "--max-documents", 8)


class Bench(CliTest):

    def test_options(self):
        if not os.environ.get("QWEN_BENCH"):
            self.skipTest("qwen-bench is not built without CUDA")
        for arguments, says in (
            ((), "subcommand"),
            (("kernels", "--bogus"), "--bogus"),
            (("kernels", "--samples", 0),
             "--samples: expected a whole number from 1 to 10000, found '0'"),
            (("kernels", "--documents", "5,0"), "whole number from 1 to"),
            (("groups", "none.fb", "--samples", "x"), "found 'x'"),
            (("groups", "none.fb"), "none.fb"),
            (("step",), "plans"),
            (("step", "none.fb"), "none.fb"),
            (("step", "none.fb", "--steps", 1.5), "found '1.5'"),
            (("step", "none.fb", "--lr", -1), "a number of at least 0"),
            (("step", "none.fb", "--peak-tflops", "nan"), "found 'nan'"),
            (("step", "none.fb", "--rank-timeout", 0), "from 1 to 86400"),
            (("step", "none.fb", "--tokens", 64), "--tokens requires --layers"),
            (("step", "none.fb", "--model", "m"), "--model requires --layers"),
            (("tune", "none.fb", "-o", "table"), "none.fb"),
        ):
            with self.subTest(arguments=arguments):
                line = self.run_bad("qwen-bench", *arguments, says=says)
                self.assertTrue(line.startswith("qwen-bench: error: "))

    def test_full_disk(self):
        if not os.environ.get("QWEN_BENCH"):
            self.skipTest("qwen-bench is not built without CUDA")
        build_plan(self.folder / "plan.fb")
        self.run_into_full_disk("qwen-bench", "--help")
        self.run_into_full_disk("qwen-bench", "step", "plan.fb", "--steps", 1,
                                "--warm-up", 1, "--documents", 9, more=2)


del WithPlan  # has no tests of its own

if __name__ == "__main__":
    unittest.main()
