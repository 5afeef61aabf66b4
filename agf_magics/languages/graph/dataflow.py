"""The data flow of a graph: which node reads the value of a key that which other node wrote."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping

from ...flow.frame import Ref
from ...flow.steps import END, START, Compute, Each, Edge, Invoke, Step, every
from .edges import outgoing
from .nodes import Built
from .reading import ROOT
from .state import Keys

MOST_VISITS = 200_000
"""The bound for following writes along edges."""


def reads_of_node(step: Step) -> Iterator[Ref]:
    """The references to the state in a node."""
    for one in every(step):
        match one:
            case Invoke():
                yield from one.args.reads()
                yield from one.pick.reads() if one.pick else ()
            case Compute():
                yield from one.value.reads()
            case Each():
                yield from one.over.reads()


def feeds(
    built: Mapping[str, Built],
    edges: Collection[Edge],
    exits: Mapping[str, str],
    keys: Keys,
    initial: Collection[str],
) -> tuple[tuple[str | None, str, str], ...]:
    """Each value that flows: the id of the step that writes it (None: the input), of the step that
    reads it, the key.

    A write reaches the nodes on every path that does not write the key again; a key with a reducer
    is only added to, so every write reaches all nodes after it. ``initial``: the keys that have a
    value without an input.
    """
    reads = {name: _keys_read(each) for name, each in built.items()}
    writes = {name: {key.name for key in each.keys} for name, each in built.items()}
    after = {name: [edge.target for edge in leaving] for name, leaving in outgoing(edges).items()}
    for name, target in exits.items():
        after.setdefault(name, []).append(target)
    # A key with a reducer begins with an empty value.
    begun = {*initial, *(key for each in writes.values() for key in each if key in keys.reducers)}
    found: dict[tuple[str | None, str, str], None] = {}
    room = MOST_VISITS
    sources = [
        (START, key) for key in dict.fromkeys(key for each in reads.values() for key in each)
    ]
    for source, key in (*sources, *((name, key) for name, each in writes.items() for key in each)):
        if source == START and key in begun:
            continue
        seen, queue = set[str](), deque(after.get(source, ()))
        while queue and room > 0:
            name, room = queue.popleft(), room - 1
            if name in seen or name == END:
                continue
            seen.add(name)
            if key in reads[name]:
                found[
                    None if source == START else built[source].step.id, built[name].step.id, key
                ] = None
            if key not in writes[name] or key in keys.reducers:
                queue.extend(after.get(name, ()))
    return tuple(found)


def _keys_read(built: Built) -> set[str]:
    refs = (ref.path for ref in reads_of_node(built.step))
    return {path[1] for path in refs if path[:1] == ROOT and len(path) > 1} - {
        built.item,
        "_map_index",
    }
