"""Reads and checks the images and documents that a model gets with a prompt.

Attachments are files of the notebook's folder with a bounded size. Their first bytes tell the kind,
not their names. A file without a known signature must be UTF-8 text, so the binary files of this
package are refused.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path, PurePath
from typing import NamedTuple

from ...text.diagnostics import Diagnostic, StepError
from ...text.folder import notebook_folder
from ...values.value import Value, type_name
from .notebook_files import NotThere, names, open_below

MAX_FILES = 20
"""The maximum number of attachments of one step."""

MAX_BYTES = 10_000_000
"""The maximum size of one attachment."""

MAX_TOTAL = 20_000_000
"""The maximum size of all attachments of one step, in bytes."""

KINDS = "PNG, JPEG, GIF, WebP, PDF and UTF-8 text"
_TYPES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".pdf": "application/pdf",
}
"""The media type that a file with this suffix must have."""


class Attachment(NamedTuple):
    """A checked image or document."""

    name: str
    """The path of the file; empty for a value."""
    media_type: str
    data: bytes

    def describe(self) -> dict[str, Value]:
        """The attachment as JSON, with a digest in place of its bytes."""
        digest = hashlib.sha256(self.data).hexdigest()
        return {
            "name": self.name,
            "type": self.media_type,
            "bytes": len(self.data),
            "sha256": digest,
        }


def read_attachment(value: Value) -> Attachment:
    """The attachment of a path below the notebook's folder, or of ``bytes``.

    Raises StepError ``tool.file-path`` for a path that the file tools refuse, ``agent.attach`` for
    everything else.
    """
    if type(value) is bytes:
        return _check_attachment("", value)
    if type(value) is not str:
        raise attachment_error(
            f"an attachment is a path or bytes, not {type_name(value)}",
            "give the path of a file as text",
        )
    return _check_attachment(value, _read(value))


def attachment_error(message: str, hint: str | None = None) -> StepError:
    return StepError(Diagnostic("agent.attach", message, hint=hint))


def _read(path: str) -> bytes:
    parts = names(path)
    try:
        root = Path(os.path.realpath(notebook_folder.path))
        with (
            open_below(root, path, parts, "read") as file,
            open(file.descriptor, "rb", closefd=False) as content,
        ):
            return content.read(MAX_BYTES + 1)  # the file may grow while it is read
    except NotThere as error:
        raise attachment_error(
            f"{path!r} {error}", "the path of a file is relative to the notebook's folder"
        ) from None
    except OSError as error:
        raise attachment_error(f"{path!r} cannot be read: {error.strerror}") from None


def _check_attachment(name: str, data: bytes) -> Attachment:
    shown = repr(name) if name else "the value"
    if len(data) > MAX_BYTES:
        raise attachment_error(
            f"{shown} is too large",
            f"an attachment has at most {MAX_BYTES:,} bytes: make it smaller",
        )
    if not data:
        raise attachment_error(f"{shown} is empty")
    expected = _TYPES.get(PurePath(name).suffix.lower())
    media_type = _media_type(data)
    if expected is not None and media_type != expected:
        raise attachment_error(
            f"{shown} is not a complete {expected.partition('/')[2].upper()} file",
            "save the file again",
        )
    if media_type is None:
        raise attachment_error(
            f"the kind of {shown} is unknown", f"an attachment is {KINDS}: convert the file"
        )
    return Attachment(name, media_type, data)


_SIGNATURES: tuple[tuple[bytes, str, Callable[[bytes], bool]], ...] = (
    (
        b"\x89PNG\r\n\x1a\n",
        "image/png",
        lambda data: data[12:16] == b"IHDR" and b"IEND" in data[-16:],
    ),
    (b"\xff\xd8\xff", "image/jpeg", lambda data: b"\xff\xd9" in data[-1024:]),
    (b"GIF87a", "image/gif", lambda data: len(data) > 13 and b"\x3b" in data[-16:]),
    (b"GIF89a", "image/gif", lambda data: len(data) > 13 and b"\x3b" in data[-16:]),
    (b"%PDF-", "application/pdf", lambda data: b"%%EOF" in data[-2048:]),
    (
        b"RIFF",
        "image/webp",
        lambda data: data[8:12] == b"WEBP" and len(data) >= int.from_bytes(data[4:8], "little") + 8,
    ),
)
"""The first bytes of each kind of file, the media type, and the test whether the file is
complete."""


def _media_type(data: bytes) -> str | None:
    """The media type of ``data`` by its signature and end; None: it is unknown or cut off."""
    for begin, media_type, is_whole in _SIGNATURES:
        if data.startswith(begin):
            return media_type if is_whole(data) else None
    with suppress(UnicodeDecodeError):
        if "\0" not in data.decode("utf-8"):
            return "text/plain"
    return None
