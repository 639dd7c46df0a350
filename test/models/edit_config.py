"""Prints a config with some fields changed.

usage: edit_config.py CONFIG [PATH=JSON | -PATH]...

PATH=JSON sets the field at a dotted path, -PATH removes it. For tests of the
importer's errors.
"""

import json
import sys


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        config = json.load(file)
    for edit in sys.argv[2:]:
        path, _, value = edit.lstrip("-").partition("=")
        *parents, field = path.split(".")
        target = config
        for parent in parents:
            target = target[parent]
        if edit.startswith("-"):
            del target[field]
        else:
            target[field] = json.loads(value)
    json.dump(config, sys.stdout)


main()
