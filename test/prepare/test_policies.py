"""What is dropped, cut or held out, and that it is counted."""

import unittest

from prepare_testing import PrepareTest, TokenFileContent, assistant, user

CHAT = {"messages": [user("hi"), assistant("ho")]}


class OverlongTest(PrepareTest):
    def texts_of_lengths(self, *lengths) -> list:
        """Digits are single tokens, so lengths in tokens are exact."""
        return [{"text": ("1234567890" * 9)[:length]} for length in lengths]

    def lengths(self, rows: list, *arguments) -> list:
        file = self.prepare_rows(rows, *arguments)
        return [len(tokens) for tokens, _ in file.documents()]

    def test_drop_is_the_default(self):
        rows = self.texts_of_lengths(7, 8, 9, 40)
        self.assertEqual(self.lengths(rows, "--max-tokens", 8), [7, 8])
        self.assertIn("documents longer than 8 tokens dropped: 2 (49 tokens)",
                      self.summary)
        self.assertEqual(self.lengths(rows), [7, 8, 9, 40])
        self.assertNotIn("longer", self.summary)

    def test_truncate(self):
        rows = self.texts_of_lengths(7, 8, 9, 40)
        self.assertEqual(
            self.lengths(rows, "--max-tokens", 8, "--overlong", "truncate"),
            [7, 8, 8, 8])
        self.assertIn("documents truncated to 8 tokens: 2 (33 tokens cut off)",
                      self.summary)

    def test_split(self):
        rows = self.texts_of_lengths(8, 20)
        file = self.prepare_rows(
            rows, "--max-tokens", 8, "--overlong", "split")
        documents = file.documents()
        self.assertEqual([len(tokens) for tokens, _ in documents],
                         [8, 8, 8, 4])
        self.assertEqual("".join(self.decode(t) for t, _ in documents[1:]),
                         rows[1]["text"])
        for _, mask in documents:
            self.assertEqual(mask.tolist(), [0] + [1] * (len(mask) - 1))
        self.assertIn("documents split into pieces of at most 8 tokens: 1",
                      self.summary)

    def test_split_counts_a_piece_too_short_to_supervise(self):
        self.assertEqual(
            self.lengths(self.texts_of_lengths(17), "--max-tokens", 8,
                         "--overlong", "split"), [8, 8])
        self.assertIn("without a supervised token dropped: 1 (1 tokens)",
                      self.summary)

    def test_split_never_leaves_the_tail_of_a_chat(self):
        long = {"messages": [user("hi"), assistant("1" * 99)]}
        self.expect_row_error(
            long, "the chat has ", "--max-tokens", 40, "--overlong", "split")

    def test_truncation_that_cuts_every_answer(self):
        long = {"messages": [user("1" * 60), assistant("ho")]}
        file = self.prepare_rows([CHAT, long], "--max-tokens", 40,
                                 "--overlong", "truncate")
        self.assertEqual(len(file.documents()), 1)
        self.assertIn("without a supervised token dropped: 1 (40 tokens)",
                      self.summary)


class EmptyTest(PrepareTest):
    def test_empty_documents_are_dropped_and_counted(self):
        rows = [
            {"messages": []}, CHAT, {"messages": [user("a"), assistant("")]},
            {"messages": [user("a"), assistant(" \n")]},
            {"instruction": "a", "output": ""}, {"conversations": []},
            {"text": ""}, {"text": " \n"},
        ]
        self.assertEqual(len(self.prepare_rows(rows).documents()), 1)
        self.assertIn("warning: empty documents dropped: 7\n", self.summary)

    def test_documents_without_supervised_token(self):
        rows = [CHAT, {"messages": [user("a")]}, {"text": "1"},
                {"messages": [user("a"), assistant("b", weight=0)]}]
        self.assertEqual(len(self.prepare_rows(rows).documents()), 1)
        self.assertIn(
            "warning: documents without a supervised token dropped: 3 (",
            self.summary)

    def test_nothing_left(self):
        path = self.write("rows.jsonl", [{"messages": []}])
        self.expect_error("no document is left to write", path)

    def test_a_blank_answer_among_others_is_kept(self):
        """Tool calls and reasoning are content too."""
        call = {"name": "f", "arguments": {}}
        rows = [
            {"messages": [user("a"), assistant("", tool_calls=[call])]},
            {"messages": [user("a"), assistant("", reasoning="r")]},
            {"messages": [user("a"), assistant(""), user("b"),
                          assistant("c")]},
        ]
        self.assertEqual(len(self.prepare_rows(rows).documents()), 3)


