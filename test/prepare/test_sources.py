"""Reading files and saved data sets: documents, addresses, errors."""

import json
import unittest

import pyarrow

from prepare_testing import PrepareTest, assistant, user

CHAT = {"messages": [user("a"), assistant("b")]}


class FilesTest(PrepareTest):
    def texts(self, path, *arguments) -> list:
        file = self.prepare(path, *arguments)
        return [self.decode(tokens) for tokens, _ in file.documents()]

    def test_json_lines_with_bom_crlf_and_blank_lines(self):
        path = self.write(
            "rows.jsonl",
            '\ufeff{"text": "one"}\r\n\r\n  \n{"text": "two"}'
        )
        self.assertEqual(self.texts(path), ["one", "two"])

    def test_json_array_and_lines_in_a_json_file(self):
        rows = [{"text": "one"}, {"text": "two"}]
        path = self.write("rows.json", json.dumps(rows, indent=2))
        self.assertEqual(self.texts(path), ["one", "two"])
        path = self.write("rows.json", rows)
        self.assertEqual(self.texts(path), ["one", "two"])

    def test_several_inputs_keep_their_order(self):
        first = self.write("b.jsonl", [{"text": "one"}])
        second = self.write("a.txt", "two\n\nthree")
        self.assertEqual(self.texts(first, second), ["one", "two", "three"])

    def test_text_paragraphs(self):
        path = self.write("t.txt", "\n\none\nmore\n \t\n\n\ntwo\r\n\r\nthree\n")
        self.assertEqual(self.texts(path), ["one\nmore", "two", "three\n"])

    def test_text_lines(self):
        path = self.write("t.txt", "one\n\ntwo\n")
        self.assertEqual(
            self.texts(path, "--txt-documents", "line"), ["one", "two"])

    def test_text_file_as_one_document(self):
        path = self.write("t.txt", "one\n\ntwo\n")
        self.assertEqual(
            self.texts(path, "--txt-documents", "file"), ["one\n\ntwo\n"])

    def test_text_separator(self):
        path = self.write("t.txt", "one\n\nmore\n%%\ntwo\n%%\n")
        self.assertEqual(
            self.texts(path, "--txt-separator", "\n%%\n"),
            ["one\n\nmore", "two"])

    def test_text_beside_rows_with_a_field_of_another_name(self):
        text = self.write("a.txt", "The user")
        file = self.prepare(self.write("b.jsonl", [{"body": "asks."}]), text,
                            "--text-field", "body")
        self.assertEqual([self.decode(tokens) for tokens, _ in
                          file.documents()], ["asks.", "The user"])

    def test_text_addresses_are_lines(self):
        path = self.write("t.txt", "one\n\ntwo\nmore\n\n\nbad<|im_end|>\n")
        self.expect_error(f"{path}:7: the row's own text", path,
                          "--control-tokens", "error")

    def test_json_errors(self):
        for name, content, place, expected in (
            ("a.jsonl", '{"text": "a"}\n{"text"\n', ":2",
             "not valid JSON: Expecting ':' delimiter (column 8)"),
            ("a.jsonl", "\n[1]\n", ":2", "expected a JSON object, found [1]"),
            ("a.jsonl", b'{"text": "a"}\n{"text": "\xff"}\n', ":2",
             "not UTF-8: byte 0xff"),
            ("a.jsonl", "[" * 100000, ":1", "not valid JSON: "),
            ("a.json", '[{"text": "a"}, 5]', "[1]",
             "expected a JSON object, found 5"),
            ("a.json", '[{"text": "a"},\n {"text"]', "",
             "not valid JSON: Expecting ':' delimiter (line 2, column 9)"),
            ("a.json", '[{"text": "a"}, {"text": 5}]', "[1]",
             "text: expected text, found 5"),
            ("a.txt", b"one\ntwo\n\xfe", ":3", "not UTF-8: byte 0xfe"),
        ):
            path = self.write(name, content)
            self.expect_error(f"{path}{place}: {expected}", path)

    def test_unusable_inputs(self):
        missing = self.folder / "none.jsonl"
        self.expect_error(f"{missing}: no such file or folder", missing)
        other = self.write("data.csv", "a,b\n")
        self.expect_error(f"{other}: expected .jsonl, .json, .txt, or", other)
        for empty in (self.write("a.jsonl", ""), self.write("a.json", "[]"),
                      self.write("a.txt", " \n")):
            self.expect_error("no document is left to write", empty)


