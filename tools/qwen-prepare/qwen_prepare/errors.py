"""The one error type that qwen-prepare reports to the user."""


class PrepareError(Exception):
    """Bad input or options: its text is the one line that the user sees.

    Code that knows the row raises with the row's address in front; code that
    only knows a value raises without, and `at` adds the address on the way up.
    """

    def at(self, address: str) -> "PrepareError":
        return PrepareError(f"{address}: {self}")


def one_line(text: object, limit: int = 200) -> str:
    """`text` on one line, shortened, for use inside an error message."""
    flat = " ".join(str(text).split())
    return flat if len(flat) <= limit else flat[: limit - 3] + "..."
