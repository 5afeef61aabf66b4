"""Stores and reads objects in a recording, such as a table, an array or a model.

The line of a call has the pickle of its result. Large buffers of the pickle are files in a folder
beside the recording. A pickle is code, so it is read only if this user has signed it: a stranger's
recording runs nothing.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ...journal.codec.encoding import PICKLED, DecodeError
from ...journal.codec.identities import bare
from ...journal.codec.parted import Parted, parts_in, take_apart
from ...journal.codec.pickles import NotPicklable
from ...journal.codec.secret_search import HoldsSecret, Search
from ...journal.codec.signatures import SignatureError, is_signed, sign, user_key
from ...journal.codec.type_checks import checker
from ...journal.database.value_files import Part, PartError, ValueFiles
from ...journal.records.records import Record, decode_stored
from ...values.value import Value

STORED = "stored"
"""The key of a line that has an object."""

LARGE = 100_000
"""Bytes of a pickle from which on it is a file of the folder."""

_OWNER = "recording"
"""The name with which temporary files begin."""


class StoredObject(NamedTuple):
    """The object of a line."""

    form: str
    """One of `PICKLED`: ``parts`` if large buffers are files of the folder."""
    data: bytes
    sign: bytes
    """The signature of the user who recorded it."""

    @property
    def parts(self) -> list[Part]:
        """The parts of the pickle. Raises DecodeError."""
        return [Part(*part) for part in parts_in(self.data)] if self.form == "parts" else []


class NotBeside(DecodeError):
    """A file of the folder is missing."""


def folder_of(recording: Path) -> Path:
    """The folder of the objects of a recording."""
    return recording.with_name(f"{recording.name}.values")


def fields_of_object(call: Record, run_id: str) -> dict[str, Any]:
    """The fields of the line of a call that returned an object; none if the journal does not have it,
    or if another user has signed it."""
    form, data, key = call.result.form, call.result.data, user_key()
    if form not in PICKLED or not isinstance(data, bytes) or key is None:
        return {}
    try:
        call.check_signature(run_id)
    except SignatureError:
        return {}
    return _fields(key, form, bare(data))


def _fields(key: bytes, form: str, data: bytes) -> dict[str, Any]:
    text = base64.b64encode(data).decode()
    signature = sign(key, "recording", form, data).hex()
    return {STORED: {"form": form, "data": text, "sign": signature}}


def store_object(value: Value, recording: Path, search: Search) -> dict[str, Any]:
    """The fields of the line of a call that has returned ``value`` now, with its parts in the
    folder of the recording; none if it cannot be stored. ``search``: looks for secrets, which a
    stored object must not contain."""
    beside, key = ValueFiles(folder_of(recording), _OWNER), user_key()
    if key is None:
        return {}
    try:
        parted = take_apart(value, beside.create, search)
        for stretch in parted.stretches:
            beside.add(Part(stretch.digest, stretch.view.nbytes), stretch.view)
        rest: Any = parted.file
        if rest is not None:
            beside.keep(rest)
    except (NotPicklable, HoldsSecret, OSError, MemoryError):
        return {}
    return _fields(key, "parts", parted.data(rest.part if rest is not None else None))


def without_object(line: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in line.items() if key != STORED}


def read_object(line: dict[str, Any]) -> StoredObject | None:
    """The object in a line; None: the line has none. Raises ValueError for a damaged object."""
    fields = line.get(STORED)
    if fields is None:
        return None
    if not _is_stored(fields) or fields["form"] not in PICKLED:
        raise ValueError
    try:
        data = base64.b64decode(fields["data"], validate=True)
    except binascii.Error:
        raise ValueError from None
    return StoredObject(fields["form"], data, bytes.fromhex(fields["sign"]))


_is_stored = checker(dict[str, str])


def value_of_object(stored: StoredObject, recording: Path) -> Value:
    """The value of a stored object. Raises DecodeError, NotBeside if a file is missing,
    SignatureError."""
    if not is_signed(user_key(), stored.sign, "recording", stored.form, stored.data):
        raise SignatureError("it is not signed with your key")
    folder = folder_of(recording)
    for part in stored.parts:
        if not (folder / part.digest).is_file():
            raise NotBeside(f"the file {folder.name}/{part.digest} is missing")
    return decode_stored(stored.form, stored.data, ValueFiles(folder, _OWNER))


def keep_parts(
    lines: Iterable[dict[str, Any]], recording: Path, files: ValueFiles | None
) -> Iterator[dict[str, Any]]:
    """Yields the lines, and copies the parts of their objects from ``files`` into the folder of the
    recording (``files`` is None: the parts are there). At the end the folder has no other parts. A
    large pickle becomes a part. A line whose parts cannot be read loses its object. Raises
    OSError."""
    beside, named, key = ValueFiles(folder_of(recording), _OWNER), set[str](), user_key()
    for line in lines:
        stored = read_object(line)
        try:
            for part in stored.parts if stored is not None else ():
                if files is not None:
                    beside.add(part, memoryview(files.read(part)))
                named.add(part.digest)
        except (PartError, DecodeError):
            line = without_object(line)
        if stored is not None and stored.form == "pickle" and len(stored.data) > LARGE and key:
            part = Part(hashlib.sha256(stored.data).hexdigest(), len(stored.data))
            beside.add(part, memoryview(stored.data))
            named.add(part.digest)
            rest = Parted((), b"", is_plain=False).data(part)
            line = {**line, **_fields(key, "parts", rest)}
        yield line
    beside.clean(named, lambda owner: False)
    if not named and beside.folder.is_dir() and not any(beside.folder.iterdir()):
        beside.folder.rmdir()
