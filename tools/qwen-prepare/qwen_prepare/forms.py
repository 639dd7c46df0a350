"""The forms of a row (messages, ShareGPT, instruction, text) and their sense.

Every form becomes a `Chat` or a `Text`; nothing after this file knows which
form a row had.
"""

import re
from dataclasses import dataclass, field
from typing import Optional, Union

from .errors import PrepareError, one_line
from .messages import is_blank, normalise_message, normalise_tools, tool_call

FORMS = ("messages", "sharegpt", "instruction", "text")

# A row has the form whose field it holds.
_FORM_FIELDS = {
    "messages": "messages",
    "sharegpt": "conversations",
    "instruction": "instruction",
}

_SHAREGPT_ROLES = {
    "system": "system",
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
    "chatgpt": "assistant",
    "model": "assistant",
    "function_call": "assistant",
    "observation": "tool",
    "function_response": "tool",
    "tool": "tool",
}

# Variables of the template that a row may not replace.
_RESERVED = ("messages", "tools", "documents", "add_generation_prompt")

_THOUGHT = re.compile(r"\s*<think>(.*?)</think>", re.DOTALL)


@dataclass
class Chat:
    """A conversation; `trained[i]` says if message i may be supervised."""

    messages: list
    trained: list
    tools: Optional[list] = None
    variables: dict = field(default_factory=dict)

    def is_empty(self) -> bool:
        """True if there is nothing in it that an assistant wrote or did.

        A chat without any assistant message is not empty, only of no use;
        it is counted apart.
        """
        answers = [m for m in self.messages if m["role"] == "assistant"]
        if not self.messages:
            return True
        return bool(answers) and all(is_blank(m) for m in answers)


@dataclass
class Text:
    """A document of plain text."""

    text: str

    def is_empty(self) -> bool:
        return not self.text.strip()


def read_row(data: dict, form: Optional[str], text_field: str):
    """The `Chat` or `Text` of a row; `form` None finds the form by itself."""
    form = form or _find_form(data, text_field)
    if form == "text":
        text = _expect_text(data, text_field, required=True)
        sample: Union[Chat, Text] = Text(text)
    elif form == "instruction":
        sample = _read_instruction(data)
    else:
        sample = _read_conversation(data, _FORM_FIELDS[form])
    if isinstance(sample, Chat):
        sample.tools = normalise_tools(data.get("tools"))
        sample.variables = _read_variables(data)
    return sample


def _find_form(data: dict, text_field: str) -> str:
    fields = {**_FORM_FIELDS, "text": text_field}
    found = [
        form for form, name in fields.items() if data.get(name) is not None
    ]
    if len(found) == 1:
        return found[0]
    if found:
        raise PrepareError(
            f"the row has the fields of several forms ({', '.join(found)}); "
            "choose one with --form"
        )
    keys = ", ".join(map(str, data)) or "none"
    raise PrepareError(
        f"expected one of the fields {', '.join(fields.values())}; "
        f"found {one_line(keys, 100)}"
    )


def _read_conversation(data: dict, name: str) -> Chat:
    """`messages` with role/content, or `conversations` with from/value."""
    turns = data.get(name)
    if not isinstance(turns, list):
        raise PrepareError(
            f"{name}: expected a list of messages, "
            f"found {one_line(turns, 60)}"
        )
    chat = Chat([], [])
    for index, turn in enumerate(turns):
        where = f"{name}[{index}]"
        if isinstance(turn, dict) and "from" in turn and "role" not in turn:
            turn = _from_sharegpt(turn, where)
        message, trained = normalise_message(turn, where)
        chat.messages.append(message)
        chat.trained.append(trained)
    _prepend_system(chat, data)
    return chat


def _from_sharegpt(turn: dict, where: str) -> dict:
    """A from/value turn as a role/content message; other fields are kept."""
    speaker = turn["from"]
    if not isinstance(speaker, str) or speaker not in _SHAREGPT_ROLES:
        raise PrepareError(
            f"{where}.from: expected one of {', '.join(_SHAREGPT_ROLES)}; "
            f"found {one_line(speaker, 60)}"
        )
    rest = {k: v for k, v in turn.items() if k not in ("from", "value")}
    message = {**rest, "role": _SHAREGPT_ROLES[speaker]}
    value = turn.get("value")
    if not isinstance(value, (str, list, type(None))):
        raise PrepareError(
            f"{where}.value: expected text, found {one_line(value, 60)}"
        )
    if speaker != "function_call":
        return {**message, "content": value}
    if not isinstance(value, str):
        raise PrepareError(
            f"{where}.value: expected a tool call in JSON, "
            f"found {one_line(value, 60)}"
        )
    thought = _THOUGHT.match(value)
    if thought:
        message["reasoning_content"] = thought.group(1).strip()
        value = value[thought.end() :]
    value = value.strip()
    if value.startswith("["):
        message["tool_calls"] = value
    else:
        message["tool_calls"] = [tool_call(value, f"{where}.value")]
    return message


def _read_instruction(data: dict) -> Chat:
    """instruction, input and output, after an optional system and history."""
    instruction = _expect_text(data, "instruction", required=True)
    more = _expect_text(data, "input")
    answer = _expect_text(data, "output", required=True)
    history = data.get("history") or []
    chat = Chat([], [])
    if not isinstance(history, list):
        raise PrepareError(
            f"history: expected a list, found {one_line(history, 60)}"
        )
    for index, pair in enumerate(history):
        if (
            not isinstance(pair, list)
            or len(pair) != 2
            or not all(isinstance(text, str) for text in pair)
        ):
            raise PrepareError(
                f"history[{index}]: expected a question and an answer, "
                f"found {one_line(pair, 60)}"
            )
        _append_exchange(chat, *pair)
    question = f"{instruction}\n{more}" if more else instruction
    _append_exchange(chat, question, answer)
    _prepend_system(chat, data)
    return chat


def _append_exchange(chat: Chat, question: str, answer: str):
    chat.messages.append({"role": "user", "content": question})
    chat.messages.append({"role": "assistant", "content": answer})
    chat.trained += [False, True]


def _prepend_system(chat: Chat, data: dict):
    """Puts the row's `system` field in front, where the row has one."""
    system = _expect_text(data, "system")
    if not system or not chat.messages:
        return
    if chat.messages[0]["role"] == "system":
        if chat.messages[0]["content"] != system:
            raise PrepareError(
                "system: the row has a system field and another system "
                "message"
            )
        return
    chat.messages.insert(0, {"role": "system", "content": system})
    chat.trained.insert(0, False)


def _read_variables(data: dict) -> dict:
    """The row's own template variables, such as enable_thinking."""
    variables = data.get("chat_template_kwargs") or {}
    if not isinstance(variables, dict):
        raise PrepareError(
            "chat_template_kwargs: expected an object, "
            f"found {one_line(variables, 60)}"
        )
    for name in _RESERVED:
        if name in variables:
            raise PrepareError(
                f"chat_template_kwargs: {name} cannot be set by a row"
            )
    return variables


def _expect_text(data: dict, name: str, required: bool = False) -> str:
    value = data.get(name)
    if value is None and not required:
        return ""
    if not isinstance(value, str):
        raise PrepareError(
            f"{name}: expected text, found {one_line(value, 60)}"
        )
    return value
