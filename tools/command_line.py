"""What the Python tools share of their command lines, as CommandLine.h does for
the compiler's tools: values have a range, and a wrong one is one line that says
what is allowed.
"""

import argparse
import difflib
import math
import os
import signal
import sys

# A larger count is a slip.
LARGEST_COUNT = 10**9


class Parser(argparse.ArgumentParser):
    """Reports a wrong option in one line, without the usage."""

    def error(self, message):
        self.exit(
            2,
            f"{self.prog}: error: {self.explain(message)}; --help lists the "
            "options\n",
        )

    def explain(self, message: str) -> str:
        """The message of argparse, and what may have been meant."""
        if not message.startswith("unrecognized arguments:"):
            return message
        name = message.split()[2].partition("=")[0]
        known = [
            option
            for action in self._actions
            for option in action.option_strings
        ]
        nearest = difflib.get_close_matches(name, known, 1)
        return message + "".join(f"; did you mean {near}?" for near in nearest)


def value(read, fits, expected: str):
    """A reader of an option's value that says which values it takes."""

    def parse(text: str):
        try:
            found = read(text)
        except ValueError:
            found = None
        if found is None or not fits(found):
            raise argparse.ArgumentTypeError(
                f"expected {expected}, found '{text}'"
            )
        return found

    return parse


def whole(least: int = 1, most: int = LARGEST_COUNT):
    return value(
        int,
        lambda x: least <= x <= most,
        f"a whole number from {least} to {most}",
    )


def not_negative():
    return value(
        float,
        lambda x: 0 <= x < math.inf,
        "a number of at least 0",
    )


def whole_list(least: int = 1, most: int = LARGEST_COUNT):
    """Reads "4,12"."""
    return value(
        lambda text: [int(part) for part in text.split(",")],
        lambda found: all(least <= x <= most for x in found),
        f"whole numbers from {least} to {most} with commas between",
    )


def words(*allowed: str):
    """Reads "27B,9B"."""
    return value(
        lambda text: text.split(","),
        lambda found: set(found) <= set(allowed),
        f"some of {','.join(allowed)}",
    )


class Stopped(KeyboardInterrupt):
    """A signal that asks for the end; its argument is the number."""


def stop_by_signals():
    """SIGTERM and SIGHUP end the program as Ctrl-C does, by an exception, so
    that it can remove what is not finished. nohup ignores SIGHUP."""

    def stop(number, _):
        raise Stopped(number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, stop)


def status_of(stop: KeyboardInterrupt) -> int:
    """What a shell makes of a program that a signal ended."""
    number = stop.args[0] if isinstance(stop, Stopped) else signal.SIGINT
    return 128 + number


def open_standard_streams():
    """The next file that is opened must not become a closed stream."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            # It gets the lowest free number, which is this one.
            os.open(os.devnull, os.O_RDWR)
    # Python has none where a stream was closed.
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")
