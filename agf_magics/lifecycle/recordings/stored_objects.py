"""Objects in a recording: a table, an array, a model.

The line of a call has the pickle of its result; the large buffers of that are files in a folder
beside the recording. A pickle is code, so only those are read that this user has signed: a recording
of a stranger runs nothing.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ...journal.codec.encoding import PICKLED, DecodeError
from ...journal.codec.identities import bare
from ...journal.codec.parted import parts_in
from ...journal.codec.signatures import SignatureError, is_signed, sign, user_key
from ...journal.codec.type_checks import checker
from ...journal.database.value_files import Part, PartError, ValueFiles
from ...journal.records.records import Record, decode_stored
from ...values.value import Value

STORED = "stored"
"""The key of a line that has an object."""

_OWNER = "recording"
"""The name with which temporary files begin."""


class StoredObject(NamedTuple):
    """The object of a line."""

    form: str
    data: bytes
    sign: bytes

    @property
    def parts(self) -> list[Part]:
        """Raises DecodeError."""
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
    data = bare(data)
    text = base64.b64encode(data).decode()
    signature = sign(key, "recording", form, data).hex()
    return {STORED: {"form": form, "data": text, "sign": signature}}


def read_object(line: dict[str, Any]) -> StoredObject | None:
    """The object of a line; None: it has none. Raises ValueError for a damaged one."""
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
    """The object. Raises DecodeError, NotBeside if a file is missing, SignatureError."""
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
    """The lines, while the parts of their objects are copied from ``files`` into the folder of the
    recording, which has no others at the end. A line whose parts cannot be read has no object. Raises
    OSError."""
    beside, named = ValueFiles(folder_of(recording), _OWNER), set[str]()
    for line in lines:
        stored = read_object(line)
        try:
            for part in stored.parts if stored is not None and files is not None else ():
                beside.add(part, memoryview(files.read(part)))  # type: ignore[union-attr]
                named.add(part.digest)
        except (PartError, DecodeError):
            line = {key: value for key, value in line.items() if key != STORED}
        yield line
    beside.clean(named, lambda owner: False)
    if not named and beside.folder.is_dir() and not any(beside.folder.iterdir()):
        beside.folder.rmdir()
