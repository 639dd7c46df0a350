"""Every form of a row gives the chat that it means, or an error."""

import json
import unittest

from prepare_testing import PrepareTest, assistant, user

CALL = {"type": "function", "function": {"name": "f", "arguments": {"x": 1}}}
TOOL = {"type": "function", "function": {"name": "f", "description": "does"}}
BARE_TOOL = {"name": "f", "description": "does"}


class FormsTest(PrepareTest):
    def expect_same(self, row: dict, *others):
        """All rows mean the same chat: same tokens, same mask."""
        (tokens, mask), = self.prepare_rows([row]).documents()
        for other in others:
            (other_tokens, other_mask), = self.prepare_rows(
                [other]
            ).documents()
            self.assertEqual(
                self.decode(other_tokens), self.decode(tokens), other
            )
            self.assertEqual(other_tokens.tolist(), tokens.tolist())
            self.assertEqual(other_mask.tolist(), mask.tolist())

    def test_typed_parts(self):
        self.expect_same(
            {"messages": [user("ab"), assistant("cd")]},
            {"messages": [
                user([{"type": "text", "text": "a"},
                      {"type": "text", "value": "b"}]),
                assistant(["c", {"type": "text", "text": "d"}]),
            ]},
        )

    def test_reasoning_fields_and_parts(self):
        self.expect_same(
            {"messages": [user("a"), assistant("b", reasoning_content="r")]},
            {"messages": [user("a"), assistant("b", reasoning="r")]},
            {"messages": [user("a"), assistant("b", thinking="r")]},
            {"messages": [user("a"), assistant([
                {"type": "reasoning", "value": "r"},
                {"type": "text", "value": "b"},
            ])]},
            {"messages": [user("a"), assistant([
                {"type": "thinking", "thinking": "r"},
                {"type": "text", "text": "b"},
            ])]},
            {"messages": [user("a"), assistant("b", reasoning=None,
                                               thinking="r")]},
        )

    def test_tool_calls_and_tools(self):
        result = {"role": "tool", "content": "r"}
        end = assistant("done")
        chat = [user("q"), assistant("", tool_calls=[CALL]), result, end]
        bare = {"name": "f", "arguments": '{"x": 1}'}
        self.expect_same(
            {"messages": chat, "tools": [TOOL]},
            {"messages": chat, "tools": json.dumps([TOOL])},
            {"messages": chat, "tools": [BARE_TOOL]},
            {"messages": chat, "tools": [json.dumps(TOOL)]},
            {"messages": [user("q"), assistant(None, tool_calls=[bare]),
                          result, end], "tools": [TOOL]},
            {"messages": [user("q"), assistant([
                {"type": "tool_call", "value": json.dumps(bare)},
            ]), result, end], "tools": [TOOL]},
            {"messages": [user("q"), assistant(
                "", tool_calls=json.dumps([CALL])), result, end],
             "tools": [TOOL]},
        )

    def test_call_without_arguments(self):
        self.expect_same(*(
            {"messages": [user("q"), assistant("", tool_calls=[
                {"function": {"name": "f", **arguments}}])]}
            for arguments in ({}, {"arguments": {}}, {"arguments": ""},
                              {"arguments": "{}"}, {"arguments": None})
        ))

    def test_no_tools(self):
        chat = {"messages": [user("a"), assistant("b")]}
        self.expect_same(
            chat, {**chat, "tools": []}, {**chat, "tools": ""},
            {**chat, "tools": None}, {**chat, "tools": "[]"},
        )

    def test_sharegpt(self):
        self.expect_same(
            {"messages": [
                {"role": "system", "content": "s"}, user("a"),
                assistant("", tool_calls=[CALL]),
                {"role": "tool", "content": "r"}, assistant("b"),
            ], "tools": [TOOL]},
            {"conversations": [
                {"from": "system", "value": "s"},
                {"from": "human", "value": "a"},
                {"from": "function_call",
                 "value": json.dumps(CALL["function"])},
                {"from": "observation", "value": "r"},
                {"from": "gpt", "value": "b"},
            ], "tools": json.dumps([BARE_TOOL])},
            {"conversations": [
                {"from": "user", "value": "a"},
                {"from": "function_call",
                 "value": json.dumps([CALL["function"]])},
                {"from": "tool", "value": "r"},
                {"from": "assistant", "value": "b"},
            ], "system": "s", "tools": [TOOL]},
        )

    def test_sharegpt_reasoning_before_a_call_and_weights(self):
        self.expect_same(
            {"messages": [
                user("a"),
                assistant("", tool_calls=[CALL], reasoning_content="r"),
                {"role": "tool", "content": "t"},
                assistant("b", loss_weight=0),
            ]},
            {"conversations": [
                {"from": "human", "value": "a"},
                {"from": "function_call", "value": "<think>\nr\n</think>\n"
                 + json.dumps(CALL["function"])},
                {"from": "observation", "value": "t"},
                {"from": "gpt", "value": "b", "weight": 0},
            ]},
        )

    def test_instruction(self):
        self.expect_same(
            {"messages": [user("do\nthis"), assistant("done")]},
            {"instruction": "do", "input": "this", "output": "done"},
            {"instruction": "do\nthis", "input": "", "output": "done"},
            {"instruction": "do\nthis", "output": "done"},
        )
        self.expect_same(
            {"messages": [
                {"role": "system", "content": "s"}, user("a"), assistant("b"),
                user("c"), assistant("d"),
            ]},
            {"instruction": "c", "output": "d", "system": "s",
             "history": [["a", "b"]]},
        )

    def test_text(self):
        text = " as it is,\n\n with spaces \n"
        rows = [{"text": text}]
        (tokens, mask), = self.prepare_rows(rows).documents()
        self.assertEqual(self.decode(tokens), text)
        self.assertEqual(mask.tolist(), [0] + [1] * (len(tokens) - 1))
        (other, _), = self.prepare_rows(
            [{"body": text}], "--text-field", "body"
        ).documents()
        self.assertEqual(other.tolist(), tokens.tolist())

    def test_form_must_be_chosen_where_several_fit(self):
        row = {"instruction": "a", "output": "b", "text": "cd"}
        self.expect_row_error(row, "the row has the fields of several forms")
        (tokens, _), = self.prepare_rows([row], "--form", "text").documents()
        self.assertEqual(self.decode(tokens), "cd")

    def test_template_variables_of_row_and_command_line(self):
        template = self.write("vars.jinja", (
            "{{ greeting }}{{ eos_token }}{% generation %}"
            "{{ messages[1].content }}{% endgeneration %}"
        ))
        rows = [
            {"messages": [user("a"), assistant("b")]},
            {"messages": [user("a"), assistant("b")],
             "chat_template_kwargs": {"greeting": [1, True]}},
        ]
        file = self.prepare_rows(
            rows, "--chat-template", template, "--template-arg", "greeting=ho"
        )
        self.assertEqual(
            [self.decode(tokens) for tokens, _ in file.documents()],
            ["ho<|im_end|>b", "[1, True]<|im_end|>b"],
        )


