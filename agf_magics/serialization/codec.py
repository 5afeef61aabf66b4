"""Values in the journal: JSON as it is, opaque values as signed pickles; others are not stored.

A value is pickled (`pickles`) at the end of its call, before another step can change it. A pickle
is code: it is only read to resume a run, never to list or show one, and only with the signature of
this user.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import pickle
import secrets
import sys
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ..flow.opaque import describe_array, describe_scalar, fields_of
from ..flow.values import ATOMS, DEEPEST, Value
from .json_texts import LONG, encode_large
from .json_texts import decode as decode
from .json_texts import encode as encode
from .pickles import NotPicklable, TooLarge, pickled, text_of

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

    def __init__(self, message: str = "it is not signed with your key") -> None:
        super().__init__(message)


def json_text(value: Value, most: int) -> str | None:
    """``value`` as JSON, if it is JSON of at most ``most`` bytes; else None."""
    if 0 <= (size := weigh(value)) <= most:
        try:
            text = encode(value) if size < LONG else encode_large(value)
        except ValueError:  # a number of 5,000 digits
            return None
        if len(text) <= most:
            return text
    return None


def encode_value(value: Value, most: int) -> EncodedValue:
    """``value`` as it is stored, in at most ``most`` bytes."""
    size = weigh(value)
    if size > most:
        return EncodedValue(
            "again", None, encode(preview(value)), f"it has more than {_bytes(most)}"
        )
    if size >= 0:
        try:
            text = encode(value) if size < LONG else encode_large(value)
        except ValueError:  # a number of 5,000 digits
            return _pickled(value, most)
        if len(text) <= most:
            return EncodedValue("json", text)
        return EncodedValue(
            "again", None, encode(preview(value)), f"it has more than {_bytes(most)}"
        )
    return _pickled(value, most)


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
        for key in value:
            if type(key) is not str:
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
    kind = type(value)
    if kind is str:
        return value if len(value) <= 2_000 else f"{value[:2_000]}… ({len(value):,} characters)"
    if kind is int and value.bit_length() > LONGEST:
        return f"⟨int of {value.bit_length():,} bits⟩"
    if kind in ATOMS:
        return value
    if kind is list and room and left[0] > 0:
        return [preview(part, room - 1, left) for part in value[: max(left[0], 1)]]
    if kind is dict and room and left[0] > 0 and TEXT.issuperset(map(type, value)):
        return {key: preview(value[key], room - 1, left) for key in list(value)[: max(left[0], 1)]}
    if (text := describe_scalar(value) or describe_array(value)) is not None:
        return text[:2_000]
    fields = fields_of(value) if room and left[0] > 0 else None
    if fields is not None:
        return preview(fields, room, left)
    return f"⟨{kind.__name__}{_extent(value, kind)}⟩"


def to_show(value: Value, most: int) -> tuple[str, bool]:
    """``value`` as JSON, and whether it is complete."""
    if 0 <= (size := weigh(value)) <= most:
        try:
            return (encode(value) if size < LONG else encode_large(value)), True
        except ValueError:  # a number of 5,000 digits
            pass
    return encode(preview(value)), False


def _extent(value: Any, kind: type) -> str:
    if kind in (list, dict):
        return f" of {len(value):,}"
    shape = (
        getattr(value, "shape", None)
        if kind.__module__.split(".")[0] in ("numpy", "pandas", "polars")
        else None
    )
    return " " + " × ".join(f"{n:,}" for n in shape) if type(shape) is tuple and shape else ""


def _pickled(value: Value, most: int) -> EncodedValue:
    shown = encode(preview(value))
    try:
        return EncodedValue("pickle", pickled(value, most), shown)
    except TooLarge:
        return EncodedValue("again", None, shown, f"it has more than {_bytes(most)}")
    except NotPicklable as error:
        return EncodedValue("again", None, shown, f"it cannot be pickled ({error})")


def decode_value(form: str, data: str | bytes | None) -> Value:
    """The value. Raises DecodeError. The caller checks the signature of a pickle first."""
    try:
        if form == "json" and data is not None:
            return decode(data)
        if form == "pickle" and isinstance(data, bytes):
            return pickle.loads(data)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        raise DecodeError(f"{type(error).__name__}: {text_of(error)}") from None
    raise DecodeError("it was not stored")


def sign(key: bytes, *parts: str | bytes) -> bytes:
    """A signature over ``parts`` and their lengths."""
    made = hmac.new(key, digestmod=hashlib.sha256)
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        made.update(len(raw).to_bytes(8, "big"))
        made.update(raw)
    return made.digest()


def is_signed(key: bytes | None, signature: bytes | None, *parts: str | bytes) -> bool:
    return (
        key is not None
        and signature is not None
        and hmac.compare_digest(sign(key, *parts), signature)
    )


def key_file() -> Path:
    """The path of this user's key, outside of all projects."""
    home = Path.home()
    if sys.platform == "win32":
        folder = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    elif sys.platform == "darwin":
        folder = home / "Library" / "Application Support"
    else:
        folder = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    return folder / "agf-magics" / "signing.key"


def user_key() -> bytes | None:
    """This user's key, created if there is none; None if it cannot be read or written."""
    try:
        return _key(key_file())
    except (OSError, RuntimeError):  # RuntimeError: there is no home
        return None


@cache
def _key(path: Path) -> bytes:
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        made = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
        file = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(file, "wb") as writer:
            writer.write(secrets.token_bytes(32))
        try:
            os.link(made, path)  # atomic: another process sees no key or a complete one
        except FileExistsError:
            pass
        finally:
            made.unlink()
    found = path.read_bytes()
    if len(found) != 32:
        raise OSError(f"{path} is not a key")
    return found


def _bytes(number: int) -> str:
    return f"{number / 1e6:g} MB" if number >= 100_000 else f"{number:,} bytes"
