"""One message of a chat, in the shape that chat templates expect.

Data sets write the same things in many ways: text or typed parts, reasoning
as a field or as a part, tool calls as objects or as JSON in a string, a loss
weight under several names. Here they become one shape: `content` is a string,
reasoning is `reasoning_content`, `tool_calls` hold argument objects.
"""

import json

from .errors import PrepareError, one_line

ROLES = ("system", "developer", "user", "assistant", "tool")

# In this order: the first is the name that chat templates read.
_REASONING_FIELDS = ("reasoning_content", "reasoning", "thinking")
_REASONING_PARTS = ("reasoning", "thinking")
_WEIGHT_FIELDS = ("loss_weight", "weight", "train")


def normalise_message(raw, where: str) -> tuple:
    """Returns (message, trained); `where` is for errors: `messages[3]`."""
    if not isinstance(raw, dict):
        raise PrepareError(
            f"{where}: expected an object, found {one_line(raw, 60)}"
        )
    # None means absent; many templates would print it.
    message = {k: v for k, v in raw.items() if v is not None}
    role = message.get("role")
    if role not in ROLES:
        raise PrepareError(
            f"{where}.role: expected one of {', '.join(ROLES)}; "
            f"found {one_line(role, 60)}"
        )
    trained = _take_trained(message, role, where)
    raw_content = message.pop("content", None)
    content, reasoning, calls = _split_content(raw_content or "", where)
    reasoning = _merge_reasoning(message, reasoning, where)
    calls += _tool_calls(message.pop("tool_calls", []), where)
    if role != "assistant" and (reasoning or calls):
        raise PrepareError(
            f"{where} ({role}): only an assistant message may hold reasoning "
            "or tool calls"
        )
    if raw_content is None and reasoning is None and not calls:
        raise PrepareError(f"{where}: the {role} message has no content")
    message["content"] = content
    if reasoning is not None:
        message["reasoning_content"] = reasoning
    if calls:
        message["tool_calls"] = calls
    return message, trained


def is_blank(message: dict) -> bool:
    """True if a message holds neither text, nor reasoning, nor a call."""
    reasoning = message.get("reasoning_content", "")
    return not (
        message["content"].strip()
        or reasoning.strip()
        or message.get("tool_calls")
    )


