"""Reads rows, each with its address, from files and saved data sets."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator, Optional

from .errors import PrepareError, one_line

# Columns that carry data; a saved data set may have others (audio, images),
# which are not even read from disk.
DATA_COLUMNS = (
    "messages",
    "conversations",
    "instruction",
    "input",
    "output",
    "history",
    "system",
    "tools",
    "chat_template_kwargs",
)


@dataclass
class Row:
    """One row of input. `done` counts towards the `total` of its source."""

    address: str
    data: dict
    done: int


@dataclass
class TextOptions:
    """How plain .txt files fall into documents, which get the name `field`."""

    documents: str = "paragraph"
    separator: Optional[str] = None
    field: str = "text"


class JsonLines:
    """JSON objects, one a line; addresses are file:line, from 1."""

    unit = "B"

    def __init__(self, path: Path):
        self.path = path
        self.total = _size(path)

    def rows(self) -> Iterator[Row]:
        done = 0
        with _open(self.path) as file:
            for number, line in enumerate(file, start=1):
                done += len(line)
                address = f"{self.path}:{number}"
                text = _decode(line, address)
                if number == 1:
                    text = text.removeprefix("\ufeff")
                if text.strip():
                    yield Row(address, _parse_object(text, address), done)


class JsonArray:
    """One JSON array of objects; addresses are file[index], from 0."""

    unit = "row"

    def __init__(self, path: Path):
        self.path = path
        self.total = None

    def rows(self) -> Iterator[Row]:
        with _open(self.path) as file:
            text = _decode(file.read(), str(self.path))
        rows = _parse(text.removeprefix("\ufeff"), str(self.path))
        self.total = len(rows)
        for index, data in enumerate(rows):
            address = f"{self.path}[{index}]"
            yield Row(address, _expect_object(data, address), index + 1)


class PlainText:
    """A .txt file; a document's address is the line that it begins on."""

    unit = "character"

    def __init__(self, path: Path, options: TextOptions):
        self.path = path
        self.options = options
        self.total = None

    def rows(self) -> Iterator[Row]:
        with _open(self.path) as file:
            text = _decode(file.read(), str(self.path))
        text = text.removeprefix("\ufeff").replace("\r\n", "\n")
        self.total = len(text)
        line = 1
        last = 0
        for begin, end in self._spans(text):
            line += text.count("\n", last, begin)
            last = begin
            address = f"{self.path}:{line}"
            yield Row(address, {self.options.field: text[begin:end]}, end)

    def _spans(self, text: str) -> Iterator[tuple]:
        """Where the documents are; separators belong to none of them."""
        if self.options.separator is not None:
            pattern = re.escape(self.options.separator)
        elif self.options.documents == "file":
            yield 0, len(text)
            return
        elif self.options.documents == "line":
            pattern = r"\n"
        else:
            pattern = r"\n(?:[^\S\n]*\n)+"
        begin = 0
        for match in re.finditer(pattern, text):
            # Runs of separators are not empty documents.
            if match.start() > begin:
                yield begin, match.start()
            begin = match.end()
        if begin < len(text):
            yield begin, len(text)


