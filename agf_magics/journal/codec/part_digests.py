"""The digests of the memory of one run's values: what two results share is digested once.

A frame with a column more has the memory of the other columns. Memory of the same size at the same
place, with the same checksum, has the same bytes; a checksum takes a third of the time of a digest.
"""

from __future__ import annotations

import hashlib

from .fingerprints import Checksums, address

MOST_PLACES = 100_000


class PartDigests:
    """Digests by the places of memory."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], tuple[int, str]] = {}

    def of(self, raw: memoryview, checksums: Checksums, made: list[memoryview]) -> str:
        """The digest of memory. ``checksums``: those of the moment whose bytes are wanted; ``made``:
        gets the memory if it had to be digested, which has taken time. On any thread."""
        place = address(raw), raw.nbytes
        if not place[0] or type(raw.obj) is bytes:
            return digest_of(raw)
        checksum = checksums.of(raw)
        known, digest = self._known.get(place, (None, ""))
        if known != checksum:
            made.append(raw)
            digest = digest_of(raw)
            if len(self._known) >= MOST_PLACES:
                self._known.clear()
            self._known[place] = checksum, digest
        return digest


def digest_of(raw: memoryview) -> str:
    return hashlib.sha256(raw).hexdigest()