class SavedDatasetTest(PrepareTest):
    """Folders laid out as datasets' save_to_disk lays them out."""

    def save(self, folder, shards: list):
        folder.mkdir(parents=True)
        names = []
        for index, rows in enumerate(shards):
            name = f"data-{index:05}-of-{len(shards):05}.arrow"
            table = pyarrow.Table.from_pylist(rows)
            with pyarrow.ipc.new_stream(folder / name, table.schema) as file:
                file.write_table(table, max_chunksize=2)
            names.append({"filename": name})
        state = json.dumps({"_data_files": names})
        (folder / "state.json").write_text(state)
        return folder

    def test_same_tokens_as_json_lines(self):
        """Structs of one column share their keys, so some are null."""
        calls = [{"function": {"name": "f", "arguments": {"x": 1}}},
                 {"function": {"name": "g", "arguments": {"y": "z"}}}]
        rows = [
            {"messages": [user("q"), assistant(None, tool_calls=[call]),
                          {"role": "tool", "content": "r"},
                          assistant("done", reasoning_content="so")],
             "tools": [{"type": "function", "function": {
                 "name": "f", "parameters": {"x": "int"}}}]}
            for call in calls
        ] * 2
        expected = self.prepare_rows(rows)
        folder = self.save(self.folder / "set", [rows[:3], rows[3:]])
        found = self.prepare(folder)
        self.assertEqual(found.tokens.tolist(), expected.tokens.tolist())
        self.assertEqual(found.mask.tolist(), expected.mask.tolist())
        self.assertEqual(found.offsets.tolist(), expected.offsets.tolist())

    def test_columns_that_are_not_needed_are_left_alone(self):
        folder = self.save(self.folder / "set", [
            [{"body": "one", "image": b"\xff", "n": 1.5}]])
        file = self.prepare(folder, "--text-field", "body")
        self.assertEqual(self.decode(file.tokens), "one")

    def test_splits(self):
        folder = self.folder / "sets"
        self.save(folder / "train", [[{"text": "one"}]])
        self.save(folder / "test", [[{"text": "two"}]])
        splits = folder / "dataset_dict.json"
        splits.write_text('{"splits": ["train", "test"]}')
        file = self.prepare(folder, "--split", "test")
        self.assertEqual(self.decode(file.tokens), "two")
        for arguments in ((), ("--split", "eval")):
            self.expect_error(f"{folder}: expected --split to name one of",
                              folder, *arguments)
        self.expect_error("--split, but the folder has no splits",
                          folder / "train", "--split", "train")

    def test_row_errors_count_through_the_files(self):
        rows = [[{"text": "one"}] * 3, [{"text": "two"}, {"text": None}]]
        folder = self.save(self.folder / "set", rows)
        self.expect_error(f"{folder}[4]: expected one of the fields", folder)

    def test_damaged_folders(self):
        folder = self.save(self.folder / "set", [[{"text": "one " * 99}]])
        arrow = folder / "data-00000-of-00001.arrow"
        state = folder / "state.json"
        good = arrow.read_bytes()
        for size in (0, 3, 100, len(good) // 2, len(good) - 20):
            arrow.write_bytes(good[:size])
            self.expect_error(f"{arrow}: not a readable Arrow stream", folder)
        arrow.unlink()
        self.expect_error(f"{arrow}: not a readable Arrow stream", folder)
        for text, expected in (
            ("{", f"{state}: not valid JSON"),
            ("{}", f"{state}: expected _data_files to list file names"),
            ('{"_data_files": [3]}', f"{state}: expected _data_files"),
        ):
            state.write_text(text)
            self.expect_error(expected, folder)
        state.unlink()
        self.expect_error("state.json is missing", folder)

    def test_no_usable_column(self):
        folder = self.save(self.folder / "set", [[{"prompt": "a", "id": 1}]])
        self.expect_error("expected a column named one of messages,", folder)


if __name__ == "__main__":
    unittest.main()
