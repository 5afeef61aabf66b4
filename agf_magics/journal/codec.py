"""JSON texts in plain ASCII, also for NaN and lone surrogates; `json.loads` reads back the same
value.

Values as pickles of a bounded size: a value that is too large is found before it is copied.

Python's pickle comes first: so a class of the notebook is found by its name and is the present one.
Values that it cannot pickle (a lambda, a class of a function) are pickled by cloudpickle, if that
is installed.

Values in the journal: JSON as it is, opaque values as signed pickles; others are not stored.

A value is pickled (`pickles`) at the end of its call, before another step can change it. A pickle
is code: it is only read to resume a run, never to list or show one, and only with the signature of
this user.
"""

from __future__ import annotations

import contextlib
import copyreg
import hashlib
import hmac
import importlib
import io
import json
import marshal
import operator
import os
import pickle
import secrets
import sys
import zlib
from collections import ChainMap
from collections.abc import Callable, MutableMapping
from functools import cache
from itertools import repeat
from pathlib import Path
from types import UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from ..flow.values import ATOMS, DEEPEST, Value, describe_array, describe_scalar, fields_of
from ..text.late_imports import IN_BROWSER, installed_only


def _encoder() -> Callable[[Any], str]:
    """One encoder in C for all texts. `JSONEncoder` creates one for each text, 1 µs; a journaled
    element of a fan-out takes 42 µs with it and 33 without."""
    plain = json.JSONEncoder(check_circular=False, separators=(",", ":"))
    make, quoted = json.encoder.c_make_encoder, json.encoder.c_encode_basestring_ascii  # type: ignore[attr-defined]
    chunks = make(None, plain.default, quoted, None, ":", ",", False, False, True)
    return lambda value: "".join(chunks(value, 0))


encode = _encoder()


LONG = 5_000
"""Characters of a text from which on it is worth a look whether JSON escapes any."""

FEW = 8
"""Parts of a value that are looked at."""

ESCAPED = (*map(chr, (10, 34, 92)), *[chr(code) for code in (*range(32), 127) if code != 10])
"""The ASCII characters that `encode` escapes, the most frequent ones first."""


def encode_large(value: Value) -> str:
    """`encode` for a value of more than `LONG` characters. A character takes 1.4 to 2.5 ns, and 0.3
    ns in a long text in which nothing is escaped (base64, numbers, a line): that is copied."""
    kind = type(value)
    if kind is str:
        return _quoted(value)
    if kind is dict and len(value) <= FEW:
        return (
            "{" + ",".join([f"{encode(key)}:{_quoted(part)}" for key, part in value.items()]) + "}"
        )
    if kind is list and len(value) <= FEW:
        return "[" + ",".join([_quoted(part) for part in value]) + "]"
    return encode(value)


def _quoted(value: Value) -> str:
    # Each `in` below is a search in C: only a long text is worth so many of them.
    if type(value) is not str or len(value) < LONG or not value.isascii():
        return encode(value)
    for char in ESCAPED:
        if char in value:
            return encode(value)
    return f'"{value}"'


