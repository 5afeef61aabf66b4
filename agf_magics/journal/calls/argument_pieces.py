"""The arguments of a call as JSON in pieces: its large parts are stored once for the run.

A graph passes its state of a megabyte to each of its nodes; the record of each has a digest in its
place (decision D45).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping

from ...values.large import WIDE, KnownValue
from ...values.value import Value
from ..codec.encoding import TEXT, json_text
from ..codec.json_texts import encode

LARGE = 50_000
"""Characters of the JSON text from which on a part of the arguments is stored once for the run."""

IN_PIECES = 2
"""``whole`` of a record whose ``arguments`` are a JSON list of pieces: texts, and between them the
digests of large parts."""


class ArgumentPieces:
    """Arguments as JSON, without the large ones among them, and the large values of a mapping."""

    def __init__(self, most: int, known: Callable[[Value], KnownValue | None]) -> None:
        """``most``: characters of all; ``known``: what a value is a copy of."""
        self.large: dict[str, str] = {}
        """The texts of the parts that are not known to be stored, by their digests."""
        self.known: list[tuple[KnownValue, str, int]] = []
        """Their values, digests and sizes."""
        self._most, self._find = most, known
        self._pieces = [""]
        """JSON, the digest of a large part, JSON, and so on."""

    @property
    def whole(self) -> int:
        return 1 if len(self._pieces) == 1 else IN_PIECES

    @property
    def text(self) -> str:
        return self._pieces[0] if len(self._pieces) == 1 else encode(self._pieces)

    def add(self, value: Value, levels: int = 2) -> bool:
        """Add ``value``, whose ``levels`` of mappings may have parts that are large. False: a part
        is no JSON, or all are too large."""
        known = self._find(value)
        if known is not None and known.stored:
            self._most -= known.size
            self._pieces += known.stored, ""
            return self._most >= 0
        if levels and type(value) is dict and len(value) <= WIDE:
            return self._add_each(value, levels - 1)
        text = known.text if known is not None else None
        text = text or json_text(value, self._most)
        if text is None or len(text) > self._most:
            return False
        self._most -= len(text)
        if len(text) < LARGE:
            self._pieces[-1] += text
            return True
        digest = hashlib.sha256(text.encode()).hexdigest()
        self.large[digest] = text
        if known is not None:
            self.known.append((known, digest, len(text)))
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
