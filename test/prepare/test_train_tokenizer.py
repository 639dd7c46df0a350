"""The small tokenizers that train_tokenizer.py makes."""

import pathlib
import subprocess
import sys
import unittest

import prepare_testing
from prepare_testing import PrepareTest


class TrainTokenizerTest(PrepareTest):
    def train(self, *arguments):
        script = pathlib.Path(prepare_testing.train_tokenizer.__file__)
        return subprocess.run(
            [sys.executable, "-B", str(script)]
            + [str(argument) for argument in arguments],
            capture_output=True, text=True)

    def test_is_deterministic_and_of_the_asked_size(self):
        corpus = self.write("t.txt", prepare_testing.CORPUS + "\u00e9\u4e2d")
        folders = [self.folder / name for name in ("a", "b")]
        for folder in folders:
            done = self.train(corpus, "-o", folder, "--vocab-size", 290)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
        a, b = ((f / "tokenizer.json").read_bytes() for f in folders)
        self.assertEqual(a, b)
        self.tokenizer_folder = folders[0]
        file = self.prepare(corpus)
        self.assertEqual(file.metadata["vocab_size"], "290")

    def test_any_text_survives_and_control_tokens_are_last(self):
        text = "caf\u00e9 \U0001f600\u4e2d\u0000\t1234\r\n \n  x's DON'T"
        encoding = self.tokenizer.encode(text)
        self.assertEqual(self.decode(encoding.ids), text)
        size = self.tokenizer.get_vocab_size()
        added = sorted(self.tokenizer.get_added_tokens_decoder())
        self.assertEqual(added, list(range(size - len(added), size)))

    def test_words_are_cut_as_qwen_cuts_them(self):
        cut = self.tokenizer.pre_tokenizer.pre_tokenize_str
        text = "Don't stop!\n  12 caf\u0065\u0301s"
        pieces = [text[b:e] for _, (b, e) in cut(text)]
        self.assertEqual(pieces, ["Don", "'t", " stop", "!\n", " ", " ",
                                  "1", "2", " caf\u0065\u0301s"])

    def test_errors(self):
        corpus = self.write("t.txt", b"\xff")
        good = self.write("good.txt", prepare_testing.CORPUS)
        for arguments, expected in (
            ((corpus, "-o", self.folder / "a"), "invalid start byte"),
            ((self.folder / "no", "-o", self.folder / "a"), "No such file"),
            ((corpus, "-o", self.folder / "a", "--vocab-size", 200),
             "--vocab-size: expected a whole number from 265 to 1000000"),
            ((corpus, "-o", self.folder / "a", "--vocab-size", 10**11),
             "found '100000000000'"),
            ((corpus, "-o", self.folder / "a", "--vocabsize", 300),
             "did you mean --vocab-size?"),
            ((good, "-o", self.folder / "a", "--chat-template",
              self.folder / "no"), "No such file"),
        ):
            done = self.train(*arguments)
            self.assertEqual(done.returncode, 1)
            self.assertIn(expected, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)
            self.assertFalse((self.folder / "a").exists())


if __name__ == "__main__":
    unittest.main()
