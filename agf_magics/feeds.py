"""What must not be written down with a run: which inputs and steps feed arguments that a tool takes as secret.

Found from the definitions, before the first step: the work order with the input is on the disk before anything is
called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from .engine.linked import Choice, Linked
from .flow.frame import Ref
from .flow.steps import Compute, Dag, Each, Fold, Invoke, Step, Walk, every
from .registry import Tool

Fed = Mapping[int, set[tuple[str, ...]]]
"""Of each flow, by its identity, where in its frames stands what secret arguments are read from."""


def hidden_by(linked: Linked) -> tuple[frozenset[str], frozenset[tuple[int, str]]]:
    """What feeds secret arguments: names of inputs and stores, and the steps (by the flow's number and their id) that
    store those.

    Followed back through expressions and elements, and through what calls hand on under another name.
    """
    inputs: set[str] = set()
    steps: set[tuple[int, str]] = set()
    flows = reached(linked)
    fed = _fed(flows)
    for number, each in enumerate(flows):
        paths = {path for path in fed[id(each)] if _is_kept(path, each.flow.stores)}
        for step in every(each.flow.body):
            writes = step.target.writes() if step.target is not None else ()
            if any(ref.path in paths for ref in writes):
                steps.add((number, step.id))
            if isinstance(step, Walk):
                nodes = (node for node, keys in step.written.items() if any(path[-1] in keys for path in paths))
                steps |= {(number, inner.id) for node in nodes for inner in every(step.nodes[node])}
            if isinstance(step, Dag) and paths:
                met = {name for name, there in step.written.items() if any(_meet(a, b) for a in there for b in paths)}
                steps |= {(number, inner.id) for one in step.steps if one.id in met for inner in every(one)}
        inputs |= {path[-1] for path in paths}
    return frozenset(inputs), frozenset(steps)


def secret_paths(linked: Linked) -> frozenset[tuple[str, ...]]:
    """Where in the context of a plan stands what feeds secret arguments: a kind, and a name in it."""
    flows = reached(linked)
    if not any(isinstance(one, Tool) and one.secret for each in flows for one in each.callees.values()):
        return frozenset()
    return frozenset(path for path in _fed(flows)[id(linked)] if _is_kept(path, linked.flow.stores))


def _meet(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether one path is, or is above, the other."""
    least = min(len(one), len(other))
    return one[:least] == other[:least]


def _fed(flows: Sequence[Linked]) -> Fed:
    found = {id(each): set(_secret_paths(each)) for each in flows}
    links = [(each, link) for each in flows for step in every(each.flow.body) for link in _links(step, each)]
    links.reverse()  # who reads stands behind who writes, and it is followed back
    grows = True
    while grows:
        grows = False
        for each, link in links:
            more = set(link(found)) - found[id(each)]
            found[id(each)] |= more
            grows = grows or bool(more)
    return found


def _links(step: Step, within: Linked) -> Iterator[Callable[[Fed], Iterator[tuple[str, ...]]]]:
    """What feeds a secret because something that ``step`` writes, or hands to a called flow, does."""
    stores = within.flow.stores

    def written(writes: Sequence[Ref], reads: Sequence[Ref]) -> Callable[[Fed], Iterator[tuple[str, ...]]]:
        to, by = {_place(ref, stores) for ref in writes}, [_place(ref, stores) for ref in reads]
        return lambda found: iter(by if to & found[id(within)] else ())

    def handed(step: Invoke, inner: Linked) -> Callable[[Fed], Iterator[tuple[str, ...]]]:
        return lambda found: (path for name in {path[-1] for path in found[id(inner)]}
                              for path in _paths_to(step, name, stores))  # fmt: skip

    match step:
        case Compute(target=target) if target is not None:
            yield written([ref for ref in target.writes() if _is_kept(ref.path, stores)], step.value.reads())
        case Each() | Fold():
            yield written(step.element.writes(), step.over.reads())
        case Invoke():
            for inner in flows_of(within.callees.get(step.id)):
                yield handed(step, inner)


def _secret_paths(linked: Linked) -> Iterator[tuple[str, ...]]:
    for step in every(linked.flow.body):
        callee = linked.callees.get(step.id)
        if isinstance(step, Invoke) and isinstance(callee, Tool):
            for name in callee.secret:
                yield from _paths_to(step, name, linked.flow.stores)


def _paths_to(step: Invoke, name: str, stores: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Where the argument of that name comes from."""
    for ref in getattr(step.args, "of", _nothing)(name):
        yield _place(ref, stores)


def _place(ref: Ref, stores: tuple[str, ...]) -> tuple[str, ...]:
    """A name below the stores (of a plan: a kind of message, and a name in it), or the element that is read."""
    return ref.path[: len(stores) + 1 if stores else 2] if _is_kept(ref.path, stores) else ref.path[:1]


def _is_kept(path: tuple[str, ...], stores: tuple[str, ...]) -> bool:
    return path[: len(stores)] == stores and len(path) > len(stores)


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
