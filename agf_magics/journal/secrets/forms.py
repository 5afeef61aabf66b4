"""Lists the forms that a secret can take in a value: plain, in a container, or encoded once.

Encoded means escaped, quoted for a URL, in base64 or pickled. Other encodings (reversed, encrypted,
compressed) cannot be listed, so `is_readable` tells whether a pickle can be searched at all.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import datetime
import decimal
import enum
import fractions
import html
import json
import math
import numbers
import operator
import pathlib
import pickle
import re
import struct
import uuid
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, quote_from_bytes, quote_plus

SHORTEST = 4
"""The smallest number of characters (digits, bytes) of a secret that is searched for. A shorter one
would be found everywhere."""

LONGEST_SECRET = 10_000
"""The number of characters above which only a part of a secret is searched for."""

MOST_PARTS = 1_000
"""The largest number of parts of one secret. A larger secret counts as opaque."""

FORM_NAME = re.compile(r"[A-Za-z_-]*")
"""The pattern of keys that name a field: ``password`` is not a secret, but its value is."""


T = TypeVar("T")


class SecretParts(NamedTuple):
    """The parts of a secret that are searched for."""

    texts: frozenset[str] = frozenset()
    raws: frozenset[bytes] = frozenset()
    numbers: frozenset[int | float] = frozenset()
    short: bool = False
    """Whether a part is too short to be searched for."""
    opaque: bool = False
    """Whether a part cannot be read."""

    @property
    def has_searchable(self) -> bool:
        """Whether at least one part can be searched for."""
        return bool(self.texts or self.raws or self.numbers)


class Forms(NamedTuple):
    """The texts and bytes to search for."""

    texts: frozenset[str] = frozenset()
    jsons: frozenset[str] = frozenset()
    """The texts as they appear inside JSON."""
    raws: frozenset[bytes] = frozenset()
    numbers: frozenset[int | float] = frozenset()
    slices: frozenset[str] = frozenset()
    """Parts of texts that are too long to be searched for."""

    def joined(self, other: Forms) -> Forms:
        """These forms and those of ``other``."""
        return Forms(*map(operator.or_, self, other))


# --- parts ---


def parts_of(secret: Any) -> SecretParts:
    """The texts, bytes and numbers in ``secret``; None, booleans and empty texts cannot be
    secret."""
    texts = set[str]()
    raws = set[bytes]()
    found_numbers = set[int | float]()
    short = opaque = False
    # The objects are kept, because a freed object could give its id to the next one.
    seen = {id(secret): secret}
    waiting = [secret]
    while waiting:
        part = waiting.pop()
        if len(seen) > MOST_PARTS:
            opaque = True
            break
        members = _members(part)
        if members is not None:
            new = [member for member in members if id(member) not in seen]
            seen.update((id(member), member) for member in new)
            waiting += new
        elif _cannot_be_secret(part):
            continue
        elif isinstance(part, str):
            # `str.__str__`, because a user's class may write itself differently, or as a mask.
            short |= not _add(texts, str.__str__(part), len(part))
        elif isinstance(part, bytes | bytearray | memoryview):
            short |= not _add(raws, bytes(part), len(bytes(part)))
        elif isinstance(part, numbers.Real) and not isinstance(part, fractions.Fraction):
            number = _number(part)
            if number is not None:
                short |= not _add(found_numbers, number, sum(map(str.isdigit, repr(number))))
            opaque |= number is None and isinstance(part, numbers.Integral)
        else:
            opaque = True
    return SecretParts(frozenset(texts), frozenset(raws), frozenset(found_numbers), short, opaque)


def is_searchable(secret: Any) -> bool:
    """Whether ``secret`` has parts, and each of them can be searched for."""
    parts = parts_of(secret)
    return parts.has_searchable and not parts.short and not parts.opaque


def _cannot_be_secret(part: Any) -> bool:
    if part is None or isinstance(part, bool):
        return True
    return isinstance(part, str | bytes | bytearray) and not part


def _add(parts: set[T], part: T, size: int) -> bool:
    """Add a part of a secret, unless it is too short to be searched for. Returns whether it was
    added."""
    if size >= SHORTEST:
        parts.add(part)
    return size >= SHORTEST


def _number(part: numbers.Real) -> int | float | None:
    """A plain number without its sign; None if it is not finite or too long to be written."""
    with contextlib.suppress(ValueError, OverflowError):
        number = abs(int(part)) if isinstance(part, numbers.Integral) else abs(float(part))
        repr(number)
        if math.isfinite(number):
            return number
    return None


def _members(part: Any) -> Iterable[Any] | None:
    """The members of a container or object; None for a part, or for an object that cannot be
    read."""
    if isinstance(part, enum.Enum):
        return [part.value]
    is_one_part = isinstance(part, str | bytes | bytearray | memoryview | numbers.Real)
    if is_one_part and not isinstance(part, fractions.Fraction):
        return None
    if isinstance(part, Mapping):
        return [*part.values(), *(key for key in part if not _names_a_field(key))]
    if isinstance(part, list | tuple | Set):
        return list(part)
    if isinstance(part, _WRITTEN):
        return list(_written(part))
    if part is None or isinstance(part, type):
        return None
    return _fields(part)


def _names_a_field(key: Any) -> bool:
    return type(key) is str and FORM_NAME.fullmatch(key) is not None


def _written(part: Any) -> Iterator[Any]:
    """The texts and numbers that represent a date, UUID, path or number."""
    yield str(part)
    if isinstance(part, datetime.date | datetime.time):
        yield part.isoformat()
        # In the form in which it is pickled.
        yield part.__reduce__()[1][0]
    elif isinstance(part, uuid.UUID):
        yield from (part.hex, part.bytes, part.int)
    elif isinstance(part, complex):
        yield from filter(None, (part.real, part.imag))
    elif isinstance(part, decimal.Decimal | fractions.Fraction):
        with contextlib.suppress(ValueError, OverflowError):
            yield int(part) if part == int(part) else float(part)


_WRITTEN = (
    datetime.date,
    datetime.time,
    uuid.UUID,
    complex,
    decimal.Decimal,
    fractions.Fraction,
    pathlib.PurePath,
)


def _fields(part: Any) -> list[Any] | None:
    """The fields of an object, and the value of a SecretStr; None if it has none."""
    with contextlib.suppress(Exception):  # a class of a user
        if callable(getattr(part, "get_secret_value", None)):
            return [part.get_secret_value()]
        values = list(vars(part).values()) if hasattr(part, "__dict__") else []
        if dataclasses.is_dataclass(part):
            values += [getattr(part, field.name, None) for field in dataclasses.fields(part)]
        for kind in type(part).__mro__:
            slots = _names(vars(kind).get("__slots__", ()))
            values += [getattr(part, name, None) for name in slots]
        return values or None
    return None


def _names(slots: Any) -> Iterable[str]:
    return (slots,) if isinstance(slots, str) else tuple(slots)


# --- forms ---


def forms_of(parts: SecretParts) -> Forms:
    """All forms in which the parts of a secret may stand in a value."""
    texts = set[str]()
    raws = set[bytes]()
    slices = set[str]()
    for secret in (*parts.texts, *parts.raws):
        part: Any = secret  # a slice of str | bytes has no type that mypy knows
        if len(secret) > LONGEST_SECRET:
            # Taken from the middle, because long secrets such as certificates begin alike.
            part = part[len(part) // 2 :][: LONGEST_SECRET // 10]
        forms = {form for text in _read(part) for form in _texts(text)}
        if isinstance(part, bytes):
            forms |= set(_of_bytes(part))
            raws.add(part)
        raws |= {form for text in _read(part) for form in _encoded(text)}
        texts |= forms
        slices |= forms if part is not secret else set()
    for number in parts.numbers:
        written = list(_number_texts(number))
        texts |= {form for text in written for form in _texts(text)}
        raws |= {*_number_bytes(number), *(form for text in written for form in _encoded(text))}
    texts = {text for text in texts if len(text) >= SHORTEST}
    raws |= {text.encode("utf-8", "surrogatepass") for text in texts}
    jsons = frozenset(json.dumps(text)[1:-1] for text in texts)
    return Forms(frozenset(texts), jsons, frozenset(raws), parts.numbers, frozenset(slices))


def _read(part: str | bytes) -> Iterator[str]:
    """The texts of a part. Bytes may be text in two encodings."""
    if isinstance(part, str):
        yield part
        return
    yield part.decode("latin-1")
    with contextlib.suppress(UnicodeDecodeError):
        yield part.decode()


def _texts(text: str) -> Iterator[str]:
    """A text, and its escaped, quoted and encoded forms."""
    yield text
    yield json.dumps(text)[1:-1]
    yield json.dumps(text, ensure_ascii=False)[1:-1]
    yield from (written(text)[1:-1] for written in (repr, ascii))
    # In a text with both quotes, `repr` escapes one of them.
    yield from (written(f"{text}'\"")[1:-4] for written in (repr, ascii))
    yield text.translate(_LINES)
    yield html.escape(text)
    yield html.escape(text, quote=False)
    raw = text.encode("utf-8", "surrogatepass")
    yield quote(text, errors="surrogatepass")
    yield quote_plus(text, errors="surrogatepass")
    yield from _of_bytes(raw)


def _of_bytes(raw: bytes) -> Iterator[str]:
    """Bytes as `repr`, quoted for a URL, in hex, as numbers, and in base64."""
    yield repr(raw)[2:-1]
    yield repr(raw + b"'\"")[2:-4]
    quoted = quote_from_bytes(raw, safe="")
    yield quoted
    yield re.sub("%..", lambda match: match[0].lower(), quoted)
    yield raw.hex()
    yield raw.hex().upper()
    for between in (",", ", "):
        yield between.join(map(str, raw))
    # Inside a longer text, as in "user:password", base64 has three forms that depend on the text
    # before. The letters at both ends depend on the neighbours, too.
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + raw).decode("ascii")
        sure = encoded[(before * 8 + 5) // 6 : (before + len(raw)) * 8 // 6]
        if len(sure) > SHORTEST:
            yield sure
            yield sure.translate(_URL_SAFE)


_LINES = {9: r"\t", 10: r"\n", 13: r"\r"}
"""The only escapes of a table."""
_URL_SAFE = str.maketrans("+/", "-_")


def _encoded(text: str) -> Iterator[bytes]:
    """A text in the encodings in which a pickle or an array may have it."""
    for encoding in ("utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"):
        yield text.encode(encoding, "surrogatepass")
    yield text.encode("raw_unicode_escape")
    with contextlib.suppress(UnicodeEncodeError):
        yield text.encode("latin-1")


def _number_texts(number: int | float) -> Iterator[str]:
    """The texts in which a number may be written."""
    yield repr(number)
    yield f"{number:,}"
    if isinstance(number, float):
        yield json.dumps(number)
        if number.is_integer():
            yield str(int(number))
    elif number < 1 << 1000 and float(number) == number:
        yield repr(float(number))


def _number_bytes(number: int | float) -> Iterator[bytes]:
    """A number in the bytes of a pickle and of an array."""
    if isinstance(number, int) or number.is_integer():
        for integer in (int(number), -int(number)):
            if 0 <= integer < 1 << 16:
                # `M` is pickle's opcode for these two bytes, which alone would be found everywhere.
                yield b"M" + struct.pack("<H", integer)
            for form, bits in (("<i", 32), (">i", 32), ("<q", 64), (">q", 64)):
                if -(1 << bits - 1) <= integer < 1 << bits - 1:
                    yield struct.pack(form, integer)
            if abs(integer) >> 31:
                yield integer.to_bytes(integer.bit_length() // 8 + 1, "little", signed=True)
    try:
        double = float(number)
    except OverflowError:
        return
    if double != number:
        return
    for value in (double, -double):
        yield from (struct.pack(form, value) for form in ("<d", ">d"))
        if abs(value) < 3e38:  # a float of four bytes holds no more
            yield struct.pack("<f", value)


# --- searchable values ---


class _Inspector(pickle.Pickler):
    """Inspects the parts of a pickle without writing it."""

    def __init__(self) -> None:
        super().__init__(_Nowhere(), protocol=5, buffer_callback=self._look_at)
        self.readable = True

    def persistent_id(self, part: Any) -> Any:
        if isinstance(part, bytes | bytearray):
            self.readable &= _is_text(bytes(part))
        # A date is pickled as raw bytes that are not text, but can be searched.
        return True if isinstance(part, datetime.date | datetime.time) else None

    def _look_at(self, buffer: pickle.PickleBuffer) -> None:
        """Check the memory of an array: numbers and texts can be searched, single bytes may be
        anything."""
        with memoryview(buffer) as view:
            has_numbers = view.itemsize > 1 or view.format == "?"
            self.readable &= has_numbers or _is_text(bytes(buffer.raw()))


class _Nowhere:
    """A file that keeps nothing."""

    def write(self, data: Any) -> int:
        return memoryview(data).nbytes


def is_readable(value: Any) -> bool:
    """Whether an opaque value can be searched: it has no bytes except texts and the numbers of
    arrays."""
    inspector = _Inspector()
    try:
        inspector.dump(value)
    except KeyboardInterrupt:
        raise
    # From a user's __reduce__, or for a class that cannot be found by its name.
    except BaseException:
        return False
    return inspector.readable


def _is_text(raw: bytes) -> bool:
    with contextlib.suppress(UnicodeDecodeError):
        return all(letter.isprintable() or letter in "\r\n\t" for letter in raw.decode())
    return False
