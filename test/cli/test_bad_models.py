"""qwenc refuses every kind of broken model with one located line, no plan."""

import os
import re
import shutil
import resource
import subprocess
import unittest

from cli_testing import (CliTest, build_model, command, run,
                         with_small_disk)


class BadModels(CliTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        build_model(cls.shared / "good.mlir")
        cls.model = (cls.shared / "good.mlir").read_text()

    def refused(self, text, *says, located=True, faults=1):
        data = text if isinstance(text, bytes) else text.encode()
        (self.folder / "model.mlir").write_bytes(data)
        line = self.run_bad("qwenc", "model.mlir", "-o", "plan.fb", says=says,
                            faults=faults)
        if located:
            self.assertRegex(line, r"model\.mlir:\d+:\d+: ")
        return line

    def edited(self, pattern, replacement, count=1):
        """The good model with the first match of a pattern replaced."""
        text, matches = re.subn(pattern, replacement, self.model, count=count,
                                flags=re.MULTILINE)
        self.assertGreater(matches, 0, pattern)
        return text

    # Text.

    def test_empty(self):
        self.refused("", "empty", located=False)

    def test_only_a_comment(self):
        self.refused("// nothing\n", "qwen.tokens")

    def test_byte_order_mark(self):
        self.refused(b"\xef\xbb\xbf" + self.model.encode(), "byte order mark",
                     located=False)

    def test_utf16(self):
        self.refused(self.model.encode("utf-16"), "not a text", located=False)

    def test_windows_line_ends_compile_to_the_same_plan(self):
        (self.folder / "unix.mlir").write_text(self.model)
        (self.folder / "dos.mlir").write_bytes(
            self.model.replace("\n", "\r\n").encode())
        for name in ("unix", "dos"):
            self.run_good("qwenc", f"{name}.mlir", "-o", f"{name}.fb")
        self.assertEqual((self.folder / "unix.fb").read_bytes(),
                         (self.folder / "dos.fb").read_bytes())

    def test_cut(self):
        for part in (0.1, 0.5, 0.999):
            with self.subTest(part=part):
                self.refused(self.model[:int(len(self.model) * part)])

    def test_deep_regions(self):
        depth = 20000
        self.refused('"builtin.module"() ({\n' * depth +
                     "}) : () -> ()\n" * depth, "nested")

    def test_deep_attributes_and_types(self):
        depth = 200000
        for opening, closing in (("[", "]"), ("{a = ", "}"), ("(", ")"),
                                 ("tuple<", ">"), ("loc(", ")")):
            with self.subTest(opening=opening):
                self.refused("module attributes {a = " + opening * depth +
                             closing * depth + "} {}", "nested")

    def test_long_affine_expressions(self):
        for expression in ("-" * 400000 + "d0", "d0" + " + d0" * 400000):
            self.refused("module attributes {a = affine_map<(d0) -> "
                         f"({expression})>}} {{}}", "affine")

    def test_brackets_in_strings_and_comments_do_not_count(self):
        text = self.model.replace(
            "module attributes {",
            "// " + "(" * 1000 + '\nmodule attributes {qwen.note = "' +
            "[" * 1000 + '\\"' + "<" * 1000 + '", ', 1)
        (self.folder / "model.mlir").write_text(text)
        self.run_good("qwenc", "model.mlir", "-o", "plan.fb")

    def test_huge(self):
        path = self.folder / "model.mlir"
        with open(path, "wb") as file:
            file.truncate(65 << 20)
        done = run("qwenc", "model.mlir", "-o", "plan.fb", cwd=self.folder)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn("at most", done.stderr)
        self.assertFalse((self.folder / "plan.fb").exists())

    # Names and structure.

    def test_undefined_value(self):
        self.refused(self.edited(r"arith\.addf %x, ", "arith.addf %nobody, "),
                     "undeclared")

    def test_duplicate_symbol(self):
        self.refused(
            self.edited(r"^(  qwen\.parameter @model\.norm\.weight.*\n)",
                        r"\1\1"), "model.norm.weight")

    def test_duplicate_function(self):
        self.refused(self.edited("@attention_layer", "@gdn_layer", count=0),
                     "gdn_layer")

    def test_unknown_parameter(self):
        self.refused(self.edited(r"\[@model\.norm\.weight\]", "[@model.no]"),
                     "model.no")

    def test_unknown_function(self):
        self.refused(self.edited(r"call @gdn_layer\(", "call @other_layer("),
                     "other_layer")

    def test_unknown_op_and_dialect(self):
        self.refused(self.edited(r"qwen\.softplus", "qwen.softmax"), "softmax")
        self.refused(self.edited(r"qwen\.softplus", "torch.softplus"), "torch")

    def test_recursion(self):
        self.refused(
            self.edited(r"^    return %out :",
                        "    %again = call @loop(%out) : (tensor<64x128xf32>) "
                        "-> tensor<64x128xf32>\n    return %again :") .replace(
                "  func.func @forward",
                "  func.func private @loop(%x: tensor<64x128xf32>) -> "
                "tensor<64x128xf32> {\n    %y = call @loop(%x) : "
                "(tensor<64x128xf32>) -> tensor<64x128xf32>\n"
                "    return %y : tensor<64x128xf32>\n  }\n"
                "  func.func @forward", 1), "calls itself")

    def test_no_forward(self):
        self.refused(self.edited("@forward", "@backward"), "@forward")

    def test_missing_module_attributes(self):
        for name in ("qwen.tokens", "qwen.max_documents"):
            with self.subTest(name=name):
                self.refused(self.edited(name.replace(".", r"\.") + " = ",
                                         name + "_ = "), name)
                self.refused(
                    self.edited(name.replace(".", r"\.") + r" = \d+",
                                name + " = 0"), name)

    # Shapes and dtypes.

    def test_wrong_shape(self):
        self.refused(
            self.edited(r"(qwen\.linear %h, %in_proj_z\.weight.*)-> "
                        r"tensor<64x64xf32>", r"\1-> tensor<64x65xf32>"))

    def test_parameter_of_other_shape(self):
        self.refused(
            self.edited(r"(qwen\.parameter @model\.norm\.weight : )"
                        r"tensor<128xf32>", r"\1tensor<127xf32>"),
            "127", "128")

    def test_number_of_tokens_differs(self):
        self.refused(self.edited(r"qwen\.tokens = 64", "qwen.tokens = 65"),
                     "65")

    def test_dynamic_dimension(self):
        for pattern in (r"tensor<64x128xf32>", r"tensor<64xi32>",
                        r"tensor<128x64xf32>"):
            with self.subTest(pattern=pattern):
                dynamic = pattern.replace("64", "?", 1)
                self.refused(self.edited(pattern, dynamic, count=0), "?")

    def test_unranked_tensor(self):
        self.refused(self.edited(r"tensor<64x128xf32>", "tensor<*xf32>",
                                 count=0))

    def test_dtype_that_an_op_does_not_take(self):
        # Everything of one dtype that no op takes.
        self.refused(self.edited("xf32>", "xf16>", count=0), "f16")
        self.refused(self.edited("xf32>", "xi8>", count=0), "i8")
        # One op among good ones.
        self.refused(self.edited(r"(%in_proj_b = qwen\.linear .*)xf32>$",
                                 r"\1xbf16>"))

    def test_token_ids_of_another_dtype(self):
        self.refused(self.edited(r"tensor<64xi32>", "tensor<64xi64>", count=0),
                     "i64")

    def test_missing_document_boundaries(self):
        for op in ("causal_conv1d", "gated_delta", "attention"):
            with self.subTest(op=op):
                text = self.edited(
                    rf"(qwen\.{op} [^:{{]*), %cu_seqlens([^:]*:[^\n]*), "
                    r"tensor<9xi32>", r"\1\2")
                self.refused(text, f"qwen.{op}")

    def test_document_boundaries_that_are_not_those_of_the_pack(self):
        mine = ("%mine = arith.constant dense<[0, 64, 64, 64, 64, 64, 64, 64, "
                "64]> : tensor<9xi32>\n    ")
        for op in ("causal_conv1d", "gated_delta", "attention"):
            with self.subTest(op=op):
                text = self.edited(
                    rf"^    (%[^\n]* = qwen\.{op} [^:{{]*), %cu_seqlens",
                    "    " + mine + r"\1, %mine")
                self.refused(text, f"qwen.{op}", "arith.constant",
                             "cu_seqlens")
        # Handed to a layer.
        self.refused(self.edited(
            r"^    (%layer0 = call @gdn_layer\(%embedding), %cu_seqlens",
            "    " + mine + r"\1, %mine"), "func.call", "arith.constant")
        self.refused(self.edited('"cu_seqlens"', '"boundaries"'),
                     "cu_seqlens")

    def test_positions_are_one_row(self):
        """Rows as in multimodal models are no batch: one row, or an error."""
        for rows in ("3x", "1x"):
            text = self.edited(r"%positions: tensor<64xi32>",
                               f"%positions: tensor<{rows}64xi32>")
            text = text.replace(": tensor<64xi32> -> tensor<64x4xf32>",
                                f": tensor<{rows}64xi32> -> tensor<64x4xf32>")
            self.refused(text, f"{rows}64xi32", "[tokens]")

    def test_forms_of_attention_that_do_not_exist(self):
        """An attribute that nothing looks at would be dropped silently."""
        for attribute in ("sliding_window = 32 : i64", "softcap = 30.0 : f64"):
            with self.subTest(attribute=attribute):
                self.refused(
                    self.edited(r"(qwen\.attention .*\{scale = [^}]*)\}",
                                rf"\1, {attribute}}}"),
                    "qwen.attention", attribute.split()[0], "it has scale")
        self.refused(
            self.edited(r"^    %heads = qwen\.reshape",
                        "    %index = qwen.indexer %x : tensor<64x128xf32>\n"
                        "    %heads = qwen.reshape"), "qwen.indexer")

    def test_one_line_for_a_fault_in_forward_and_backward(self):
        """No kernel of the GPU takes heads of 16, in either kind of layer."""
        (self.folder / "model.mlir").write_text(self.model)
        done = run("qwenc", "model.mlir", "-o", "plan.fb", "--target=sm_90a",
                   cwd=self.folder)
        self.assertEqual(done.returncode, 1)
        lines = done.stderr.splitlines()
        places = [line.split(": ")[0] for line in lines]
        self.assertEqual(len(set(places)), len(places), done.stderr)
        for op in ("kernel.gated_delta", "kernel.attention"):
            self.assertEqual(
                sum(f"'{op}'" in line for line in lines), 1, done.stderr)
        self.assertIn("expected", lines[0])

    def test_document_boundaries_of_another_dtype(self):
        # In both kinds of layers.
        self.refused(self.edited(r"tensor<9xi32>", "tensor<9xf32>", count=0),
                     "9xf32", faults=2)

    def test_missing_attribute(self):
        self.refused(self.edited(r"qwen\.rope_angles %positions \{.*?\}",
                                 "qwen.rope_angles %positions"), "theta")

    def test_enormous_tensor(self):
        self.refused(self.edited("tensor<256x128xf32>",
                                 "tensor<4611686018427387904x128xf32>",
                                 count=0))

    # Calls of the tool.

    def test_missing_model_and_folder(self):
        self.run_bad("qwenc", "none.mlir", "-o", "plan.fb", says="none.mlir")
        self.run_bad("qwenc", self.folder, "-o", "plan.fb",
                     says=str(self.folder))

    def test_unwritable_plan(self):
        good = self.shared / "good.mlir"
        self.run_bad("qwenc", good, "-o", "none/plan.fb", says="none/plan.fb")
        (self.folder / "folder").mkdir()
        self.run_bad("qwenc", good, "-o", "folder", says="folder")

    def test_model_is_not_overwritten_by_its_plan(self):
        shutil.copy(self.shared / "good.mlir", self.folder / "model.mlir")
        (self.folder / "link").symlink_to("model.mlir")
        for output in ("model.mlir", "link"):
            self.run_bad("qwenc", "model.mlir", "-o", output, says=output)

    def test_help_shows_the_options_of_this_tool(self):
        text = self.run_good("qwenc", "--help").stdout
        self.assertIn("--recompute", text)
        self.assertLess(len(text.splitlines()), 60)

    def test_closed_streams(self):
        """The plan must not get the number of the standard output."""
        done = subprocess.run(
            command("qwenc", self.shared / "good.mlir", "-o", "plan.fb"),
            cwd=self.folder, timeout=240, preexec_fn=lambda: os.close(1))
        self.assertEqual(done.returncode, 0)
        self.run_good("qwen-plan", "plan.fb", "--summary")

    def test_full_disk(self):
        good = self.shared / "good.mlir"
        self.run_into_full_disk("qwenc", good, "-o", "-")
        self.run_into_full_disk("qwenc", good, "--stop-after=fusion")
        self.run_into_full_disk("qwenc", good, "-o", "plan.fb")
        self.run_into_full_disk("qwenc", "--list-stages")
        self.run_bad("qwenc", good, "-o", "/dev/full", says="No space left")

    def test_full_disk_of_temporary_files(self):
        disk = self.folder / "disk"
        disk.mkdir()
        call = with_small_disk(disk, "8k", [
            "sh", "-c", 'TMPDIR=disk "$@"; echo "status $?"; ls disk', "sh",
            *command("qwenc", self.shared / "good.mlir", "-o", "plan.fb")])
        if call is None:
            self.skipTest("this machine gives no user a file system")
        done = subprocess.run(call, cwd=self.folder, capture_output=True,
                              text=True, timeout=240)
        self.assertEqual(done.stdout, "status 1\n")
        self.assertRegex(done.stderr, r"^\S+good.mlir:1:1: error: cannot write "
                         r"disk/\S+: No space left on device\n$")

    def test_limit_on_the_size_of_files(self):
        """ulimit -f, as a quota may be set."""
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        done = subprocess.run(
            command("qwenc", self.shared / "good.mlir", "--stop-after=import",
                    "-o", "ir.mlir"), cwd=self.folder, capture_output=True,
            text=True, timeout=240, preexec_fn=limit)
        self.assertEqual((done.returncode, done.stderr), (
            1, "qwenc: error: cannot write 'ir.mlir': File too large\n"))
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_full_disk_keeps_the_old_plan(self):
        """The disk has room for a part of the new one."""
        disk = self.folder / "disk"
        disk.mkdir()
        look = ["sh", "-c", 'echo old > disk/plan.fb; "$@"; echo "status $?"; '
                "ls disk; cat disk/plan.fb", "sh"]
        call = with_small_disk(disk, "32k", [*look, *command(
            "qwenc", self.shared / "good.mlir", "-o", "disk/plan.fb")])
        if call is None:
            self.skipTest("this machine gives no user a file system")
        done = subprocess.run(call, cwd=self.folder, capture_output=True,
                              text=True, timeout=240)
        self.assertEqual(done.stdout, "status 1\nplan.fb\nold\n")
        self.assertEqual(done.stderr, "qwenc: error: cannot write "
                         "'disk/plan.fb': No space left on device\n")

    def test_pipe_as_output(self):
        call = (self.shared / "good.mlir", "--stop-after=import", "-o")
        self.run_good("qwenc", *call, "ir.mlir")
        piped = subprocess.run(command("qwenc", *call, "/dev/stdout"),
                               stdout=subprocess.PIPE, timeout=240, check=True)
        self.assertEqual(piped.stdout, (self.folder / "ir.mlir").read_bytes())

    def test_old_plan_survives_a_failure(self):
        (self.folder / "plan.fb").write_text("old")
        self.refused("module {}", "qwen.tokens")
        self.assertEqual((self.folder / "plan.fb").read_text(), "old")

    def test_wrong_options(self):
        good = self.shared / "good.mlir"
        for arguments, says in (
            (("--bogus",), "--bogus"),
            (("--target=x86-64-v9",), "x86-64-v9"),
            (("--target=sm_90",), "sm_90"),
            (("--recompute=some",), "some"),
            (("--fusion=maybe",), "maybe"),
            (("--moment-type=f16",), "f16"),
            (("--masters=bf16",), "bf16"),
            (("--remarks=all",), "all"),
            (("--stop-after=linking",), "linking"),
            (("--no-decay=(",), "("),
            (("--no-decay=nosuch",), "no parameter matches 'nosuch'"),
            (("--tuning=table.txt",), "--tuning is for"),
            (("another.mlir",), "positional"),
        ):
            with self.subTest(arguments=arguments):
                self.run_bad("qwenc", good, "-o", "plan.fb", *arguments,
                             says=says)
        self.run_bad("qwenc", good, says="-o")
        self.run_bad("qwenc", "-o", "plan.fb", says="model.mlir")


if __name__ == "__main__":
    unittest.main()
