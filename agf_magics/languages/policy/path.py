"""Path expressions: ``source.direction.field``, one grammar for mappings and conditions.

A path names data and computes nothing: keys only, no index, no quoting, no blanks, ASCII names. The frame it is read in
is ``{"parent": {"input": …}, alias: {"input": …, "output": …}, …}``, so a source that has not run is one that is not
there. ``.[]`` stands for every element of a list: where `ELEMENT` is bound in the frame it is that one element, else a
path gives the list of what the elements have.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from ...flow.frame import Frame, Ref
from ...flow.schemas import shown_value
from ...flow.values import Value
from ...text.diagnostics import DefinitionError, Diagnostic, StepError, suggest
from ...text.nodes import shorten
from ...text.source import Source, Span, Text

Where = Literal["policy_step", "batch", "condition", "route"]
"""Where a path stands: the input of a step, of a batch, of a route; a key of a condition."""

PARENT: Final = "parent"
"""The enclosing agent."""
ELEMENT: Final = "[]"
"""The name in a frame of the element that ``.[]`` stands for; no alias can be called so."""
DIRECTIONS = ("input", "output")
NAME = re.compile("[a-zA-Z_][a-zA-Z0-9_]*")
FORM = "a path is source.direction.field: parent.input.NAME, or ALIAS.output.NAME"
_ITERATES = {"policy_step": "a step's input_mapping", "condition": "a condition", "route": "a route's input_mapping"}


class Absent:
    """What a path gives where the field, or an object on the way to it, is not there."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = Absent()


class Part(NamedTuple):
    """A name of a path, or ``[]``, and where it stands in the text."""

    name: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.name)


class Path:
    """A parsed path expression: an Expr. ``str()`` is its text."""

    __slots__ = ("_text", "direction", "elements", "evaluate", "fields", "find", "parts", "source", "span", "text")

    find: Callable[[Frame], Value]
    """The value, or ABSENT. A StepError where the way to it is broken: nothing has run, a number has no fields."""
    evaluate: Callable[[Frame], Value]
    """The value; a StepError at the very name that is absent."""

    def __init__(self, text: Text, parts: Sequence[Part]) -> None:
        self._text = text
        self.text = text.text
        self.parts = tuple(parts)
        self.span: Span = text.locate(0, len(text.text))
        self.source, self.direction = parts[0].name, parts[1].name
        names = tuple(part.name for part in parts[2:])
        self.fields: tuple[str, ...] = names[: names.index(ELEMENT)] if ELEMENT in names else names
        """Up to ``.[]``, where there is one."""
        self.elements: tuple[str, ...] | None = names[len(self.fields) + 1 :] if ELEMENT in names else None
        """The fields of each element, behind ``.[]``; None: it stands for one value."""
        self.find = self._direct() if self.elements is None else self._iterated
        self.evaluate = self._value()

    @property
    def source_span(self) -> Span:
        return self.part_span(0)

    @property
    def array(self) -> str:
        """The text before ``.[]``: which list it goes through."""
        return ".".join((self.source, self.direction, *self.fields))

    def part_span(self, index: int) -> Span:
        part = self.parts[index]
        if self.span.end - self.span.start == len(self.text):  # it stands there as it reads
            return self.span.locate(part.start, part.end)
        return self._text.locate(part.start, part.end)

    def reads(self) -> tuple[Ref, ...]:
        """Of an iterating path the list."""
        # Never certain: what is absent may have a default where it is delivered (AGF-29).
        return (Ref((self.source, self.direction, *self.fields), self.span, False),)

    def over(self, frame: Frame) -> list[Value]:
        """The list that ``.[]`` goes through. A StepError if it is none."""
        value = self._walk(self._origin(frame), self.fields, 2)
        if value is ABSENT:
            raise self.absent(frame)
        if type(value) is not list:
            message = f".[] goes through a list, and {self.array} is {shown_value(value)}"
            raise StepError(Diagnostic("policy.type-mismatch", message, self.part_span(2 + len(self.fields))))
        return value

    def absent(self, frame: Frame) -> StepError:
        """The error at the first name that is not there."""
        value, start = self._origin(frame), 2
        if self.elements is not None and (ELEMENT in frame or self._walk(value, self.fields, 2) is not ABSENT):
            elements = [frame[ELEMENT]] if ELEMENT in frame else self.over(frame)
            start = 3 + len(self.fields)
            value = next(one for one in elements if self._walk(one, self.elements, start) is ABSENT)
        while self.parts[start].name in value:
            value, start = value[self.parts[start].name], start + 1
        name, before = self.parts[start].name, ".".join(part.name for part in self.parts[:start])
        hint = suggest(name, value, "its fields") or "it has no fields"
        return StepError(Diagnostic("policy.unresolved-path", f"{before} has no {name!r}", self.part_span(start), hint))

    def _value(self) -> Callable[[Frame], Value]:
        find, source, direction = self.find, self.source, self.direction

        def evaluate(frame: Frame) -> Value:
            value = find(frame)
            if value is ABSENT:
                raise self.absent(frame)
            return value

        if self.elements is not None or len(self.fields) != 1:
            return evaluate
        (field,) = self.fields

        def of_one_field(frame: Frame) -> Value:
            ran = frame.get(source)
            whole = ran.get(direction) if type(ran) is dict else None
            if type(whole) is not dict or field not in whole:
                return evaluate(frame)  # which says what is wrong
            return whole[field]

        return of_one_field

    def _direct(self) -> Callable[[Frame], Value]:
        source, direction, fields = self.source, self.direction, self.fields

        def find(frame: Frame) -> Value:
            ran = frame.get(source)
            value = whole = ran[direction] if ran is not None and direction in ran else self._origin(frame)
            for name in fields:
                if type(value) is not dict:
                    return self._walk(whole, fields, 2)  # which says where it is broken
                if name not in value:
                    return ABSENT
                value = value[name]
            return value

        return find

    def _iterated(self, frame: Frame) -> Value:
        assert self.elements is not None
        start = 3 + len(self.fields)
        if ELEMENT in frame:
            return self._walk(frame[ELEMENT], self.elements, start)
        found = [self._walk(one, self.elements, start) for one in self.over(frame)]
        return ABSENT if any(one is ABSENT for one in found) else found

    def _origin(self, frame: Frame) -> Value:
        ran = frame.get(self.source)
        if ran is None or self.direction not in ran:
            raise StepError(out_of_order(self))
        return ran[self.direction]

    def _walk(self, value: Value, names: tuple[str, ...], start: int) -> Value:
        """``start``: the part that ``names`` begin at."""
        for index, name in enumerate(names, start):
            if type(value) is not dict:
                before = ".".join(part.name for part in self.parts[:index])
                message = f"{before} is {shown_value(value)}: it has no field {name!r}"
                raise StepError(Diagnostic("policy.unresolved-path", message, self.part_span(index)))
            if name not in value:
                return ABSENT
            value = value[name]
        return value

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Path({self.text!r})"


