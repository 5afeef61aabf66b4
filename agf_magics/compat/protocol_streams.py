"""The stdin and stdout of a process that speaks a protocol over them: nothing else may read or write there."""

from __future__ import annotations

import os
import sys
from functools import cache
from io import BufferedReader, TextIOWrapper
from typing import BinaryIO, NamedTuple


class ProtocolStreams(NamedTuple):
    """The streams of the protocol."""

    read: BufferedReader
    write: BinaryIO
    """Without a buffer."""


@cache
def claim() -> ProtocolStreams:
    """The streams of the protocol. From now on the process, and each process that it starts, reads
    nothing at its stdin, and what it prints goes to stderr."""
    sys.stdout.flush()
    read, write = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # as stderr, where its lines now stand
    return ProtocolStreams(os.fdopen(read, "rb"), os.fdopen(write, "wb", buffering=0))
