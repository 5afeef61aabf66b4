"""Finds the dependencies between calls, from their reads and writes and from the first context.

An operand waits for the earlier calls in the list that write the value it reads. If there are none
and the value does not exist yet, it waits for the later calls that write it. So a call can revise a
draft in place, and the list can have any order.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Literal, NamedTuple

from ....flow.protocols import Node
from ....schemas.schema import first_cycle
from ....text.diagnostics import DefinitionError, Diagnostic, StepError
from ....values.value import Value
from ...descend import MISSING
from ..calls import Call
from ..log.log import Log
from ..log.paths import NO_PATHS, PathIndex
from ..log.reference import EVERY, Reference, as_written, references

Verdict = Literal["go", "wait", "never"]
"""The state of a reference: its value exists, may still be written, or will not be written."""


MOST_PAIRS, MOST_PAIRS_PER_TURN = 300_000, 300
"""The most pairs of a reading turn and a writing turn in a plan, or for each turn of the plan if
that is more: 500 calls that revise one draft take a second."""


class Turn(NamedTuple):
    """One execution of a call: for an instance, or for the whole plan."""

    call: Call
    instance: str | None
    number: int | None = None
    """The number of the instance that the plan is repeated for; None: the call is made once."""


class Dependency(NamedTuple):
    """The turns that a reference depends on, by their numbers."""

    awaited: tuple[int, ...]
    """The turns that the reader waits for, the last turn first: it most likely ends last, so a look
    at the first entry usually tells that the reader must wait."""
    writers: tuple[int, ...]
    """The other turns that write what the reference reads. All of them are awaited, or only those
    that are listed before the reader, or none."""


def _too_many(turn: Turn, reference: Reference, limit: int) -> Diagnostic:
    message = (
        f"the calls depend on each other in more than {limit:,} ways: too many of them read "
        f"what too many others write"
    )
    hint = "give the results places of their own, or make the calls in several plans"
    return Diagnostic(
        "plan.too-many-dependencies", message, reference.span or turn.call.tool.span, hint
    )


class Dependencies:
    """The dependencies between the turns of a plan in a context, which are known by their numbers.
    They do not change, and runs in whose contexts `fits` holds share them."""

    def __init__(self, turns: Sequence[Turn], log: Log) -> None:
        self.turns = turns
        self.log = log
        self.nodes = tuple(Node(turn.call.id, turn.number) for turn in turns)
        self.layers = layers_of(turns, range(len(turns)))
        """The turns that write each path of the state, the input and so on."""
        self.needs: list[dict[Reference, Dependency]] = []
        """The references of each turn, each with the turns that it depends on."""
        self.assumed: list[tuple[int, Reference, bool]] = []
        """The references whose existence in the log decides a dependency."""
        self.after: list[set[int]] = [set() for _ in turns]
        """The turns that each turn waits for."""
        self.feeds: list[list[tuple[int, Dependency]]] = [[] for _ in turns]
        """The turns that read what each turn writes, in order, with their dependency on it."""
        pairs = 0
        limit = max(MOST_PAIRS, MOST_PAIRS_PER_TURN * len(turns))
        for number, turn in enumerate(turns):
            read = dict.fromkeys(chain.from_iterable(map(references, turn.call.expressions)))
            self.needs.append({ref: self.need(number, ref) for ref in read})
            pairs += sum(len(need.writers) for need in self.needs[number].values())
            if pairs > limit:
                raise DefinitionError(_too_many(turn, next(iter(read)), limit))
            for need in self.needs[number].values():
                self.after[number].update(need.awaited)
                for writer in need.writers:
                    self.feeds[writer].append((number, need))

    def wires(self) -> Iterator[tuple[int, int, str]]:
        """Each reference with a writer that its reader waits for (-1: the value exists before the
        first call) and its reader."""
        for number, needs in enumerate(self.needs):
            for reference, need in needs.items():
                for writer in need.awaited or (-1,):
                    yield writer, number, as_written(reference)

    def need(self, number: int, reference: Reference) -> Dependency:
        """The turns that a reference of turn ``number`` depends on."""
        turn = self.turns[number]
        writing = (layer.overlapping(reference.path) for layer in self.visible(reference, turn))
        writers = tuple(sorted(set(chain.from_iterable(writing)) - {number}))
        # The first turn of the same call: turns of one call for other instances are not earlier.
        listed = bisect_left(self.turns, turn.call.index, key=lambda turn: turn.call.index)
        awaited = writers[: bisect_left(writers, listed)][::-1]
        if writers and not awaited:
            is_there = exists(reference, self.log, turn.instance)
            self.assumed.append((number, reference, is_there))
            awaited = () if is_there else writers
        return Dependency(awaited, writers)

    def fits(self, log: Log) -> bool:
        """Whether the dependencies are the same in ``log``."""
        return all(
            exists(reference, log, self.turns[number].instance) is is_there
            for number, reference, is_there in self.assumed
        )

    def visible(self, reference: Reference, turn: Turn) -> list[PathIndex]:
        """The layers of the kind that the reader sees."""
        if reference.instance == EVERY:
            return [layer for (kind, _), layer in self.layers.items() if kind == reference.kind]
        owners = dict.fromkeys((None, reference.instance or turn.instance))
        return [self.layers.get((reference.kind, owner), NO_PATHS) for owner in owners]

    def follows(self, number: int, other: int) -> bool:
        """Whether ``number`` waits for ``other``, directly or not."""
        waiting = [number]
        before = set[int]()
        for turn in waiting:  # the loop also visits the turns that it appends
            waiting += self.after[turn] - before
            before |= self.after[turn]
        return other in before

    @cached_property
    def ranks(self) -> Mapping[int, int]:
        """The rank of each turn: the order of the list, except that a turn that waits for a later
        turn follows it. Requires that there is no cycle."""
        ranks: dict[int, int] = {}
        waiting = [*reversed(range(len(self.turns)))]
        while waiting:
            before = self.after[waiting[-1]] - ranks.keys()
            if before:
                waiting += sorted(before, reverse=True)
            else:
                ranks.setdefault(waiting.pop(), len(ranks))
        return ranks

    @cached_property
    def cycle(self) -> list[int] | None:
        """Turns that wait for each other, with the first one again at the end."""
        return first_cycle(dict(enumerate(map(sorted, self.after))))


def dependencies_of(calls: Sequence[Call], log: Log, before: Dependencies) -> Dependencies:
    """The dependencies of calls in a context. If the context has instances of state or input and no
    call names its own, each call is made once per instance.

    ``before``: the dependencies without instances, from loading: finding them again takes a tenth of
    a run.
    """
    layers = set(log.layers)
    spread = [
        instance
        for instance in log.instances
        if not layers.isdisjoint((("state", instance), ("input", instance)))
    ]
    if not spread or any(call.instance is not None for call in calls):
        if before.fits(log):
            return before
        return Dependencies([Turn(call, call.instance) for call in calls], log)
    turns: list[Turn] = []
    for call in calls:
        if call.shared:
            turns.append(Turn(call, call.instance))
        else:
            turns += [Turn(call, instance, number) for number, instance in enumerate(spread)]
    return Dependencies(turns, log)


def exists(reference: Reference, log: Log, instance: str | None) -> bool:
    """Whether a value exists. A value that cannot be read counts as existing: the call that reads
    it fails."""
    try:
        value: Value = log.read(reference, instance)
    except StepError:
        return True
    return value is not MISSING


Layers = dict[tuple[str, str | None], PathIndex]
"""The turns that write each path, by the kind and the instance."""


def layers_of(turns: Sequence[Turn], numbers: Iterable[int]) -> Layers:
    """The places that the turns ``numbers`` write to."""
    layers: Layers = {}
    for number in numbers:
        for kind, path in turns[number].call.output.destinations:
            layers.setdefault((kind, turns[number].instance), PathIndex()).add(path, number)
    return layers


def overlapping(turn: Turn, layers: Layers) -> set[int]:
    """The turns in ``layers`` that write to the places of ``turn``, above or below them."""
    numbers: set[int] = set()
    for kind, path in turn.call.output.destinations:
        if layer := layers.get((kind, turn.instance)):
            numbers.update(layer.overlapping(path))
    return numbers
