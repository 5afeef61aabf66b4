"""What a walk says while it runs.

It has reached the limit of a node or of its rounds, or a function looks for a key that only
YAMLGraph has.
"""

from __future__ import annotations

from collections.abc import Collection

from ...text.diagnostics import Diagnostic
from ...text.source import Span
from .expressions.reading import PEER_KEY


def peer_key(words: Collection[str]) -> Diagnostic | None:
    peer = next(filter(PEER_KEY.fullmatch, sorted(words)), None)
    if peer is None:
        return None
    message = f"the function looks for {peer!r}, the key of YAMLGraph around a result of a map"
    hint = "a map collects the results themselves: read item['title'], not item['_map_…']['title']"
    return Diagnostic("graph.peer-key", message, None, hint, "warning")


def over_limit(node: str, span: Span | None, count: int, has_exit: bool) -> Diagnostic:
    message = f"{node!r} has run {count} times, which is its limit"
    hint = (
        None
        if has_exit
        else f"the run ends there; loop_exits: {{{node}: NODE}} continues at another node"
    )
    return Diagnostic("graph.loop-limit", message, span, hint, "warning")


def endless_walk(rounds: int, span: Span | None) -> Diagnostic:
    message = f"the graph did not end within {rounds} rounds"
    hint = (
        f"a loop needs an edge that leaves it; more rounds: config: {{recursion_limit: "
        f"{2 * rounds}}}"
    )
    return Diagnostic("step.rounds", message, span, hint)