@cache
def checker(kind: Any) -> Callable[[Any], bool]:
    """Whether a value that anybody may have written has the type ``kind``: a class (exactly it: a
    boolean is no int), ``object``, a union, a ``Literal``, ``list[…]``, ``dict[str, …]``, ``tuple[…]``
    for a list of so many parts, a TypedDict, or ``Annotated[kind, condition]``.

    >>> is_place = checker(tuple[str, Annotated[int, lambda line: line > 0]])
    >>> is_place(["a", 1]), is_place(["a", True]), is_place(["a", 0])
    (True, False, False)
    """
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        return lambda value: isinstance(value, str) and value in parts
    if origin is Annotated:
        is_kind, condition = checker(parts[0]), parts[1]
        return lambda value: is_kind(value) and bool(condition(value))
    if is_typeddict(kind):
        fields, required = get_type_hints(kind, include_extras=True), kind.__required_keys__
        named = {name: checker(part) for name, part in fields.items()}
        return lambda value: (
            type(value) is dict
            and required <= value.keys()
            and all(named[name](value[name]) for name in value.keys() & named.keys())
        )
    if origin in (Union, UnionType):
        # The classes at once: this is done for each row of a run that is resumed.
        classes = frozenset(part for part in parts if isinstance(part, type))
        others = [checker(part) for part in parts if part not in classes]
        return lambda value: (
            type(value) in classes or any(map(operator.call, others, repeat(value)))
        )
    tests = tuple(checker(part) for part in parts)
    if origin is tuple:
        return lambda value: (
            type(value) in (list, tuple)
            and len(value) == len(tests)
            and all(map(operator.call, tests, value))
        )
    if origin is not None:  # a list or a dict
        return lambda value: (
            type(value) is origin
            and all(map(tests[-1], value.values() if origin is dict else value))
        )
    return (lambda value: True) if kind is object else (lambda value: type(value) is kind)


def part_digest(before: bytes, text: str) -> bytes:
    """The name of a part, a text that is stored once, after the part ``before`` (empty: the first);
    so the last digest names a whole sequence of texts."""
    return hashlib.sha256(before + text.encode()).digest()


class PickleTooLarge(Exception):
    """The pickle has more bytes than it may have."""


class NotPicklable(Exception):
    """The value cannot be pickled. The message has the reason."""


def pickled(value: Value, most: int) -> bytes:
    """``value`` as a pickle of at most ``most`` bytes. Raises PickleTooLarge or NotPicklable."""
    # Known without looking at the elements: a copy of them may not fit into the memory.
    if bytes_of_data(value) > most:
        raise PickleTooLarge
    why = ""
    for pickler in _picklers(most):
        file = _Bounded(most)
        try:
            pickler(file, protocol=5).dump(value)
            return file.getvalue()
        except (PickleTooLarge, KeyboardInterrupt):
            raise
        # Of a user's __reduce__, even a SystemExit.
        except BaseException as error:
            why = why or f"{type(error).__name__}: {text_of(error)}"
    raise NotPicklable(why)


class _Bounded(io.BytesIO):
    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def write(self, data: Any) -> int:
        if self.tell() + memoryview(data).nbytes > self.most:
            raise PickleTooLarge
        return super().write(data)


def bytes_of_data(value: Value) -> int:
    """The bytes of an array or a table; 0 for everything else. Its library is loaded, or there
    would be no value."""
    package = type(value).__module__.partition(".")[0]
    if package not in ("numpy", "pandas", "polars"):
        return 0
    library: Any = sys.modules[package]
    if package == "numpy":
        return int(value.nbytes) if type(value) in (library.ndarray, library.memmap) else 0
    if package == "polars":
        return (
            int(value.estimated_size()) if type(value) in (library.DataFrame, library.Series) else 0
        )
    if type(value) is library.DataFrame:
        return sum(int(column.nbytes) for _, column in value.items())
    return int(value.nbytes) if type(value) is library.Series else 0


def _picklers(most: int) -> list[Any]:
    # Python's first: cloudpickle copies a class of the notebook into the bytes, by value.
    picklers: list[Any] = [pickle.Pickler]
    with contextlib.suppress(ImportError), installed_only():
        picklers.append(importlib.import_module("cloudpickle").Pickler)
    polars = sys.modules.get("polars")
    return picklers if polars is None else [_limited(pickler, most, polars) for pickler in picklers]


@cache
def _limited(pickler: Any, most: int, polars: Any) -> Any:
    """``pickler`` with a limit for the frames of polars inside a value: such a frame would be
    copied as a whole before a byte of it is written. Those of numpy, pandas and pyarrow are written
    in parts."""

    def reduced(frame: Any) -> Any:
        if bytes_of_data(frame) > most:
            raise PickleTooLarge
        return frame.__reduce_ex__(5)

    limits: dict[Any, Any] = {polars.DataFrame: reduced, polars.Series: reduced}
    # Cloudpickle's is a mapping; of Python's pickler it is a slot.
    table: Any = getattr(pickler, "dispatch_table", None)
    if not isinstance(table, MutableMapping):
        table = copyreg.dispatch_table
    table = ChainMap(limits, cast("Any", table))
    return type(pickler.__name__, (pickler,), {"dispatch_table": table})


