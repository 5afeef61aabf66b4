"""A value in one line, for tables and lists: its parts in brackets, as YAML writes them in one line."""

from __future__ import annotations

from collections.abc import Iterator

from ..journal.codec.encoding import without_mark
from ..values.tables.first_rows import frame_size
from ..values.unread import Unread
from ..values.value import Value
from .amounts import duration
from .plain import line
from .values import in_memory, text_among, value_among

BRACKETS = {list: ("[", "]"), dict: ("{", "}")}

MOST_DEEP_IN_LINE = 6
"""The most levels of lists and objects that one line shows."""


def value_line(value: Value, most: int) -> str:
    """A value in one line of at most ``most`` characters, as YAML writes it between brackets.

    >>> value_line({"limits": [3, 0.1 + 0.2], "who": {"name": "Ann"}}, 60)
    'limits: [3, 0.3], who: {name: "Ann"}'
    >>> value_line(list(range(100)), 20)
    '[0, 1, 2, 3, 4, 5,…'
    """
    text = ""
    for piece in _pieces(value, 0):
        text += piece
        if len(text) > most:  # a value may have a million parts
            break
    return line(text, most)


def _pieces(value: Value, depth: int) -> Iterator[str]:
    """The parts of a `value_line`; the fields of the value itself have no braces."""
    value = in_memory(value) if type(value) is Unread else value
    kind = type(value)
    if kind not in (dict, list) or not value:
        yield text_among(value) if kind is str and depth else value_among(value)
        return
    if kind is list and (size := frame_size(value)) is not None:
        yield size.word
        return
    if depth > MOST_DEEP_IN_LINE:
        yield "…"
        return
    value, count = without_mark(value)
    is_bare = kind is dict and depth == 0
    opening, closing = BRACKETS[kind]
    yield "" if is_bare else opening
    for place, part in enumerate(value):
        yield ", " if place else ""
        if kind is list:
            yield from _pieces(part, depth + 1)
        else:
            yield f"{line(str(part), 80)}: "
            yield from _pieces(value[part], depth + 1)
    yield f", … {count - len(value):,} more" if count > len(value) else ""
    yield "" if is_bare else closing


def cell_text(value: Value, is_time: bool = False, most: int = 60) -> str:
    """A value in a displayed cell of at most ``most`` characters. ``is_time``: the value is a number of
    seconds."""
    if value is None:
        return ""
    if is_time or isinstance(value, str):
        return line(duration(value) if is_time else value, most)
    return value_line(value, most)