def parse_json(text: str, where: str, expected: str):
    """The value of JSON that a data set keeps in a string."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise PrepareError(
            f"{where}: expected {expected}, found {one_line(text, 60)}"
        ) from None


def tool_call(raw, where: str) -> dict:
    """A call in either spelling, as {type, function: {name, arguments}}."""
    if isinstance(raw, str):
        raw = parse_json(raw, where, "a tool call as a JSON object")
    function = raw.get("function", raw) if isinstance(raw, dict) else None
    if not isinstance(function, dict) or not isinstance(
        function.get("name"), str
    ):
        raise PrepareError(
            f"{where}: expected a tool call with name and arguments, "
            f"found {one_line(raw, 60)}"
        )
    arguments = function.get("arguments")
    if isinstance(arguments, str) and arguments.strip():
        arguments = parse_json(
            arguments, f"{where}.arguments", "a JSON object"
        )
    if arguments in (None, ""):
        arguments = {}
    if not isinstance(arguments, dict):
        raise PrepareError(
            f"{where}.arguments: expected an object, "
            f"found {one_line(arguments, 60)}"
        )
    call = {"type": "function"}
    if isinstance(raw.get("id"), str):
        call["id"] = raw["id"]
    call["function"] = {**function, "arguments": arguments}
    return call


def normalise_tools(raw, where: str = "tools"):
    """The tool list of a row: a list, or JSON in a string; None if empty."""
    if isinstance(raw, str):
        if not raw.strip():
            return None
        raw = parse_json(raw, where, "a JSON list of tools")
    if raw in (None, []):
        return None
    if not isinstance(raw, list):
        raise PrepareError(
            f"{where}: expected a list of tools, found {one_line(raw, 60)}"
        )
    tools = []
    for index, tool in enumerate(raw):
        if isinstance(tool, str):
            tool = parse_json(tool, f"{where}[{index}]", "a JSON object")
        if not isinstance(tool, dict):
            raise PrepareError(
                f"{where}[{index}]: expected an object, "
                f"found {one_line(tool, 60)}"
            )
        if "function" not in tool and "name" in tool:
            # The bare form; templates are made for the wrapped one.
            tool = {"type": "function", "function": tool}
        tools.append(tool)
    return tools


def _take_trained(message: dict, role: str, where: str) -> bool:
    """Removes the loss weight; True if the message is to be supervised."""
    given = {
        name: message.pop(name) for name in _WEIGHT_FIELDS if name in message
    }
    for name, value in given.items():
        if not isinstance(value, (bool, int, float)) or value not in (0, 1):
            raise PrepareError(
                f"{where}.{name}: expected 0 or 1 (a loss mask has no values "
                f"between), found {one_line(value, 60)}"
            )
    values = {bool(value) for value in given.values()}
    if len(values) > 1:
        raise PrepareError(
            f"{where}: {' and '.join(given)} contradict each other"
        )
    if role == "assistant":
        return False not in values
    if True in values:
        raise PrepareError(
            f"{where}.{next(iter(given))}: only assistant messages can be "
            f"supervised, and this is a {role} message"
        )
    return False


def _split_content(content, where: str) -> tuple:
    """Splits string or typed parts into (text, reasoning or None, calls)."""
    if isinstance(content, str):
        return content, None, []
    if not isinstance(content, list):
        raise PrepareError(
            f"{where}.content: expected text or a list of parts, "
            f"found {one_line(content, 60)}"
        )
    texts: list = []
    reasonings: list = []
    calls: list = []
    for index, part in enumerate(content):
        place = f"{where}.content[{index}]"
        if isinstance(part, str):
            texts.append(part)
            continue
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "text":
            texts.append(_part_text(part, ("text", "value"), place))
        elif kind in _REASONING_PARTS:
            names = (kind, "text", "value")
            reasonings.append(_part_text(part, names, place))
        elif kind == "tool_call":
            value = part.get("value", part.get("tool_call"))
            calls.append(tool_call(value, place))
        else:
            raise PrepareError(
                f"{place}: expected a part of type text, reasoning or "
                f"tool_call, found {one_line(kind or part, 60)}"
            )
    reasoning = "".join(reasonings) if reasonings else None
    return "".join(texts), reasoning, calls


def _part_text(part: dict, names: tuple, where: str) -> str:
    for name in names:
        if isinstance(part.get(name), str):
            return part[name]
    raise PrepareError(
        f"{where}: expected the text of the part in {' or '.join(names)}"
    )


def _merge_reasoning(message: dict, from_parts, where: str):
    """Reasoning from a field or from parts; removes the field's aliases."""
    found = [] if from_parts is None else [from_parts]
    for name in _REASONING_FIELDS:
        if name in message:
            value = message.pop(name)
            if not isinstance(value, str):
                raise PrepareError(
                    f"{where}.{name}: expected text, "
                    f"found {one_line(value, 60)}"
                )
            found.append(value)
    if len(set(found)) > 1:
        raise PrepareError(
            f"{where}: reasoning is given twice, with different text"
        )
    return found[0] if found else None


def _tool_calls(raw, where: str) -> list:
    if isinstance(raw, str) and raw.strip():
        raw = parse_json(raw, f"{where}.tool_calls", "a JSON list")
    if not raw:
        return []
    if not isinstance(raw, list):
        raise PrepareError(
            f"{where}.tool_calls: expected a list, found {one_line(raw, 60)}"
        )
    return [
        tool_call(call, f"{where}.tool_calls[{index}]")
        for index, call in enumerate(raw)
    ]
