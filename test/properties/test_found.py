"""A fault in a variant is found, and the command that is printed finds it too."""

import os
import shlex
import subprocess
import unittest

PROGRAM = os.environ["PROPERTY_TEST"]


def run(command):
    return subprocess.run(command, capture_output=True, text=True, timeout=240)


class Found(unittest.TestCase):
    def expect_found(self, law, fault, *words):
        first = run([PROGRAM, "--seed=21", "--case=4", f"--law={law}",
                     f"--break={fault}"])
        self.assertEqual(first.returncode, 1, first.stdout + first.stderr)
        line = first.stdout.splitlines()[0]
        self.assertTrue(line.startswith("failed: "), line)
        for word in words:
            self.assertIn(word, first.stdout)
        command = shlex.split(line.removeprefix("failed: "))
        again = run(command + ["--no-shrink"])
        self.assertEqual(again.returncode, 1, again.stdout + again.stderr)
        self.assertEqual(again.stdout, first.stdout)
        # Without the fault the same small case holds.
        sound = [word for word in command if not word.startswith("--break")]
        good = run(sound)
        self.assertEqual(good.returncode, 0, good.stdout + good.stderr)

    def test_a_wrong_token_is_a_loss_of_its_document(self):
        self.expect_found("policy", "token", "losses of document 0 ",
                          "expected and found")

    def test_a_wrong_weight_is_found(self):
        self.expect_found("isolation", "weight", "losses of document")

    def test_a_gradient_beyond_its_bound_is_found(self):
        self.expect_found("packing", "scale", "gradient of", "expected within")

    def test_a_wrong_gradient_of_ranks_is_found(self):
        self.expect_found("ranks", "scale", "step 1: gradient of",
                          "expected and found")

    def test_another_step_after_a_restart_is_found(self):
        self.expect_found("restart", "token", "losses of document")


class CommandLine(unittest.TestCase):
    def test_what_is_unknown_is_an_error(self):
        for option in ["--sed=1", "--case=x", "--law=murphy", "--break=all",
                       "--documents=1", "--compile-only"]:
            with self.subTest(option):
                done = run([PROGRAM, option])
                self.assertEqual(done.returncode, 2)
                self.assertTrue(done.stderr.startswith("property-test: "))

    def test_help_lists_the_options(self):
        done = run([PROGRAM, "--help"])
        self.assertEqual(done.returncode, 0)
        for option in ["--seed", "--cases", "--law", "--documents"]:
            self.assertIn(option, done.stdout)


if __name__ == "__main__":
    unittest.main()
