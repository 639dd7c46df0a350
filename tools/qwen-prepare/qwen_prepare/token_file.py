"""Writes documents as a token file: safetensors, complete or not there.

The file holds `tokens` (I32), `document_offsets` (I64, first 0, last the
number of tokens, strictly increasing) and `loss_mask` (U8, 1 where the token
is a supervised target). It is written piece by piece, so that the tokens are
in memory once only, to a temporary file in the same folder that takes the
output's name when everything is on disk.
"""

import json
import os
import tempfile
from pathlib import Path

import numpy as np

from .documents import Document
from .errors import PrepareError

FORMAT = "qwen-tokens-1"


class TokenFile:
    """Collects documents and publishes them as one file.

    Construction already creates the temporary file, so that an output that
    cannot be written is found before hours of work and not after.
    """

    def __init__(self, path: Path):
        self.path = path
        self.documents: list = []
        # A rename would put an ordinary file in the place of a device.
        if path.exists() and not path.is_file():
            raise PrepareError(
                f"{path}: cannot write: exists and is not an ordinary file"
            )
        try:
            handle, self._temporary = tempfile.mkstemp(
                dir=path.parent, prefix=f".{path.name}.", suffix=".tmp"
            )
        except OSError as error:
            raise PrepareError(
                f"{path}: cannot write: {error.strerror or error}"
            ) from None
        # mkstemp makes a private file; the output is an ordinary one.
        mask = os.umask(0)
        os.umask(mask)
        os.fchmod(handle, 0o666 & ~mask)
        self._file = os.fdopen(handle, "wb")

    def add(self, document: Document):
        self.documents.append(document)

    @property
    def tokens(self) -> int:
        return sum(len(d.tokens) for d in self.documents)

    @property
    def supervised_tokens(self) -> int:
        return sum(int(d.mask.sum()) for d in self.documents)

    @property
    def max_document_tokens(self) -> int:
        return max((len(d.tokens) for d in self.documents), default=0)

    def write(self, metadata: dict):
        """Writes the temporary file; `publish` makes it the output."""
        if not self.documents:
            raise PrepareError(
                f"{self.path}: no document is left to write; see the counts "
                "of dropped documents"
            )
        lengths = [len(d.tokens) for d in self.documents]
        offsets = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        try:
            self._file.write(self._header(metadata, int(offsets[-1])))
            self._file.write(offsets.astype("<i8").tobytes())
            for document in self.documents:
                self._file.write(document.tokens.astype("<i4").tobytes())
            for document in self.documents:
                self._file.write(document.mask.tobytes())
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
        except OSError as error:
            raise PrepareError(
                f"{self.path}: cannot write: {error.strerror or error}"
            ) from None

    def _header(self, metadata: dict, tokens: int) -> bytes:
        """Widest elements first, so that every tensor is aligned."""
        documents = len(self.documents)
        all_metadata = {
            "format": FORMAT,
            "documents": documents,
            "tokens": tokens,
            "supervised_tokens": self.supervised_tokens,
            "max_document_tokens": self.max_document_tokens,
            **metadata,
        }
        header: dict = {
            "__metadata__": {k: str(v) for k, v in all_metadata.items()}
        }
        position = 0
        for name, dtype, size, count in (
            ("document_offsets", "I64", 8, documents + 1),
            ("tokens", "I32", 4, tokens),
            ("loss_mask", "U8", 1, tokens),
        ):
            header[name] = {
                "dtype": dtype,
                "shape": [count],
                "data_offsets": [position, position + size * count],
            }
            position += size * count
        text = json.dumps(header, separators=(",", ":")).encode("utf-8")
        text += b" " * (-len(text) % 8)
        return len(text).to_bytes(8, "little") + text

    def publish(self):
        try:
            os.replace(self._temporary, self.path)
        except OSError as error:
            raise PrepareError(
                f"{self.path}: cannot write: {error.strerror or error}"
            ) from None
        self._temporary = None

    def discard(self):
        """Removes what was not published; may be called at any time."""
        self._file.close()
        if self._temporary is not None:
            os.unlink(self._temporary)
            self._temporary = None
