"""What happens to a run whose log, data or terminal goes away."""

import os
import pathlib
import shutil
import signal
import subprocess
import unittest

from cli_testing import (CliTest, build_plan, command, environment,
                         token_tensors, write_tokens)


class WithPlan(CliTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        build_plan(cls.shared / "plan.fb")
        write_tokens(cls.shared / "data", token_tensors([33, 40, 64, 50]))

    def call(self, *more, data=None):
        return command("qwenrun", self.shared / "plan.fb", "--init", "random",
                       "--data", data or self.shared / "data", "--out", "out",
                       "--log-every", 1, *more)

    def checkpoints(self):
        return sorted(path.name
                      for path in (self.folder / "out").glob("checkpoint-*"))


class Log(WithPlan):
    """Training is worth more than its log."""

    def train(self, steps, **streams):
        done = subprocess.run(self.call("--steps", steps), cwd=self.folder,
                              env=environment(), stderr=subprocess.PIPE,
                              text=True, timeout=240, **streams)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.checkpoints(), [f"checkpoint-{steps}"])
        return done.stderr

    def test_full_disk(self):
        with open("/dev/full", "w") as full:
            said = self.train(3, stdout=full)
        self.assertEqual(len(said.splitlines()), 1, said)
        self.assertIn("warning: cannot write to the standard output: No space",
                      said)

    def test_reader_that_is_gone(self):
        reader, writer = os.pipe()
        os.close(reader)
        with os.fdopen(writer, "w") as pipe:
            said = self.train(3, stdout=pipe)
        self.assertIn("Broken pipe", said)

    def test_closed_streams_do_not_end_in_files(self):
        """The next file that is opened must not become the log."""

        def close():
            os.close(0)
            os.close(1)

        self.assertEqual(self.train(3, preexec_fn=close), "")
        for line in (self.folder / "out" / "metrics.jsonl").open():
            self.assertTrue(line.startswith("{"), line)

    def test_results_that_cannot_be_written_are_errors(self):
        for arguments in (("--help",), (self.shared / "plan.fb", "--info"),
                          (self.shared / "plan.fb", "--selfcheck"),
                          (self.shared / "plan.fb", "--init", "random",
                           "--data", self.shared / "data", "--out", "out",
                           "--dry-run")):
            self.run_into_full_disk("qwenrun", *arguments)


class Running(WithPlan):

    def start(self, *more, before=None, data=None):
        """A run that has done a step, and its output."""
        process = subprocess.Popen(
            self.call("--steps", 10**9, *more, data=data), cwd=self.folder,
            env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, preexec_fn=before)
        self.addCleanup(process.kill)
        for line in process.stdout:
            if line.startswith("step 1/"):
                break
        return process

    def catches(self, process, number):
        """The process has a handler for this signal by now."""
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        (mask,) = (int(line.split()[1], 16) for line in status.splitlines()
                   if line.startswith("SigCgt:"))
        return mask >> (number - 1) & 1

    def end(self, process):
        out, err = process.communicate(timeout=240)
        return out, err.splitlines()

    def test_closed_terminal_is_a_clean_stop(self):
        process = self.start()
        process.send_signal(signal.SIGHUP)
        out, said = self.end(process)
        self.assertEqual(process.returncode, 0)
        self.assertIn("stopped after", out)
        self.assertEqual(len(self.checkpoints()), 1)
        self.assertEqual(len(said), 1)
        self.assertIn("a second signal stops at once", said[0])

    def test_nohup_is_respected(self):
        process = self.start(
            before=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        process.send_signal(signal.SIGHUP)
        for line in process.stdout:
            if line.startswith("step 50/"):
                break
        process.send_signal(signal.SIGTERM)
        out, said = self.end(process)
        self.assertEqual(process.returncode, 0)
        self.assertIn("stopped after", out)

    def test_second_signal_ends_at_once_and_harms_no_checkpoint(self):
        process = self.start("--save-every", 1)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        self.end(process)
        # Between the two the first may have done its work.
        self.assertIn(process.returncode, (0, -signal.SIGTERM))
        for name in self.checkpoints():
            self.run_good("qwenrun", self.shared / "plan.fb", "--weights",
                          f"out/{name}", "--eval", self.shared / "data",
                          "--eval-only")

    def test_signal_before_the_first_step_saves_nothing(self):
        fifo = self.folder / "log"
        os.mkfifo(fifo)
        # The log is a pipe that nobody empties: the run waits in its first
        # lines, before it loads weights, until the signal is there.
        reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        writer = os.open(fifo, os.O_WRONLY)
        os.set_blocking(writer, False)
        filled = 0
        try:
            while True:
                filled += os.write(writer, b"\n" * 4096)
        except BlockingIOError:
            pass
        os.set_blocking(writer, True)
        process = subprocess.Popen(self.call("--steps", 100), cwd=self.folder,
                                   env=environment(), stdout=writer,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        os.close(writer)
        while not self.catches(process, signal.SIGINT):
            self.assertIsNone(process.poll())
        process.send_signal(signal.SIGINT)
        self.assertIn("stopping", process.stderr.readline())
        os.set_blocking(reader, True)
        with os.fdopen(reader) as log:
            text = log.read()
        self.assertEqual(process.wait(timeout=240), 0, text[-500:])
        self.assertIn("stopped after 0 steps", text)
        self.assertEqual(self.checkpoints(), [])
        process.stderr.close()

    def test_removed_data_file_goes_on(self):
        data = self.folder / "gone"
        shutil.copy(self.shared / "data", data)
        process = self.start(data=data)
        data.unlink()
        for line in process.stdout:
            if line.startswith("step 50/"):
                break
        process.send_signal(signal.SIGINT)
        self.end(process)
        self.assertEqual(process.returncode, 0)
        self.assertEqual(len(self.checkpoints()), 1)

    def test_data_file_cut_short_is_one_line(self):
        data = self.folder / "cut"
        write_tokens(data, token_tensors([60] * 5000))
        process = self.start(data=data)
        os.truncate(data, 4096)
        _, said = self.end(process)
        self.assertEqual(process.returncode, 1)
        self.assertEqual(len(said), 1, said)
        self.assertIn("cut short", said[0])


del WithPlan  # has no tests of its own

if __name__ == "__main__":
    unittest.main()
