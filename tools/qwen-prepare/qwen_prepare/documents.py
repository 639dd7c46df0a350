"""From rows to documents: render, encode in batches, mask, apply policies."""

import hashlib
from dataclasses import dataclass
from typing import Iterable, Iterator, Optional

import numpy as np

from .errors import PrepareError
from .forms import Chat, Text, read_row
from .masks import (
    ASSISTANT_TURN,
    assistant_spans,
    mask_of_encoding,
    mask_of_offsets,
    trained_spans,
)
from .sources import Row
from .template import Rendered
from .tokenizer import TURN_BEGIN, TURN_END, ChatTokenizer, cut_text

# Batches are cut by characters as well as rows, so that a batch of long
# documents does not take gigabytes of encodings.
_BATCH_ROWS = 1024
_BATCH_CHARACTERS = 4 << 20


@dataclass
class Options:
    """What the command line chose; names are those of the flags."""

    form: Optional[str] = None
    text_field: str = "text"
    mask: Optional[str] = None
    max_tokens: Optional[int] = None
    overlong: str = "drop"
    control_tokens: str = "text"
    append_eos: Optional[str] = None


@dataclass
class Counts:
    """What happened to the rows; each is printed at the end."""

    rows: int = 0
    empty: int = 0
    unsupervised: int = 0
    unsupervised_tokens: int = 0
    overlong: int = 0
    overlong_tokens: int = 0
    truncated: int = 0
    truncated_tokens: int = 0
    split: int = 0
    with_literals: int = 0
    first_with_literals: str = ""
    weights_ignored: int = 0


@dataclass
class Document:
    """Tokens of one training document, and which of them are supervised."""

    address: str
    tokens: np.ndarray
    mask: np.ndarray

    def digest(self, seed: int) -> bytes:
        """Depends on the content alone, not on the place in the input."""
        return hashlib.sha256(b"%d:" % seed + self.tokens.tobytes()).digest()


@dataclass
class _Pending:
    """A row that waits for the rest of its batch."""

    row: Row
    text: str
    spans: Optional[list]
    literals: list
    is_chat: bool


