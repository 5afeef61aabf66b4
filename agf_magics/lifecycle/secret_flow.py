"""Where secrets come from: which inputs and steps of a definition feed arguments that a tool takes
as secret.

Found from the definitions before the first step, because the manifest with the input is written
before any tool is called. masking.py handles the values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Sequence as Several
from functools import partial

from ..catalog import Tool
from ..engine.linked import Linked, flows_of, reachable_flows
from ..flow.step import NamedArgs, Ref
from ..flow.steps import (
    Branches,
    Compute,
    Dag,
    Each,
    Flow,
    Fold,
    Invoke,
    Sequence,
    Step,
    Walk,
    children,
    every,
)
from ..journal.secrets import names_a_secret

VALUE = "\0"
"""Not a name in a frame: ``(VALUE, id)`` is the value of a step, ``(VALUE, "")`` the pipe into a
definition."""

Place = tuple[str, ...]
"""The place of a value: a store, a bound name, or the value of a step."""

Fed = Mapping[int, set[Place]]
"""For each flow, by its identity: the places that secret arguments are read from."""

Link = Callable[[Fed], Iterable[Place]]

Held = Mapping[Place, tuple[str, ...]]
"""For a name that each step overwrites (a pipe), or a field of it: the steps that wrote its
value."""


def find_secret_sources(
    flows: Several[Linked],
) -> tuple[frozenset[str], frozenset[tuple[int, str]]]:
    """The names of inputs and stores that feed secret arguments, and the steps (flow number and id)
    that write them.

    Followed back through expressions, elements, and the arguments of calls. ``flows``: those of
    `reachable_flows`.
    """
    inputs: set[str] = set()
    steps: set[tuple[int, str]] = set()
    if not _any_secret(flows):
        return frozenset(), frozenset()
    fed = _fed(flows)
    for number, each in enumerate(flows):
        paths = {path for path in fed[id(each)] if _is_stored(path, each.flow.stores)}
        for step in every(each.flow.body):
            writes = step.target.writes() if step.target is not None else ()
            if (VALUE, step.id) in fed[id(each)] or any(ref.path in paths for ref in writes):
                steps.add((number, step.id))
            if isinstance(step, Walk):
                nodes = (
                    node
                    for node, keys in step.written.items()
                    if any(path[-1] in keys for path in paths)
                )
                steps |= {(number, inner.id) for node in nodes for inner in every(step.nodes[node])}
            if isinstance(step, Dag) and paths:
                met = {
                    name
                    for name, there in step.written.items()
                    if any(_meet(a, b) for a in there for b in paths)
                }
                steps |= {
                    (number, inner.id)
                    for one in step.steps
                    if one.id in met
                    for inner in every(one)
                }
        inputs |= {path[-1] for path in paths}
    return frozenset(inputs), frozenset(steps)


def bound_secrets(flows: Several[Linked]) -> Iterator[str]:
    """The texts that a `functools.partial` gives to the tools of these flows for parameters whose
    names say that they are secrets (decision D42)."""
    for each in flows:
        for callee in each.callees.values():
            function = callee.function if isinstance(callee, Tool) else None
            while isinstance(function, partial):
                for name, value in function.keywords.items():
                    if names_a_secret(name) and isinstance(value, str):
                        yield value
                function = function.func


def secret_paths(linked: Linked) -> frozenset[Place]:
    """The places in a plan's context that feed secret arguments: a kind of message, and a name in
    it."""
    flows = reachable_flows(linked)
    if not _any_secret(flows):
        return frozenset()
    return frozenset(
        path for path in _fed(flows)[id(linked)] if _is_stored(path, linked.flow.stores)
    )


def _any_secret(flows: Several[Linked]) -> bool:
    return any(
        isinstance(one, Tool) and one.secret for each in flows for one in each.callees.values()
    )


def _meet(one: Place, other: Place) -> bool:
    """Whether one path is, or is above, the other."""
    least = min(len(one), len(other))
    return one[:least] == other[:least]


def _fed(flows: Several[Linked]) -> Fed:
    held = {id(each): _held(each.flow) for each in flows}
    found = {id(each): set(_secret_paths(each, held[id(each)])) for each in flows}
    links = [
        link
        for each in flows
        for step in every(each.flow.body)
        for link in _links(step, each, held[id(each)].get(step.id, {}))
    ]
    links.reverse()  # a reader comes after its writer, and the links are followed back
    grows = True
    while grows:
        grows = False
        for flow, link in links:
            more = set(link(found)) - found[id(flow)]
            found[id(flow)] |= more
            grows = grows or bool(more)
    return found


def _held(flow: Flow) -> Mapping[str, Held]:
    """For each step id: the writers of the overwritten names before that step."""
    found: dict[str, Held] = {}

    def follow(step: Step, held: Held) -> Held:
        found[step.id] = held
        inside = held
        if isinstance(step, Each | Branches):
            bodies = children(step)[:-1] if step.collect is not None else children(step)
            for body in bodies:
                follow(body, held)
            if step.collect is not None:
                names = (
                    {name: (one.id,) for name, one in step.branches.items()}
                    if isinstance(step, Branches)
                    else {}
                )
                joined = step.join.writes() if step.join is not None else ()
                follow(
                    step.collect,
                    _anew(held, joined, flow.stores, tuple(one.id for one in bodies), names),
                )
        elif not isinstance(step, Walk | Dag):
            for inner in children(step):
                left = follow(inner, inside)
                inside = left if isinstance(step, Sequence) else held
        return (
            _anew(inside, step.target.writes(), flow.stores, (step.id,))
            if step.target is not None
            else inside
        )

    anew = [
        ref for step in every(flow.body) if step.target is not None for ref in step.target.writes()
    ]
    follow(flow.body, _anew({}, anew, flow.stores, ("",)))
    return found


def _anew(
    held: Held,
    writes: Iterable[Ref],
    stores: Place,
    by: tuple[str, ...],
    fields: Mapping[str, tuple[str, ...]] = {},
) -> Held:
    names = {ref.path[0] for ref in writes if not _is_stored(ref.path, stores)}
    now = {place: ids for place, ids in held.items() if place[0] not in names}
    for name in names:
        now[name,] = by
        now |= {(name, field): ids for field, ids in fields.items()}
    return now


def _links(step: Step, within: Linked, held: Held) -> Iterator[tuple[Linked, Link]]:
    """How a secret is followed back through ``step``: a flow, and the places in it that feed a
    secret because the value of the step, its target, or an argument of its call does."""
    stores, value = within.flow.stores, (VALUE, step.id)

    def when(
        place: Iterable[Place], to: Linked, by: Iterable[Place], of: Linked = within
    ) -> tuple[Linked, Link]:
        these, those = frozenset(place), tuple(by)
        return to, lambda found: () if these.isdisjoint(found[id(of)]) else those

    def handed(step: Invoke, inner: Linked) -> Link:
        return lambda found: (
            path
            for name in {path[-1] for path in found[id(inner)] if path[0] != VALUE}
            for path in _paths_to(step, name, stores, held)
        )

    def read(refs: Iterable[Ref]) -> Iterator[Place]:
        return (place for ref in refs for place in _places(ref, stores, held))

    if isinstance(step, Each | Fold):
        yield when((ref.path[:1] for ref in step.element.writes()), within, read(step.over.reads()))
    if isinstance(step, Fold):
        begins = (*read(step.init.reads()), (VALUE, step.body.id))
        yield when((value, *(ref.path[:1] for ref in step.acc.writes())), within, begins)
    if isinstance(step, Invoke):
        for inner in flows_of(within.callees.get(step.id)):
            yield within, handed(step, inner)
            yield when(
                [(VALUE, "")],
                within,
                read(step.exchange.pipe.reads() if step.exchange.pipe is not None else ()),
                inner,
            )
            yield when([value], inner, ((VALUE, last.id) for last in inner.flow.body.steps[-1:]))
    if isinstance(step, Compute):
        yield when([value], within, read(step.value.reads()))
    yield when([value], within, ((VALUE, inner.id) for inner in _giving(step)))
    if step.target is not None:
        yield when(
            (ref.path for ref in step.target.writes() if _is_stored(ref.path, stores)),
            within,
            [value],
        )


def _giving(step: Step) -> tuple[Step, ...]:
    """The steps inside ``step`` whose value becomes its value."""
    if isinstance(step, Walk | Dag):
        return ()
    last = isinstance(step, Sequence) or (
        isinstance(step, Each | Branches) and step.collect is not None
    )
    return children(step)[-1:] if last else children(step)


def _secret_paths(linked: Linked, held: Mapping[str, Held]) -> Iterator[Place]:
    for step in every(linked.flow.body):
        callee = linked.callees.get(step.id)
        if isinstance(step, Invoke) and isinstance(callee, Tool):
            for name in callee.secret:
                yield from _paths_to(step, name, linked.flow.stores, held.get(step.id, {}))


def _paths_to(step: Invoke, name: str, stores: Place, held: Held) -> Iterator[Place]:
    """The places that the argument of that name is read from."""
    for ref in step.args.of(name) if isinstance(step.args, NamedArgs) else ():
        yield from _places(ref, stores, held)


def _places(ref: Ref, stores: Place, held: Held) -> Iterator[Place]:
    """A store (for a plan: a kind of message, and a name in it), the steps that wrote an
    overwritten name, or the element that is read."""
    if _is_stored(ref.path, stores):
        yield ref.path[: len(stores) + 1 if stores else 2]
        return
    given = held.get(ref.path[:2]) or held.get(ref.path[:1])
    yield from ((VALUE, id) for id in given) if given is not None else (ref.path[:1],)


def _is_stored(path: Place, stores: Place) -> bool:
    return path[: len(stores)] == stores and len(path) > len(stores) and path[0] != VALUE
