"""The keys of a graph's state, and the change of the state by the results of one round.

A frame is ``{"state": …}``. The results of a round are applied together, in the order of the nodes'
names. A key with a reducer combines old and new values; any other key can be written by only one
node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from ...flow.flow import named_values
from ...flow.protocols import FlowInput, FlowResult, Frame, Outcome
from ...text.diagnostics import Diagnostic, StepError
from ...text.source import Span
from ...values.value import Value, equal
from .expressions.operators import combine
from .expressions.value_errors import describe
from .takes import ADDED, TYPES

State = Mapping[str, Value]
Write = Callable[[State, Value], Mapping[str, Value]]
"""The keys that a node writes, given the state it ran in and its value."""
Note = Callable[[Value], Diagnostic | None]
"""Returns the warning about the value of a node, or None."""


class Declared(NamedTuple):
    """A key of the state."""

    name: str
    type: str = "any"
    reducer: str | None = None
    span: Span | None = None
    """The place of the declaration; None: the keys of a node declare it."""


class SubgraphState(NamedTuple):
    """The value that a key has after another graph ran with this graph's state. A key with a
    reducer gets only the part that the other graph added."""

    value: Value


ROUTE = "_route"
"""The key that a router writes the chosen node to."""

COUNTS = "_loop_counts"
"""The key with how often each node has run, which exists where an expression reads it: a graph of
YAMLGraph may leave a loop by it."""

OF_THE_RUN = frozenset({"current_step", ROUTE, COUNTS})
"""Keys that the run itself writes: no part of its output, nor of the input of another flow."""

CHOSEN_ROUTES = "routes"
"""The place in a frame, beside the state, of what each node of the last round has chosen."""

IMPLICIT = (
    Declared("messages", "list", "add"),
    Declared("errors", "list", "add"),
    Declared(ROUTE, "any", "last_value"),
)
"""The keys that every graph has, declared or not."""


class Keys:
    """The declared keys of a graph, and the reducers of those that have one."""

    def __init__(self, declared: Mapping[str, Declared]) -> None:
        self.declared = declared
        self.reducers = {
            key.name: key.reducer
            for key in (*IMPLICIT, *declared.values())
            if key.reducer is not None
        }

    def begin(self, initial: Mapping[str, Value], input: Mapping[str, Value]) -> dict[str, Value]:
        """The state before the first round: a key with a reducer begins with the empty value of its
        type."""
        state: dict[str, Value] = {}
        for key in self.declared.values():
            empty = TYPES.get(key.type)
            if key.reducer is not None and empty is not None:
                state[key.name] = type(empty)()
        for name, value in {**initial, **input}.items():
            self.put(state, name, value)
        return state

    def put(self, state: dict[str, Value], name: str, value: Value) -> None:
        """Set a key of ``state``; one with a reducer combines its old and new value."""
        reducer = self.reducers.get(name)
        if reducer is None or reducer == "last_value" or name not in state:
            state[name] = value
        elif value is not None:  # else there is nothing to add
            state[name] = self.added(reducer, name, state[name], value)

    def after(
        self, state: State, round: Sequence[tuple[str, Mapping[str, Value]]]
    ) -> dict[str, Value]:
        """The state after a round: the writes of each node, in this order."""
        next_state = dict(state)
        by = dict[str, str]()
        for node, written in round:
            for name, value in written.items():
                reducer = self.reducers.get(name)
                if type(value) is SubgraphState:
                    value = (
                        value.value if reducer is None else _new_part(state.get(name), value.value)
                    )
                if reducer is not None:
                    self.put(next_state, name, value)
                elif name in by:
                    raise StepError(self.conflict(by[name], node, name))
                else:
                    next_state[name] = value
                    by[name] = node
        return next_state

    def conflict(
        self, first: str, second: str, name: str, span: Span | None = None, option: str = ""
    ) -> Diagnostic:
        """The error that two nodes write the key ``name`` in one round. ``span``: the place where
        the second node names the key. ``option``: the option of the second node that names the key,
        ``state_key``; empty: no option names it."""
        message = f"{first!r} and {second!r} write {name!r} in the same round"
        declared = self.declared.get(name, Declared(name)).type
        reducer = "add" if declared in ADDED else "last_value"
        hint = f"give it a reducer: {name}: {{type: {declared}, reducer: {reducer}}}"
        if option:  # the author may not know the key
            hint = f"give {second!r} a key of its own: {option}: {second}_{name}"
        hint = f"{hint}, or add an edge between the nodes"
        return Diagnostic("graph.write-conflict", message, span or self.place(name), hint)

    def added(self, reducer: str, name: str, before: Value, value: Value) -> Value:
        """The old and the new value, combined."""
        try:
            return _reduce(reducer, before, value)
        except (TypeError, ValueError) as error:
            hint = "write only the new part: a list for a list, a number for a number"
            message = f"cannot add to {name!r}, which has a reducer: {error}"
            raise StepError(Diagnostic("graph.reducer", message, self.place(name), hint)) from error

    def place(self, name: str) -> Span | None:
        """The declaration of a key; None: nothing declares it, or it has no place in the text."""
        return self.declared.get(name, Declared(name)).span


class Joining:
    """`Walk.join`: the frame after a round."""

    def __init__(
        self,
        keys: Keys,
        writes: Mapping[str, Write],
        notes: Mapping[str, Note] = MappingProxyType({}),
        counts: bool = False,
    ) -> None:
        """``notes``: the functions that warn about the values of some nodes. ``counts``: whether an
        expression reads `COUNTS`."""
        self.keys = keys
        self.writes = writes
        self.notes = notes
        self.counts = counts

    def written(self, name: str, state: State, value: Value) -> Mapping[str, Value]:
        """The keys that the node ``name`` writes for its ``value``. Raises StepError."""
        try:
            return self.writes[name](state, value)
        except (TypeError, ValueError) as error:  # an object without a text
            message = f"cannot store the result of {name!r}: {error}"
            raise StepError(Diagnostic("graph.value-failed", message)) from error

    def __call__(self, frame: Frame, round: Sequence[tuple[str, Outcome]]) -> Frame:
        state = frame["state"]
        written = [(name, self.written(name, state, outcome.value)) for name, outcome in round]
        after = self.keys.after(state, written)
        if round:
            after["current_step"] = round[-1][0]
        if self.counts:
            before = state.get(COUNTS) or {}
            after[COUNTS] = {**before, **{name: before.get(name, 0) + 1 for name, _ in round}}
        next_frame = {**frame, "state": after, CHOSEN_ROUTES: dict(_routes(written))}
        notes = (self.notes[name](outcome.value) for name, outcome in round if name in self.notes)
        if noted := list(filter(None, notes)):  # a node of a loop says the same each time
            next_frame["notes"] = tuple(dict.fromkeys((*frame.get("notes", ()), *noted)))
        return next_frame


def _routes(round: Sequence[tuple[str, Mapping[str, Value]]]) -> Iterator[tuple[str, Value]]:
    """The choices of the routers of a round, and of functions that return ``_route``."""
    for node, written in round:
        if ROUTE in written:
            chosen = written[ROUTE]
            yield node, chosen.value if type(chosen) is SubgraphState else chosen


def _reduce(reducer: str, before: Value, value: Value) -> Value:
    """``before`` with ``value`` added. Raises TypeError or ValueError."""
    if type(before) is list and type(value) is not list:
        raise TypeError(f"it is a list, and the new value is {describe(value)}")
    added = combine("+", before, value)
    if reducer != "sorted_add":
        return added
    if type(added) is not list:
        raise TypeError(f"sorted_add makes a list, and it is {describe(before)}")
    return sorted(added, key=_index)


def _new_part(before: Value, value: Value) -> Value:
    """The addition of ``value`` to ``before``: the other elements of a list that has those of
    ``before``, the rest of a text that begins with ``before``, the difference of two numbers, or
    else the whole value."""
    if type(before) is list and type(value) is list:
        # `sorted_add` puts the new elements between the old ones, after it has sorted these.
        for old in (before, sorted(before, key=_index)):
            if (others := _others(value, old)) is not None:
                return others
    if type(before) is str and type(value) is str and value.startswith(before):
        return value[len(before) :]
    numbers = type(before) in (int, float) and type(value) in (int, float)
    return value - before if numbers else value


def _others(items: list[Value], old: list[Value]) -> list[Value] | None:
    """The items that are not those of ``old``; None: they do not have all of ``old`` in its
    order."""
    others = list[Value]()
    found = 0
    for item in items:
        if found < len(old) and equal(item, old[found]):
            found += 1
        else:
            others.append(item)
    return others if found == len(old) else None


def _index(item: Value) -> float:
    """The place of an item in `sorted_add`: its number in a ``map`` node."""
    index = item.get("_map_index") if isinstance(item, dict) else None
    # An earlier value stays first.
    return float(index) if isinstance(index, int | float) else float("-inf")


def start_of(
    keys: Keys, initial: Callable[[], Mapping[str, Value]]
) -> Callable[[FlowInput], Frame]:
    """`Flow.start`: makes the frame that a run begins with. ``initial``: the values of
    ``variables``."""

    def start(flow_input: FlowInput) -> Frame:
        message = "the input of a graph is a mapping of keys to values"
        hint = "--set name=value gives one key of the state"
        values = named_values(flow_input, "graph.input", message, hint)
        return {"state": keys.begin(initial(), values)}

    return start


def end_of(keys: Keys) -> Callable[[Frame], FlowResult]:
    """`Flow.end`: makes the output of a run, its last state without the undeclared keys that the run
    itself writes."""
    run_keys = OF_THE_RUN - keys.declared.keys()

    def end(frame: Frame) -> FlowResult:
        state = {name: value for name, value in frame["state"].items() if name not in run_keys}
        return FlowResult(state, state, frame.get("notes", ()))

    return end