class Preparer:
    """Makes documents of rows; `counts` grows while it does."""

    def __init__(self, tokenizer: ChatTokenizer, options: Options, template):
        """`template()` returns the chat template; called if one is needed."""
        self.counts = Counts()
        self.tokenizer = tokenizer
        self.options = options
        self._load_template = template
        self._template = None
        self._end_id = None
        if options.append_eos is not None:
            self._end_id = tokenizer.token_id(options.append_eos)

    def documents(self, rows: Iterable[Row]) -> Iterator[Document]:
        """The documents of the rows, in the order of the rows."""
        batch: list = []
        characters = 0
        for row in rows:
            self.counts.rows += 1
            try:
                pending = self._prepare(row)
            except PrepareError as error:
                raise error.at(row.address) from None
            if pending is None:
                continue
            batch.append(pending)
            characters += len(pending.text)
            if len(batch) == _BATCH_ROWS or characters > _BATCH_CHARACTERS:
                yield from self._finish_batch(batch)
                batch, characters = [], 0
        yield from self._finish_batch(batch)

    def metadata(self) -> dict:
        """What a reader of the tokens may have to know about them."""
        limit = self.options.max_tokens
        return {
            "tokenizer_sha256": self.tokenizer.sha256,
            "vocab_size": self.tokenizer.vocab_size,
            "mask": self.options.mask or "assistant for chats, all for text",
            "max_tokens": "none" if limit is None else limit,
            "overlong": self.options.overlong,
        }

    def _prepare(self, row: Row) -> Optional[_Pending]:
        sample = read_row(
            row.data, self.options.form, self.options.text_field
        )
        if sample.is_empty():
            self.counts.empty += 1
            return None
        if isinstance(sample, Text):
            pending = self._prepare_text(row, sample)
        else:
            pending = self._prepare_chat(row, sample)
        _check_encodable(pending.text)
        if pending.literals:
            self._count_literals(row, pending)
        return pending

    def _prepare_text(self, row: Row, sample: Text) -> _Pending:
        if self.options.mask == "assistant":
            raise PrepareError(
                "--mask assistant: plain text has no assistant turns"
            )
        # For plain text it is enough to know whether there are any: the
        # other encoder takes the whole document.
        text = sample.text
        literals = [
            (text.index(token), text.index(token) + len(token))
            for token in self.tokenizer.control_tokens
            if token in text
        ]
        return _Pending(row, text, None, literals, False)

    def _prepare_chat(self, row: Row, chat: Chat) -> _Pending:
        if self.options.append_eos is not None:
            raise PrepareError(
                "--append-eos: a chat ends as its template ends it"
            )
        if self._template is None:
            self._template = self._open_template()
        rendered = self._template.render(
            chat.messages, chat.tools, chat.variables
        )
        if self.options.mask == "all":
            spans = None
            self.counts.weights_ignored += any(
                message["role"] == "assistant" and not trained
                for message, trained in zip(chat.messages, chat.trained)
            )
        else:
            spans = self._chat_spans(rendered, chat)
        return _Pending(row, rendered.text, spans, rendered.literals, True)

    def _open_template(self):
        template = self._load_template()
        if self.options.mask != "all" and not template.has_generation_tag:
            for token in (TURN_BEGIN, TURN_END):
                if token not in self.tokenizer.vocab:
                    raise PrepareError(
                        "to find the assistant's turns, expected a template "
                        f"with {{% generation %}}, or turns in {TURN_BEGIN} "
                        f"and {TURN_END}; the tokenizer has no token {token}"
                    )
        return template

    def _chat_spans(self, rendered: Rendered, chat: Chat) -> list:
        by_tag = self._template.has_generation_tag
        spans = assistant_spans(rendered, by_tag)
        has_answer = any(m["role"] == "assistant" for m in chat.messages)
        if not spans and has_answer:
            sought = "{% generation %}" if by_tag else repr(ASSISTANT_TURN)
            raise PrepareError(
                f"the rendered chat has no {sought}, so its assistant "
                "messages cannot be found; --mask all supervises everything"
            )
        if by_tag and all(
            trained
            for message, trained in zip(chat.messages, chat.trained)
            if message["role"] == "assistant"
        ):
            # One message may fill several tags; nothing has to be matched.
            return spans
        return trained_spans(spans, chat.messages, chat.trained)

    def _count_literals(self, row: Row, pending: _Pending):
        if self.options.control_tokens == "error":
            begin, end = pending.literals[0]
            raise PrepareError(
                "the row's own text holds the control token "
                f"{pending.text[begin:end]}"
            )
        self.counts.with_literals += 1
        if not self.counts.first_with_literals:
            self.counts.first_with_literals = row.address

    def _finish_batch(self, batch: list) -> Iterator[Document]:
        as_text = self.options.control_tokens == "text"
        for pending, (ids, mask) in zip(batch, self._encode(batch, as_text)):
            tokens = np.array(ids, np.int32)
            if self._end_id is not None:
                tokens = np.append(tokens, np.int32(self._end_id))
                mask = np.append(mask, np.uint8(1))
            try:
                yield from self._apply_policies(pending, tokens, mask)
            except PrepareError as error:
                raise error.at(pending.row.address) from None

    def _encode(self, batch: list, as_text: bool) -> Iterator[tuple]:
        """Yields (ids, mask) for each of the batch; encodes it at once."""
        kinds = [_encoding_kind(pending, as_text) for pending in batch]
        groups: dict = {"chat": [], "text": [], "literal text": []}
        pieces: list = []
        for kind, pending in zip(kinds, batch):
            # A chat is encoded whole: its offsets are needed.
            whole = kind in ("chat", "pieces")
            pieces.append([pending.text] if whole else cut_text(pending.text))
            if kind in groups:
                groups[kind] += pieces[-1]
        tokenizer = self.tokenizer
        # The fast variant does not follow offsets, which text does not need.
        encode = {
            "chat": tokenizer.encoder.encode_batch,
            "text": tokenizer.encoder.encode_batch_fast,
            "literal text": tokenizer.literal_encoder.encode_batch_fast,
        }
        streams = {
            kind: iter(encode[kind](texts, add_special_tokens=False))
            for kind, texts in groups.items()
        }
        for kind, pending, texts in zip(kinds, batch, pieces):
            if kind == "pieces":
                yield self._encode_pieces(pending)
                continue
            encodings = [next(streams[kind]) for _ in texts]
            ids = [i for encoding in encodings for i in encoding.ids]
            yield ids, _mask_of(pending, encodings)

    def _encode_pieces(self, pending: _Pending) -> tuple:
        try:
            encoded = self.tokenizer.encode_with_literals(
                pending.text, pending.literals
            )
        except PrepareError as error:
            raise error.at(pending.row.address) from None
        if pending.spans is None:
            return encoded.ids, np.ones(len(encoded.ids), np.uint8)
        return encoded.ids, mask_of_offsets(encoded.offsets, pending.spans)

    def _apply_policies(
        self, pending: _Pending, tokens: np.ndarray, mask: np.ndarray
    ) -> Iterator[Document]:
        limit = self.options.max_tokens
        pieces = [(tokens, mask)]
        if limit is not None and len(tokens) > limit:
            pieces = self._cut(pending, tokens, mask, limit)
        for tokens, mask in pieces:
            # No position stands before a document's first token, so none
            # can be asked to predict it.
            mask[:1] = 0
            if not mask.any():
                self.counts.unsupervised += 1
                self.counts.unsupervised_tokens += len(tokens)
                continue
            yield Document(pending.row.address, tokens, mask)

    def _cut(self, pending, tokens, mask, limit: int) -> list:
        counts = self.counts
        if self.options.overlong == "drop":
            counts.overlong += 1
            counts.overlong_tokens += len(tokens)
            return []
        if self.options.overlong == "truncate":
            counts.truncated += 1
            counts.truncated_tokens += len(tokens) - limit
            return [(tokens[:limit], mask[:limit])]
        if pending.is_chat:
            raise PrepareError(
                f"the chat has {len(tokens)} tokens, more than {limit}, and "
                "--overlong split would leave a tail without its question; "
                "use drop or truncate"
            )
        counts.split += 1
        return [
            (tokens[begin : begin + limit], mask[begin : begin + limit])
            for begin in range(0, len(tokens), limit)
        ]


def _encoding_kind(pending: _Pending, as_text: bool) -> str:
    if not pending.is_chat:
        return "literal text" if pending.literals and as_text else "text"
    return "pieces" if pending.literals and as_text else "chat"


def _mask_of(pending: _Pending, encodings: list) -> np.ndarray:
    if pending.spans is None:
        return np.ones(sum(map(len, encodings)), np.uint8)
    return mask_of_encoding(encodings[0], pending.spans, len(pending.text))


def _check_encodable(text: str):
    """Refuses lone surrogates, which JSON can write and UTF-8 cannot."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise PrepareError(
            "the text holds the lone surrogate "
            f"U+{ord(text[error.start]):04X}, which is not a character"
        ) from None
