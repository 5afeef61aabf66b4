"""What the fields of a journaled record may hold, checked when they are read."""

from __future__ import annotations

from typing import Annotated, Any

LONGEST_NAME = 200
"""Characters of the name of an exception's class."""

LONGEST_ARGUMENTS = 10_000
"""Characters of an exception's arguments that are stored."""


FORMS: dict[Any, tuple[type, ...]] = {
    "json": (str, type(None)),
    "pickle": (bytes,),
    "parts": (bytes,),
    "again": (bytes, type(None)),
    None: (type(None),),
}
"""The types in which a value of each form is stored."""


LATEST = 32_503_680_000.0
"""The year 3000, in seconds since 1970."""

Moment = Annotated[float, lambda when: 0 < when < LATEST]
"""A time that this package may have written."""
Count = Annotated[int, lambda number: 0 <= number < 1 << 62]
Text = str | None
Raw = bytes | None
Identifier = Annotated[str, str.isidentifier]
"""Any one: a later version may add a mark, and a run of it can still be listed."""


def is_stored(form: object, value: object) -> bool:
    """Whether a value may be stored so."""
    return form in FORMS and type(value) in FORMS[form]


def is_at(value: object) -> bool:
    """Whether it is a path: a step's id, then ids and numbers."""
    if not isinstance(value, tuple) or not value or not isinstance(value[0], str):
        return False
    return all(isinstance(bit, str) or (type(bit) is int and 0 <= bit < 1 << 62) for bit in value)
