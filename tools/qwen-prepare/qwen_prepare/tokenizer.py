"""A Hugging Face tokenizer folder: tokenizer, chat template, file hash."""

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path

import tokenizers

from .errors import PrepareError, one_line
from .template import ChatTemplate

TURN_BEGIN = "<|im_start|>"
TURN_END = "<|im_end|>"
DOCUMENT_END = "<|endoftext|>"

# An encoding takes about a hundred times the memory of its text.
_LONG_TEXT = 1 << 20
_LINE_END = re.compile(r"\S\n(?=\S)")


@dataclass
class Encoded:
    """Token ids of a text and where in the text each comes from."""

    ids: list
    # (begin, end) in characters, one for each token.
    offsets: list


class ChatTokenizer:
    """What is needed of `--tokenizer DIR`; no id is ever added by itself."""

    def __init__(self, folder: Path):
        self.folder = folder
        path = folder / "tokenizer.json"
        data = _read(path)
        self.sha256 = hashlib.sha256(data).hexdigest()
        self.encoder = _load(data, path)
        # The same tokenizer, but a control token is ordinary text to it.
        self.literal_encoder = _load(data, path)
        self.literal_encoder.encode_special_tokens = True
        self._config = _read_object(folder / "tokenizer_config.json")
        self.vocab = self.encoder.get_vocab(with_added_tokens=True)
        self.control_tokens = self._find_control_tokens()

    @property
    def vocab_size(self) -> int:
        """One more than the largest id: what an embedding table must hold."""
        return max(self.vocab.values()) + 1

    def _find_control_tokens(self) -> tuple:
        added = self.encoder.get_added_tokens_decoder().values()
        special = {token.content for token in added if token.special}
        # The turn marks decide what is supervised, so they count as control
        # tokens in a tokenizer that forgot to call them special.
        special |= {t for t in (TURN_BEGIN, TURN_END) if t in self.vocab}
        return tuple(sorted(special))

    def default_document_end(self) -> str:
        """The token that ends a plain-text document."""
        named = self._special_variables().get("eos_token")
        token = DOCUMENT_END if DOCUMENT_END in self.vocab else named
        if token is None:
            raise PrepareError(
                f"{self.folder}: the tokenizer has no {DOCUMENT_END} and its "
                "tokenizer_config.json no eos_token; name the token: "
                "--eos-token TOKEN"
            )
        return token

    def token_id(self, token: str) -> int:
        if token not in self.vocab:
            raise PrepareError(
                f"{self.folder}: '{token}' is not a token of this tokenizer"
            )
        return self.vocab[token]

    def chat_template(self, override, variables: dict) -> ChatTemplate:
        """The chat template of the folder, or of the file `override`."""
        source = self._template_source(override)
        known = {**self._special_variables(), **variables}
        return ChatTemplate(source, self.control_tokens, known)

    def _template_source(self, override) -> str:
        beside = self.folder / "chat_template.jinja"
        if override is not None or beside.is_file():
            path = override or beside
            try:
                return _read(path).decode("utf-8")
            except UnicodeDecodeError as error:
                raise PrepareError(f"{path}: not UTF-8: {error}") from None
        source = self._config.get("chat_template")
        if isinstance(source, list):
            named = {
                entry.get("name"): entry.get("template")
                for entry in source
                if isinstance(entry, dict)
            }
            source = named.get("default")
        if not isinstance(source, str):
            raise PrepareError(
                f"{self.folder}: no chat template: expected "
                "chat_template.jinja, or chat_template in "
                "tokenizer_config.json; --chat-template FILE gives another"
            )
        return source

    def _special_variables(self) -> dict:
        """eos_token and its like, which templates may refer to by name."""
        variables = {}
        for name, value in self._config.items():
            if isinstance(value, dict):
                value = value.get("content")
            if name.endswith("_token") and isinstance(value, str):
                variables[name] = value
        return variables

    def encode_with_literals(self, text: str, literals: list) -> Encoded:
        """Encodes `text` with its `literals` spans as ordinary text."""
        ids: list = []
        offsets: list = []
        begin = 0
        for literal_begin, literal_end in [*literals, (len(text), len(text))]:
            for encoder, first, last in (
                (self.encoder, begin, literal_begin),
                (self.literal_encoder, literal_begin, literal_end),
            ):
                piece = encoder.encode(
                    text[first:last], add_special_tokens=False
                )
                ids += piece.ids
                offsets += [(first + b, first + e) for b, e in piece.offsets]
            self._check_literal(text[literal_begin:literal_end], piece.ids)
            begin = literal_end
        return Encoded(ids, offsets)

    def _check_literal(self, token: str, ids: list):
        if token and self.vocab.get(token) in ids:
            raise PrepareError(
                f"the text holds {token}, which this tokenizer cannot encode "
                "as ordinary text (the token is not marked special)"
            )


def cut_text(text: str) -> list:
    """Pieces of a long text that can be encoded on their own.

    The cuts are behind single line feeds between other characters. There the
    rules for words that byte-level tokenizers use always end a word, so the
    pieces have the tokens that the whole text has.
    """
    pieces: list = []
    begin = 0
    while len(text) - begin > _LONG_TEXT:
        match = _LINE_END.search(text, begin + _LONG_TEXT)
        if match is None:
            break
        pieces.append(text[begin : match.end()])
        begin = match.end()
    return [*pieces, text[begin:]]


def _load(data: bytes, path: Path) -> tokenizers.Tokenizer:
    try:
        tokenizer = tokenizers.Tokenizer.from_str(data.decode("utf-8"))
    # The binding raises a bare Exception for whatever is wrong in the file.
    except Exception as error:
        raise PrepareError(
            f"{path}: not a Hugging Face tokenizer: {one_line(error)}"
        ) from None
    # Whatever the file asks for: cutting is our own, counted policy.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    # Without special tokens the only effect left of a post-processor is to
    # trim white space from offsets, which would make masks inexact.
    tokenizer.post_processor = tokenizers.processors.ByteLevel(
        trim_offsets=False
    )
    return tokenizer


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise PrepareError(
            f"{path}: cannot read: {error.strerror or error}"
        ) from None


def _read_object(path: Path) -> dict:
    if not path.exists():
        return {}
    try:
        value = json.loads(_read(path))
    except (ValueError, RecursionError) as error:
        raise PrepareError(f"{path}: not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise PrepareError(f"{path}: expected a JSON object")
    return value
