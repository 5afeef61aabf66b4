"""Where secrets come from: which inputs and steps of a definition feed arguments that a tool takes as secret.

Found from the definitions, before the first step: the work order with the input is on the disk before any tool is
called. The values themselves are `masking`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Sequence as Several

from ..catalog import Tool
from ..engine.linked import Choice, Linked
from ..flow.frame import Ref
from ..flow.steps import Branches, Compute, Dag, Each, Flow, Fold, Invoke, Sequence, Step, Walk, children, every

VALUE = "\0"
"""No name in a frame: ``(VALUE, id)`` is what a step gives, ``(VALUE, "")`` what flows into a definition."""

Place = tuple[str, ...]
"""Where something stands: a store, a name that is bound, or what a step gives."""

Fed = Mapping[int, set[Place]]
"""Of each flow, by its identity, where stands what secret arguments are read from."""

Link = Callable[[Fed], Iterable[Place]]

Held = Mapping[Place, tuple[str, ...]]
"""Which steps gave what stands under a name that step after step writes anew (a pipe), or in a field of it."""


def hidden_by(linked: Linked) -> tuple[frozenset[str], frozenset[tuple[int, str]]]:
    """What feeds secret arguments: names of inputs and stores, and the steps (by the flow's number and their id) that
    store those.

    Followed back through expressions and elements, and through what calls hand on under another name.
    """
    inputs: set[str] = set()
    steps: set[tuple[int, str]] = set()
    flows = reached(linked)
    if not _any_secret(flows):
        return frozenset(), frozenset()
    fed = _fed(flows)
    for number, each in enumerate(flows):
        paths = {path for path in fed[id(each)] if _is_kept(path, each.flow.stores)}
        for step in every(each.flow.body):
            writes = step.target.writes() if step.target is not None else ()
            if (VALUE, step.id) in fed[id(each)] or any(ref.path in paths for ref in writes):
                steps.add((number, step.id))
            if isinstance(step, Walk):
                nodes = (node for node, keys in step.written.items() if any(path[-1] in keys for path in paths))
                steps |= {(number, inner.id) for node in nodes for inner in every(step.nodes[node])}
            if isinstance(step, Dag) and paths:
                met = {name for name, there in step.written.items() if any(_meet(a, b) for a in there for b in paths)}
                steps |= {(number, inner.id) for one in step.steps if one.id in met for inner in every(one)}
        inputs |= {path[-1] for path in paths}
    return frozenset(inputs), frozenset(steps)


def secret_paths(linked: Linked) -> frozenset[Place]:
    """Where in the context of a plan stands what feeds secret arguments: a kind, and a name in it."""
    flows = reached(linked)
    if not _any_secret(flows):
        return frozenset()
    return frozenset(path for path in _fed(flows)[id(linked)] if _is_kept(path, linked.flow.stores))


def _any_secret(flows: Several[Linked]) -> bool:
    return any(isinstance(one, Tool) and one.secret for each in flows for one in each.callees.values())


def _meet(one: Place, other: Place) -> bool:
    """Whether one path is, or is above, the other."""
    least = min(len(one), len(other))
    return one[:least] == other[:least]


def _fed(flows: Several[Linked]) -> Fed:
    held = {id(each): _held(each.flow) for each in flows}
    found = {id(each): set(_secret_paths(each, held[id(each)])) for each in flows}
    links = [link for each in flows for step in every(each.flow.body)
             for link in _links(step, each, held[id(each)].get(step.id, {}))]  # fmt: skip
    links.reverse()  # who reads stands behind who writes, and it is followed back
    grows = True
    while grows:
        grows = False
        for whose, link in links:
            more = set(link(found)) - found[id(whose)]
            found[id(whose)] |= more
            grows = grows or bool(more)
    return found


def _held(flow: Flow) -> Mapping[str, Held]:
    """What stands under the names that are written anew, where each step begins, by the step's id."""
    found: dict[str, Held] = {}

    def follow(step: Step, held: Held) -> Held:
        found[step.id] = held
        inside = held
        if isinstance(step, Each | Branches):
            bodies = children(step)[:-1] if step.collect is not None else children(step)
            for body in bodies:
                follow(body, held)
            if step.collect is not None:
                names = {name: (one.id,) for name, one in step.branches.items()} if isinstance(step, Branches) else {}
                joined = step.join.writes() if step.join is not None else ()
                follow(step.collect, _anew(held, joined, flow.stores, tuple(one.id for one in bodies), names))
        elif not isinstance(step, Walk | Dag):
            for inner in children(step):
                left = follow(inner, inside)
                inside = left if isinstance(step, Sequence) else held
        return _anew(inside, step.target.writes(), flow.stores, (step.id,)) if step.target is not None else inside

    anew = [ref for step in every(flow.body) if step.target is not None for ref in step.target.writes()]
    follow(flow.body, _anew({}, anew, flow.stores, ("",)))
    return found


def _anew(
    held: Held, writes: Iterable[Ref], stores: Place, by: tuple[str, ...], fields: Mapping[str, tuple[str, ...]] = {}
) -> Held:
    names = {ref.path[0] for ref in writes if not _is_kept(ref.path, stores)}
    now = {place: ids for place, ids in held.items() if place[0] not in names}
    for name in names:
        now[name,] = by
        now |= {(name, field): ids for field, ids in fields.items()}
    return now


def _links(step: Step, within: Linked, held: Held) -> Iterator[tuple[Linked, Link]]:
    """What feeds a secret, and whose place that is, because something that ``step`` gives, writes, or hands to a called
    flow, does."""
    stores, value = within.flow.stores, (VALUE, step.id)

    def when(place: Iterable[Place], to: Linked, by: Iterable[Place], of: Linked = within) -> tuple[Linked, Link]:
        these, those = frozenset(place), tuple(by)
        return to, lambda found: () if these.isdisjoint(found[id(of)]) else those

    def handed(step: Invoke, inner: Linked) -> Link:
        return lambda found: (path for name in {path[-1] for path in found[id(inner)] if path[0] != VALUE}
                              for path in _paths_to(step, name, stores, held))  # fmt: skip

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
            yield when([(VALUE, "")], within, read(step.pipe.reads() if step.pipe is not None else ()), inner)
            yield when([value], inner, ((VALUE, last.id) for last in inner.flow.body.steps[-1:]))
    if isinstance(step, Compute):
        yield when([value], within, read(step.value.reads()))
    yield when([value], within, ((VALUE, inner.id) for inner in _giving(step)))
    if step.target is not None:
        yield when((ref.path for ref in step.target.writes() if _is_kept(ref.path, stores)), within, [value])


def _giving(step: Step) -> tuple[Step, ...]:
    """The steps under ``step`` whose value is its own."""
    if isinstance(step, Walk | Dag):
        return ()
    last = isinstance(step, Sequence) or (isinstance(step, Each | Branches) and step.collect is not None)
    return children(step)[-1:] if last else children(step)


def _secret_paths(linked: Linked, held: Mapping[str, Held]) -> Iterator[Place]:
    for step in every(linked.flow.body):
        callee = linked.callees.get(step.id)
        if isinstance(step, Invoke) and isinstance(callee, Tool):
            for name in callee.secret:
                yield from _paths_to(step, name, linked.flow.stores, held.get(step.id, {}))


def _paths_to(step: Invoke, name: str, stores: Place, held: Held) -> Iterator[Place]:
    """Where the argument of that name comes from."""
    for ref in getattr(step.args, "of", _nothing)(name):
        yield from _places(ref, stores, held)


def _places(ref: Ref, stores: Place, held: Held) -> Iterator[Place]:
    """A name below the stores (of a plan: a kind of message, and a name in it), the steps that gave it, or the element
    that is read."""
    if _is_kept(ref.path, stores):
        yield ref.path[: len(stores) + 1 if stores else 2]
        return
    given = held.get(ref.path[:2]) or held.get(ref.path[:1])
    yield from ((VALUE, id) for id in given) if given is not None else (ref.path[:1],)


def _is_kept(path: Place, stores: Place) -> bool:
    return path[: len(stores)] == stores and len(path) > len(stores) and path[0] != VALUE


def _nothing(name: str) -> tuple[Ref, ...]:
    return ()


def reached(linked: Linked) -> list[Linked]:
    """``linked`` and every flow that it may run, each once."""
    found, queue = {id(linked): linked}, [linked]
    while queue:
        for callee in queue.pop(0).callees.values():
            for one in flows_of(callee):
                if id(one) not in found:
                    found[id(one)] = one
                    queue.append(one)
    return list(found.values())


def flows_of(callee: object) -> Iterator[Linked]:
    """The flows that a call may run."""
    if isinstance(callee, Linked):
        yield callee
    elif isinstance(callee, Choice):
        for one in callee.callees.values():
            yield from flows_of(one)
