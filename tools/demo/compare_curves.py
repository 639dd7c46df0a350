#!/usr/bin/env python3
"""Says whether two runs of the same training differ by no more than rounding.

    compare_curves.py REFERENCE NOISE OTHER    metrics.jsonl of three runs

REFERENCE is a run in float32 on the CPU, NOISE the same in bf16 on the CPU,
OTHER the run to judge, such as bf16 on a GPU. All see the same packs and start
from the same weights. What bf16 arithmetic does to a loss curve is the
difference of NOISE and REFERENCE; the curve of OTHER coincides where its
difference from REFERENCE has no larger root mean square, give or take

    1.5 (1 + 6 / sqrt(n)).

1.5 is the ratio to which test/golden/README.md holds the bf16 errors of two
implementations. Differences of neighbouring steps have a common cause, so the n
steps count as fewer: n / (1 + 2 sum of the autocorrelations before the first
that is not positive). The mean is not taken out: it is part of the difference. The ratio of two root mean squares of n numbers each has
a standard deviation of 1 / sqrt(n), of which six are allowed. Checked over the
whole run, whose difference is that of two paths of one chaotic training, and
over its first 16 steps, where the paths have not parted and the difference is
that of rounding alone.
"""

import json
import math
import sys
from pathlib import Path

EARLY = 16  # steps


def losses(path: Path):
    """Training losses, and the held-out losses by step."""
    train, held_out = [], {}
    for line in path.read_text().splitlines():
        record = json.loads(line)
        if record["group"] == "train":
            train.append(record["loss"])
        elif record["group"] == "eval":
            held_out[record["step"]] = record["loss"]
    return train, held_out


def root_mean_square(values) -> float:
    return math.sqrt(sum(value * value for value in values) / len(values))


def independent(values) -> float:
    """How many independent numbers these are worth."""
    power = sum(value * value for value in values)
    total = 0.0
    for lag in range(1, len(values)):
        product = sum(a * b for a, b in zip(values, values[lag:]))
        if product <= 0:
            break
        total += product / power
    return len(values) / (1 + 2 * total)


def check(name: str, noise, other) -> bool:
    count = independent(noise)
    bound = 1.5 * (1 + 6 / math.sqrt(count))
    yardstick, found = root_mean_square(noise), root_mean_square(other)
    print(
        f"{name}: difference {found:.5f}, of bf16 on the CPU {yardstick:.5f}, "
        f"ratio {found / yardstick:.2f}, allowed {bound:.2f} "
        f"({len(noise)} steps worth {count:.0f})"
    )
    return found <= bound * yardstick


def main() -> None:
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    (reference, reference_eval), (noise, noise_eval), (other, other_eval) = (
        losses(Path(argument)) for argument in sys.argv[1:]
    )
    steps = len(reference)
    if steps < EARLY or len(noise) != steps or len(other) != steps:
        sys.exit(
            "compare_curves: error: expected three runs of the same number of "
            f"steps, at least {EARLY}; found {steps}, {len(noise)}, {len(other)}"
        )
    print("step   float32      bf16     other")
    for step in sorted({1, *range(steps // 8, steps + 1, steps // 8)}):
        curves = (reference[step - 1], noise[step - 1], other[step - 1])
        print(f"{step:4d}" + "".join(f"{loss:10.4f}" for loss in curves))
    for step in sorted(reference_eval):
        curves = (c.get(step) for c in (reference_eval, noise_eval, other_eval))
        text = "".join("         -" if c is None else f"{c:10.4f}" for c in curves)
        print(f"{step:4d}{text}  held out")
    noise_part = [a - b for a, b in zip(noise, reference)]
    other_part = [a - b for a, b in zip(other, reference)]
    passed = check("first steps", noise_part[:EARLY], other_part[:EARLY])
    passed &= check("whole run", noise_part, other_part)
    if not passed:
        sys.exit("compare_curves: error: the curves differ by more than rounding")


if __name__ == "__main__":
    main()
