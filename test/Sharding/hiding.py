"""Checks that compiler and plan say the same of what hides each collective.

    hiding.py remarks.txt plan.txt

The files are from `qwenc --remarks=sharding` and from `qwen-plan`, which rounds.
"""

import re
import sys

REMARK = re.compile(r"@(\S+) launch (\d+) (gathers|scatters) (?:((?:rows of )?\S+), )?(\d+) bytes; "
                    r"(?:launch (\d+) waits|the (end) of the program waits) for it; "
                    r"(\d+) launches of (\d+) FLOPs and (\d+) bytes hide it")
PROGRAM = re.compile(r"collectives of (\S+):")
ROW = re.compile(r" +(\d+) (all_gather|reduce_scatter) +((?:rows of )?\S+) +([\d.]+ \S+) +(\d+|end) +(\d+) "
                 r"+([\d.e+]+ \S+) +([\d.]+ \S+)$")
UNITS = {"B": 1, "FLOP": 1, "KFLOP": 1e3, "MFLOP": 1e6, "GFLOP": 1e9, "KiB": 2**10, "MiB": 2**20,
         "GiB": 2**30}


def said_by_compiler(lines):
    rows = {}
    for match in filter(None, map(REMARK.search, lines)):
        kernel = {"gathers": "all_gather", "scatters": "reduce_scatter"}[match[3]]
        rows[match[1], int(match[2])] = ([kernel, match[4] or "-", match[6] or match[7], int(match[8])],
                                         [int(match[5]), int(match[9]), int(match[10])])
    return rows


def said_of_plan(lines):
    rows, program = {}, None
    for line in lines:
        if match := PROGRAM.match(line):
            program = match[1]
        elif match := ROW.match(line):
            sizes = [float(number) * UNITS[unit] for number, unit in map(str.split, match.group(4, 7, 8))]
            rows[program, int(match[1])] = ([match[2], match[3], match[5], int(match[6])], sizes)
    return rows


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        compiler = said_by_compiler(file)
    with open(sys.argv[2], encoding="utf-8") as file:
        plan = said_of_plan(file)
    assert compiler.keys() == plan.keys() and compiler, (compiler.keys(), plan.keys())
    assert any(sizes[1] > 0 for _, sizes in plan.values()), "nothing is hidden"
    for place, (facts, sizes) in compiler.items():
        assert facts == plan[place][0], (place, facts, plan[place][0])
        for exact, rounded in zip(sizes, plan[place][1]):
            # Two digits behind the point of at least 1, or four digits.
            assert abs(exact - rounded) <= 0.005 * exact, (place, sizes, plan[place][1])


if __name__ == "__main__":
    main()
