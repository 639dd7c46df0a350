"""qwenrun refuses checkpoints that are cut, lie, or do not fit the plan."""

import json
import os
import shutil
import struct
import unittest

from cli_testing import (GOLDEN, TIED, UNTIED, CliTest, build_plan,
                         read_raw_safetensors, token_tensors,
                         write_raw_safetensors, write_tokens)

MODEL = "checkpoint/model.safetensors"
INDEX = "checkpoint/model.safetensors.index.json"
NORM = "model.norm.weight"


class BadWeights(CliTest):
    config = TIED

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        build_plan(cls.shared / "plan.fb", config=cls.config)
        write_tokens(cls.shared / "data", token_tensors([20, 30]))

    def setUp(self):
        super().setUp()
        shutil.copytree(GOLDEN / self.config / "checkpoint",
                        self.folder / "checkpoint")

    def arguments(self):
        return (self.shared / "plan.fb", "--weights", "checkpoint", "--data",
                self.shared / "data", "--out", "out")

    def refused(self, *says):
        return self.run_bad("qwenrun", *self.arguments(), says=says)


class SingleFile(BadWeights):

    def setUp(self):
        super().setUp()
        self.path = self.folder / MODEL
        self.header, self.data = read_raw_safetensors(self.path)

    def write(self):
        write_raw_safetensors(self.path, self.header, self.data)

    def test_the_unchanged_checkpoint_is_good(self):
        self.run_good("qwenrun", *self.arguments(), "--steps", 1)

    def test_missing_folder_and_file(self):
        self.path.unlink()
        self.refused("model.safetensors")
        shutil.rmtree(self.folder / "checkpoint")
        self.refused("checkpoint")

    def test_cut(self):
        content = self.path.read_bytes()
        for size in (0, 7, 8, 100, len(content) // 2, len(content) - 1):
            with self.subTest(size=size):
                self.path.write_bytes(content[:size])
                self.refused("model.safetensors")

    def test_hole_is_warned_of(self):
        """An unfinished download may have the right size already."""
        content = self.path.read_bytes()
        with self.path.open("wb") as file:
            file.write(content[:len(content) // 2])
            file.truncate(len(content))
        done = self.run_good("qwenrun", *self.arguments(), "--dry-run")
        self.assertRegex(done.stdout, r"warning: \d+ bytes of '.*model.saf"
                         "etensors' are a hole that reads as zeros")

    def test_pipe_is_not_waited_for(self):
        self.path.unlink()
        os.mkfifo(self.path)
        self.refused("is not a regular file")

    def test_too_long(self):
        self.data += b"\0"
        self.write()
        self.refused("too long")

    def test_header_length_lies(self):
        content = self.path.read_bytes()
        for length in (0, 1, len(content), 2**32, 2**63, 2**64 - 1):
            with self.subTest(length=length):
                self.path.write_bytes(struct.pack("<Q", length) + content[8:])
                self.refused("model.safetensors")

    def test_header_is_no_json_object(self):
        for header in (b"", b"{", b"[]", b"null", b"{}x", b'{"a": 1}',
                       b'{"a": {"dtype": "F32"}}', b"\xff\xfe{}",
                       b'{"a": ' * 100000):
            with self.subTest(header=header[:10]):
                write_raw_safetensors(self.path, header, self.data)
                self.refused("model.safetensors")

    def test_offsets_lie(self):
        begin, end = self.header[NORM]["data_offsets"]
        for offsets in ([begin + 4, end + 4], [begin, end - 4],
                        [begin, end + 4], [end, begin], [-4, end],
                        [begin, 2**63], [0, end - begin], [begin], [],
                        [begin, end, end], [0.5, end], ["0", "4"], None):
            with self.subTest(offsets=offsets):
                self.header[NORM]["data_offsets"] = offsets
                self.write()
                self.refused("model.safetensors")

    def test_shape_lies(self):
        for shape in ([127], [64, 2], [128, 1], [-128], [2**62, 2**62],
                      [128.5], ["128"], "128", None):
            with self.subTest(shape=shape):
                self.header[NORM]["shape"] = shape
                self.write()
                self.refused(NORM)

    def test_wrong_dtype(self):
        for dtype in ("I32", "U32", "F31", "f32", 32, None):
            with self.subTest(dtype=dtype):
                self.header[NORM]["dtype"] = dtype
                self.write()
                self.refused(NORM)
        # A dtype of another width contradicts the offsets.
        self.header[NORM]["dtype"] = "BF16"
        self.write()
        self.refused(NORM)

    def test_missing_tensor(self):
        # Another name, so that the data stays accounted for.
        self.header["visual.other"] = self.header.pop(NORM)
        self.write()
        self.refused("missing", NORM)

    def test_extra_tensors(self):
        end = len(self.data)
        self.data += bytes(8)
        extra = {"dtype": "F32", "shape": [2], "data_offsets": [end, end + 8]}
        self.header["model.layers.9.extra.weight"] = extra
        self.write()
        self.refused("not in the plan", "model.layers.9.extra.weight")
        # Known prefixes are carried, others only on request.
        self.run_good("qwenrun", *self.arguments(), "--steps", 1, "--carry",
                      "model.layers.9.")

    def test_not_finite(self):
        begin, _ = self.header[NORM]["data_offsets"]
        for value in (float("nan"), float("inf")):
            data = bytearray(self.data)
            data[begin:begin + 4] = struct.pack("<f", value)
            write_raw_safetensors(self.path, self.header, bytes(data))
            self.refused(NORM)

    def test_names_are_printable_in_messages(self):
        self.header["evil\n\x1b[31mname"] = self.header.pop(NORM)
        self.write()
        self.refused(NORM)

    def test_tensors_of_another_model(self):
        shutil.rmtree(self.folder / "checkpoint")
        shutil.copytree(GOLDEN / UNTIED / "checkpoint",
                        self.folder / "checkpoint")
        self.refused("does not fit the plan")


class Shards(BadWeights):
    config = UNTIED

    def setUp(self):
        super().setUp()
        self.index = json.loads((self.folder / INDEX).read_text())
        self.names = self.index["weight_map"]
        self.first = next(iter(self.names))

    def write(self):
        (self.folder / INDEX).write_text(json.dumps(self.index))

    def test_missing_shard(self):
        shard = self.names[self.first]
        (self.folder / "checkpoint" / shard).unlink()
        self.refused(shard)

    def test_index_names_a_missing_file(self):
        self.names[self.first] = "model-00009-of-00002.safetensors"
        self.write()
        self.refused("model-00009-of-00002.safetensors")

    def test_index_leaves_the_folder(self):
        for name in ("../model.safetensors", "/etc/passwd", "a/b", "", ".",
                     None, 1):
            with self.subTest(name=name):
                self.names[self.first] = name
                self.write()
                self.refused("index.json", self.first)

    def test_index_and_shards_differ(self):
        files = sorted(set(self.names.values()))
        self.names[self.first] = files[self.names[self.first] == files[0]]
        self.write()
        self.refused(self.first)
        del self.names[self.first]
        self.write()
        self.refused(self.first, "not in the index")

    def test_index_names_a_missing_tensor(self):
        self.names["model.more"] = self.names[self.first]
        self.write()
        self.refused("model.more")

    def test_total_size_lies(self):
        self.index["metadata"]["total_size"] += 1
        self.write()
        self.refused("total_size")

    def test_index_is_no_json(self):
        for text in ("", "{", "[]", '{"weight_map": []}', '{"weight_map": {}}',
                     "{}", '{"weight_map":' * 100000):
            with self.subTest(text=text[:20]):
                (self.folder / INDEX).write_text(text)
                self.refused("index.json")

    def test_index_and_single_file(self):
        shard = self.folder / "checkpoint" / self.names[self.first]
        shutil.copy(shard, self.folder / MODEL)
        self.refused("both")


del BadWeights  # has no tests of its own

if __name__ == "__main__":
    unittest.main()