def text_of(error: BaseException) -> str:
    """The text of a user's error, whose code may fail."""
    with contextlib.suppress(BaseException):
        return str(error)[:300]
    return "(its text cannot be read)"


Form = Literal["json", "pickle", "again"]
"""``again``: it is not stored, so a resumed run makes its call again."""

TEXT = frozenset({str})

PREVIEWED = 200
"""The number of parts in a preview."""

LONGEST = 10_000
"""Bits of a number that is written in full: Python refuses to write much larger ones."""


class EncodedValue(NamedTuple):
    """A value in one of three forms."""

    form: Form
    data: str | bytes | None = None
    shown: str | None = None
    """A preview as JSON, if the form is not JSON."""
    why: str | None = None
    """Why it is not stored."""


class DecodeError(Exception):
    """A stored value cannot be read."""


class SignatureError(DecodeError):
    """A stored value is not signed with the key of this user."""


def _text(value: Value, most: int) -> tuple[str | None, int]:
    """``value`` as JSON, and what it weighs. None: it is no JSON, it weighs more than ``most``, or
    it has a number of 5,000 digits, which Python does not write."""
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
    """``value`` as it is stored, in at most ``most`` bytes."""
    text, size = _text(value, most)
    if text is not None and len(text) <= most:
        return EncodedValue("json", text)
    shown, why = encode(preview(value)), f"it has more than {_bytes(most)}"
    if text is None and size <= most:
        try:
            with contextlib.suppress(PickleTooLarge):
                return EncodedValue("pickle", pickled(value, most), shown)
        except NotPicklable as error:
            why = f"it cannot be pickled ({error})"
    return EncodedValue("again", None, shown, why)


def weigh(value: Value, room: int = DEEPEST) -> int:
    """The approximate characters of ``value`` as JSON; -1 if a part is opaque.

    Counted before encoding: a list of a thousand times the same long text is small in memory.
    """
    kind = type(value)
    if kind is str:
        return len(value) + 2
    if kind in ATOMS:
        return 8
    if kind is list:
        return _weigh_all(value, value, room)
    if kind is dict:
        # JSON would write a number as a text, and the key would come back as another one.
        if not TEXT.issuperset(map(type, value)):
            return -1
        return _weigh_all(value, value.values(), room)
    return -1


def _weigh_all(whole: Any, parts: Any, room: int) -> int:
    size = 8 * len(whole)
    for part in parts:
        kind = type(part)
        if kind is str:
            size += len(part)
        elif kind not in ATOMS:
            more = weigh(part, room - 1) if room > 0 else -1
            if more < 0:
                return -1
            size += more
    return size


def preview(value: Value, room: int = 6, left: list[int] | None = None) -> Value:
    """``value`` as JSON for display: its first parts; opaque parts as the names of their
    classes."""
    left = [PREVIEWED] if left is None else left
    left[0] -= 1
    kind, is_open = type(value), room and left[0] > 0
    if kind is str:
        return value if len(value) <= 2_000 else f"{value[:2_000]}… ({len(value):,} characters)"
    # Python refuses to write it in decimal digits, or takes minutes.
    if kind is int and value.bit_length() > LONGEST:
        return f"⟨int of {value.bit_length():,} bits⟩"
    if kind in ATOMS:
        return value
    if kind is list and is_open:
        return [preview(part, room - 1, left) for part in value[: max(left[0], 1)]]
    if kind is dict and is_open and TEXT.issuperset(map(type, value)):
        return {key: preview(value[key], room - 1, left) for key in list(value)[: max(left[0], 1)]}
    if (text := describe_scalar(value) or describe_array(value)) is not None:
        return text[:2_000]
    if is_open and (fields := fields_of(value)) is not None:
        return preview(fields, room, left)
    return f"⟨{kind.__name__}{_extent(value, kind)}⟩"


