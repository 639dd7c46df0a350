"""What the tests of qwen-prepare share: a tiny tokenizer, files, a runner."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
TOOL = HERE.parents[1] / "tools" / "qwen-prepare"
TEMPLATE = HERE / "chat_template.jinja"
sys.path[:0] = [str(TOOL), str(TOOL.parent)]

import numpy as np  # noqa: E402
import safetensors  # noqa: E402
import train_tokenizer  # noqa: E402
from qwen_prepare.cli import main  # noqa: E402

CORPUS = (
    "The assistant answers the user. The user asks the assistant.\n\n"
    "What is the weather like in Paris today? It is sunny and warm.\n"
) * 4


class TokenFileContent:
    """A token file, its tensors checked against the format on reading."""

    def __init__(self, path: pathlib.Path):
        with safetensors.safe_open(path, "numpy") as file:
            self.metadata = file.metadata()
            self.tokens = file.get_tensor("tokens")
            self.offsets = file.get_tensor("document_offsets")
            self.mask = file.get_tensor("loss_mask")
            names = set(file.keys())
        assert names == {"tokens", "document_offsets", "loss_mask"}, names
        assert self.tokens.dtype == np.int32
        assert self.offsets.dtype == np.int64
        assert self.mask.dtype == np.uint8
        assert self.offsets[0] == 0 and self.offsets[-1] == len(self.tokens)
        assert (np.diff(self.offsets) > 0).all()
        assert len(self.mask) == len(self.tokens)
        assert set(self.mask.tolist()) <= {0, 1}
        assert not self.mask[self.offsets[:-1]].any()

    def documents(self) -> list:
        """(tokens, mask) of each document."""
        bounds = zip(self.offsets, self.offsets[1:])
        return [(self.tokens[b:e], self.mask[b:e]) for b, e in bounds]


class PrepareTest(unittest.TestCase):
    """A temporary folder with a tokenizer, and ways to run the tool in it."""

    @classmethod
    def setUpClass(cls):
        cls.tokenizer = train_tokenizer.train([CORPUS], 400)

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.tokenizer_folder = self.folder / "tokenizer"
        train_tokenizer.save(self.tokenizer, self.tokenizer_folder, TEMPLATE)
        self.output = self.folder / "out.safetensors"

    def write(self, name: str, content) -> pathlib.Path:
        """Writes text as it is, and a list of rows as JSON lines."""
        path = self.folder / name
        if isinstance(content, list):
            content = "".join(json.dumps(row) + "\n" for row in content)
        if isinstance(content, str):
            content = content.encode("utf-8")
        path.write_bytes(content)
        return path

    def run_tool(self, *arguments) -> tuple:
        """Runs in this process; returns (status, stdout, stderr)."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = main(
                ["--tokenizer", str(self.tokenizer_folder)]
                + [str(argument) for argument in arguments]
            )
        return status, out.getvalue(), err.getvalue()

    def prepare(self, path, *arguments) -> TokenFileContent:
        """Runs, expects success, and reads what was written."""
        status, self.summary, err = self.run_tool(
            path, "-o", self.output, *arguments
        )
        self.assertEqual((status, err), (0, ""))
        return TokenFileContent(self.output)

    def prepare_rows(self, rows: list, *arguments) -> TokenFileContent:
        return self.prepare(self.write("rows.jsonl", rows), *arguments)

    def expect_error(self, expected: str, *arguments):
        """One line on stderr that holds `expected`, exit 1, no file."""
        before = sorted(self.folder.rglob("*"))
        status, _, err = self.run_tool(*arguments, "-o", self.output)
        self.assertEqual(status, 1, err)
        self.assertEqual(err.count("\n"), 1, err)
        self.assertTrue(err.startswith("qwen-prepare: error: "), err)
        self.assertIn(expected, err)
        self.assertEqual(sorted(self.folder.rglob("*")), before)

    def expect_row_error(self, row, expected: str, *arguments):
        """The bad row is the third line; its address must be reported."""
        good = {"messages": [user("hi"), assistant("ho")]}
        path = self.write("rows.jsonl", [good, good, row, good])
        self.expect_error(f"{path}:3: {expected}", path, *arguments)

    def decode(self, tokens) -> str:
        return self.tokenizer.decode(list(tokens), skip_special_tokens=False)

    def marked(self, document) -> str:
        """The document's text with supervised runs in [brackets]."""
        tokens, mask = document
        text = ""
        inside = False
        begin = 0
        for index in range(len(tokens) + 1):
            flag = index < len(tokens) and bool(mask[index])
            if flag == inside and index < len(tokens):
                continue
            text += self.decode(tokens[begin:index])
            if flag != inside:
                text += "[" if flag else "]"
            begin, inside = index, flag
        return text


def user(content, **more) -> dict:
    return {"role": "user", "content": content, **more}


def assistant(content, **more) -> dict:
    return {"role": "assistant", "content": content, **more}
