"""What is left of a run's limits: counted while it goes on, and the error when it is used up."""

from __future__ import annotations

from decimal import Decimal

from ..flow.step_options import OwnLimits
from ..text.diagnostics import Diagnostic, StepError
from ..text.source import Span
from .limits import FAN_OUT_DEPTH, MAX_COST, MAX_TOKENS, SPAWNS, Limits


class LimitReached(StepError):
    """A limit was exceeded. ``on_error`` neither retries nor drops this error (decision P15)."""

    ends_run = False
    """True if the limit ends the whole run, although other limits count for each row."""


class Budget:
    """What a run has used so far; one object per run, and one for each row of a table."""

    __slots__ = ("cost", "limits", "most_spawned", "spawned", "tokens", "unpriced", "whole")

    def __init__(self, limits: Limits, whole: Budget | None = None, spawns: int = 0) -> None:
        """``whole``: of a row, the budget of the run. ``spawns``: the sessions of that row."""
        self.limits = limits
        self.whole = whole
        self.most_spawned = limits.spawns if whole is None else spawns
        self.spawned = 0
        self.tokens = 0
        self.cost = Decimal(0)
        self.unpriced = 0
        """The number of replies whose price is not known."""

    def use(self, tokens: int, cost: Decimal | None = None) -> None:
        """Count a reply of a model, and refuse what exceeds the limit. ``cost``: None: it is not
        known."""
        # Counted before it is refused: the tokens have been paid for.
        self.tokens += tokens
        self.cost += cost or 0
        self.unpriced += cost is None
        if self.whole is not None:  # tokens and dollars are limited in all, not for each row
            try:
                self.whole.use(tokens, cost)
            except LimitReached as error:
                error.ends_run = True
                raise
            return
        most = self.limits.max_tokens
        dollars = self.limits.max_cost
        if most and self.tokens > most:
            message = f"this run has used {self.tokens:,} tokens of the {most:,} it may"
            raise LimitReached(Diagnostic("limit.tokens", message, hint=MAX_TOKENS.how_to_set))
        if dollars and self.cost > _decimal(dollars):
            message = f"this run has cost ${self.cost:f} of the ${dollars:g} it may"
            raise LimitReached(Diagnostic("limit.cost", message, hint=MAX_COST.how_to_set))

    def spawn(self, span: Span | None) -> None:
        """Count an agent session before its prompt is built; retries count, too."""
        most = self.most_spawned
        if most and self.spawned >= most:
            raise LimitReached(
                Diagnostic(
                    "limit.spawns",
                    f"this {'run' if self.whole is None else 'row'} has used its {most} agent "
                    "sessions",
                    span,
                    SPAWNS.how_to_set,
                )
            )
        self.spawned += 1

    def foresee(self, sessions: int, span: Span | None) -> None:
        """Refuse a fan-out that needs more sessions than are left, before its first element
        (decision A15)."""
        left = self.most_spawned - self.spawned
        if self.most_spawned and sessions > left:
            message = (
                f"this step needs at least {sessions} of the run's agent sessions, and {left} "
                "are left"
            )
            raise LimitReached(Diagnostic("limit.spawns", message, span, SPAWNS.how_to_set))

    def deepen(self, depth: int, span: Span | None) -> None:
        """Refuse a fan-out (for_each, batch, map, instances) at nesting level ``depth``."""
        most = self.limits.fan_out_depth
        if most and depth > most:
            message = f"fan-outs may nest {most} deep, and this one would be number {depth}"
            raise LimitReached(
                Diagnostic("limit.fan-out-depth", message, span, FAN_OUT_DEPTH.how_to_set)
            )


class Meter:
    """What one run of a definition and its calls have used of its own limits (`OwnLimits`)."""

    __slots__ = ("below", "cost", "model_calls", "name", "own_limits", "tokens", "tool_calls")

    def __init__(self, name: str, caps: OwnLimits, below: int) -> None:
        self.name = name
        self.own_limits = caps
        self.below = below
        """The number of open flows and agents at its start."""
        self.tool_calls = self.model_calls = self.tokens = 0
        self.cost = Decimal(0)

    def tool(self) -> None:
        self._count("tool_calls", "limit.tool-calls", "tool call{s}")

    def model(self) -> None:
        self._count("model_calls", "limit.model-calls", "request{s} to a model")

    def use(self, tokens: int, cost: Decimal | None = None) -> None:
        """Count a reply of a model, and refuse what exceeds the limit. ``cost``: None: it is not
        known."""
        self.tokens += tokens
        self.cost += cost or 0
        most = self.own_limits.tokens
        dollars = self.own_limits.cost
        if dollars is not None and self.cost > _decimal(dollars):
            raise self._limit_reached(
                "limit.cost", f"has cost ${self.cost:f} of the ${dollars:g} it may"
            )
        if most is not None and self.tokens > most:
            raise self._limit_reached(
                "limit.tokens", f"has used {self.tokens:,} tokens of the {most:,} it may"
            )

    def open(self, calls: int) -> None:
        """Refuse a flow or agent at nesting level ``calls``."""
        most = self.own_limits.depth
        if most is not None and calls - self.below > most:
            raise self._limit_reached(
                "limit.delegation-depth", f"may delegate {most} deep, and this would be one more"
            )

    def _count(self, what: str, code: str, words: str) -> None:
        most = getattr(self.own_limits, what)
        if most is not None and getattr(self, what) >= most:
            few = words.format(s="" if most == 1 else "s")
            raise self._limit_reached(code, f"may make {most} {few}, and this would be one more")
        setattr(self, what, getattr(self, what) + 1)

    def _limit_reached(self, code: str, what: str) -> LimitReached:
        return LimitReached(
            Diagnostic(
                code,
                f"{self.name!r} {what}",
                self.own_limits.span,
                "the definition sets this limit",
            )
        )


def _decimal(dollars: float) -> Decimal:
    """As the person wrote it: 0.1 is a tenth."""
    return Decimal(str(dollars))
