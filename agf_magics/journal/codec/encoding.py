"""Encodes values for the journal: JSON as text, opaque values as pickles; other values are not
stored.

A value is pickled (`pickles`) at the end of its call, before another step can change it. A pickle
is code. So it is read only to resume a run, never to list or show a run, and only with the
signature of this user.
"""

from __future__ import annotations

import contextlib
import json
import pickle
import re
from typing import Any, Literal, NamedTuple

from ...compat.imports import for_the_person
from ...text.diagnostics import AgfError
from ...text.length import ATOMS, weigh
from ...text.raised import describe_exception
from ...values.opaque import describe_array, describe_scalar, fields_of
from ...values.tables.first_rows import first_rows, frame_size
from ...values.unread import Unread
from ...values.value import Value
from .json_texts import LONG, encode, encode_large
from .pickles import NotPicklable, PickleTooLarge, bytes_of_data, pickled

Form = Literal["json", "pickle", "parts", "again"]
"""The forms of stored values. ``parts``: a pickle whose large buffers are files. ``again``: the
value is not stored, so a resumed run makes the call again."""

PICKLED = frozenset({"pickle", "parts"})
"""The forms that are read only with the signature of this user."""

TEXT = frozenset({str})

PREVIEWED = 200
"""The number of parts in a preview."""

SHARING = 20
"""The number of fields that share the parts of a preview; those after them get what is left."""

MOST_IN_CELL = 10
"""The number of parts of a value in a cell of a data frame."""

OPAQUE = re.compile(r"⟨\w[\w .,:×]{0,99}⟩")
"""The preview of an object of which nothing is shown, which begins with the name of its class:
``⟨DataFrame 0 × 3: a, b⟩``."""

CUT = "…"
"""The name of the mark in an object that was cut."""
MARK = re.compile(r"⟨(\d[\d,]{0,20}) more of (\d[\d,]{0,20})⟩")
"""The mark at the end of a list that was cut, which stands for the parts after it."""

LONGEST = 10_000
"""The largest number of bits of a number that is written in full: Python refuses much larger
numbers."""


class EncodedValue(NamedTuple):
    """A value in one of the forms."""

    form: Form
    data: str | bytes | None = None
    """The JSON text, or the pickle. For ``again`` the bytes by which the value can be compared
    (`ObjectFingerprint.contents`), or None."""
    shown: str | None = None
    """A preview as JSON, if the form is not JSON."""
    why: str | None = None
    """The reason why the value is not stored; None: it is stored."""
    is_refused: bool = False
    """Whether the value should be stored but cannot be: no pickle can hold it, or the disk is
    full."""
    is_large: bool = False
    """Whether the value is not stored only because it has too many bytes for a row."""
    is_json: bool = False
    """Whether the value is JSON, although its form is not."""
    size: int = 0
    """The smallest number of bytes that a large value may have, as far as it is known."""


class DecodeError(Exception):
    """A stored value cannot be read."""


def _text(value: Value, most: int) -> tuple[str | None, int]:
    """``value`` as JSON, and its weight. The text is None if ``value`` is not JSON, weighs more
    than ``most``, or has a number of 5,000 digits, which Python does not write."""
    size = weigh(value)
    if not 0 <= size <= most:
        return None, size
    try:
        return encode(value) if size < LONG else encode_large(value), size
    except ValueError:
        return None, size


def json_text(value: Value, most: int) -> str | None:
    """``value`` as JSON, if it is JSON of at most ``most`` bytes; else None."""
    text, _ = _text(value, most)
    return text if text is not None and len(text) <= most else None


def encode_value(value: Value, most: int) -> EncodedValue:
    """The stored form of ``value``, in at most ``most`` bytes."""
    text, size = _text(value, most)
    if text is not None and len(text) <= most:
        return EncodedValue("json", text)
    shown = encode(preview(value))
    if text is None and size <= most:
        try:
            with contextlib.suppress(PickleTooLarge):
                return EncodedValue("pickle", pickled(value, most), shown)
        except NotPicklable as error:
            why = f"it cannot be pickled ({error})"
            return EncodedValue("again", None, shown, why, is_refused=True)
    why = f"it has more than {_bytes(most)}"
    is_json = size >= 0
    size = max(size if is_json else bytes_of_data(value), most)
    return EncodedValue("again", None, shown, why, is_large=True, is_json=is_json, size=size)


