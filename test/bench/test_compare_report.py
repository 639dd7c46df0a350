#!/usr/bin/env python3
"""What tools/bench/compare makes of measurements: ratios, the cost of a block, and goals that are met or missed."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools" / "bench"))
import compare_report  # noqa: E402


def times(median):
    return {"median_ms": median, "min_ms": median * 0.9, "max_ms": median * 1.1}


def our_kernel(kernel, median, of_floor=1.5, **place):
    return {"bench": "kernel", "side": "ours", "kernel": kernel, "model": "27B", "shape": "s", "tokens": 8192, **times(median),
            "tflops": 1.0, "tbps": 1.0, "of_floor": of_floor, **place}


def peer_kernel(kernel, peer, median, **place):
    return {"bench": "kernel", "side": "peer", "kernel": kernel, "peer": peer, "model": "27B", "shape": "s", "tokens": 8192,
            **times(median), "launch": "graph", "eager_ms": median * 2, **place}


def our_step(layers, median, round=0, device_bytes=51e9, **more):
    return {"bench": "step", "side": "ours", "plan": "p", "layers": layers, **times(median), "step_ms": [median] * 4,
            "tokens": 4 * 8192, "mfu": 0.5, "hfu": 0.5, "gpu_kernels": 20 + 30 * layers, "driver_calls": 6, "round": round,
            "first_step_s": 6.0, "device_bytes": device_bytes, "before_bytes": 6e8, "library_bytes": 4e8,
            "forecast_bytes": 50e9, **more}


def peer_step(layers, median, configuration="fla:packed:ckpt", peak=91e9):
    kernels, batch, activations = configuration.split(":")
    return {"bench": "step", "side": "peer", "kernels": kernels, "batch": batch, "activations": activations,
            "layers": layers, **times(median), "real_tokens": 8192, "peak_bytes": peak, "round": 1}


def checks(rows):
    compare_report.report(rows)
    return {row["what"]: row for row in rows if row["bench"] == "check"}


class CompareReportTest(unittest.TestCase):
    def find(self, rows, part):
        found = [row for what, row in checks(rows).items() if part in what]
        self.assertEqual(len(found), 1, f"{part}: {found}")
        return found[0]

    def test_ratio_of_kernels_on_the_same_documents(self):
        rows = [our_kernel("gated_delta", 0.2, documents=7), our_kernel("gated_delta", 0.5, documents=1),
                peer_kernel("gated_delta", "fla", 0.6, documents=7)]
        row = self.find(rows, "gated_delta against fla, 7 documents")
        self.assertEqual((row["value"], row["passed"]), ("3.00 (called eagerly 6.00)", True))

    def test_ratio_below_its_goal_is_a_miss(self):
        rows = [our_kernel("attention", 0.5, documents=7),
                peer_kernel("attention", "flash-attention-2 varlen", 0.7, documents=7)]
        self.assertFalse(self.find(rows, "attention against")["passed"])

    def test_loss_against_its_products(self):
        rows = [our_kernel("linear_cross_entropy_grad", 112.0), our_kernel("loss_products", 100.0)]
        row = self.find(rows, "loss within")
        self.assertEqual((row["value"], row["passed"]), ("1.120", False))

    def test_generated_kernels_against_a_copy(self):
        group = {"bench": "group", "calls": 3, "tbps": 4.0, **times(0.1)}
        small = group | {"symbol": "small", "bytes": 1e6, "of_copy": 0.1}
        fast = group | {"symbol": "fast", "bytes": 1e9, "of_copy": 0.9}
        slow = group | {"symbol": "slow", "bytes": 1e9, "of_copy": 0.8}
        checked_only = {"bench": "group", "symbol": "slow", "calls": 3, "bytes": 1e9, "error_of_bound": 0.5}
        self.assertTrue(self.find([small, fast, checked_only], "generated kernels")["passed"])
        row = self.find([small, fast, slow], "generated kernels")
        self.assertEqual((row["value"], row["passed"]), ("below: slow 0.80", False))

    def test_block_is_the_slope_between_depths(self):
        rows = [our_step(4, 200.0), our_step(12, 400.0), peer_step(4, 300.0), peer_step(12, 640.0)]
        row = self.find(rows, "block against fla:packed:ckpt")
        self.assertEqual((row["value"], row["passed"]), ("1.700", True))

    def test_operations_of_a_peer_stand_beside_its_times(self):
        counted = {name: value for name, value in peer_step(4, 300.0).items() if not name.endswith("_ms")}
        rows = [our_step(4, 200.0), peer_step(4, 300.0), counted | {"bench": "operations", "gpu_operations": 1405}]
        self.assertIn("| 1405 |", compare_report.report(rows))

    def test_launches_are_counted_by_layer(self):
        rows = [our_step(4, 200.0), our_step(12, 400.0)]
        row = self.find(rows, "GPU kernels a layer")
        self.assertEqual((row["value"], row["passed"]), ("30.00", True))

    def test_memory_without_contexts_against_the_forecast(self):
        row = self.find([our_step(4, 200.0)], "memory of 4 layers")
        self.assertEqual((row["value"], row["passed"]), ("+0.00%", True))
        self.assertFalse(self.find([our_step(4, 200.0, device_bytes=52e9)], "memory of 4 layers")["passed"])

    def test_memory_against_the_strongest_peer(self):
        for peak, passed in ((91e9, True), (49e9, False)):
            rows = [our_step(12, 400.0), peer_step(12, 500.0, "compiled:packed:keep", peak)]
            self.assertEqual(self.find(rows, "no more than compiled")["passed"], passed)

    def test_failed_measurements_are_no_rows(self):
        rows = [our_step(4, 200.0), {"bench": "step", "side": "peer", "error": "out of memory"}]
        text = compare_report.report(rows)
        self.assertNotIn("out of memory", text.partition("## Failed measurements")[0])
        self.assertIn("- out of memory", text.partition("## Failed measurements")[2])
        self.assertIn("out of memory", compare_report.line(rows[1]))


if __name__ == "__main__":
    unittest.main()
