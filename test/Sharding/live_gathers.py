"""Checks in the IR after stage schedule that gathered units die.

    live_gathers.py schedule.mlir UNITS

At no launch of a program may more bytes of gathered buckets be alive than the
UNITS largest units have together; each unit's buckets share a name but for the
element type.
"""

import re
import sys

WIDTHS = {"bf16": 2, "f32": 4, "f64": 8}
BUCKET = re.compile(r'plan.bucket "(.+?)\.(?:bf16|f32|f64)(?:\.frozen)?" elements (\d+) '
                    r"value\(\S+ : memref<\d+x(\w+)>\)")
BUFFER = re.compile(r"(%\S+) = plan.buffer @activation\[\d+, (\d+)\] in @(\S+) "
                    r"steps (\d+) to (\d+)")
VIEW = re.compile(r"(%\S+) = plan.view (%\S+)\[\d+\]")
GATHER = re.compile(r"kernel.all_gather ins\(\S+ : memref<\S+>\) outs\((%\S+) :")


def main():
    units, buffers, views, gathered = {}, {}, {}, {}
    with open(sys.argv[1], encoding="utf-8") as file:
        for line in file:
            if match := BUCKET.search(line):
                size = int(match[2]) * WIDTHS[match[3]]
                units[match[1]] = units.get(match[1], 0) + size
            elif match := BUFFER.search(line):
                buffers[match[1]] = (match[3], *map(int, match.group(2, 4, 5)))
            elif match := VIEW.search(line):
                views[match[1]] = match[2]
            elif match := GATHER.search(line):
                buffer = views[match[1]]
                gathered[buffer] = buffers[buffer]
    limit = sum(sorted(units.values())[-int(sys.argv[2]):])
    assert units and gathered, "no buckets or no gathers"
    for program in {entry[0] for entry in gathered.values()}:
        lives = [entry[1:] for entry in gathered.values() if entry[0] == program]
        for step in {first for _, first, _ in lives}:
            alive = sum(size for size, first, last in lives if first <= step <= last)
            if alive > limit:
                sys.exit(f"@{program}, step {step}: {alive} gathered bytes are alive, "
                         f"expected at most {limit}")


if __name__ == "__main__":
    main()
