"""Checks the memory forecast of sharded plans.

    shrinks.py one.json RANKS sharded.json

The files are from `qwen-plan --summary --json`. A rank holds its part of
parameters, gradients and optimizer state, and less than a hundredth more for
padding beside 64 elements a bucket.
"""

import json
import sys


def main():
    one, ranks, sharded = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    with open(one, encoding="utf-8") as file:
        whole = json.load(file)
    with open(sharded, encoding="utf-8") as file:
        part = json.load(file)
    assert whole["world_size"] == 1 and part["world_size"] == ranks
    assert whole["parameters"] == part["parameters"]
    buckets = part["buckets"]
    # Each bucket is padded to 64 elements a rank, each parameter to 64.
    padding = 64 * (buckets + part["parameters"]["tensors"])
    for name, width in (("parameters", 4), ("gradients", 4), ("optimizer", 12)):
        have, total = part["memory"][name], whole["memory"][name]
        most = total / ranks + width * padding
        if not total / ranks <= have + 64 * buckets * 3 or have > most:
            sys.exit(f"{name}: {have} bytes of {total} on each of {ranks} ranks, "
                     f"expected at most {most:.0f}")


if __name__ == "__main__":
    main()
