"""Prints documents with their loss mask visible (`--show`)."""

import numpy as np

from .documents import Document
from .tokenizer import ChatTokenizer

# On a terminal supervised text is green; in a file it stands in brackets that
# are unlikely in text.
_TERMINAL = ("\x1b[32m", "\x1b[0m")
_PLAIN = ("\u27e6", "\u27e7")


def show_document(
    document: Document, tokenizer: ChatTokenizer, terminal: bool
) -> str:
    """The document as its tokens decode, supervised runs marked."""
    begin, end = _TERMINAL if terminal else _PLAIN
    changes = np.flatnonzero(np.diff(document.mask)) + 1
    bounds = [0, *changes.tolist(), len(document.mask)]
    pieces = []
    for first, last in zip(bounds, bounds[1:]):
        text = tokenizer.encoder.decode(
            document.tokens[first:last].tolist(), skip_special_tokens=False
        )
        supervised = document.mask[first]
        pieces.append(f"{begin}{text}{end}" if supervised else text)
    return (
        f"--- {document.address}: {len(document.tokens)} tokens, "
        f"{int(document.mask.sum())} supervised\n{''.join(pieces)}"
    )
