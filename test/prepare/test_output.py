"""The token file: format, metadata, all or nothing; options; --show."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import unittest
from unittest import mock

import prepare_testing
from prepare_testing import PrepareTest, TokenFileContent, assistant, user

ROWS = [
    {"messages": [user("What is it?"), assistant("Sunny and warm.")]},
    {"text": "The user asks the assistant."},
]
LAUNCHER = prepare_testing.TOOL / "qwen-prepare"


class TokenFileTest(PrepareTest):
    def test_metadata_describes_the_tensors(self):
        file = self.prepare_rows(ROWS, "--max-tokens", 100)
        path = self.tokenizer_folder / "tokenizer.json"
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        longest = max(len(tokens) for tokens, _ in file.documents())
        expected = {
            "format": "qwen-tokens-1",
            "tokenizer_sha256": sha256,
            "vocab_size": str(self.tokenizer.get_vocab_size()),
            "documents": "2",
            "tokens": str(len(file.tokens)),
            "supervised_tokens": str(int(file.mask.sum())),
            "max_document_tokens": str(longest),
            "max_tokens": "100",
            "overlong": "drop",
        }
        self.assertEqual(
            {name: file.metadata.get(name) for name in expected}, expected)

    def test_tensors_are_aligned(self):
        """A reader may map the file and use the tensors where they lie."""
        self.prepare_rows(ROWS)
        data = self.output.read_bytes()
        length = int.from_bytes(data[:8], "little")
        self.assertEqual(length % 8, 0)
        header = json.loads(data[8 : 8 + length])
        for name, size in (("document_offsets", 8), ("tokens", 4)):
            begin = header[name]["data_offsets"][0]
            self.assertEqual((8 + length + begin) % size, 0)
        end = max(t["data_offsets"][1] for n, t in header.items()
                  if n != "__metadata__")
        self.assertEqual(8 + length + end, len(data))

    def test_same_input_gives_the_same_bytes(self):
        self.prepare_rows(ROWS)
        first = self.output.read_bytes()
        self.prepare_rows(ROWS)
        self.assertEqual(self.output.read_bytes(), first)

    def test_batches_do_not_show(self):
        """More rows than a batch holds, of both kinds."""
        rows = [
            {"text": f"number {n}"} if n % 3 else
            {"messages": [user(f"{n}"), assistant(f"<|im_end|>{n}" if n % 2
                                                  else f"{n}")]}
            for n in range(100)
        ]
        whole = self.prepare_rows(rows)
        with mock.patch("qwen_prepare.documents._BATCH_ROWS", 7):
            by_rows = self.prepare_rows(rows)
        with mock.patch("qwen_prepare.documents._BATCH_CHARACTERS", 50):
            by_characters = self.prepare_rows(rows)
        for other in (by_rows, by_characters):
            self.assertEqual(other.tokens.tolist(), whole.tokens.tolist())
            self.assertEqual(other.mask.tolist(), whole.mask.tolist())
            self.assertEqual(other.offsets.tolist(), whole.offsets.tolist())

    def test_long_texts_are_encoded_in_pieces_that_do_not_show(self):
        text = "".join(
            f"{word}{end}"
            for end in ("\n", "\n\n", " \n", "\n ", ".\n", "\r\n", "\n'")
            for word in ("the user", "12", "s ", "(it)", "<|im_end|>")
        ) * 3
        whole = self.prepare_rows([{"text": text}, {"text": text[:40]}])
        with mock.patch("qwen_prepare.tokenizer._LONG_TEXT", 3):
            found = self.prepare_rows([{"text": text}, {"text": text[:40]}])
        self.assertEqual(found.tokens.tolist(), whole.tokens.tolist())
        self.assertEqual(found.offsets.tolist(), whole.offsets.tolist())

    def test_post_processor_of_the_tokenizer_changes_nothing(self):
        """Some add tokens or trim the offsets that masks are made of."""
        expected = self.prepare_rows(ROWS)
        path = self.tokenizer_folder / "tokenizer.json"
        text = path.read_text()
        self.assertIn('"trim_offsets": false', text)
        path.write_text(text.replace('"trim_offsets": false',
                                     '"trim_offsets": true'))
        found = self.prepare_rows(ROWS)
        self.assertEqual(found.tokens.tolist(), expected.tokens.tolist())
        self.assertEqual(found.mask.tolist(), expected.mask.tolist())


class AtomicityTest(PrepareTest):
    def test_an_error_leaves_the_old_file(self):
        self.prepare_rows(ROWS)
        before = self.output.read_bytes()
        self.expect_row_error({"text": 3}, "text: expected text")
        self.assertEqual(self.output.read_bytes(), before)

    def test_a_full_disk_leaves_the_old_file(self):
        self.prepare_rows(ROWS)
        before = self.output.read_bytes()
        path = self.write("rows.jsonl", ROWS)
        failure = OSError(28, "No space left on device")
        with mock.patch("os.fsync", side_effect=failure):
            self.expect_error("cannot write: No space left", path)
        self.assertEqual(self.output.read_bytes(), before)

    def test_an_interrupt_leaves_nothing(self):
        path = self.write("rows.jsonl", ROWS)
        before = sorted(self.folder.iterdir())
        with mock.patch("qwen_prepare.documents.read_row",
                        side_effect=KeyboardInterrupt):
            status, _, err = self.run_tool(path, "-o", self.output)
        self.assertEqual(status, 130)
        self.assertEqual(err, "qwen-prepare: interrupted, nothing written\n")
        self.assertEqual(sorted(self.folder.iterdir()), before)

    def test_any_signal_to_end_leaves_nothing(self):
        """The input is a pipe that nobody fills: the run waits in it."""
        pipe = self.folder / "rows.jsonl"
        os.mkfifo(pipe)
        before = sorted(self.folder.iterdir())
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number=number), subprocess.Popen(
                [sys.executable, "-B", LAUNCHER, pipe, "--tokenizer",
                 self.tokenizer_folder, "-o", self.output],
                stderr=subprocess.PIPE, text=True) as process:
                with open(pipe, "w"):  # once the run has opened it too
                    self.assertNotEqual(sorted(self.folder.iterdir()), before)
                    process.send_signal(number)
                    said = process.stderr.read()
                self.assertEqual(process.wait(), 128 + number)
                self.assertEqual(
                    said, "qwen-prepare: interrupted, nothing written\n")
                self.assertEqual(sorted(self.folder.iterdir()), before)

    def test_python_without_its_modules_is_one_line(self):
        (self.folder / "tqdm.py").write_text(
            "raise ModuleNotFoundError('no tqdm', name='tqdm')")
        done = subprocess.run(
            [sys.executable, "-B", LAUNCHER, "--help"], capture_output=True,
            text=True, env={**os.environ, "PYTHONPATH": str(self.folder)})
        self.assertEqual(done.returncode, 1)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn("has no module 'tqdm'", done.stderr)

    def test_neither_file_appears_if_one_cannot_be_written(self):
        path = self.write("rows.jsonl", ROWS)
        self.expect_error(
            "eval.safetensors: cannot write: No such file", path,
            "--eval-fraction", 0.5,
            "--eval-output", self.folder / "none" / "eval.safetensors")

    def test_unusable_output(self):
        path = self.write("rows.jsonl", ROWS)
        for output, expected in (
            (self.folder / "none" / "o", "cannot write: No such file"),
            (self.folder, "cannot write: exists and is not an ordinary file"),
            ("/dev/null", "cannot write: exists and is not an ordinary file"),
            (path / "o", "cannot write: Not a directory"),
            (path, "is named twice, and is an output"),
        ):
            status, _, err = self.run_tool(path, "-o", output)
            self.assertEqual(status, 1)
            self.assertEqual(
                err, f"qwen-prepare: error: {output}: {expected}"
                + (" or directory\n" if "No such" in expected else "\n"))

    def test_tokenizer_is_not_overwritten(self):
        path = self.write("rows.jsonl", ROWS)
        for name in ("tokenizer.json", "chat_template.jinja"):
            output = self.tokenizer_folder / name
            before = output.read_bytes()
            status, _, err = self.run_tool(path, "-o", output)
            self.assertEqual(status, 1)
            self.assertIn("is named twice, and is an output", err)
            self.assertEqual(output.read_bytes(), before)

    def test_permissions_follow_the_umask(self):
        before = os.umask(0o022)
        try:
            self.prepare_rows(ROWS)
        finally:
            os.umask(before)
        self.assertEqual(self.output.stat().st_mode & 0o777, 0o644)


class OptionsTest(PrepareTest):
    def test_errors_are_one_line(self):
        path = self.write("rows.jsonl", ROWS)
        for arguments, expected in (
            (["--overlong", "drop"], "--overlong needs --max-tokens"),
            (["--max-tokens", "0"], "--max-tokens: expected a whole number "
             "from 1 to 1000000000, found '0'"),
            (["--max-tokens", "x"], "found 'x'"),
            (["--max-tokens", "1" * 30], "from 1 to 1000000000"),
            (["--show", "0"], "--show: expected a whole number from 1"),
            (["--eval-seed", "-1"], "--eval-seed: expected a whole number "
             "from 0 to 1000000000, found '-1'"),
            (["--eval-seed", "1"], "--eval-seed needs --eval-output"),
            (["--eval-fraction", "nan"], "found 'nan'"),
            (["--eval-fraction", "1"], "expected a number between 0 and 1"),
            (["--eval-fraction", "0.1"],
             "--eval-output and --eval-fraction go together"),
            (["--eval-output", "x"],
             "--eval-output and --eval-fraction go together"),
            (["--eval-output", self.output, "--eval-fraction", "0.1"],
             "is named twice"),
            (["--template-arg", "x"], "expected NAME=VALUE, found x"),
            (["--txt-separator", ""], "--txt-separator: expected some text"),
            (["--eos-token", "x"], "--eos-token needs --append-eos"),
            (["--mask", "user"], "argument --mask: invalid choice: 'user'"),
            (["--what"], "unrecognized arguments: --what"),
            (["--maxtokens", "5"], "did you mean --max-tokens?"),
            (["--txt-documents", "line"], "no input is one"),
            (["--split", "train"], "--split is for a saved data set"),
            (["--chat-template", "none"], "none: cannot read"),
        ):
            self.expect_error(expected, path, *arguments)
        text = self.write("a.TXT", "The user asks.")
        self.expect_error("every input is a .txt file", text,
                          "--template-arg", "x=1")
        status, _, err = self.run_tool(path)
        self.assertEqual(
            (status, err),
            (1, "qwen-prepare: error: expected --output FILE or --show N\n"))

    def test_show_marks_what_is_supervised(self):
        path = self.write("rows.jsonl", ROWS)
        status, out, err = self.run_tool(path, "--show", 1)
        self.assertEqual((status, err), (0, ""))
        head, _, text = out.partition("\n")
        self.assertRegex(
            head, r"^--- .*rows\.jsonl:1: \d+ tokens, \d+ supervised$")
        self.assertEqual(
            text, "<|im_start|>user\nWhat is it?<|im_end|>\n"
            "<|im_start|>assistant\n\u27e6<think>\n\n</think>\n\n"
            "Sunny and warm.<|im_end|>\n\u27e7\n")

    def test_show_beside_an_output_shows_some_and_writes_all(self):
        file = self.prepare_rows(ROWS, "--show", 1)
        self.assertEqual(self.summary.count("--- "), 1)
        self.assertEqual(len(file.documents()), 2)

    def test_launcher(self):
        path = self.write("rows.jsonl", ROWS)
        command = [sys.executable, "-B", str(LAUNCHER), str(path),
                   "--tokenizer", str(self.tokenizer_folder),
                   "-o", str(self.output)]
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(len(TokenFileContent(self.output).documents()), 2)
        self.assertTrue(os.access(LAUNCHER, os.X_OK))

    def test_closed_pipe(self):
        path = self.write("rows.jsonl", [ROWS[0]] * 5000)
        command = [sys.executable, "-B", str(LAUNCHER), str(path),
                   "--tokenizer", str(self.tokenizer_folder),
                   "--show", "5000"]
        with subprocess.Popen(command, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as process:
            process.stdout.readline()
            process.stdout.close()
            self.assertEqual(process.stderr.read(), b"")

    def test_closed_streams(self):
        path = self.write("rows.jsonl", ROWS)
        command = [sys.executable, "-B", str(LAUNCHER), str(path),
                   "--tokenizer", str(self.tokenizer_folder),
                   "-o", str(self.output)]
        for closed in ((0,), (1,), (0, 1, 2)):
            with self.subTest(closed=closed):
                done = subprocess.run(
                    command, stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE, text=True,
                    preexec_fn=lambda: [os.close(fd) for fd in closed])
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                documents = TokenFileContent(self.output).documents()
                self.assertEqual(len(documents), 2)
                self.output.unlink()

    def test_standard_output_on_a_full_disk(self):
        path = self.write("rows.jsonl", ROWS)
        command = [sys.executable, "-B", str(LAUNCHER), str(path),
                   "--tokenizer", str(self.tokenizer_folder), "--show", "1"]
        with open("/dev/full", "w") as full:
            done = subprocess.run(command, stdout=full, text=True,
                                  stderr=subprocess.PIPE)
        self.assertEqual(
            (done.returncode, done.stderr),
            (1, "qwen-prepare: error: cannot write to the standard output: "
                "No space left on device\n"))


if __name__ == "__main__":
    unittest.main()
