"""Tells whether a pickle names only classes and functions of libraries, without unpickling it.

Such a pickle can be read as long as the library is there: no class of the notebook is in it, which
may be gone.
"""

from __future__ import annotations

import pickletools

from .parted import PLAIN

MOST_PLAIN = 50_000
"""The largest number of instructions of a pickle that are read."""


def is_plain_pickle(data: bytes) -> bool:
    """Whether all names in the pickle ``data`` are those of packages in `PLAIN`; False for a pickle
    of more than `MOST_PLAIN` instructions."""
    memo: dict[int, str] = {}
    texts = ["", ""]  # the last two texts: the module and the name of an object
    count = 0
    try:
        for opcode, argument, _ in pickletools.genops(data):
            count += 1
            if count > MOST_PLAIN:
                return False
            if opcode.name == "GLOBAL":
                texts = str(argument).split(" ", 1)
            elif opcode.name == "MEMOIZE":
                memo[len(memo)] = texts[-1]
            elif opcode.name.endswith("GET"):
                texts = [texts[-1], memo.get(int(argument or 0), "")]
            elif "UNICODE" in opcode.name:
                texts = [texts[-1], str(argument)]
            if "GLOBAL" in opcode.name and texts[0].partition(".")[0] not in PLAIN:
                return False
    except ValueError:
        return False
    return True
