"""Determines the order in which the finished turns of a plan are stored.

Turns are stored in the order in which they finish. With ``ordered: true``, turns that write to
overlapping paths are stored as if they had run in the order of the list. A turn waits only for the
last earlier writer of each path, which itself waits for the writers before it. So a thousand calls
that push to one list need only a thousand links.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from heapq import heappop, heappush

from .dependencies import Turn, layers_of, overlapping

Place = tuple[str | None, ...]
"""An instance, a kind and a path."""


class StoringOrder:
    """A turn is next when all earlier turns are stored that write to the same place, above it or
    below it. Without turns: first finished, first stored."""

    def __init__(
        self, turns: Sequence[Turn] = (), ranks: Mapping[int, int] | Sequence[int] = ()
    ) -> None:
        """``ranks``: the rank of each turn in the order."""
        self._turns = turns
        self._waits: defaultdict[int, set[int]] = defaultdict(set)
        """The turns that each turn still waits for."""
        self._frees: defaultdict[int, list[int]] = defaultdict(list)
        """The turns that wait for each turn."""
        self._stored: set[int] = set()
        self._finished: dict[int, int] = {}
        """The position of each finished turn among the finished ones."""
        self._next: list[tuple[int, int]] = []
        """A heap of the finished turns that wait for no other."""
        last: dict[Place, int] = {}
        """The last turn that writes to each place."""
        since: dict[Place, list[int]] = {}
        """The turns that write below each place, after the last turn that writes to the place."""
        for number in sorted(range(len(turns)), key=ranks.__getitem__):
            before: set[int] = set()
            for place in places(turns[number]):
                outer = tuple(above(place))
                before.update(last[path] for path in (*outer, place) if path in last)
                before.update(since.pop(place, ()))
                last[place] = number
                for path in outer:
                    since.setdefault(path, []).append(number)
            before.discard(number)
            self._waits[number] = before
            for earlier in before:
                self._frees[earlier].append(number)

    def is_next(self, number: int) -> bool:
        """Whether the turn waits for no other."""
        return not self._waits[number]

    def ended(self, number: int) -> None:
        """Note that a turn has finished."""
        self._finished[number] = len(self._finished)
        if self.is_next(number):
            heappush(self._next, (self._finished[number], number))

    def next_to_store(self) -> int | None:
        """The first finished turn that waits for no other; None: another one must finish first. The
        turn is taken out of the heap, so the caller must store it."""
        while self._next:
            _, number = heappop(self._next)
            if number not in self._stored:
                return number
        return None

    def stored(self, number: int) -> None:
        """Note that a turn is stored. A skipped one is stored at once, even if it waits."""
        self._stored.add(number)
        inherited = layers_of(self._turns, self._waits.pop(number, ()))
        for other in self._frees[number]:
            waits = self._waits[other]
            if number not in waits:
                continue
            waits.remove(number)
            # The turn was stored early, so the turns after it wait for the turns that it skipped.
            for blocker in overlapping(self._turns[other], inherited) - waits:
                waits.add(blocker)
                self._frees[blocker].append(other)
            if not waits and other in self._finished:
                heappush(self._next, (self._finished[other], other))


def places(turn: Turn) -> Iterator[Place]:
    """The places that a turn writes to."""
    for kind, path in turn.call.output.destinations:
        yield (turn.instance, kind, *path)


def above(place: Place) -> Iterator[Place]:
    """The places of the same kind that contain it, the whole kind first."""
    return (place[:end] for end in range(2, len(place)))
