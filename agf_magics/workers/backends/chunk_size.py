"""How many calls travel in one chunk: the run learns it.

A chunk takes half a second, the shortest time that a person notices, so that a trip costs little
and a lost worker loses little.
"""

from __future__ import annotations

import math

AIM = 0.5
"""Seconds of a chunk on its worker."""
CHUNKS_A_SECOND = 400
"""At most, whatever the number of lanes: more would load the kernel and a scheduler."""
CHUNK_BYTES = 8_000_000
"""Bytes of arguments or results in a chunk."""
PAYLOAD = 256_000_000
"""Bytes of arguments in all chunks in flight."""
MOST = 1_000
"""Calls in a chunk."""
GROWTH = 4
"""How many times as many calls as the last chunk the next one has at most."""
WANTED = 20_000
"""Calls of one fan-out that have started and not ended."""


class ChunkSize:
    """The number of calls in the next chunk: 1, 4, 16 … until a chunk takes `AIM` seconds."""

    __slots__ = ("_given", "_mean", "_returned", "size")

    def __init__(self) -> None:
        self.size = 1
        self._mean = self._given = self._returned = 0.0

    def weigh_given(self, size: float) -> None:
        """Learn the bytes of the arguments of one call."""
        # The largest counts at once, and is forgotten slowly: one large call in a chunk is
        # enough to fill the memory.
        self._given = max(size, self._given + (size - self._given) / 10)

    def learn(self, seconds: float, count: int, lanes: int, returned: int) -> None:
        """Learn from a chunk of ``count`` calls that took ``seconds`` on its worker and returned
        ``returned`` bytes."""
        each, weight = seconds / count, returned / count
        self._mean = each if not self._mean else self._mean + (each - self._mean) / 4
        self._returned = max(weight, self._returned + (weight - self._returned) / 10)
        in_time = max(AIM, lanes / CHUNKS_A_SECOND) / max(self._mean, 1e-6)
        in_bytes = min(CHUNK_BYTES, PAYLOAD / (2 * max(lanes, 1))) / max(
            self._given, self._returned, 1
        )
        # The last chunks of a fan-out are small: they do not reset the size.
        self.size = int(max(1, min(in_time, in_bytes, MOST, GROWTH * max(count, self.size / 2))))

    def next(self, remaining: int, lanes: int) -> int:
        """The number of calls in the next chunk: shares out the last ones without making tiny
        chunks."""
        share = math.ceil(remaining / max(lanes, 1))
        return max(1, self.size // GROWTH, min(self.size, share))
