"""Finds the place of the cursor in incomplete YAML, by indentation and brackets.

A parser would fail at the first missing part. Only the text before the cursor is read, once, and
reading never fails.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

ELEMENT = "-"
"""An element of a list in a path."""

FLOW = 10**6
"""The column of text in brackets: deeper than any indentation."""

KEY = re.compile(
    r"""("(?>(?:[^"\\]|\\.)*)"|'(?>(?:[^']|'')*)'|(?:[^\s#{}\[\],"'&*!|>%@`-]|-\S)(?>(?:[^#:]|:(?!\s|$))*))\s*+:(?=\s|$)"""
)
"""A key at the beginning of a text, with its colon; the first group is the key as it is written."""
LITERAL = re.compile(r"(?:![\w!]*\s+)?[|>][-+0-9]*\s*(?:#.*)?$")
"""The value that begins a block scalar, such as ``|`` or ``>-``, perhaps after a tag."""
SPECIAL = re.compile(r"""[]["'\\#{},:]""")
"""The characters at which `_Reader._flow` stops; it skips the text between them in one step."""
SPECIAL_STARTS = ("{", "[", '"', "'", "!", "&")
"""The first characters of the values of keys that are read also above the cursor: only these may
open a bracket or a quote that is still open on the next line."""
TAG = re.compile(r"(?<![\w!])![\w!]*+(?:\s++|$)")


class Keys(NamedTuple):
    """The keys of a mapping that were read so far, and the place of the mapping."""

    path: tuple[str, ...]
    near: dict[str, str]
    """The keys of the mapping, with the values that are on one line."""


class Cursor(NamedTuple):
    """A place in a document."""

    path: tuple[str, ...]
    """The keys from the top of the document, ELEMENT for an element: ``("steps", "-", "tool",
    "name")``."""
    part: Literal["key", "value", "comment"]
    text: str
    """The part of the key or the value before the cursor, without its opening quote and tag."""
    tag: str
    """The value's tag, as in ``!expr``."""
    around: tuple[dict[str, str], ...]
    """The keys of the mapping around the place, as in `Keys.near`, then those of each outer
    mapping."""

    @property
    def near(self) -> dict[str, str]:
        """The keys of the mapping around the place."""
        return self.around[0] if self.around else {}


@dataclass(slots=True)
class _Level:
    """A mapping or list that is still open where the read text ends."""

    column: int
    opener: Literal["", "-", "{", "["] = ""
    """What opens the level; empty: a mapping in a block, without brackets."""
    key: str | None = None
    """The key whose value is read; None: no key of the mapping has been read, or it is a list."""
    near: dict[str, str] = field(default_factory=dict)


class Reading:
    """A body with the text ``before`` before the cursor.

    >>> Reading("steps:\\n- tool: {name: fetch, ar").cursor[:3]
    (('steps', '-', 'tool'), 'key', 'ar')
    """

    def __init__(self, before: str) -> None:
        self._before = before
        reader = _Reader()
        *lines, last = before.split("\n")
        for line in lines:
            reader.line(line)
        reader.line(last, last=True)
        self.cursor = reader.cursor()
        """The place of the cursor."""
        reader.leave(0)
        self.above: list[Keys] = reader.mappings
        """Every mapping before the cursor, in all documents; inner ones first."""

    def everywhere(self, after: str) -> list[Keys]:
        """Every mapping of the body, with the text ``after`` after the cursor."""
        reader = _Reader()
        for line in (self._before + after).split("\n"):
            reader.line(line)
        reader.leave(0)
        return reader.mappings


