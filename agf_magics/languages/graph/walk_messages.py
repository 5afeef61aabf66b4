"""The messages of a running walk that reaches the limit of a node or of its rounds."""

from __future__ import annotations

from ...text.diagnostics import Diagnostic
from ...text.source import Span


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
