"""The digests of the memory of one run's values: what two results share is digested once.

A frame with a column more has the memory of the other columns. Memory of the same size at the same
place, with the same checksum, has the same bytes; a checksum takes a third of the time of a digest.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from .fingerprints import Checksums, address, memory_checksum

MOST_PLACES = 100_000


class Made(NamedTuple):
    """A digest that was made."""

    raw: memoryview
    checksum: int
    """Of the memory before that."""
    digest: str


class PartDigests:
    """Digests by the places of memory."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], tuple[int, str]] = {}

    def of(self, raw: memoryview, checksums: Checksums, made: list[Made]) -> str:
        """The digest of memory. ``checksums``: those of the moment whose bytes are wanted; ``made``:
        gets what had to be digested, which has taken time. On any thread."""
        place = address(raw), raw.nbytes
        if not place[0] or type(raw.obj) is bytes:
            return digest_of(raw)
        now = checksums.of(raw)
        before, digest = self._known.get(place, (None, ""))
        if before != now:
            digest = digest_of(raw)
            made.append(Made(raw, now, digest))
        return digest

    def learn(self, made: list[Made]) -> bool:
        """Know the digests that were made; False: somebody has changed memory meanwhile."""
        if any(memory_checksum(each.raw) != each.checksum for each in made):
            return False
        if len(self._known) >= MOST_PLACES:
            self._known.clear()
        for each in made:
            self._known[address(each.raw), each.raw.nbytes] = each.checksum, each.digest
        return True


def digest_of(raw: memoryview) -> str:
    return hashlib.sha256(raw).hexdigest()
