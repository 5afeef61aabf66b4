"""Who waits for whom: from what calls read and write, in the context as it is before the first of them.

An operand waits for the calls listed before its own that write what it reads; if there is none, for nobody when it is
there already; else for those listed after it. So a draft may be revised in place, and a list need not be in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Literal, NamedTuple

from ...flow.frame import Node
from ...flow.values import Value
from ...text.diagnostics import StepError
from .calls import Call
from .log import Log
from .paths import Paths
from .reference import EVERY, MISSING, Both, Either, Expression, Reference, references

Verdict = Literal["go", "wait", "never"]
"""Of what is read: it is there, it may come, it will not come."""


class Turn(NamedTuple):
    """A call as it is made once: for an instance, or for everybody."""

    call: Call
    instance: str | None
    number: int | None = None
    """Which of the instances that the whole plan runs for; None: the call is made once anyway."""


class Dependency(NamedTuple):
    """Whom a reference waits for, by their numbers."""

    slot: int
    """Its own number among the needs of all turns."""
    awaited: tuple[int, ...]
    others: tuple[int, ...]
    """Who else writes what it reads."""


class Dependencies:
    """What the turns of a plan need of each other. A turn is known by its number. Nothing in it changes: runs share it
    whose contexts are alike in what it hangs on (`fits`)."""

    def __init__(self, turns: Sequence[Turn], log: Log) -> None:
        self.turns = turns
        self.log = log
        self.nodes = tuple(Node(turn.call.id, turn.number) for turn in turns)
        self.numbers = {node: number for number, node in enumerate(self.nodes)}
        self.layers: dict[tuple[str, str | None], Paths] = {}
        for number, turn in enumerate(turns):
            for kind, path in turn.call.destinations:
                self.layers.setdefault((kind, turn.instance), Paths(number)).add(path, number)
        self.needs: list[dict[Reference, Dependency]] = []
        self.awaited: list[int] = []
        """How many each need waits for, by its slot."""
        self.hangs: list[tuple[int, Reference, bool]] = []
        """What needs hang on beside the turns: whether a reference is found in the log."""
        self.after: list[set[int]] = [set() for _ in turns]
        """Whom each one waits for."""
        self.awaiting: list[list[int]] = [[] for _ in turns]
        """The slots of the needs that wait for each one."""
        self.feeds: list[list[tuple[int, int]]] = [[] for _ in turns]
        """The needs that the end of each one may concern: the slot and the number of the reader, who come in order."""
        self.pending = [0] * len(turns)
        """How many ends may concern each one."""
        for number, turn in enumerate(turns):
            read = dict.fromkeys(ref for one in turn.call.expressions for ref in references(one))
            self.needs.append({ref: self.need(number, ref) for ref in read})
            for slot, awaited, others in self.needs[number].values():
                self.after[number].update(awaited)
                for writer in awaited:
                    self.awaiting[writer].append(slot)
                for writer in (*awaited, *others):
                    self.feeds[writer].append((slot, number))
                    self.pending[number] += 1

    def fits(self, log: Log) -> bool:
        """Whether they are the same in ``log``."""
        return all(exists(ref, log, self.turns[number].instance) is found for number, ref, found in self.hangs)

    def names(self) -> dict[tuple[int, int], str]:
        """What flows from one to another."""
        found: dict[tuple[int, int], str] = {}
        for number, needs in enumerate(self.needs):
            for ref, need in needs.items():
                for writer in need.awaited:
                    found.setdefault((writer, number), str(ref))
        return found

    def brought(self) -> Iterator[tuple[int, str]]:
        """What is read that no turn writes, by the number of its reader: it is there before the first call."""
        for number, needs in enumerate(self.needs):
            for reference, need in needs.items():
                if not need.awaited and not need.others:
                    yield number, str(reference)

    def need(self, number: int, reference: Reference) -> Dependency:
        turn = self.turns[number]
        writers = {n for layer in self.visible(reference, turn) for n in layer.overlapping(reference.path)}
        others = tuple(sorted(writers - {number}))
        listed = turn.call.index
        awaited = tuple(n for n in others if self.turns[n].call.index < listed)
        if others and not awaited:
            there = exists(reference, self.log, turn.instance)
            self.hangs.append((number, reference, there))
            awaited = () if there else others
        surely = set(awaited)
        self.awaited.append(len(awaited))
        return Dependency(len(self.awaited) - 1, awaited, tuple(n for n in others if n not in surely))

    def visible(self, reference: Reference, turn: Turn) -> Iterator[Paths]:
        """The layers of the kind that the reader sees."""
        if reference.instance == EVERY:
            yield from (layer for (kind, _), layer in self.layers.items() if kind == reference.kind)
            return
        for instance in dict.fromkeys((None, reference.instance or turn.instance)):
            if layer := self.layers.get((reference.kind, instance)):
                yield layer

    def follows(self, number: int, other: int) -> bool:
        """Whether ``number`` waits, by way of whomever, for ``other``."""
        waiting, seen = [number], {number}
        while waiting:
            for before in self.after[waiting.pop()]:
                if before == other:
                    return True
                if before not in seen:
                    seen.add(before)
                    waiting.append(before)
        return False

    @cached_property
    def ranks(self) -> list[int]:
        """The order of the list, but for those who wait for a later one: they come after it. Needs no cycle."""
        ranks, count = [-1] * len(self.turns), 0
        for first in range(len(self.turns)):
            way = [(first, iter(sorted(self.after[first])))] if ranks[first] < 0 else []
            while way:
                number, rest = way[-1]
                before = next((n for n in rest if ranks[n] < 0), None)
                if before is not None:
                    way.append((before, iter(sorted(self.after[before]))))
                else:
                    ranks[number], count = count, count + 1
                    way.pop()
        return ranks

    @cached_property
    def cycle(self) -> list[int] | None:
        """The first turns that wait for each other, its first one again at the end."""
        done = [False] * len(self.turns)
        for first in range(len(self.turns)):
            way: dict[int, Iterator[int]] = {} if done[first] else {first: iter(sorted(self.after[first]))}
            while way:
                number, rest = next(reversed(way.items()))
                before = next((n for n in rest if not done[n]), None)
                if before is None:
                    done[number] = True
                    del way[number]
                elif before in way:
                    names = list(way)
                    return [*names[names.index(before) :], before]
                else:
                    way[before] = iter(sorted(self.after[before]))
        return None


def dependencies_of(calls: Sequence[Call], log: Log, known: Dependencies | None = None) -> Dependencies:
    """What calls need of each other as they are made in a context: each once per instance, where the plan is a
    template. It is one when the context has instances of state or input and no call names its own.

    ``known``: their needs where there are no instances.
    """
    spread = [one for one in log.instances if log.speaks_of("state", one) or log.speaks_of("input", one)]
    if not spread or any(call.instance is not None for call in calls):
        if known is not None and known.fits(log):
            return known
        return Dependencies([Turn(call, call.instance) for call in calls], log)
    found: list[Turn] = []
    for call in calls:
        if call.shared:
            found.append(Turn(call, call.instance))
        else:
            found += [Turn(call, instance, number) for number, instance in enumerate(spread)]
    return Dependencies(found, log)


def exists(reference: Reference, log: Log, instance: str | None) -> bool:
    """Whether it is found; what cannot be read is there, and fails who reads it."""
    try:
        value: Value = log.read(reference, instance)
    except StepError:
        return True
    return value is not MISSING


def verdict(expression: Expression, look: Callable[[Reference], Verdict]) -> Verdict:
    """What an expression is by what its references are: a fallback waits for what it would rather have."""
    if isinstance(expression, Reference):
        return look(expression)
    if isinstance(expression, Either):
        for operand in expression.operands:
            if (said := verdict(operand, look)) != "never":
                return said
        return "never"
    if isinstance(expression, Both):
        all_said = [verdict(operand, look) for operand in expression.operands]
        return "never" if "never" in all_said else "wait" if "wait" in all_said else "go"
    return "go"
