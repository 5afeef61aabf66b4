"""The dependencies between calls: from what they read and write, in the context before the first
call.

An operand waits for the calls before its own in the list that write what it reads. If there are
none, it waits for nothing if its value exists already, else for the calls after its own. So a call
can revise a draft in place, and the list can be in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import Literal, NamedTuple

from ...flow.frame import Node
from ...flow.values import Value
from ...text.diagnostics import StepError
from ..scan import MISSING
from .calls import Call
from .log import Log
from .paths import Paths
from .reference import EVERY, Both, Either, Expression, Reference, references

Verdict = Literal["go", "wait", "never"]
"""Of a reference: its value exists, may still be written, will not be written."""


class Turn(NamedTuple):
    """One execution of a call: for an instance, or for the whole plan."""

    call: Call
    instance: str | None
    number: int | None = None
    """The number of the instance that the plan is repeated for; None: the call is made once."""


class Dependency(NamedTuple):
    """The turns that a reference depends on, by their numbers."""

    slot: int
    """The number of this dependency among those of all turns."""
    awaited: tuple[int, ...]
    others: tuple[int, ...]
    """The other turns that write what it reads."""


class Dependencies:
    """The dependencies between the turns of a plan, which are known by their numbers. It does not
    change, and runs in whose contexts `fits` holds share it."""

    def __init__(self, turns: Sequence[Turn], log: Log) -> None:
        self.turns = turns
        self.log = log
        self.nodes = tuple(Node(turn.call.id, turn.number) for turn in turns)
        self.layers: dict[tuple[str, str | None], Paths] = {}
        for number, turn in enumerate(turns):
            for kind, path in turn.call.destinations:
                self.layers.setdefault((kind, turn.instance), Paths(number)).add(path, number)
        self.needs: list[dict[Reference, Dependency]] = []
        self.awaited: list[int] = []
        """How many turns each dependency waits for, by its slot."""
        self.assumed: list[tuple[int, Reference, bool]] = []
        """The references whose existence in the log decides a dependency."""
        self.after: list[set[int]] = [set() for _ in turns]
        """The turns that each turn waits for."""
        self.awaiting: list[list[int]] = [[] for _ in turns]
        """The slots of the dependencies that wait for each turn."""
        self.feeds: list[list[tuple[int, int]]] = [[] for _ in turns]
        """The dependencies that the end of each turn may affect: the slot and the number of the
        reader, in order."""
        self.pending = [0] * len(turns)
        """How many other turns may affect each turn."""
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

    @cached_property
    def first(self) -> Sequence[int]:
        """The turns that may be ready, or will never be, before any has ended: a reference of them
        waits for no turn, or none of them has to be waited for."""
        return [number for number in range(len(self.turns)) if not self.surely_waits(number)]

    def surely_waits(self, number: int) -> bool:
        """Whether a turn waits before any other has ended, whatever the log contains."""
        if not all(need.awaited for need in self.needs[number].values()):
            return False
        return any(
            verdict(one, lambda reference: "wait") == "wait"
            for one in self.turns[number].call.expressions
        )

    def fits(self, log: Log) -> bool:
        """Whether the dependencies are the same in ``log``."""
        return all(
            exists(ref, log, self.turns[number].instance) is found
            for number, ref, found in self.assumed
        )

    def wires(self) -> Iterator[tuple[int, int, str]]:
        """Each reference with its writer (-1: the value exists before the first call) and its
        reader."""
        for number, needs in enumerate(self.needs):
            for reference, need in needs.items():
                for writer in need.awaited or (() if need.others else (-1,)):
                    yield writer, number, str(reference)

    def need(self, number: int, reference: Reference) -> Dependency:
        turn = self.turns[number]
        writers = {
            n for layer in self.visible(reference, turn) for n in layer.overlapping(reference.path)
        }
        others = tuple(sorted(writers - {number}))
        listed = turn.call.index
        awaited = tuple(n for n in others if self.turns[n].call.index < listed)
        if others and not awaited:
            there = exists(reference, self.log, turn.instance)
            self.assumed.append((number, reference, there))
            awaited = () if there else others
        surely = set(awaited)
        self.awaited.append(len(awaited))
        return Dependency(
            len(self.awaited) - 1, awaited, tuple(n for n in others if n not in surely)
        )

    def visible(self, reference: Reference, turn: Turn) -> Iterator[Paths]:
        """The layers of the kind that the reader sees."""
        if reference.instance == EVERY:
            yield from (layer for (kind, _), layer in self.layers.items() if kind == reference.kind)
            return
        for instance in dict.fromkeys((None, reference.instance or turn.instance)):
            if layer := self.layers.get((reference.kind, instance)):
                yield layer

    def follows(self, number: int, other: int) -> bool:
        """Whether ``number`` waits for ``other``, directly or not."""
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
        """The order of the list, but a turn that waits for a later one follows it. Requires that
        there is no cycle."""
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
        """Turns that wait for each other, with the first one again at the end."""
        try:
            TopologicalSorter(
                {number: sorted(self.after[number]) for number in range(len(self.turns))}
            ).prepare()
        except CycleError as error:
            found: list[int] = error.args[1][:0:-1]  # there each turn precedes the next one
            first = found.index(min(found))
            return [*found[first:], *found[: first + 1]]
        return None


def dependencies_of(
    calls: Sequence[Call], log: Log, known: Dependencies | None = None
) -> Dependencies:
    """The dependencies of calls in a context. If the context has instances of state or input and no
    call names its own, each call is made once per instance.

    ``known``: the dependencies without instances.
    """
    spread = [
        one for one in log.instances if log.has_layer("state", one) or log.has_layer("input", one)
    ]
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
    """Whether a value exists. One that cannot be read exists, and fails its reader."""
    try:
        value: Value = log.read(reference, instance)
    except StepError:
        return True
    return value is not MISSING


def verdict(expression: Expression, look: Callable[[Reference], Verdict]) -> Verdict:
    """The verdict of an expression from those of its references: a fallback waits for the preferred
    operands."""
    if isinstance(expression, Reference):
        return look(expression)
    if isinstance(expression, Either):
        for operand in expression.operands:
            if (found := verdict(operand, look)) != "never":
                return found
        return "never"
    if isinstance(expression, Both):
        verdicts = [verdict(operand, look) for operand in expression.operands]
        return "never" if "never" in verdicts else "wait" if "wait" in verdicts else "go"
    return "go"
