"""The types and bounds of the fields of a record, which are checked when it is read."""

from __future__ import annotations

from typing import Annotated, Any

LONGEST_NAME = 200
"""The largest number of characters in the name of an exception's class."""

LONGEST_ARGUMENTS = 10_000
"""The largest number of characters of an exception's arguments."""


FORMS: dict[Any, tuple[type, ...]] = {
    "json": (str, type(None)),
    "pickle": (bytes,),
    "parts": (bytes,),
    "again": (bytes, type(None)),
    None: (type(None),),
}
"""The types in which a value of each form is stored. The bytes of ``again`` are not the value: by
them it can be compared."""


LATEST = 32_503_680_000.0
"""The year 3000, in seconds since 1970."""

Moment = Annotated[float, lambda when: 0 < when < LATEST]
"""A time that this package may have written."""
Count = Annotated[int, lambda number: 0 <= number < 1 << 62]
"""A number that SQLite can store."""
Text = str | None
Raw = bytes | None
Identifier = Annotated[str, str.isidentifier]
"""Any identifier: a later version may add a mark, and its runs can still be listed."""


def is_stored(form: object, value: object) -> bool:
    """Whether ``value`` has a type that belongs to ``form``."""
    return form in FORMS and type(value) in FORMS[form]


def is_path(value: object) -> bool:
    """Whether ``value`` is a path: a step's id, then ids and numbers."""
    if not isinstance(value, tuple) or not value or not isinstance(value[0], str):
        return False
    return all(isinstance(bit, str) or (type(bit) is int and 0 <= bit < 1 << 62) for bit in value)
