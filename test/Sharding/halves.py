"""Checks that gradients in bf16 take half the memory of those in float32.

    halves.py f32.json bf16.json

The files are from `qwen-plan --summary --json`. Every bucket's shard begins at a
multiple of 64 bytes; nothing else that is held changes.
"""

import json
import sys


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        wide = json.load(file)
    with open(sys.argv[2], encoding="utf-8") as file:
        narrow = json.load(file)
    for name in ("parameters", "optimizer"):
        assert wide["memory"][name] == narrow["memory"][name], name
    have, total = narrow["memory"]["gradients"], wide["memory"]["gradients"]
    if not total / 2 <= have <= total / 2 + 64 * narrow["buckets"]:
        sys.exit(f"gradients: {have} bytes, expected half of {total}")


if __name__ == "__main__":
    main()
