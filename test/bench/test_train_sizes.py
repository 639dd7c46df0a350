"""tools/bench/train_sizes judges what a run prints; the run itself is played by a script."""

import json
import stat
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "bench" / "train_sizes"
MEASURED = {"median_ms": 2.0, "tokens_per_s": 1000.0, "mfu": 0.5, "forecast_bytes": 100}


class TrainSizesTest(unittest.TestCase):
    def run_with(self, losses, code=0, error=""):
        """What train_sizes prints and returns where qwenrun reports these losses."""
        with tempfile.TemporaryDirectory() as folder:
            lines = [f"step {i + 1}: 2.00 ms, loss {loss}" for i, loss in enumerate(losses)] + [error]
            qwenrun = Path(folder, "qwenrun")
            qwenrun.write_text(
                f"#!{sys.executable}\nimport sys\nprint({chr(10).join(lines)!r}, file=sys.stderr)\n"
                + (f"print({json.dumps(MEASURED)!r})\n" if code == 0 else f"sys.exit({code})\n")
            )
            qwenrun.chmod(qwenrun.stat().st_mode | stat.S_IXUSR)
            data = Path(folder, "data")
            data.touch()
            command = [sys.executable, str(SCRIPT), "--qwenrun", str(qwenrun), "--data", str(data), "--steps", "10", "a.fb"]
            done = subprocess.run(command, check=False, capture_output=True, text=True)
        return done.returncode, json.loads(done.stdout)

    def test_falling(self):
        code, result = self.run_with([10 - i / 4 for i in range(12)])
        self.assertEqual((code, result["ok"]), (0, True))
        self.assertEqual(result["plan"], "a.fb")
        self.assertEqual(result["mfu"], 0.5)
        self.assertEqual(result["forecast_bytes"], 100)

    def test_not_falling(self):
        code, result = self.run_with([10.0] * 12)
        self.assertEqual((code, result["falling"], result["ok"]), (1, False, False))

    def test_not_finite(self):
        code, result = self.run_with([10 - i / 4 for i in range(11)] + ["nan"])
        self.assertEqual((code, result["finite"], result["ok"]), (1, False, False))

    def test_too_few_steps(self):
        code, result = self.run_with([10 - i / 4 for i in range(9)])
        self.assertEqual((code, result["finite"]), (1, False))

    def test_failed_run(self):
        code, result = self.run_with([10.0], code=1, error="qwenrun: error: out of memory")
        self.assertEqual((code, result["ok"], result["error"]), (1, False, "qwenrun: error: out of memory"))


if __name__ == "__main__":
    unittest.main()
