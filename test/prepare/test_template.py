"""The jinja environment of chat templates, and what can go wrong in one."""

import pathlib
import unittest

from prepare_testing import PrepareTest, assistant, user

from qwen_prepare.template import ChatTemplate

CHAT = {"messages": [user("a"), assistant("b")]}


def render(source: str, **extra) -> str:
    template = ChatTemplate(source, ("<|im_end|>",), {"eos_token": "END"})
    return template.render(CHAT["messages"], None, extra).text


class EnvironmentTest(unittest.TestCase):
    """Settings that transformers has, each visible in the output."""

    def test_blocks_are_trimmed(self):
        self.assertEqual(render("  {% if true %}\nx\n  {% endif %}\ny"),
                         "x\ny")

    def test_tojson_escapes_nothing(self):
        self.assertEqual(render("{{ v|tojson }}", v={"b": "<\u00e9>&'"}),
                         '{"b": "<\u00e9>&\'"}')
        self.assertEqual(render("{{ v|tojson(indent=1) }}", v=[1]),
                         "[\n 1\n]")

    def test_loop_controls(self):
        self.assertEqual(
            render("{% for i in range(9) %}{% if i == 1 %}{% continue %}"
                   "{% endif %}{% if i == 3 %}{% break %}{% endif %}"
                   "{{ i }}{% endfor %}"), "02")

    def test_variables(self):
        self.assertEqual(
            render("{{ eos_token }} {{ tools is none }} "
                   "{{ documents is none }} {{ add_generation_prompt }} "
                   "{{ unknown is defined }}"),
            "END True True False False")

    def test_strftime_now(self):
        self.assertRegex(render("{{ strftime_now('%Y') }}"), r"^\d{4}$")

    def test_sandbox(self):
        for source in ("{{ messages.__class__.__mro__ }}",
                       "{{ messages.append(1) }}"):
            with self.assertRaisesRegex(Exception, "^chat template: "):
                render(source)


class TemplateErrorsTest(PrepareTest):
    def expect_template_error(self, source: str, expected: str):
        template = self.write("t.jinja", source)
        self.expect_row_error(CHAT, expected, "--chat-template", template)

    def expect_row_error(self, row, expected, *arguments):
        """Here already the first row meets the template."""
        path = self.write("rows.jsonl", [row])
        self.expect_error(f"{path}:1: {expected}", path, *arguments)

    def test_raise_exception(self):
        path = self.write("rows.jsonl", [CHAT, {"messages": [
            assistant("b")]}])
        self.expect_error(
            f"{path}:2: chat template: the chat asks no question", path)

    def test_failing_templates(self):
        for source, expected in (
            ("{{ messages[7].content }}", "chat template: "),
            ("{{ 1 + none }}", "chat template: unsupported operand"),
            ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
             "chat template: maximum recursion depth"),
            ("plain", "the rendered chat has no '<|im_start|>assistant\\n'"),
            ("{% if false %}{% generation %}{% endgeneration %}{% endif %}",
             "the rendered chat has no {% generation %}"),
            ("<|im_start|>assistant\nb", "the assistant turn at character 22 "
             "of the rendered chat has no <|im_end|>"),
            ("<|im_start|>assistant\n<|im_start|>assistant\nb",
             "the rendered chat opens an assistant turn at character 22"),
            ("<|im_start|>assistant\nb<|im_end|>\n" * 2,
             "the chat template rendered 2 assistant turns for 1 assistant"),
            ("{% generation %}{% generation %}b{% endgeneration %}"
             "{% endgeneration %}", "chat template: {% generation %} inside"),
            ("{% set t %}{% generation %}b{% endgeneration %}{% endset %}"
             "{{ t[:-1] }}", "the chat template cuts a message in the middle"),
        ):
            self.expect_template_error(source, expected)

    def test_given_template_is_read_before_the_rows(self):
        path = self.write("rows.jsonl", [{"text": 3}])
        for source in ("{% if %}", "{% generation %}x"):
            self.expect_error("error: chat template, line 1: ", path,
                              "--chat-template", self.write("t.jinja", source))

    def test_no_template(self):
        (self.tokenizer_folder / "chat_template.jinja").unlink()
        self.expect_row_error(
            CHAT, f"{self.tokenizer_folder}: no chat template: expected")

    def test_template_in_tokenizer_config(self):
        (self.tokenizer_folder / "chat_template.jinja").unlink()
        config = self.tokenizer_folder / "tokenizer_config.json"
        source = "{% generation %}{{ messages[1].content }}" \
                 "{% endgeneration %}"
        one = '{"chat_template": "%s"}' % source
        several = '{"chat_template": [{"name": "default", "template": ' \
                  '"%s"}]}' % source
        for text in (one, several):
            config.write_text(text)
            file = self.prepare_rows([{"messages": [user("a"),
                                                    assistant("big b")]}])
            self.assertEqual(self.decode(file.tokens), "big b")

    def test_tokenizer_without_turn_tokens(self):
        path = self.tokenizer_folder / "tokenizer.json"
        path.write_text(path.read_text().replace("<|im_end|>", "<|done|>"))
        self.expect_row_error(
            CHAT, "to find the assistant's turns, expected a template with "
            "{% generation %}")


class TokenizerErrorsTest(PrepareTest):
    def test_folder(self):
        rows = self.write("rows.jsonl", [CHAT])
        path = self.tokenizer_folder / "tokenizer.json"
        config = self.tokenizer_folder / "tokenizer_config.json"
        for file, content, expected in (
            (config, b"{", f"{config}: not valid JSON"),
            (config, b"[]", f"{config}: expected a JSON object"),
            (path, b"{}", f"{path}: not a Hugging Face tokenizer"),
            (path, b"\xff", f"{path}: not a Hugging Face tokenizer"),
            (path, None, f"{path}: cannot read: No such file"),
        ):
            before = file.read_bytes()
            file.unlink()
            if content is not None:
                file.write_bytes(content)
            self.expect_error(expected, rows)
            pathlib.Path(file).write_bytes(before)


if __name__ == "__main__":
    unittest.main()
