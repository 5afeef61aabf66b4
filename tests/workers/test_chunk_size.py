"""The number of calls in a chunk, which a run learns from the seconds and the bytes of earlier chunks."""

from __future__ import annotations

import pytest

from agf_magics.workers.backends.chunk_size import ChunkSize

MB = 1_000_000

Learnt = tuple[float, int, int, int]
"""The measures of a chunk: its seconds, its calls, the lanes of the backend, the bytes that it returned."""

CHUNKS: dict[str, tuple[list[Learnt], int]] = {
    "nothing is known": ([], 1),
    "four times as many as the last one, while chunks are short": ([(0.0, 1, 4, 0), (0.0, 4, 4, 0)], 16),
    "half a second's calls": ([(1.0, 100, 4, 0)], 50),
    "never none": ([(60.0, 1, 4, 0)], 1),
    "at most a thousand": ([(0.0, 900, 4, 0)], 1_000),
    "the last chunks, which are small, do not reset it": ([(0.0, 250, 4, 0), (0.0, 1, 4, 0)], 1_000),
    "and count as half the size": ([(0.0, 10, 4, 0), (0.0, 1, 4, 0)], 80),
    "a second chunk counts a quarter": ([(1.0, 100, 4, 0), (2.0, 100, 4, 0)], 40),
    "400 chunks a second at most, for all lanes": ([(1.0, 1_000, 400, 0)], 1_000),
    "many lanes have longer chunks": ([(20.0, 1_000, 800, 0)], 100),
    "8 MB of results": ([(0.001, 10, 1, 10 * MB)], 8),
    "256 MB in all lanes, with two chunks for each": ([(0.001, 10, 32, 10 * MB)], 4),
    "the largest result counts at once": ([(0.0, 8, 1, 8 * 1000), (0.0, 8, 1, 8 * MB)], 8),
    "and is forgotten slowly": ([(0.0, 8, 1, 8 * MB), (0.0, 8, 1, 0)], 8),
    "in ten chunks it is forgotten": ([(0.0, 8, 1, 8 * MB), *[(0.0, 8, 1, 0)] * 10], 22),
}


@pytest.mark.parametrize("case", CHUNKS)
def test_the_next_chunk_after_these(case: str) -> None:
    chunks, size = CHUNKS[case]
    learnt = ChunkSize()
    for chunk in chunks:
        learnt.learn(*chunk)
    assert learnt.size == size


@pytest.mark.parametrize(
    ("sizes", "size"),
    [((4 * MB,), 2), ((4 * MB, 0), 2), ((4 * MB, *[0] * 10), 5), ((1_000, 4 * MB), 2), ((1_000,), 100)],
)
def test_the_bytes_of_arguments_count_as_those_of_results_do(sizes: tuple[int, ...], size: int) -> None:
    learnt = ChunkSize()
    for size_given in sizes:
        learnt.weigh_given(size_given)
    learnt.learn(0.5, 100, 1, 0)
    assert learnt.size == size


@pytest.mark.parametrize(
    ("size", "remaining", "lanes", "calls"),
    [
        (100, 1_000, 4, 100),  # a whole chunk
        (100, 200, 4, 50),  # a share for each lane
        (100, 201, 4, 51),
        (100, 40, 4, 25),  # no tiny chunks: a quarter of the size
        (1, 40, 4, 1),
        (1, 0, 0, 1),
        (100, 60, 0, 60),  # a backend without a lane yet
    ],
)
def test_the_last_calls_are_shared_by_the_lanes(size: int, remaining: int, lanes: int, calls: int) -> None:
    learnt = ChunkSize()
    learnt.size = size
    assert learnt.next(remaining, lanes) == calls
