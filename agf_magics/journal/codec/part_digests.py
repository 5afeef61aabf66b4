"""Digests the memory of one run's values, so that memory that two results share is digested once.

A data frame with a new column shares the memory of its other columns. Memory with the same address,
size and checksum counts as unchanged; a checksum takes a third of the time of a digest.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from .fingerprints import Checksums, address, memory_checksum

MOST_PLACES = 100_000
"""The largest number of pieces of memory whose digests are kept."""


class NewDigest(NamedTuple):
    """A new digest of memory."""

    raw: memoryview
    checksum: int
    """The checksum of the memory before it was digested."""
    digest: str


class PartDigests:
    """The digests of memory by its address."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], tuple[int, str]] = {}
        """The checksum and the digest of memory, by its address and size."""

    def of(self, raw: memoryview, checksums: Checksums, new_digests: list[NewDigest]) -> str:
        """The digest of ``raw``. ``checksums``: the checksums of the moment whose bytes are needed.
        ``new_digests``: a list to which a digest that had to be computed is added, for `learn`. Any
        thread may call this."""
        place = address(raw), raw.nbytes
        if not place[0] or type(raw.obj) is bytes:
            return digest_of(raw)
        checksum = checksums.of(raw)
        known_checksum, digest = self._known.get(place, (None, ""))
        if known_checksum != checksum:
            digest = digest_of(raw)
            new_digests.append(NewDigest(raw, checksum, digest))
        return digest

    def learn(self, new_digests: list[NewDigest]) -> bool:
        """Remember new digests. Returns False, and remembers none, if the memory has changed
        meanwhile."""
        if any(memory_checksum(new.raw) != new.checksum for new in new_digests):
            return False
        if len(self._known) >= MOST_PLACES:
            self._known.clear()
        for new in new_digests:
            self._known[address(new.raw), new.raw.nbytes] = new.checksum, new.digest
        return True


def digest_of(raw: memoryview) -> str:
    return hashlib.sha256(raw).hexdigest()
