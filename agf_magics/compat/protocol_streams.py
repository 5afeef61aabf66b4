"""Reserves the stdin and stdout of a process for a protocol, so that nothing else reads or writes
there."""

from __future__ import annotations

import os
import sys
from functools import cache
from io import BufferedReader, TextIOWrapper
from typing import BinaryIO, NamedTuple


class ProtocolStreams(NamedTuple):
    """The two streams over which the protocol is spoken."""

    read: BufferedReader
    write: BinaryIO
    """Unbuffered output."""


@cache
def claim() -> ProtocolStreams:
    """Reserve stdin and stdout for the protocol and return them. From then on, this process and
    each process that it starts finds an empty stdin, and prints to stderr."""
    sys.stdout.flush()
    read, write = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # stderr is line-buffered, too
    return ProtocolStreams(os.fdopen(read, "rb"), os.fdopen(write, "wb", buffering=0))