class _Reader:
    """The state of reading: the open levels, and the unfinished token."""

    def __init__(self) -> None:
        self.levels: list[_Level] = []
        self.token = ""
        """The part of the current key or scalar that was read."""
        self.quote = ""
        self.literal: int | None = None
        """The column of the line above a block scalar, whose lines are indented deeper; None
        outside of one."""
        self.is_value = self.is_comment = False
        self.mappings: list[Keys] = []
        """The mappings that have ended, inner ones first."""
        self.column = 0
        """The column of the last key in a block."""

    @property
    def in_flow(self) -> bool:
        return bool(self.levels) and self.levels[-1].opener in ("{", "[")

    def line(self, line: str, last: bool = False) -> None:
        """Read a line. ``last``: whether the line ends at the cursor, so that it may be
        unfinished."""
        self.is_comment = False
        column = len(line) - len(line.lstrip(" "))
        if self.literal is not None:
            if column > self.literal or (not line.strip() and not last):
                self.token = line.strip(" ")
                return
            self.literal = None
        if self.in_flow or self.quote:
            self.token += " "
            self._flow(line)
            return
        if not last and (not line.strip() or line.lstrip().startswith("#")):
            return
        if line.startswith(("---", "...")):
            self.leave(0)
            self.token = ""
            return
        self._block(line, column, last)

    def _block(self, line: str, column: int, last: bool) -> None:
        """Read a line outside of brackets: its dashes, its key, and its value."""
        rest = line[column:]
        self.token = ""
        self.is_value = False
        while rest.startswith("- ") or rest == "-":
            self._close(column)
            self.levels.append(_Level(column, "-"))
            inner = rest[1:].lstrip(" ")
            column += len(rest) - len(inner)
            rest = inner
        match = KEY.match(rest)
        self._close(column)
        self.column = column
        if not match:
            self.is_value = rest.startswith(('"', "'"))
            self._flow(rest)
            return
        level = self.levels[-1] if self.levels else None
        if level is None or level.column != column or level.opener:
            level = _Level(column)
            self.levels.append(level)
        level.key = _bare(match[1])
        value = rest[match.end() :]
        # The value at the cursor is unfinished, so it does not select a kind of mapping.
        level.near[level.key] = "" if last else _bare(value.split(" #")[0])
        self.is_value = True
        plain = value.strip()[:1] not in SPECIAL_STARTS
        if LITERAL.match(value.strip()):
            self.literal = column
        elif last or not plain:
            self._flow(value)

    def _close(self, column: int) -> None:
        """Leave the levels that do not contain text at ``column``; a dash in the same column
        does."""
        while self.levels:
            top = self.levels[-1]
            if top.column < column or (top.column == column and top.opener != "-"):
                return
            self.leave(len(self.levels) - 1)

    def leave(self, depth: int) -> None:
        """Leave all levels after the first ``depth``."""
        while len(self.levels) > depth:
            top = self.levels.pop()
            if top.near:
                self.mappings.append(Keys(self.path, top.near))

    @property
    def path(self) -> tuple[str, ...]:
        return tuple(part for level in self.levels for part in _parts(level))

    def _flow(self, text: str) -> None:
        """Read the characters of a scalar or in brackets."""
        i = 0
        while i < len(text):
            char = text[i]
            if self.quote:
                if char == "\\" and self.quote == '"':
                    self.token += text[i : i + 2]
                    i += 2
                    continue
                if char == self.quote == text[i + 1 : i + 2] == "'":
                    i += 1
                elif char == self.quote:
                    self.quote = ""
                self.token += char
            elif char in "\"'" and not TAG.sub("", self.token.strip() + " ").strip():
                self.quote = char
                self.token += char
            elif char == "#" and (not self.token or self.token.endswith((" ", "\t"))):
                self.is_comment = True
                return
            elif char in "{[" and (self.in_flow or not self.token.strip()):
                self.levels.append(_Level(FLOW, "{" if char == "{" else "["))
                self._start()
            elif self.in_flow and char in "}],":
                self._end(char)
            elif self._ends_key(char, text[i + 1 : i + 2]):
                top = self.levels[-1]
                top.key = _bare(self.token)
                top.near[top.key] = ""
                self.token = ""
                self.is_value = True
            else:
                # Plain text in one step: the body is read again for each key that a person presses.
                end = _next(text, i + 1)
                self.token += text[i:end]
                i = end - 1
            i += 1

    def _start(self) -> None:
        self.token = ""
        self.is_value = self.in_flow and self.levels[-1].opener == "["

    def _ends_key(self, char: str, after: str) -> bool:
        if (
            char != ":"
            or not self.in_flow
            or self.levels[-1].opener != "{"
            or self.levels[-1].key is not None
        ):
            return False
        return after in ("", " ", "\t") or self.token.rstrip().endswith(('"', "'"))

    def _end(self, char: str) -> None:
        """End a value in brackets, at a comma or at the bracket that closes them."""
        top = self.levels[-1]
        if top.key is not None:
            top.near[top.key] = _bare(self.token)
        if char == ",":
            top.key = None
        else:
            self.leave(len(self.levels) - 1)
            if not self.in_flow:
                self.token = ""
                self.is_value = True
                return
        self._start()

    def cursor(self) -> Cursor:
        """The place at the end of the read text."""
        if self.is_comment:
            return Cursor(self.path, "comment", "", "", ())
        top = self.levels[-1] if self.levels else None
        path = self.path
        around = [level.near for level in reversed(self.levels) if level.opener != "-"]
        if self.in_flow and top:
            is_value = top.opener == "[" or top.key is not None
        else:
            is_value = self.is_value or self.literal is not None
            if not is_value and top:
                if top.column == self.column and not top.opener:
                    path = path[:-1]  # another key of that mapping
                else:  # a new mapping, which has no keys yet
                    around.insert(0, {})
        text = self.token.lstrip()
        tag = ""
        if is_value and (match := TAG.match(text)):
            tag = match[0].strip()
            text = text[match.end() :]
        if text.startswith(("'", '"')):
            text = text[1:]
        return Cursor(path, "value" if is_value else "key", text, tag, tuple(around))


def _next(text: str, start: int) -> int:
    """The place of the next special character."""
    match = SPECIAL.search(text, start)
    return match.start() if match else len(text)


def _parts(level: _Level) -> tuple[str, ...]:
    if level.opener in ("-", "["):
        return (ELEMENT,)
    return (level.key,) if level.key is not None else ()


def _bare(text: str) -> str:
    """A key or a scalar without blanks and quotes around it."""
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text