def to_show(value: Value, most: int) -> tuple[str, bool]:
    """``value`` as JSON, and whether it is complete."""
    text, _ = _text(value, most)
    return (text, True) if text is not None else (encode(preview(value)), False)


def _extent(value: Any, kind: type) -> str:
    if kind in (list, dict):
        return f" of {len(value):,}"
    shape = (
        getattr(value, "shape", None)
        if kind.__module__.split(".")[0] in ("numpy", "pandas", "polars")
        else None
    )
    return " " + " × ".join(f"{n:,}" for n in shape) if type(shape) is tuple and shape else ""


def decode_value(form: str, data: str | bytes | None) -> Value:
    """The value. Raises DecodeError. The caller checks the signature of a pickle first."""
    try:
        if form == "json" and data is not None:
            return json.loads(data)
        if form == "pickle" and isinstance(data, bytes):
            return pickle.loads(data)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        raise DecodeError(f"{type(error).__name__}: {text_of(error)}") from None
    raise DecodeError("it was not stored")


def sign(key: bytes, *parts: str | bytes) -> bytes:
    """A signature over ``parts`` and their lengths."""
    signature = hmac.new(key, digestmod=hashlib.sha256)
    for part in parts:
        # With the length: two parts must not be signed as one that looks the same.
        raw = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        signature.update(len(raw).to_bytes(8, "big"))
        signature.update(raw)
    return signature.digest()


def is_signed(key: bytes | None, signature: bytes | None, *parts: str | bytes) -> bool:
    return (
        key is not None
        and signature is not None
        and hmac.compare_digest(sign(key, *parts), signature)
    )


def user_folder(home: Path, windows: tuple[str, str], xdg: tuple[str, str]) -> Path:
    """The folder of this package below the folder for a user's files, outside of all projects.
    ``windows``, ``xdg``: the variable that names that folder, and where it is by default."""
    variable, place = windows
    if sys.platform == "win32":
        folder = Path(os.environ.get(variable) or home / "AppData" / place)
    elif sys.platform == "darwin":
        folder = home / "Library" / "Application Support"
    else:
        variable, place = xdg
        folder = Path(os.environ.get(variable) or home / place)
    return folder / "agf-magics"


def key_file() -> Path:
    """The path of this user's key. A page forgets its home folder, and JupyterLite's drive is the
    storage of one person."""
    if IN_BROWSER and Path("/drive").is_dir():
        return Path("/drive/.agf/signing.key")
    folder = user_folder(Path.home(), ("LOCALAPPDATA", "Local"), ("XDG_DATA_HOME", ".local/share"))
    return folder / "signing.key"


def user_key() -> bytes | None:
    """This user's key, created if there is none; None if it cannot be read or written."""
    with contextlib.suppress(OSError, RuntimeError):  # RuntimeError: there is no home
        return _key(key_file())
    return None


@cache
def _key(path: Path) -> bytes:
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        new = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
        file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(file, "wb") as writer:
            writer.write(secrets.token_bytes(32))
        try:
            # Atomic: another process sees no key or a complete one. A browser has one process, and
            # no links.
            with contextlib.suppress(FileExistsError):
                getattr(os, "link", os.replace)(new, path)
        finally:
            new.unlink(missing_ok=True)
    key = path.read_bytes()
    if len(key) != 32:
        raise OSError(f"{path} is not a key")
    return key


def _bytes(number: int) -> str:
    return f"{number / 1e6:g} MB" if number >= 100_000 else f"{number:,} bytes"


def row_crc(row: tuple[Any, ...]) -> int:
    """The checksum of a row's cells, with their types. Version 2 of marshal is the same in all
    Pythons, and takes half of the time of a text of the cells."""
    return zlib.crc32(marshal.dumps(row, 2))


def checksum(*cells: Any) -> int:
    """`row_crc` of these cells."""
    return row_crc(cells)
