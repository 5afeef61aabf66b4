"""Reads the words of ``on=`` and ``--on``: which workers a run uses, and how many.

This file stands beside the settings, because they must not import the room of the workers.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, cast

WORDS = ("here", "processes", "dask")
"""The kinds of workers: ``here`` is this process, the others are processes that it starts."""

FOR_PROJECTS = ("processes", "dask")
"""The words that a project's file may use. The file may come from a stranger, so it names no
address (decision D4)."""

TAKES = "processes, processes:4, dask, dask:4, here, tcp://HOST:PORT or tls://HOST:PORT"
"""The words of an error about all that ``on`` takes."""

MOST_WORKERS = 1_024
"""The largest number of processes that one word may start on this machine."""

_COUNTED = re.compile(r"(processes|dask):([0-9]{1,4})")
_ADDRESS = re.compile(
    r"(?:tcp|tls)://(?:\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253}):([0-9]{1,5})"
)


Kind = Literal["here", "processes", "dask", "address"]


class Word(NamedTuple):
    """The meaning of a text of ``on``."""

    kind: Kind
    number: int | None = None
    """The number of processes to start; None: one per core."""
    address: str = ""
    """The address of a scheduler; empty for all other kinds."""


def read_word(text: str) -> Word | None:
    """The meaning of ``text``; None if it is neither a word nor an address.

    >>> read_word("processes:4")
    Word(kind='processes', number=4, address='')
    >>> read_word("tcp://10.0.0.5:8786").address
    'tcp://10.0.0.5:8786'
    >>> read_word("proceses") is None
    True
    """
    if text in WORDS:
        return Word(cast(Kind, text))
    counted = _COUNTED.fullmatch(text)
    if counted is not None:
        count = int(counted[2])
        return Word(cast(Kind, counted[1]), count) if 1 <= count <= MOST_WORKERS else None
    address = _ADDRESS.fullmatch(text)
    return (
        Word("address", address=text)
        if address is not None and 0 < int(address[1]) < 65_536
        else None
    )