def parse_path(text: Text | str, where: Where) -> Path:
    """The path that ``text`` is. A DefinitionError with one Diagnostic, at the very part, if it is none, or if ``.[]``
    stands where nothing goes through a list.

    >>> parse_path("writer.output.draft", "policy_step").evaluate({"writer": {"output": {"draft": "..."}}})
    '...'
    """
    text = Source("<path>", text).span() if isinstance(text, str) else text
    parts = _parts(text.text)
    for index, part in enumerate(parts):
        if wrong := _wrong_part(text.text, parts, index):
            message, hint = wrong
            # What is empty has no letter to point at: the dot beside it is.
            start, end = (
                (part.start, part.end)
                if part.name
                else (max(0, part.start - 1), min(max(1, part.start), len(text.text)))
            )
            fixed = _meant(text.text)
            raise _refused(
                "policy.path-syntax", message, text.locate(start, end), f"did you mean {fixed}?" if fixed else hint
            )
    if len(parts) < 3:
        raise _refused("policy.path-syntax", *_too_short(text, parts))
    path = Path(text, parts)
    every = [index for index, part in enumerate(parts) if part.name == ELEMENT]
    if len(every) > 1:
        hint = "batch the inner list in an agent of its own, that this one gives each element to"
        raise _refused("policy.iteration-multiple", "a path has at most one .[]", path.part_span(every[1]), hint)
    if every and where != "batch":
        hint = "only an agf.batch goes through a list: its input_mapping has one call for every element"
        raise _refused(
            "policy.iteration-scope", f".[] cannot stand in {_ITERATES[where]}", path.part_span(every[0]), hint
        )
    return path


def source_problem(path: Path, agents: Collection[str], ran: Collection[str]) -> Diagnostic | None:
    """What is wrong with whom a path reads, given the local agents there are and those that have run where it stands.

    A step that reads itself or a later one, also in a loop (AMB-1), reads what is not there.
    """
    if path.source == PARENT:
        return out_of_order(path) if path.direction == "output" else None
    if path.source not in agents:
        hint = suggest(path.source, (*agents, PARENT), "sources")
        return Diagnostic(
            "policy.unknown-alias", f"no local agent is called {shorten(path.source)!r}", path.source_span, hint
        )
    return None if path.source in ran else out_of_order(path)


