"""qwenrun refuses token files that are broken or do not fit the plan."""

import unittest

import numpy as np

from cli_testing import (TOKENS, CliTest, build_plan, read_raw_safetensors,
                         token_tensors, write_raw_safetensors, write_tokens)


class BadData(CliTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        build_plan(cls.shared / "plan.fb")
        cls.good = token_tensors([20, 30, 40])
        write_tokens(cls.shared / "good", cls.good)

    def refused(self, *says):
        """The file `data` is refused to train on and to evaluate on."""
        common = (self.shared / "plan.fb", "--init", "random")
        self.run_bad("qwenrun", *common, "--data", "data", "--out", "out",
                     says=("data", *says))
        self.run_bad("qwenrun", *common, "--data", self.shared / "good",
                     "--eval", "data", "--out", "out", says=("data", *says))
        self.run_bad("qwenrun", *common, "--eval", "data", "--eval-only",
                     says=("data", *says))

    def write(self, tensors=None, **metadata):
        write_tokens(self.folder / "data", tensors or self.good, **metadata)

    def changed(self, name, place, value):
        tensors = {key: array.copy() for key, array in self.good.items()}
        tensors[name][place] = value
        return tensors

    def test_no_file(self):
        self.refused()

    def test_no_token_file(self):
        (self.folder / "data").write_text('{"messages": []}\n' * 100)
        self.refused("not a safetensors file")
        write_raw_safetensors(self.folder / "data", {}, b"")
        self.refused("qwen-prepare")

    def test_another_format(self):
        write_tokens(self.folder / "data", self.good, format="qwen-tokens-2")
        self.refused("qwen-tokens-1")

    def test_cut(self):
        self.write()
        content = (self.folder / "data").read_bytes()
        for size in (0, 8, len(content) // 2, len(content) - 1):
            with self.subTest(size=size):
                (self.folder / "data").write_bytes(content[:size])
                self.refused()

    def test_tokens_out_of_vocabulary(self):
        for value in (256, -1, 2**31 - 1, -2**31):
            with self.subTest(value=value):
                self.write(self.changed("tokens", 25, value))
                self.refused("token 5 of document 1", str(value), "256")

    def test_larger_vocabulary_of_the_tokenizer(self):
        self.write(vocab_size="257")
        self.refused("257", "256")

    def test_empty(self):
        self.write({
            "tokens": np.zeros(0, np.int32),
            "document_offsets": np.zeros(1, np.int64),
            "loss_mask": np.zeros(0, np.uint8),
        })
        self.refused("empty")

    def test_document_longer_than_the_pack(self):
        self.write(token_tensors([20, TOKENS + 1]))
        self.refused("document 1", str(TOKENS + 1), str(TOKENS))

    def test_longest_document_fits(self):
        self.write(token_tensors([TOKENS]))
        self.run_good("qwenrun", self.shared / "plan.fb", "--init", "random",
                      "--data", "data", "--out", "out", "--steps", 1)

    def test_offsets_lie(self):
        for place, value in ((0, 1), (1, 0), (1, 50), (1, -5), (2, 90),
                             (3, 89), (3, 91), (3, 2**62)):
            with self.subTest(place=place, value=value):
                self.write(self.changed("document_offsets", place, value))
                self.refused("document")

    def test_mask_lies(self):
        self.write(self.changed("loss_mask", 1, 2))
        self.refused("loss_mask")
        self.write(self.changed("loss_mask", 20, 1))
        self.refused("first token of document 1")
        self.write(dict(self.good, loss_mask=self.good["loss_mask"][:-1]))
        self.refused("loss_mask")

    def test_wrong_dtypes_and_missing_tensors(self):
        for name, dtype in (("tokens", np.int64), ("loss_mask", np.bool_),
                            ("document_offsets", np.int32)):
            with self.subTest(name=name):
                self.write(dict(self.good, **{name:
                                              self.good[name].astype(dtype)}))
                self.refused(name)
                self.write(dict(self.good, **{name: self.good[name][None]}))
                self.refused(name)
                self.write({key: array for key, array in self.good.items()
                            if key != name})
                self.refused(name)

    def test_metadata_lies(self):
        for name in ("documents", "tokens", "supervised_tokens",
                     "max_document_tokens"):
            with self.subTest(name=name):
                self.write(**{name: "7"})
                self.refused(name)

    def test_nothing_to_evaluate(self):
        self.write(dict(self.good,
                        loss_mask=np.zeros_like(self.good["loss_mask"])))
        self.run_bad("qwenrun", self.shared / "plan.fb", "--init", "random",
                     "--data", self.shared / "good", "--eval", "data", "--out",
                     "out", says="no supervised token")


if __name__ == "__main__":
    unittest.main()
