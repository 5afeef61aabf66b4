"""Images and documents that a model gets with a prompt (decision P20).

A path follows the rules of the built-in file tools. The kind of a file is that of its first bytes,
not of its name; a file without a known signature must be UTF-8 text, so that our own files, which
are binary, are refused.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path, PurePath
from typing import NamedTuple

from ..flow.values import Value, type_name
from ..text.diagnostics import Diagnostic, StepError
from .notebook_files import NotThere, names, opened

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


class Attachment(NamedTuple):
    """A checked image or document."""

    name: str
    """Its path; empty for a value."""
    media_type: str
    data: bytes

    def describe(self) -> dict[str, Value]:
        """It as JSON, with a digest instead of its bytes."""
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
        return _checked("", value)
    if type(value) is not str:
        raise refused(
            f"an attachment is a path or bytes, not {type_name(value)}",
            "give the path of a file as text",
        )
    return _checked(value, _read(value))


def refused(message: str, hint: str | None = None) -> StepError:
    return StepError(Diagnostic("agent.attach", message, hint=hint))


def _read(path: str) -> bytes:
    parts = names(path)
    try:
        root = Path(os.path.realpath(Path.cwd()))
        with (
            opened(root, path, parts, "read") as file,
            open(file.descriptor, "rb", closefd=False) as content,
        ):
            return content.read(MAX_BYTES + 1)  # the size of a file may change while it is read
    except NotThere as error:
        raise refused(
            f"{path!r} {error}", "the path of a file is relative to the notebook's folder"
        ) from None
    except OSError as error:
        raise refused(f"{path!r} cannot be read: {error.strerror}") from None


def _checked(name: str, data: bytes) -> Attachment:
    shown = repr(name) if name else "the value"
    if len(data) > MAX_BYTES:
        raise refused(
            f"{shown} is too large",
            f"an attachment has at most {MAX_BYTES:,} bytes: make it smaller",
        )
    if not data:
        raise refused(f"{shown} is empty")
    expected, found = _TYPES.get(PurePath(name).suffix.lower()), _media_type(data)
    if expected is not None and found != expected:
        raise refused(
            f"{shown} is not a complete {expected.partition('/')[2].upper()} file",
            "save the file again",
        )
    if found is None:
        raise refused(
            f"the kind of {shown} is unknown", f"an attachment is {KINDS}: convert the file"
        )
    return Attachment(name, found, data)


def _media_type(data: bytes) -> str | None:
    """The media type by signature and end; None: unknown or cut off."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png" if data[12:16] == b"IHDR" and b"IEND" in data[-16:] else None
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg" if b"\xff\xd9" in data[-1024:] else None
    if data[:6] in (b"GIF87a", b"GIF89a"):
        return "image/gif" if len(data) > 13 and b"\x3b" in data[-16:] else None
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp" if len(data) >= int.from_bytes(data[4:8], "little") + 8 else None
    if data.startswith(b"%PDF-"):
        return "application/pdf" if b"%%EOF" in data[-2048:] else None
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return "text/plain" if b"\0" not in data else None
