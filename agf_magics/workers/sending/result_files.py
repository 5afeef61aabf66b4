"""Large results of a worker of this machine, which come as files: see `chunk._Files`.

The names are those that the kernel has given, in the folder of the backend, which only this user
can read. A worker has run the code of a tool, so what lies there may be anything: a link, a pipe, a
file that grows.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import secrets
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...values.value import Value
from ..chunk import READ


def prefix_in(share: Callable[[], str] | None) -> str:
    """Where the names of the files of a chunk begin; ``share`` makes the folder of its backend.
    Empty: it has none."""
    return os.path.join(share(), f"{secrets.token_hex(8)}-") if share is not None else ""


def packed_size(packed: Any) -> int:
    """The bytes of what `chunk._packed` returns."""
    if type(packed) is list:
        return sum(map(packed_size, packed))
    return len(packed) if type(packed) is bytes else len(packed[0]) + sum(packed[2])


def unpacked(packed: Any, prefix: str) -> Value:
    """The values. Raises what reading them raises."""
    if type(packed) is list:
        return [unpacked(one, prefix) for one in packed]
    if type(packed) is bytes:
        return pickle.loads(packed)
    data, first, sizes = packed
    files = [_read(f"{prefix}{first + i}", size) for i, size in enumerate(sizes)]
    return pickle.loads(data or files.pop(), buffers=files)


def remove_files(prefix: str) -> None:
    """Remove what a chunk has left."""
    folder, name = os.path.split(prefix)
    for path in Path(folder).glob(f"{name}*") if prefix else ():
        with contextlib.suppress(OSError):
            path.unlink()


def _read(path: str, size: int) -> bytearray:
    file = os.open(path, READ)
    with os.fdopen(file, "rb", buffering=0) as reader:
        facts = os.fstat(file)
        if not stat.S_ISREG(facts.st_mode) or facts.st_size != size:
            raise ValueError("a file of it is not what the worker wrote")
        data = bytearray(size)
        place = memoryview(data)
        while place and (count := reader.readinto(place)):
            place = place[count:]
        if place:
            raise ValueError("a file of it was cut")
    return data