class SavedDataset:
    """What `datasets.Dataset.save_to_disk` wrote; folder[index], from 0.

    The folder is read as what it is, Arrow stream files named by state.json,
    so that the datasets package is not needed.
    """

    unit = "row"

    def __init__(self, folder: Path, text_field: str):
        self.folder = folder
        self.columns = (*DATA_COLUMNS, text_field)
        self.total = None

    def rows(self) -> Iterator[Row]:
        index = 0
        for path in self._files():
            for batch in self._batches(path):
                for data in batch.to_pylist():
                    address = f"{self.folder}[{index}]"
                    index += 1
                    # A column of structs gives every struct every key.
                    yield Row(address, _without_nulls(data), index)

    def _files(self) -> list:
        state_path = self.folder / "state.json"
        with _open(state_path) as file:
            state = _parse_object(
                _decode(file.read(), str(state_path)), str(state_path)
            )
        entries = state.get("_data_files")
        if not isinstance(entries, list) or not all(
            isinstance(entry, dict) and isinstance(entry.get("filename"), str)
            for entry in entries
        ):
            raise PrepareError(
                f"{state_path}: expected _data_files to list file names"
            )
        return [self.folder / entry["filename"] for entry in entries]

    def _batches(self, path: Path):
        # Imported here: only this form needs the large pyarrow package.
        import pyarrow

        try:
            with pyarrow.memory_map(str(path)) as mapped:
                reader = pyarrow.ipc.open_stream(mapped)
                names = set(reader.schema.names) & set(self.columns)
                if not names:
                    found = ", ".join(reader.schema.names)
                    raise PrepareError(
                        f"{path}: expected a column named one of "
                        f"{', '.join(self.columns)}; found {found}"
                    )
                for batch in reader:
                    batch = batch.select(sorted(names))
                    batch.validate(full=True)
                    yield batch
        except (pyarrow.ArrowException, OSError) as error:
            raise PrepareError(
                f"{path}: not a readable Arrow stream: {one_line(error)}"
            ) from None


def open_source(path: Path, text_field: str, split, text: TextOptions):
    """The source for one input path; its kind follows from the name."""
    if path.is_dir():
        return _open_folder(path, text_field, split)
    if not path.exists():
        raise PrepareError(f"{path}: no such file or folder")
    suffix = path.suffix.lower()
    if suffix == ".txt":
        return PlainText(path, text)
    if suffix == ".jsonl" or suffix == ".ndjson":
        return JsonLines(path)
    if suffix == ".json":
        return JsonArray(path) if _begins_array(path) else JsonLines(path)
    raise PrepareError(
        f"{path}: expected .jsonl, .json, .txt, or the folder of a saved data "
        f"set; found '{suffix or path.name}'"
    )


def _open_folder(folder: Path, text_field: str, split):
    splits_path = folder / "dataset_dict.json"
    if splits_path.is_file():
        with _open(splits_path) as file:
            value = _parse_object(
                _decode(file.read(), str(splits_path)), str(splits_path)
            )
        splits = value.get("splits")
        if not isinstance(splits, list) or split not in splits:
            raise PrepareError(
                f"{folder}: expected --split to name one of {splits}; "
                f"found {split}"
            )
        folder = folder / split
    elif split is not None:
        raise PrepareError(f"{folder}: --split, but the folder has no splits")
    if not (folder / "state.json").is_file():
        raise PrepareError(
            f"{folder}: expected a data set written by save_to_disk; "
            "state.json is missing"
        )
    return SavedDataset(folder, text_field)


def _begins_array(path: Path) -> bool:
    with _open(path) as file:
        head = file.read(4096).removeprefix(b"\xef\xbb\xbf")
    return head.lstrip().startswith(b"[")


def _open(path: Path):
    try:
        return open(path, "rb")
    except OSError as error:
        raise PrepareError(
            f"{path}: cannot read: {error.strerror or error}"
        ) from None


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise PrepareError(
            f"{path}: cannot read: {error.strerror or error}"
        ) from None


def _decode(data: bytes, address: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        where = f"{address}:{line}" if data.count(b"\n") > 1 else address
        raise PrepareError(
            f"{where}: not UTF-8: byte 0x{data[error.start]:02x} "
            f"({error.reason})"
        ) from None


def _parse(text: str, address: str):
    try:
        return json.loads(text.rstrip())
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if error.lineno > 1 else ""
        raise PrepareError(
            f"{address}: not valid JSON: {error.msg} "
            f"({line}column {error.colno})"
        ) from None
    except (RecursionError, ValueError) as error:
        raise PrepareError(
            f"{address}: not valid JSON: {one_line(error)}"
        ) from None


def _parse_object(text: str, address: str) -> dict:
    return _expect_object(_parse(text, address), address)


def _expect_object(value, address: str) -> dict:
    if not isinstance(value, dict):
        raise PrepareError(
            f"{address}: expected a JSON object, found {one_line(value, 60)}"
        )
    return value


def _without_nulls(value):
    if isinstance(value, dict):
        return {
            k: _without_nulls(v) for k, v in value.items() if v is not None
        }
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