class AppendEosTest(PrepareTest):
    def test_default_and_named_token(self):
        vocab = self.tokenizer.get_vocab()
        rows = [{"text": "1"}, {"text": "23"}]
        for arguments, token in (
            (["--append-eos"], "<|endoftext|>"),
            (["--append-eos", "--eos-token", "<|im_end|>"], "<|im_end|>"),
        ):
            file = self.prepare_rows(rows, *arguments)
            for tokens, mask in file.documents():
                self.assertEqual(tokens[-1], vocab[token])
                self.assertEqual(mask[-1], 1)
            self.assertEqual(file.offsets.tolist(), [0, 2, 5])

    def test_is_cut_with_the_document(self):
        file = self.prepare_rows([{"text": "1234"}], "--append-eos",
                                 "--max-tokens", 3, "--overlong", "split")
        self.assertEqual(file.offsets.tolist(), [0, 3, 5])

    def test_errors(self):
        path = self.write("rows.jsonl", [{"text": "a"}])
        self.expect_error("'<eos>' is not a token of this tokenizer",
                          path, "--append-eos", "--eos-token", "<eos>")
        path = self.write("rows.jsonl", [{"text": "a"}, CHAT])
        self.expect_error(f"{path}:2: --append-eos: a chat ends as its "
                          "template ends it", path, "--append-eos")

    def test_tokenizer_without_a_token_to_end_with(self):
        path = self.tokenizer_folder / "tokenizer.json"
        path.write_text(path.read_text().replace("<|endoftext|>", "<|pad|>"))
        rows = self.write("rows.jsonl", [{"text": "12"}])
        file = self.prepare(rows, "--append-eos")
        self.assertEqual(self.decode(file.tokens), "12<|im_end|>")
        self.output.unlink()
        (self.tokenizer_folder / "tokenizer_config.json").unlink()
        self.expect_error("the tokenizer has no <|endoftext|> and its",
                          rows, "--append-eos")


class EvalTest(PrepareTest):
    def split(self, rows: list, fraction, *arguments) -> tuple:
        """The texts that went to training and to evaluation."""
        held_out = self.folder / "eval.safetensors"
        train = self.prepare_rows(rows, "--eval-output", held_out,
                                  "--eval-fraction", fraction, *arguments)
        files = (train, TokenFileContent(held_out))
        return tuple(
            [self.decode(tokens) for tokens, _ in file.documents()]
            for file in files
        )

    def test_is_exact_and_complete(self):
        rows = [{"text": f"document {n}"} for n in range(40)]
        train, held_out = self.split(rows, 0.1)
        self.assertEqual((len(train), len(held_out)), (36, 4))
        self.assertEqual(sorted(train + held_out),
                         sorted(row["text"] for row in rows))

    def test_does_not_depend_on_the_order_but_on_the_seed(self):
        rows = [{"text": f"document {n}"} for n in range(40)]
        chosen = sorted(self.split(rows, 0.1)[1])
        self.assertEqual(sorted(self.split(rows[::-1], 0.1)[1]), chosen)
        self.assertNotEqual(
            sorted(self.split(rows, 0.1, "--eval-seed", 1)[1]), chosen)

    def test_equal_documents_stay_together(self):
        rows = [{"text": f"document {n % 4}"} for n in range(40)]
        train, held_out = self.split(rows, 0.1)
        self.assertFalse(set(train) & set(held_out))

    def test_nothing_left_to_train_on(self):
        path = self.write("rows.jsonl", [{"text": "one text"}])
        self.expect_error("no document is left to write", path,
                          "--eval-output", self.folder / "eval.safetensors",
                          "--eval-fraction", 0.5)


if __name__ == "__main__":
    unittest.main()
