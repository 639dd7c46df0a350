"""Which tokens of a rendered chat are supervised.

The assistant's parts are found in the whole rendered text, never by rendering
turn by turn: a template may treat a message differently when another follows
(older reasoning is dropped, tool results are joined). Tokens are then chosen
by the characters that they came from.
"""

import re

import numpy as np

from .errors import PrepareError
from .template import Rendered
from .tokenizer import TURN_BEGIN, TURN_END

ASSISTANT_TURN = f"{TURN_BEGIN}assistant\n"

_TURN_MARKS = re.compile(
    f"{re.escape(ASSISTANT_TURN)}|{re.escape(TURN_END)}\n?"
)


def assistant_spans(rendered: Rendered, by_generation_tag: bool) -> list:
    """(begin, end) of what each assistant message rendered to, in order.

    A template with {% generation %} says it by itself. Otherwise the turns
    have Qwen's form: a span begins after the line <|im_start|>assistant and
    ends with <|im_end|> and its line feed, which the model must learn to
    write too. Marks that a message itself holds are not turns.
    """
    if by_generation_tag:
        return rendered.generations
    literals = {begin for begin, _ in rendered.literals}
    spans: list = []
    begin = None
    for match in _TURN_MARKS.finditer(rendered.text):
        if match.start() in literals:
            continue
        if match.group().startswith(TURN_BEGIN):
            if begin is not None:
                raise PrepareError(
                    f"the rendered chat opens an assistant turn at character "
                    f"{match.start()} before {TURN_END} closed the last one"
                )
            begin = match.end()
        elif begin is not None:
            spans.append((begin, match.end()))
            begin = None
    if begin is not None:
        raise PrepareError(
            f"the assistant turn at character {begin} of the rendered chat "
            f"has no {TURN_END}"
        )
    return spans


def trained_spans(spans: list, messages: list, trained: list) -> list:
    """The spans of those assistant messages that are to be supervised."""
    flags = [
        flag
        for message, flag in zip(messages, trained)
        if message["role"] == "assistant"
    ]
    if len(spans) != len(flags):
        raise PrepareError(
            f"the chat template rendered {len(spans)} assistant turns for "
            f"{len(flags)} assistant messages, so the loss mask is unknown"
        )
    return [span for span, flag in zip(spans, flags) if flag]


def mask_of_encoding(encoding, spans: list, length: int) -> np.ndarray:
    """The mask of a `tokenizers.Encoding` of a text of `length` characters.

    Asks for the tokens at the ends of each span only: fetching the offsets of
    every token would take longer than the encoding itself.
    """
    mask = np.zeros(len(encoding), np.uint8)
    for begin, end in spans:
        if begin == end:
            continue
        first = encoding.char_to_token(begin)
        last = len(mask) if end == length else encoding.char_to_token(end)
        if first is None or last is None:
            # The tokenizer normalised the character at an end away.
            return mask_of_offsets(encoding.offsets, spans)
        while first < last and encoding.token_to_chars(first)[0] < begin:
            first += 1
        mask[first:last] = 1
    return mask


def mask_of_offsets(offsets: list, spans: list) -> np.ndarray:
    """Supervises the tokens that lie within a span with all characters.

    A token that reaches over the border is left out: in use the model is
    asked to go on after the border, and never has to write such a token.
    """
    begins, ends = np.array(offsets, np.int64).reshape(-1, 2).T
    mask = np.zeros(len(begins), np.uint8)
    for begin, end in spans:
        mask |= (begins >= begin) & (begins < end) & (ends <= end)
    return mask
