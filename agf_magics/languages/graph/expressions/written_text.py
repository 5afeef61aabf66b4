"""Writes a value of the state into a text: a prompt, a command or a message.

The length is bounded, because a small value with shared parts can have a very long text.
"""

from __future__ import annotations

import dataclasses

from ....flow.null_warnings import warn_of_null
from ....text.length import can_write
from ....text.raised import text_of
from ....values.no_json import has_no_json
from ....values.tables.all_rows import Elements, elements_of, has_elements
from ....values.times import is_numpy_time, iso_text
from ....values.unread import read_all
from ....values.value import Value, type_name

LONGEST_WRITTEN = 1_000_000
"""Parts and characters of a value that is written into a text."""


def format_value(value: Value, name: str = "a value") -> str:
    """A value as it is written into a text: as Python's ``str`` does, but NaN, an infinity and NaT
    as null, a duration of numpy in ISO 8601 (decision A1), and a frame or an array with all of its
    elements. ``name``: what a warning calls it."""
    if type(value) is str:
        return value
    value = read_all(value)
    has_odd = False
    if type(value) in (list, dict):
        has_odd = check_length(value)
    elif _is_odd(value):
        has_odd = True
    if not can_write(value):
        raise ValueError(f"cannot write {type_name(value)} into a text: it is too large")
    try:
        return str(_with_texts(value, name) if has_odd else value)
    except _TooLong:
        raise
    except RecursionError as error:
        raise ValueError("the value nests too deeply to be written into a text") from error
    except Exception as error:  # ``__str__`` of an object is user code
        why = text_of(error)
        raise ValueError(f"cannot write {type_name(value)} into a text: {why}") from error


class _TooLong(ValueError):
    """A value is too long for a text."""


def _is_odd(part: Value) -> bool:
    """Whether a part that is no list and no mapping is not written as Python does."""
    return has_no_json(part) or is_numpy_time(part) or has_elements(part)


def _whole(elements: Elements, value: Value) -> Value:
    """All elements of a frame or an array."""
    if len(elements.first) < elements.total:
        size = f"{elements.total:,} {elements.noun}"
        raise _TooLong(f"cannot write {type_name(value)} of {size} into a text: it is too large")
    return list(elements.first)


@dataclasses.dataclass(frozen=True, slots=True)
class _Text:
    """A part of a list or a mapping whose text differs from Python's."""

    text: str

    def __repr__(self) -> str:
        return self.text


def _with_texts(value: Value, name: str) -> Value:
    """``value`` with a `_Text` in the place of each part that is not written as Python does."""
    is_null = False

    def written(part: Value) -> Value:
        nonlocal is_null
        if type(part) is dict:
            return {key: written(inner) for key, inner in part.items()}
        if type(part) is list:
            return list(map(written, part))
        if has_no_json(part):
            is_null = True
            return _Text("null")
        if is_numpy_time(part):
            return _Text(iso_text(part) or "")
        elements = elements_of(part, LONGEST_WRITTEN)
        return part if elements is None else written(_whole(elements, part))

    text = written(value)
    if is_null:
        warn_of_null(name, value)
    return text


def check_length(value: Value) -> bool:
    """Raises ValueError for a value that is too long as text: a small one with shared parts may be.
    Returns whether it has a part that is not written as Python does."""
    queue = [value]
    room = LONGEST_WRITTEN
    has_odd = False
    # A part weighs 8 at most, besides the characters of texts.
    if not can_write(value, 8 * LONGEST_WRITTEN):
        room = -1
        queue = []
    while queue and room >= 0:
        part = queue.pop()
        if type(part) is dict:
            queue += part.values()
            room -= len(part) + sum(len(key) for key in part if type(key) is str)
        elif type(part) is list:
            queue += part
            room -= len(part)
        else:
            room -= len(part) if type(part) is str else 1
            has_odd = has_odd or _is_odd(part)
    if room < 0:
        raise ValueError(f"cannot write a value of more than {LONGEST_WRITTEN:,} parts into a text")
    return has_odd
