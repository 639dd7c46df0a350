#!/usr/bin/env python3
"""Writes the King James Bible as training and held-out text, one document a
chapter.

The text is out of copyright (the translation is from 1611). Debian's package
bible-kjv-text has it, and `bible -f` of bible-kjv prints it, one verse a line
after its reference. Every 20th chapter is held out.

    bible_chapters.py DIR    writes DIR/{train,eval}.jsonl and DIR/train.txt
"""

import json
import re
import subprocess
import sys
from pathlib import Path

CHAPTERS = 1189
HELD_OUT_EVERY = 20
# Ge1:1 In the beginning …
VERSE = re.compile(r"([0-9]?[A-Za-z]+[0-9]+):[0-9]+ (.*)")


def read_chapters() -> list:
    """The text of each chapter, a verse a line, in the order of the book."""
    command = ["bible", "-f", "gen1:1-rev22:21"]
    output = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    chapters = {}
    for line in output.splitlines():
        verse = VERSE.fullmatch(line)
        if verse:
            chapters.setdefault(verse[1], []).append(verse[2].strip())
        elif line.strip():
            sys.exit(f"bible_chapters: error: expected a verse, found: {line}")
    if len(chapters) != CHAPTERS:
        sys.exit(
            f"bible_chapters: error: expected {CHAPTERS} chapters from "
            f"{' '.join(command)}, found {len(chapters)}"
        )
    return ["\n".join(verses) + "\n" for verses in chapters.values()]


def write_rows(path: Path, chapters: list):
    rows = (json.dumps({"text": chapter}) + "\n" for chapter in chapters)
    path.write_text("".join(rows), encoding="utf-8")


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: bible_chapters.py DIR")
    folder = Path(sys.argv[1])
    chapters = read_chapters()
    held_out = chapters[HELD_OUT_EVERY - 1 :: HELD_OUT_EVERY]
    del chapters[HELD_OUT_EVERY - 1 :: HELD_OUT_EVERY]
    write_rows(folder / "train.jsonl", chapters)
    write_rows(folder / "eval.jsonl", held_out)
    (folder / "train.txt").write_text("".join(chapters), encoding="utf-8")
    print(f"{len(chapters)} chapters to train on, {len(held_out)} held out")


if __name__ == "__main__":
    main()
