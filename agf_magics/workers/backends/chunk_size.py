"""`ChunkSize`, which learns in a run how many calls should travel in one chunk.

A chunk takes half a second, the shortest time that a person notices, so that a trip costs little
and a lost worker loses little.
"""

from __future__ import annotations

import math

AIM = 0.5
"""Seconds that a chunk should take on its worker."""

CHUNKS_A_SECOND = 400
"""The most chunks in a second, on all lanes together: more would load the kernel and a scheduler."""

CHUNK_BYTES = 8_000_000
"""The most bytes of arguments or results in a chunk."""

PAYLOAD = 256_000_000
"""The most bytes of arguments in all chunks in flight."""

MOST = 1_000
"""The most calls in a chunk."""

GROWTH = 4
"""The largest ratio of the number of calls in a chunk to the number in the chunk before it."""

MOST_OPEN = 20_000
"""The most calls of one fan-out that have started and not ended."""


class ChunkSize:
    """The number of calls in the next chunk: 1, 4, 16 … until a chunk takes `AIM` seconds."""

    __slots__ = ("_argument_bytes", "_result_bytes", "_seconds", "size")

    def __init__(self) -> None:
        self.size = 1
        """The number of calls in a chunk, as far as it is learned."""
        # The learned cost of one call.
        self._seconds = self._argument_bytes = self._result_bytes = 0.0

    def learn_argument_size(self, size: float) -> None:
        """Learn the bytes of the arguments of one call."""
        self._argument_bytes = _forget_slowly(self._argument_bytes, size)

    def learn(self, seconds: float, count: int, lanes: int, returned: int) -> None:
        """Learn from a chunk of ``count`` calls that took ``seconds`` on its worker and returned
        ``returned`` bytes."""
        seconds_of_call = seconds / count
        earlier = self._seconds or seconds_of_call
        self._seconds = earlier + (seconds_of_call - earlier) / 4
        self._result_bytes = _forget_slowly(self._result_bytes, returned / count)
        # The number of calls that the time of a chunk allows, and the number that its bytes allow.
        in_time = max(AIM, lanes / CHUNKS_A_SECOND) / max(self._seconds, 1e-6)
        # Two chunks for each lane are in flight (`dispatcher.AHEAD`).
        bytes_of_chunk = min(CHUNK_BYTES, PAYLOAD / (2 * max(lanes, 1)))
        in_bytes = bytes_of_chunk / max(self._argument_bytes, self._result_bytes, 1)
        # The last chunks of a fan-out are small: they do not reset the size.
        grown = GROWTH * max(count, self.size / 2)
        self.size = int(max(1, min(in_time, in_bytes, MOST, grown)))

    def next(self, remaining: int, lanes: int) -> int:
        """The number of calls in the next chunk, if ``remaining`` calls wait. The last calls are shared
        out among the ``lanes``, but not in tiny chunks."""
        share = math.ceil(remaining / max(lanes, 1))
        return max(1, self.size // GROWTH, min(self.size, share))


def _forget_slowly(largest: float, size: float) -> float:
    """The learned size of a call after one more call. A larger size counts at once and is forgotten
    slowly: one large call in a chunk is enough to fill the memory."""
    return max(size, largest + (size - largest) / 10)