def preview(value: Value, levels: int = 6, parts_left: list[int] | None = None) -> Value:
    """``value`` as JSON for display: its first parts; a data frame as its first rows (`first_rows`);
    other opaque parts as the names of their classes. A list or an object that is cut ends with a mark
    that says so (`without_mark`). ``levels``: the number
    of levels that are shown. ``parts_left``: a list of one number, the parts that may still be shown,
    which the recursion counts down; default None: `PREVIEWED`."""
    parts_left = [PREVIEWED] if parts_left is None else parts_left
    parts_left[0] -= 1
    kind = type(value)
    is_open = levels and parts_left[0] > 0
    if kind is str:
        return value if len(value) <= 2_000 else f"{value[:2_000]}… ({len(value):,} characters)"
    # Python refuses to write such a number in decimal digits, or takes minutes.
    if kind is int and value.bit_length() > LONGEST:
        return f"⟨int of {value.bit_length():,} bits⟩"
    if kind in ATOMS:
        return value
    if kind is list and is_open:
        return _first_items(value, levels, parts_left)
    if kind is dict and is_open and TEXT.issuperset(map(type, value)):
        return _first_fields(value, levels, parts_left)
    if kind is Unread:
        return value.shown
    if (text := describe_scalar(value) or describe_array(value)) is not None:
        return text[:2_000]
    if is_open and (fields := fields_of(value)) is not None:
        return preview(fields, levels, parts_left)
    if is_open and (rows := first_rows(value, parts_left[0], _cell)) is not None:
        parts_left[0] -= sum(map(len, rows[:-1])) if type(rows) is list else 0
        return rows
    return f"⟨{kind.__name__}{_extent(value, kind)}⟩"


def _cell(value: Value) -> Value:
    """The preview of a cell of a data frame, which may be any object."""
    return preview(value, 2, [MOST_IN_CELL])


def _first_items(value: list[Value], levels: int, parts_left: list[int]) -> list[Value]:
    shown = list[Value]()
    for part in value:
        if parts_left[0] <= 0:
            return [*shown, _mark(len(value) - len(shown), len(value))]
        shown.append(preview(part, levels - 1, parts_left))
    return shown


def _first_fields(value: dict[str, Value], levels: int, parts_left: list[int]) -> dict[str, Value]:
    """Each of few fields gets a share of the parts: a long one does not hide those after it."""
    shown = dict[str, Value]()
    for name, part in value.items():
        if parts_left[0] <= 0:
            return {**shown, CUT: _mark(len(value) - len(shown), len(value))}
        sharing = min(len(value) - len(shown), SHARING)
        share = max(parts_left[0] // sharing, 1)
        left = [share]
        shown[name] = preview(part, levels - 1, left)
        parts_left[0] -= share - left[0]
    return shown


def _mark(missing: int, count: int) -> str:
    return f"⟨{missing:,} more of {count:,}⟩"


def without_mark(value: Value) -> tuple[Value, int]:
    """A list or an object of a preview without the mark that it was cut, and how many parts there
    were before: of a data frame, the number of its rows.

    >>> without_mark([1, 2, "⟨498 more of 500⟩"]), without_mark({"a": 1})
    (([1, 2], 500), ({'a': 1}, 1))
    """
    if (size := frame_size(value)) is not None:
        return value[:-1], size.rows
    is_list = type(value) is list
    last = (value[-1] if is_list else value.get(CUT)) if value else None
    mark = MARK.fullmatch(last) if type(last) is str else None
    if mark is not None:
        missing, count = (int(digits.replace(",", "")) for digits in mark.groups())
        # A text of the person that happens to look like a mark does not add up.
        if missing + len(value) - 1 == count:
            kept = value[:-1] if is_list else {k: v for k, v in value.items() if k != CUT}
            return kept, count
    return value, len(value)


def to_show(value: Value, most: int) -> tuple[str, bool]:
    """``value`` as JSON, and whether it is complete."""
    text, _ = _text(value, most)
    return (text, True) if text is not None else (encode(preview(value)), False)


def _extent(value: Any, kind: type) -> str:
    """The words for the size of an opaque or a deep value: `` of 3``, `` 20 × 4``; empty:
    unknown."""
    if kind in (list, dict):
        return f" of {len(value):,}"
    if kind.__module__.split(".")[0] in ("numpy", "pandas", "polars", "pyarrow"):
        shape = getattr(value, "shape", None)
        if type(shape) is tuple and shape:
            return " " + " × ".join(f"{n:,}" for n in shape)
    return ""


def decode_value(form: str, data: str | bytes | None) -> Value:
    """The value in ``data``. Raises DecodeError. The caller must check the signature of a pickle
    first."""
    try:
        if form == "json" and data is not None:
            return json.loads(data)
        if form == "pickle" and isinstance(data, bytes):
            with for_the_person():  # the class may be the person's
                return pickle.loads(data)
    except (KeyboardInterrupt, SystemExit):
        raise
    except AgfError as error:  # it tells in its own words what the reader must know
        raise DecodeError(error.diagnostic.message) from error
    except BaseException as error:
        raise DecodeError(describe_exception(error, longest=300)) from None
    raise DecodeError("it was not stored")


def _bytes(number: int) -> str:
    return f"{number / 1e6:g} MB" if number >= 100_000 else f"{number:,} bytes"