class FormErrorsTest(PrepareTest):
    """Each names the row and the place in it."""

    def test_no_form(self):
        self.expect_row_error(
            {"prompt": "a", "chosen": "b"},
            "expected one of the fields messages, conversations, "
            "instruction, text; found prompt, chosen",
        )

    def test_messages(self):
        for messages, expected in (
            ("hi", "messages: expected a list of messages, found hi"),
            (["hi"], "messages[0]: expected an object, found hi"),
            ([user("a"), {"role": "bot", "content": "b"}],
             "messages[1].role: expected one of system, developer, user, "
             "assistant, tool; found bot"),
            ([{"content": "b"}], "messages[0].role: expected one of"),
            ([user(None)], "messages[0]: the user message has no content"),
            ([user(3)], "messages[0].content: expected text or a list"),
            ([user([{"type": "image", "url": "x"}])],
             "messages[0].content[0]: expected a part of type text, "
             "reasoning or tool_call, found image"),
            ([user([{"type": "text"}])],
             "messages[0].content[0]: expected the text of the part"),
            ([user("a", reasoning="r")],
             "messages[0] (user): only an assistant message may hold"),
            ([user("a"), assistant("b", reasoning="r", thinking="s")],
             "messages[1]: reasoning is given twice"),
            ([user("a"), assistant("b", reasoning=["r"])],
             "messages[1].reasoning: expected text"),
        ):
            self.expect_row_error({"messages": messages}, expected)

    def test_loss_weights(self):
        for turn, expected in (
            (assistant("b", loss_weight=0.5),
             "messages[1].loss_weight: expected 0 or 1"),
            (assistant("b", train="yes"),
             "messages[1].train: expected 0 or 1"),
            (assistant("b", train=True, weight=0),
             "messages[1]: weight and train contradict each other"),
            (user("b", weight=1),
             "messages[1].weight: only assistant messages can be supervised"),
        ):
            self.expect_row_error({"messages": [user("a"), turn]}, expected)

    def test_tool_calls_and_tools(self):
        def calling(call):
            return {"messages": [user("a"), assistant("", tool_calls=call)]}

        chat = [user("a"), assistant("b")]
        place = "messages[1].tool_calls"
        for row, expected in (
            (calling([{"arguments": {}}]),
             f"{place}[0]: expected a tool call with name and arguments"),
            (calling([{"name": "f", "arguments": "{x"}]),
             f"{place}[0].arguments: expected a JSON object, found {{x"),
            (calling([{"name": "f", "arguments": "[1]"}]),
             f"{place}[0].arguments: expected an object, found [1]"),
            (calling({"name": "f"}), f"{place}: expected a list"),
            ({"messages": chat, "tools": "{x"},
             "tools: expected a JSON list of tools, found {x"),
            ({"messages": chat, "tools": {"name": "f"}},
             "tools: expected a list of tools"),
            ({"messages": chat, "tools": [3]},
             "tools[0]: expected an object, found 3"),
        ):
            self.expect_row_error(row, expected)

    def test_sharegpt(self):
        for turns, expected in (
            ([{"from": "robot", "value": "a"}],
             "conversations[0].from: expected one of system, human"),
            ([{"from": "human"}],
             "conversations[0]: the user message has no content"),
            ([{"from": "human", "value": "a"},
              {"from": "function_call", "value": "call f"}],
             "conversations[1].value: expected a tool call as a JSON object"),
            ([{"from": "function_call", "value": None}],
             "conversations[0].value: expected a tool call in JSON"),
            ([{"from": ["human"], "value": "a"}],
             "conversations[0].from: expected one of system, human"),
            ([{"from": "human", "value": 3}],
             "conversations[0].value: expected text, found 3"),
        ):
            self.expect_row_error({"conversations": turns}, expected)

    def test_system_twice(self):
        self.expect_row_error(
            {"messages": [{"role": "system", "content": "a"}, user("b")],
             "system": "c"},
            "system: the row has a system field and another",
        )

    def test_instruction(self):
        for row, expected in (
            ({"instruction": "a"}, "output: expected text, found None"),
            ({"instruction": "a", "input": 1, "output": "b"},
             "input: expected text, found 1"),
            ({"instruction": "a", "output": "b", "history": [["c"]]},
             "history[0]: expected a question and an answer"),
            ({"instruction": "a", "output": "b", "history": "c"},
             "history: expected a list, found c"),
        ):
            self.expect_row_error(row, expected)

    def test_text(self):
        self.expect_row_error({"text": 3}, "text: expected text, found 3")
        self.expect_row_error(
            {"text": "a"}, "--mask assistant: plain text has no assistant",
            "--mask", "assistant",
        )
        self.expect_row_error(
            {"text": "a\ud800"}, "the text holds the lone surrogate U+D800"
        )

    def test_chat_template_kwargs(self):
        chat = {"messages": [user("a"), assistant("b")]}
        self.expect_row_error(
            {**chat, "chat_template_kwargs": 3},
            "chat_template_kwargs: expected an object, found 3",
        )
        self.expect_row_error(
            {**chat, "chat_template_kwargs": {"messages": []}},
            "chat_template_kwargs: messages cannot be set by a row",
        )


if __name__ == "__main__":
    unittest.main()
