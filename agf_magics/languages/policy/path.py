"""Parses and evaluates path expressions, ``source.direction.field``, for mappings and conditions.

A path names data and computes nothing: it has only keys, no index, no quoting, no blanks, ASCII
names. It is read in a frame ``{"parent": {"input": …}, alias: {"input": …, "output": …}, …}``, so a
source that has not run is absent. ``.[]`` means every element of a list. If `ELEMENT` is bound in
the frame, the value is that of one element; otherwise it is the list of the values of all elements.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from ...flow.protocols import Frame, Ref
from ...schemas.schema import shown_value
from ...text.diagnostics import Diagnostic, StepError
from ...text.shorten import shorten
from ...text.source import Source, Span, Text
from ...text.suggestions import suggest
from ...values.sequences import is_sequence, why_no_sequence
from ...values.unread import opened
from ...values.value import Value
from ..foreign_keys import ROOTS
from ..scan import Refusal, parse_at

Where = Literal["policy_step", "batch", "condition", "route"]
"""The place of a path: the input of a step, of a batch, of a route; a key of a condition."""

PARENT: Final = "parent"
"""The enclosing agent."""
ELEMENT: Final = "[]"
"""The name of the current element in a frame. No alias can have this name."""
DIRECTIONS = ("input", "output")
"""The second names of a path: the value that its source got, or gave."""
NAME = re.compile("[a-zA-Z_][a-zA-Z0-9_]*")
FORM = "a path is source.direction.field: parent.input.NAME, or ALIAS.output.NAME"
CONSTANT = (
    f"{FORM}; a constant is a field of the input (--set NAME=VALUE, read as parent.input.NAME) or "
    f"part of the agent"
)
_ELEMENTS = "; an element of the list is parent.input.LIST.[]"
_ITERATES = {
    "policy_step": "a step's input_mapping",
    "condition": "a condition",
    "route": "a route's input_mapping",
}
"""The places where ``.[]`` is not allowed, in words."""


class Part(NamedTuple):
    """A name of a path, or ``[]``, and its position in the text."""

    name: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.name)


class Absent(StepError):
    """An object lacks a name of a path, for which a target may have a default (AGF-29)."""


class Path:
    """A parsed path expression: an Expr. ``str()`` is its text."""

    __slots__ = (
        "_text",
        "direction",
        "elements",
        "fields",
        "parts",
        "source",
        "span",
        "text",
    )

    def __init__(self, text: Text, parts: Sequence[Part]) -> None:
        self._text = text
        self.text = text.text
        self.parts = tuple(parts)
        self.span: Span = text.locate(0, len(text.text))
        self.source = parts[0].name
        self.direction = parts[1].name
        names = tuple(part.name for part in parts[2:])
        self.fields: tuple[str, ...] = names[: names.index(ELEMENT)] if ELEMENT in names else names
        """The fields before ``.[]``."""
        self.elements: tuple[str, ...] | None = (
            names[len(self.fields) + 1 :] if ELEMENT in names else None
        )
        """The fields of each element, after ``.[]``; None: the path has no ``.[]``."""

    def evaluate(self, frame: Frame) -> Value:
        """The value. Raises Absent at the first name that is absent, another StepError if the
        source has not run or a value on the way is not an object."""
        if self.elements is None:
            return self._walk(self._origin(frame), self.fields, 2)
        start = 3 + len(self.fields)
        if ELEMENT in frame:
            return self._walk(frame[ELEMENT], self.elements, start)
        return [self._walk(element, self.elements, start) for element in self.over(frame)]

    @property
    def array(self) -> str:
        """The text before ``.[]``: the path of the list."""
        return ".".join((self.source, self.direction, *self.fields))

    def part_span(self, index: int) -> Span:
        part = self.parts[index]
        return self._text.locate(part.start, part.end)

    def reads(self) -> tuple[Ref, ...]:
        """The value that the path reads; of a path with ``.[]`` the list."""
        # Never certain: an absent value may have a default at its target (AGF-29).
        return (Ref((self.source, self.direction, *self.fields), self.span, certain=False),)

    def over(self, frame: Frame) -> Value:
        """The list or the sequence before ``.[]``. Raises StepError if it is another value."""
        value = opened(self._walk(self._origin(frame), self.fields, 2))
        if type(value) is not list and not is_sequence(value):
            message = f".[] needs a list, and {self.array} is {shown_value(value)}"
            place = self.part_span(2 + len(self.fields))
            hint = why_no_sequence(value) or "also one value is given as a list: [VALUE]"
            raise StepError(Diagnostic("policy.type-mismatch", message, place, hint))
        return value

    def _origin(self, frame: Frame) -> Value:
        """The whole input or output of the source. Raises StepError if the source has not run."""
        ran = frame.get(self.source)
        if ran is None or self.direction not in ran:
            raise StepError(out_of_order(self))
        return ran[self.direction]

    def _walk(self, value: Value, names: tuple[str, ...], start: int) -> Value:
        """The value at ``names``; ``start``: the number of the part that they begin with."""
        for index, name in enumerate(names, start):
            if type(value) is not dict or name not in value:
                raise self._no_field(index, value)
            value = value[name]
        return value

    def _no_field(self, index: int, value: Value) -> StepError:
        """The error for ``value``, which has no field of the name of this part."""
        before = ".".join(part.name for part in self.parts[:index])
        name = self.parts[index].name
        place = self.part_span(index)
        if type(value) is not dict:
            message = f"{before} is {shown_value(value)}: it has no field {name!r}"
            return StepError(Diagnostic("policy.unresolved-path", message, place))
        hint = suggest(name, value, "its fields") or "it has no fields"
        message = f"{before} has no {name!r}"
        return Absent(Diagnostic("policy.unresolved-path", message, place, hint))

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Path({self.text!r})"


def parse_path(text: Text | str, where: Where) -> Path:
    """Parse a path. Raises DefinitionError at the wrong part, also for ``.[]`` outside of a batch.

    >>> parse_path("writer.output.draft", "policy_step").evaluate({"writer": {"output": {"draft": "..."}}})
    '...'
    """
    text = Source("<path>", text).span() if isinstance(text, str) else text
    return Path(text, parse_at(text, lambda source: _parse(source, where)))


def _parse(text: str, where: Where) -> list[Part]:
    """The parts of a path. Raises Refusal."""
    parts = _parts(text)
    for index, part in enumerate(parts):
        if problem := _part_problem(text, parts, index):
            message, hint = problem
            start = part.start
            end = part.end
            if _is_no_path(text, index, part.name):
                start, end = 0, len(text)
            # an empty name has no character to point at, so the caret is under the dot next to it
            elif not part.name:
                start = max(0, part.start - 1)
                end = min(max(1, part.start), len(text))
            if where == "batch":
                hint += _ELEMENTS
            if fixed := _probable_path(text):
                hint = f"did you mean {fixed}?"
            raise Refusal("policy.path-syntax", message, start, end, hint)
    if len(parts) < 3:
        hint = f"name a field: {text}.NAME"
        if parts[1].name == "output":
            hint += (
                f"; if the output is a list, run {parts[0].name} in a pipeline whose last step is "
                '- transform: {value: "{list: pipe}"}, and use the pipeline as an agent'
            )
        message = f"a path cannot read the whole {parts[1].name} {shorten(text)!r}"
        raise Refusal("policy.path-syntax", message, 0, len(text), hint)
    first, second = [*(part for part in parts if part.name == ELEMENT), None, None][:2]
    if second is not None:
        hint = "let an agent of its own batch the inner list, and give it each element"
        message = "a path has at most one .[]"
        raise Refusal("policy.iteration-multiple", message, second.start, second.end, hint)
    if first is not None and where != "batch":
        hint = "an agf.batch does it: its input_mapping makes one call for each element"
        message = f".[] is not allowed in {_ITERATES[where]}"
        raise Refusal("policy.iteration-scope", message, first.start, first.end, hint)
    return parts


def source_problem(path: Path, agents: Collection[str], ran: Collection[str]) -> Diagnostic | None:
    """The problem with the source of a path, given the local agents and those that have run at its
    place.

    A step that reads itself or a later step, also in a loop (AMB-1), reads a value that does not
    exist yet.
    """
    if path.source == PARENT:
        return out_of_order(path) if path.direction == "output" else None
    if path.source not in agents:
        hint = suggest(path.source, (*agents, PARENT), "sources")
        message = f"there is no local agent {shorten(path.source)!r}"
        return Diagnostic("policy.unknown-alias", message, path.part_span(0), hint)
    return None if path.source in ran else out_of_order(path)


def iteration_problem(paths: Mapping[str, Path], span: Span | None) -> Diagnostic | None:
    """The problem with the ``.[]`` in the mapping of a batch. ``span``: the place of the
    mapping."""
    iterating = [path for path in paths.values() if path.elements is not None]
    if not iterating:
        example = next((path.text for path in paths.values()), "parent.input.items")
        message = "a batch needs a path with .[] in its input_mapping"
        hint = (
            f"write .[] after the list: {example}.[], or {example}.[].FIELD for a field of "
            f"each element"
        )
        return Diagnostic("policy.iteration-missing", message, span, hint)
    first, *others_iterating = iterating
    for path in others_iterating:
        if path.array != first.array:
            message = f"a batch iterates over one list, but {path.array} is not {first.array}"
            hint = "all fields come from the same element; combine the lists in an earlier step"
            related = (("the list", first.span),)
            return Diagnostic("policy.iteration-prefix", message, path.span, hint, related=related)
    return None


def out_of_order(path: Path) -> Diagnostic:
    """The problem that a path reads a value that does not exist yet."""
    if path.source == PARENT:
        message = "the parent has no output while its policy runs"
        hint = "read parent.input, or an earlier step"
        return Diagnostic("policy.dependency-order", message, path.part_span(1), hint)
    message = f"{path.source!r} has not run when this is read"
    hint = "a path reads earlier steps only"
    return Diagnostic("policy.dependency-order", message, path.part_span(0), hint)


def _parts(text: str) -> list[Part]:
    parts = list[Part]()
    start = 0
    for name in text.split("."):
        parts.append(Part(name, start))
        start += len(name) + 1
    return parts


def _part_problem(text: str, parts: Sequence[Part], index: int) -> tuple[str, str] | None:
    """The message and the hint for an invalid part; None: the part is valid."""
    name = parts[index].name
    if len(parts) == 1 or _is_no_path(text, index, name):
        message = f"{shorten(text)!r} is not a path" if text else "an empty text is not a path"
        return message, CONSTANT
    if index == 1 and name not in DIRECTIONS:
        message = f"expected input or output here, not {shorten(name)!r}"
        if not NAME.fullmatch(name) or len(parts) > 2:
            return message, suggest(name, DIRECTIONS) or FORM
        first = parts[0].name
        read = f"{first}.{'input' if first == PARENT else 'output'}.{name}"
        return message, f"did you mean {f'parent.{text}' if first in DIRECTIONS else read}?"
    if NAME.fullmatch(name) or (name == ELEMENT and index > 2):
        return None
    if not name:
        place = "between two dots"
        if index == 0:
            place = "before the first dot"
        elif index == len(parts) - 1:
            place = "after the last dot"
        return f"a name is missing {place}", FORM
    if name == ELEMENT:
        return ".[] must follow a list", f"name the list: {parts[0].name}.{parts[1].name}.LIST.[]"
    letters = "the letters a to z, digits and _, and does not begin with a digit"
    if index == 0:
        hint = f"a source is parent or an alias; an alias has {letters}"
        return f"{shorten(name)!r} is not a source", hint
    hint = f"a field name has {letters}; a path cannot read other properties"
    if name.isdigit() or name == "*" or re.fullmatch(r"\w+\[\d*\]", name):
        hint = "a path has no index; an agf.batch iterates over a list with .[]"
    return f"{shorten(name)!r} is not a field name", hint


def _is_no_path(text: str, index: int, name: str) -> bool:
    """Whether the whole text is something else than a path: a sentence."""
    return index == 0 and not NAME.fullmatch(name) and len(text.split()) > 1


def _probable_path(text: str) -> str | None:
    """The path that its author probably meant: without the marks of other languages."""
    bare = text.strip(" \t\r\n${}=!?#@'\"").lstrip(".")
    bare = re.sub(r"->|/", ".", bare)
    bare = re.sub(r"(?<=[A-Za-z0-9_])\[]", ".[]", bare)
    bare = re.sub(r"\.?\[[\"']([A-Za-z0-9_]+)[\"']]", r".\1", bare)
    bare = ".".join(map(str.strip, bare.split(".")))
    root, _, field = bare.partition(".")
    if bare != text and root in ROOTS and "." not in field:  # a placeholder of another language
        bare = f"{PARENT}.input.{field}"
    parts = _parts(bare)
    is_path = len(parts) > 2 and not any(
        _part_problem(bare, parts, index) for index in range(len(parts))
    )
    return bare if is_path and bare != text else None
