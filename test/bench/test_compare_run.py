#!/usr/bin/env python3
"""tools/bench/compare keeps what it measured when a peer ends. All programs are played by a script."""

import json
import os
import stat
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "bench" / "compare"

# One program under all names. The peer ends where FAKE_END is asked of it, or at once where that is "start".
FAKE = '''#!{python}
import json, os, sys
name, arguments, end = os.path.basename(sys.argv[0]), sys.argv[1:], os.environ.get("FAKE_END", "")

def times(layers):
    return {{"median_ms": 2.0 * layers, "min_ms": 1.0, "max_ms": 50.0, "step_ms": [2.0]}}

if name == "nvidia-smi":
    known = {{"name": "Fake GPU", "driver_version": "1.2", "memory.total": "1000", "memory.used": "100"}}
    fields = next(a for a in arguments if a.startswith("--query-gpu=")).partition("=")[2]
    print(", ".join(known[field] for field in fields.split(",")))
elif name == "qwen-bench":
    layers = 12 if "-12l-" in arguments[1] else 4
    print(json.dumps({{"bench": "step", "side": "ours", "plan": "p", "layers": layers, "tokens": 8192, "mfu": 0.5, "hfu": 0.5,
                      "gpu_kernels": 9 * layers, "driver_calls": 8, "first_step_s": 5.0, "before_bytes": 0, "library_bytes": 0,
                      "forecast_bytes": 10**9, **times(layers)}}))
elif name == "python":
    if end == "start":
        sys.exit(1)
    print(json.dumps({{"bench": "versions", "side": "peer", "torch": "9.9"}}), flush=True)
    for line in sys.stdin:
        kernels, batch, activations, layers = line.strip().split(":")
        if line.strip() == end:
            sys.exit(1)
        print(json.dumps({{"bench": "step", "side": "peer", "kernels": kernels, "batch": batch, "activations": activations,
                          "layers": int(layers), "real_tokens": 8192, "peak_bytes": 10**9, **times(int(layers))}}), flush=True)
'''


class CompareRunTest(unittest.TestCase):
    def compare(self, end=""):
        """Status, rows, report and errors."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for part in ("bin", "plans"):
                (folder / part).mkdir()
            for program in ("nvidia-smi", "qwen-bench", "python"):
                path = folder / "bin" / program
                path.write_text(FAKE.format(python=sys.executable))
                path.chmod(path.stat().st_mode | stat.S_IXUSR)
            for layers in (4, 12):
                (folder / "plans" / f"qwen3.8-27b-{layers}l-8192.fb").touch()
            command = [sys.executable, "-B", SCRIPT, "--bin", folder / "bin", "--plan-dir", folder / "plans", "--peer-python",
                       folder / "bin" / "python", "--cache", folder / "cache", "-o", folder / "results", "--only", "steps"]
            environment = dict(os.environ, PATH=f"{folder / 'bin'}:{os.environ['PATH']}", FAKE_END=end)
            done = subprocess.run(list(map(str, command)), env=environment, text=True, capture_output=True, timeout=120,
                                  check=False)
            rows = [json.loads(line) for path in folder.glob("results/*.jsonl") for line in path.read_text().splitlines()]
            text = "".join(path.read_text() for path in folder.glob("results/*.md"))
        return done.returncode, rows, text, done.stderr

    def steps(self, rows, side):
        return [(row["round"], row["layers"]) for row in rows if row["bench"] == "step" and row["side"] == side]

    def test_rounds(self):
        status, rows, text, errors = self.compare()
        self.assertEqual((status, errors), (0, ""))
        self.assertEqual(self.steps(rows, "ours"), [(0, 4), (0, 12), (1, 4), (1, 12)])
        self.assertEqual(self.steps(rows, "peer"), [(0, 4), (0, 4), (0, 12), (0, 12), (1, 4), (1, 4), (1, 12), (1, 12)])
        self.assertNotIn("Failed measurements", text)

    def test_a_peer_that_ends(self):
        status, rows, text, errors = self.compare("compiled:packed:keep:4")
        self.assertEqual(status, 1)
        self.assertEqual(self.steps(rows, "ours"), [(0, 4), (0, 12), (1, 4), (1, 12)])
        self.assertEqual(self.steps(rows, "peer"), [(0, 4), (1, 4)])
        self.assertEqual(errors.count("the peer ended at compiled:packed:keep:4"), 2)
        self.assertIn("Failed measurements", text)

    def test_a_peer_that_does_not_start(self):
        status, rows, text, errors = self.compare("start")
        self.assertEqual(status, 1)
        self.assertEqual(self.steps(rows, "peer"), [])
        self.assertIn("the peer did not start", errors)
        self.assertIn("Failed measurements", text)


if __name__ == "__main__":
    unittest.main()
