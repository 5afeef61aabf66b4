"""Signs stored pickles with the key of this user, and checks the signatures."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import marshal
import os
import secrets
import sys
import zlib
from functools import cache
from pathlib import Path
from typing import Any

from ...compat.browser import IN_BROWSER
from .encoding import DecodeError


class SignatureError(DecodeError):
    """A stored value is not signed with the key of this user."""


def sign(key: bytes, *parts: str | bytes) -> bytes:
    """A signature over ``parts`` and their lengths."""
    signature = hmac.new(key, digestmod=hashlib.sha256)
    for part in parts:
        # The lengths are signed, too, so that the boundary between two parts cannot move.
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
    """The folder of this package for files of the user, outside of all projects. ``windows``,
    ``xdg``: the environment variable that names the outer folder, and its default."""
    if sys.platform == "win32":
        variable, default = windows
        folder = Path(os.environ.get(variable) or home / "AppData" / default)
    elif sys.platform == "darwin":
        folder = home / "Library" / "Application Support"
    else:
        variable, default = xdg
        folder = Path(os.environ.get(variable) or home / default)
    return folder / "agf-magics"


def key_file() -> Path:
    """The path of this user's key. In a browser it is on JupyterLite's drive, which belongs to one
    person, because the home folder is lost with the page."""
    if IN_BROWSER and Path("/drive").is_dir():
        return Path("/drive/.agf/signing.key")
    folder = user_folder(Path.home(), ("LOCALAPPDATA", "Local"), ("XDG_DATA_HOME", ".local/share"))
    return folder / "signing.key"


def user_key() -> bytes | None:
    """This user's key, created if there is none; None if it cannot be read or written."""
    with contextlib.suppress(OSError, RuntimeError):  # RuntimeError: the user has no home folder
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
            # A link is atomic: another process sees no key or a complete one. A browser has a
            # single process and no links.
            with contextlib.suppress(FileExistsError):
                getattr(os, "link", os.replace)(new, path)
        finally:
            new.unlink(missing_ok=True)
    key = path.read_bytes()
    if len(key) != 32:
        raise OSError(f"{path} is not a key")
    return key


def row_crc(row: tuple[Any, ...]) -> int:
    """The checksum of a row's cells, with their types. Version 2 of marshal is the same in all
    Pythons, and is twice as fast as a text of the cells."""
    return zlib.crc32(marshal.dumps(row, 2))


def checksum(*cells: Any) -> int:
    """`row_crc` of these cells."""
    return row_crc(cells)