def iteration_problem(paths: Mapping[str, Path], span: Span | None) -> Diagnostic | None:
    """What is wrong with the ``.[]`` of a batch's mapping; ``span``: where it stands."""
    iterating = [path for path in paths.values() if path.elements is not None]
    if not iterating:
        hint = "write .[] behind the list: parent.input.items.[].value"
        return Diagnostic("policy.iteration-missing", "nothing here goes through a list", span, hint)
    first = iterating[0]
    for path in iterating:
        if path.array != first.array:
            message = f"one batch goes through one list, and {path.array} is not {first.array}"
            hint = "fields are taken from the same element; make one list of both before, also if they are equally long"
            others = (("the list", first.span),)
            return Diagnostic("policy.iteration-prefix", message, path.span, hint, related=others)
    return None


def out_of_order(path: Path) -> Diagnostic:
    """The finding that what a path reads is not there yet."""
    if path.source == PARENT:
        message, hint = "the parent has no output while its policy runs", "read parent.input, or what a step before has"
        return Diagnostic("policy.dependency-order", message, path.part_span(1), hint)
    message = f"{path.source!r} has not run where this is read"
    hint = "a path reads what ran before it, also in a loop: a round does not see the one before"
    return Diagnostic("policy.dependency-order", message, path.source_span, hint)


def _parts(text: str) -> list[Part]:
    parts, start = list[Part](), 0
    for name in text.split("."):
        parts.append(Part(name, start))
        start += len(name) + 1
    return parts


def _wrong_part(text: str, parts: Sequence[Part], index: int) -> tuple[str, str] | None:
    """What is wrong with a part, and what would be right."""
    name = parts[index].name
    if index == 1 and name not in DIRECTIONS:
        if not NAME.fullmatch(name) or len(parts) > 2:
            return f"{shorten(name)!r} is no direction", suggest(name, DIRECTIONS, "directions") or FORM
        return f"{shorten(name)!r} is no direction", f"did you mean {parts[0].name}.output.{name}?"
    if NAME.fullmatch(name) or (name == ELEMENT and index > 2):
        return None
    if len(parts) == 1:
        return f"{shorten(name)!r} is no path" if name else "an empty text is no path", FORM
    if not name:
        place = "before the first dot" if index == 0 else "behind the last dot"
        return f"a name is missing {place if index in (0, len(parts) - 1) else 'between two dots'}", FORM
    if name == ELEMENT:
        return ".[] follows the list it goes through", f"name the list: {parts[0].name}.{parts[1].name}.LIST.[]"
    letters = "letters a to z, digits and _, and begins with no digit"
    if index == 0:
        return f"{shorten(name)!r} is no source", f"a source is parent or an alias, which has {letters}"
    hint = f"it has {letters}; a property called otherwise cannot be read by a path"
    if name.isdigit() or name == "*":
        hint = "a path has no index; an agf.batch goes through a list with .[]"
    return f"{shorten(name)!r} is no field name", hint


def _too_short(text: Text, parts: Sequence[Part]) -> tuple[str, Span, str]:
    whole = text.locate(0, len(text.text))
    if len(parts) == 1:
        return f"{shorten(text.text)!r} is no path", whole, FORM
    message = f"{shorten(text.text)!r} names no field"
    return message, whole, f"the whole {parts[1].name} cannot be read by a path; name a field: {text.text}.NAME"


def _meant(text: str) -> str | None:
    """The path that its author seems to have meant: without the marks of other languages."""
    bare = text.strip(" \t\r\n${}=!?#@'\"").lstrip(".")
    bare = re.sub(r"->|/", ".", bare)
    bare = re.sub(r"(?<=[A-Za-z0-9_])\[]", ".[]", bare)
    bare = re.sub(r"\.?\[[\"']([A-Za-z0-9_]+)[\"']]", r".\1", bare)
    parts = [part.strip() for part in bare.split(".")]
    bare = ".".join(parts)
    fits = len(parts) > 2 and NAME.fullmatch(parts[0]) and parts[1] in DIRECTIONS and NAME.fullmatch(parts[2])
    return bare if bare != text and fits and all(part == ELEMENT or NAME.fullmatch(part) for part in parts) else None


def _refused(code: str, message: str, span: Span, hint: str) -> DefinitionError:
    return DefinitionError(Diagnostic(code, message, span, hint))
