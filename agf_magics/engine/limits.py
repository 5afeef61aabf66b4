"""Caps and capabilities, handed down into everything a run opens. Set by the person, never in reach of a definition."""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import NamedTuple

from ..registry import USER
from ..text.diagnostics import Diagnostic, StepError
from ..text.source import Span

LAUNCHES = frozenset({"run_pipeline", "run_pipeline_async", "run_pipeline_inline", "run_pipeline_inline_async"})
"""Never among a step's tools: inside a run nesting is `call` (decision A13)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one run may use at most; 0 means no limit."""

    fan_out_depth: int = 5
    """How deep for_each scopes may nest, through calls."""
    spawns: int = 100
    """Agent steps of a run, retried ones counted again."""
    timeout: float | None = None
    """Seconds for the whole run."""

    def __post_init__(self) -> None:
        for name in ("fan_out_depth", "spawns"):
            most = getattr(self, name)
            if type(most) is not int or most < 0:
                raise ValueError(f"{name} is a whole number, 0 or more, not {most!r}")
        if self.timeout is not None and not self.timeout > 0:
            raise ValueError(f"timeout is a number of seconds above 0 or None, not {self.timeout!r}")


class LimitReached(StepError):
    """A cap was breached. ``on_error`` neither retries nor drops it (decision P15)."""


class Budget:
    """What a run has used so far; one object per run, shared by all it opens."""

    __slots__ = ("limits", "spawned")

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.spawned = 0

    def spawn(self, span: Span | None) -> None:
        """Count one agent session, before its prompt is built; a retry counts again."""
        most = self.limits.spawns
        if most and self.spawned >= most:
            raise LimitReached(
                Diagnostic("limit.spawns", f"this run has used its {most} agent sessions", span, _raise_it("spawns"))
            )
        self.spawned += 1

    def foresee(self, sessions: int, span: Span | None) -> None:
        """Refuse a fan-out that surely needs more sessions than are left, before its first element (decision A15)."""
        left = self.limits.spawns - self.spawned
        if self.limits.spawns and sessions > left:
            message = f"this fan-out needs at least {sessions} agent sessions and the run has {left} left"
            raise LimitReached(Diagnostic("limit.spawns", message, span, _raise_it("spawns")))

    def deepen(self, depth: int, span: Span | None) -> None:
        """Refuse a for_each that would open scope number ``depth``."""
        most = self.limits.fan_out_depth
        if most and depth > most:
            message = f"for_each may nest {most} deep, and this one would be number {depth}"
            raise LimitReached(Diagnostic("limit.fan-out-depth", message, span, _raise_it("fan_out_depth")))


class Grant(NamedTuple):
    """Who runs a step and which tools it may use."""

    identity: str = USER
    tools: frozenset[str] | None = None
    """None: every registered tool."""

    def allows(self, tool: str) -> bool:
        return tool not in LAUNCHES and (self.tools is None or tool in self.tools)

    def narrow(self, *tools: Iterable[str] | None, identity: str | None = None) -> Grant:
        """This grant, limited to ``tools`` (None limits nothing): it never widens."""
        may = self.tools
        for more in tools:
            if more is not None:
                may = frozenset(more) if may is None else may & frozenset(more)
        return Grant(identity or self.identity, may)


ANYTHING = Grant()
"""The person's: every tool."""

granted: ContextVar[Grant] = ContextVar("granted", default=ANYTHING)
"""What the user code that runs here may use: a run that it starts gets no more."""


def _raise_it(what: str) -> str:
    return f"%config AgfMagics.max_pipeline_{what} sets the cap (in Python: limits=Limits({what}=…)); 0 means none"
