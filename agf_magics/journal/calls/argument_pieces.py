"""Writes the arguments of a call as JSON in pieces, so that a run stores each large part only once.

A graph passes its state, perhaps a megabyte, to each of its nodes. The record of each node has a
digest in place of the state (decision D45).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping

from ...values.large import WIDE, KnownValue
from ...values.value import Value
from ..codec.encoding import TEXT, json_text
from ..codec.json_texts import encode

LARGE = 50_000
"""The number of characters of JSON from which on a part of the arguments is stored separately."""

IN_PIECES = 2
"""The value of ``whole`` for a record whose ``arguments`` are a JSON list of pieces: JSON texts,
and between them the digests of large parts."""


class ArgumentPieces:
    """The arguments of one call as JSON, with digests in place of large parts."""

    def __init__(self, most: int, find_known: Callable[[Value], KnownValue | None]) -> None:
        """``most``: the largest number of characters in all. ``find_known``: returns the large value
        of which a value is a copy, or None."""
        self.large: dict[str, str] = {}
        """The texts of the large parts that may not be stored yet, by their digests."""
        self.known: list[tuple[KnownValue, str, int]] = []
        """The values, digests and sizes of these parts."""
        self._most = most
        """The number of characters that may still be added."""
        self._find_known = find_known
        self._pieces = [""]
        """The pieces: JSON and digests of large parts, alternately."""

    @property
    def whole(self) -> int:
        """1: `text` is the JSON of the arguments; `IN_PIECES`: it is a list of pieces."""
        return 1 if len(self._pieces) == 1 else IN_PIECES

    @property
    def text(self) -> str:
        return self._pieces[0] if len(self._pieces) == 1 else encode(self._pieces)

    def add(self, value: Value, levels: int = 2) -> bool:
        """Add ``value``, with its large parts in ``levels`` levels of mappings as pieces. Returns
        False if a part is not JSON, or if the whole is too large."""
        large_value = self._find_known(value)
        if large_value is not None and large_value.stored:
            self._most -= large_value.size
            self._pieces += large_value.stored, ""
            return self._most >= 0
        if levels and type(value) is dict and len(value) <= WIDE:
            return self._add_each(value, levels - 1)
        text = large_value.text if large_value is not None else None
        text = text or json_text(value, self._most)
        if text is None or len(text) > self._most:
            return False
        self._most -= len(text)
        if len(text) < LARGE:
            self._pieces[-1] += text
            return True
        digest = hashlib.sha256(text.encode()).hexdigest()
        self.large[digest] = text
        if large_value is not None:
            self.known.append((large_value, digest, len(text)))
        self._pieces += digest, ""
        return True

    def _add_each(self, value: Mapping[str, Value], levels: int) -> bool:
        if not TEXT.issuperset(map(type, value)):
            return False
        before = "{"
        for name, part in value.items():
            self._pieces[-1] += f"{before}{encode(name)}:"
            before = ","
            if not self.add(part, levels):
                return False
        self._pieces[-1] += "}" if value else "{}"
        return True
