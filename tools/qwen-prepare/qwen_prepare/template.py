"""Renders chats with a model's jinja chat template, in a sandbox.

The environment is set up as Hugging Face transformers does it, so that the
text is the one that the model sees in inference: trimmed blocks, loop
controls, `raise_exception`, `strftime_now`, a `tojson` that does not escape,
and the `{% generation %}` tag around what the assistant wrote.

Two things must be known about the rendered text that the text alone cannot
tell: which parts stand inside `{% generation %}`, and which control tokens
(such as <|im_end|>) came out of a message and not out of the template. Both
are marked by characters that occur nowhere in the row, and the marks are
taken out again after rendering. Offsets are therefore right inside macros,
`{% set %}` blocks and filters too.
"""

import contextvars
import datetime
import json
import re
from dataclasses import dataclass, field

import jinja2
import jinja2.ext
import jinja2.sandbox

from .errors import PrepareError, one_line

# Marks are taken from the end of a private-use plane; text that really holds
# such characters gets others of this range.
_MARK_RANGE = range(0x10FF00, 0x10FFFE)
_MARK_CHARACTERS = re.compile("[\U0010ff00-\U0010fffd]")


@dataclass(frozen=True)
class Marks:
    """Four characters that occur nowhere in the row that is rendered."""

    literal_begin: str
    literal_end: str
    generation_begin: str
    generation_end: str

    @staticmethod
    def absent_from(used: set) -> "Marks":
        free = (chr(c) for c in _MARK_RANGE if chr(c) not in used)
        chosen = [c for c, _ in zip(free, range(4))]
        if len(chosen) < 4:
            raise PrepareError(
                "the row uses every character from U+10FF00 to U+10FFFD; "
                "four must be free to mark text while rendering"
            )
        return Marks(*chosen)


DEFAULT_MARKS = Marks.absent_from(set())
_current_marks = contextvars.ContextVar("marks", default=DEFAULT_MARKS)


class _GenerationTag(jinja2.ext.Extension):
    """`{% generation %}...{% endgeneration %}`: puts marks around its body."""

    tags = {"generation"}

    def __init__(self, environment):
        super().__init__(environment)
        environment.extend(has_generation_tag=False)

    def parse(self, parser):
        line = next(parser.stream).lineno
        self.environment.has_generation_tag = True
        body = parser.parse_statements(
            ("name:endgeneration",), drop_needle=True
        )
        call = self.call_method("_marked")
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

    def _marked(self, caller):
        marks = _current_marks.get()
        return marks.generation_begin + caller() + marks.generation_end


def _raise_exception(message):
    raise jinja2.TemplateError(message)


def _to_json(
    value, ensure_ascii=False, indent=None, separators=None, sort_keys=False
):
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def _strftime_now(form):
    return datetime.datetime.now().strftime(form)


@dataclass
class Rendered:
    """A rendered chat; the spans are (begin, end) in characters of `text`."""

    text: str
    # Control tokens that came out of the row's own strings.
    literals: list = field(default_factory=list)
    # What stood inside `{% generation %}`.
    generations: list = field(default_factory=list)


class ChatTemplate:
    """A compiled chat template with the variables it always gets."""

    def __init__(self, source: str, control_tokens, variables: dict):
        self._environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[_GenerationTag, jinja2.ext.loopcontrols],
        )
        self._environment.filters["tojson"] = _to_json
        self._environment.globals["raise_exception"] = _raise_exception
        self._environment.globals["strftime_now"] = _strftime_now
        try:
            self._template = self._environment.from_string(source)
        except jinja2.TemplateSyntaxError as error:
            raise PrepareError(
                f"chat template, line {error.lineno}: {one_line(error)}"
            ) from None
        self._variables = variables
        longest_first = sorted(control_tokens, key=len, reverse=True)
        # (?!) never matches: a tokenizer may have no control token.
        self._control = re.compile(
            "|".join(map(re.escape, longest_first)) or "(?!)"
        )

    @property
    def has_generation_tag(self) -> bool:
        return self._environment.has_generation_tag

    def render(self, messages: list, tools, extra: dict) -> Rendered:
        """Renders one chat; `extra` are the row's own template variables."""
        variables = {"messages": messages, "tools": tools, "extra": extra}
        used: set = set()
        found = _scan(variables, self._control, used)
        marks = Marks.absent_from(used) if used else DEFAULT_MARKS
        if found:
            around = f"{marks.literal_begin}\\g<0>{marks.literal_end}"
            variables = _substitute(variables, self._control, around)
        text = self._run(variables, marks)
        escaped = json.dumps(marks.literal_begin)[1:-1]
        if found and escaped in text:
            raise PrepareError(
                "the chat template writes a message as escaped ASCII JSON, "
                "in which the control token of the message cannot be followed"
            )
        return _take_out_marks(text, marks)

    def _run(self, variables: dict, marks: Marks) -> str:
        token = _current_marks.set(marks)
        try:
            return self._template.render(
                **{**self._variables, **variables["extra"]},
                messages=variables["messages"],
                tools=variables["tools"],
                documents=None,
                add_generation_prompt=False,
            )
        # A template is a foreign program that may fail in any way (index out
        # of range, a None concatenated, unbounded recursion).
        except Exception as error:
            raise PrepareError(f"chat template: {one_line(error)}") from None
        finally:
            _current_marks.reset(token)


def _scan(value, control, used: set) -> bool:
    """True if a string in `value` holds a control token.

    Collects the characters in `used` that may then not serve as marks.
    """
    if isinstance(value, str):
        used.update(_MARK_CHARACTERS.findall(value))
        return control.search(value) is not None
    if isinstance(value, dict):
        value = [*value.keys(), *value.values()]
    if isinstance(value, list):
        # A list, not a generator: every string must be scanned for marks.
        return any([_scan(item, control, used) for item in value])
    return False


def _substitute(value, pattern, replacement: str):
    """A copy of `value` in which every string went through the pattern."""
    if isinstance(value, str):
        return pattern.sub(replacement, value)
    if isinstance(value, dict):
        return {
            _substitute(k, pattern, replacement): _substitute(
                v, pattern, replacement
            )
            for k, v in value.items()
        }
    if isinstance(value, list):
        return [_substitute(item, pattern, replacement) for item in value]
    return value


def _take_out_marks(marked: str, marks: Marks) -> Rendered:
    """Splits a marked text into the plain text and the spans of its marks."""
    every = "".join(vars(marks).values())
    pieces = re.split(f"([{every}])", marked)
    rendered = Rendered("".join(pieces[::2]))
    if len(pieces) == 1:
        return rendered
    opened: dict = {}
    position = 0
    for index, piece in enumerate(pieces):
        if index % 2 == 0:
            position += len(piece)
        elif piece in (marks.literal_begin, marks.generation_begin):
            if piece in opened:
                raise PrepareError(
                    "chat template: {% generation %} inside {% generation %}"
                )
            opened[piece] = position
        elif piece == marks.literal_end:
            begin = opened.pop(marks.literal_begin, None)
            _append_span(rendered.literals, begin, position)
        else:
            begin = opened.pop(marks.generation_begin, None)
            _append_span(rendered.generations, begin, position)
    if opened:
        _append_span([], None, position)
    return rendered


def _append_span(spans: list, begin, end: int):
    if begin is None:
        raise PrepareError(
            "the chat template cuts a message in the middle of a control "
            "token, or drops one end of a {% generation %} block"
        )
    spans.append((begin, end))
