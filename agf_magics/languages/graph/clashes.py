"""Finds nodes that would write the same key in the same round, as far as the text tells.

If both nodes certainly run in one round, the graph is refused when it is loaded. Otherwise the
round is refused before it begins, so that no call is made and no person is asked in vain (decision
D121). Keys that only the result of a function names are checked after the round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...flow.graph_steps import START, Walk
from ...text.diagnostics import Diagnostic
from .expressions.reading import Reader
from .nodes.builder_contract import BuiltNode
from .state import Keys

MOST_COMPARED = 1_000_000
"""The bound for following rounds: the nodes of all rounds that are looked at."""


class Clashes:
    """`Walk.clash`: the first two nodes of a round that write one key."""

    def __init__(self, built: Mapping[str, BuiltNode], keys: Keys) -> None:
        self.built = built
        self.keys = keys
        self.sure = {
            node: [key for key in step.keys if key.sure and key.name not in keys.reducers]
            for node, step in built.items()
        }

    def __call__(self, names: Sequence[str]) -> Diagnostic | None:
        if len(names) < 2:
            return None
        by: dict[str, str] = {}
        for node in names:
            for key in self.sure[node]:
                first = by.setdefault(key.name, node)
                if first != node:
                    place = key.span or self.built[node].step.span
                    return self.keys.conflict(first, node, key.name, place, key.option)
        return None


def refuse_clashes(reader: Reader, walk: Walk) -> None:
    """graph.write-conflict: two nodes that surely run in one round write one key."""
    room = MOST_COMPARED
    clashes = dict[Diagnostic, None]()
    for source, edges in walk.leaving.items():
        if source != START and sum(edge.is_plain for edge in edges) < 2:
            # A node without two plain edges starts no parallel branches: the rounds after it are
            # also rounds after the node before it.
            continue
        for round in walk.rounds_after(source):
            room -= len(round)
            if room < 0:
                break
            if (problem := walk.clash(sorted(round))) is not None:
                clashes[problem] = None
    reader.problems.extend(clashes)
