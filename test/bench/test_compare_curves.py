"""tools/demo/compare_curves.py accepts runs that differ by rounding and refuses others."""

import json
import math
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "demo" / "compare_curves.py"
STEPS = 160


def noise(step, seed, size):
    """Like rounding: without sign, and growing as paths part."""
    return size * step * math.sin(12.9898 * (step + 97 * seed))


class CompareCurvesTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def write(self, name, difference, steps=STEPS):
        path = Path(self.folder.name, name)
        records = [{"group": "train", "step": s, "loss": 8 / (1 + s / 40) + difference(s)} for s in range(1, steps + 1)]
        records.append({"group": "eval", "step": steps, "loss": 2.0})
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
        return str(path)

    def compare(self, other, steps=STEPS):
        reference = self.write("reference", lambda step: 0)
        bf16 = self.write("bf16", lambda step: noise(step, 1, 1e-4))
        command = [sys.executable, str(SCRIPT), reference, bf16, self.write("other", other, steps)]
        return subprocess.run(command, check=False, capture_output=True, text=True)

    def test_rounding(self):
        done = self.compare(lambda step: noise(step, 2, 1e-4))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("held out", done.stdout)

    def test_offset_from_the_first_step(self):
        done = self.compare(lambda step: 0.01 + noise(step, 2, 1e-4))
        self.assertEqual(done.returncode, 1)
        self.assertIn("differ by more than rounding", done.stderr)

    def test_drift(self):
        done = self.compare(lambda step: 2e-3 * max(step - 20, 0))
        self.assertEqual(done.returncode, 1)
        self.assertIn("differ by more than rounding", done.stderr)

    def test_nan(self):
        done = self.compare(lambda step: math.nan if step == 100 else 0)
        self.assertEqual(done.returncode, 1)

    def test_other_length(self):
        done = self.compare(lambda step: 0, steps=STEPS - 1)
        self.assertEqual(done.returncode, 1)
        self.assertIn("the same number of steps", done.stderr)


if __name__ == "__main__":
    unittest.main()
