"""Finds the values of a definition that feed the secret arguments of its tools."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from ...catalog import Tool
from ...engine.linking.linked import Linked, callees_of
from ...flow.graph_steps import Walk
from ...flow.steps import calls, every
from .influence import ALL, Influence, backwards, spread, whole_input


class SecretSources(NamedTuple):
    """The inputs, stores and steps that feed a secret argument of a tool, directly or
    indirectly."""

    names: frozenset[str] = frozenset()
    """Inputs and stores, also those of called flows: an agent may get all keys of a graph."""
    steps: frozenset[tuple[int, str]] = frozenset()
    """The steps that write them, by the identity of their flow and their id."""
    keys: Mapping[tuple[int, str], frozenset[str]] = {}
    """The keys that feed it, by the calls of a graph that may return any key of the state."""
    paths: frozenset[tuple[str, ...]] = frozenset()
    """Places in the context of a plan: a kind of message, and a name in it."""
    whole: bool = False
    """Whether a secret argument is made of the whole input, so that any field may be the secret."""
    arguments: frozenset[tuple[str, str]] = frozenset()
    """The arguments of the calls of the run's own flow that feed it: the id of the step, and the
    name, which is `ALL` where it is not known."""


def find_secret_sources(linked: Linked, given: Collection[str] | None = None) -> SecretSources:
    """The inputs, stores and steps that feed secret arguments of the tools that a flow may call,
    followed back through expressions, elements and arguments. ``given``: the fields of the run's
    input; default None: they are not known."""
    flows = linked.reachable
    secret = {
        (id(flow), "argument", step, name)
        for flow in flows
        for step, callee in flow.callees.items()
        for tool in callees_of(callee)
        if isinstance(tool, Tool) and tool.secret
        for name in (*tool.secret, ALL)
    }
    graph = Influence(linked, per_call=False, given=given)
    names = set[str]()
    steps = set[tuple[int, str]]()
    paths = set[tuple[str, ...]]()
    sources = spread(secret, backwards(graph.carries), backwards(graph.stores))
    arguments = set[tuple[str, str]]()
    for scope, kind, step_or_path, *argument in sources:
        if kind == "value":
            steps.add((id(graph.flows[scope].flow), step_or_path))
        elif kind == "store" and step_or_path:
            names.add(step_or_path[-1])
            if scope == id(linked):
                paths.add(step_or_path)
        elif kind == "argument" and scope == id(linked):
            arguments.add((step_or_path, *argument))
    whole = (id(linked), "store", whole_input(linked)) in sources
    keys = {
        (id(linked_flow.flow), step): frozenset(names)
        for linked_flow in flows
        for step in _of_any_key(linked_flow)
    }
    return SecretSources(
        *(frozenset(names), frozenset(steps), keys),
        *(frozenset(paths), whole, frozenset(arguments)),
    )


def _of_any_key(linked: Linked) -> Iterator[str]:
    """The calls of a graph that may return keys of the state which its text does not name."""
    for walk in every(linked.flow.body):
        if isinstance(walk, Walk):
            for name in walk.writes_any:
                yield from (call.id for call in calls(walk.nodes[name]))
