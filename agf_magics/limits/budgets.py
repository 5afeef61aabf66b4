"""The budgets of a run: they count what the run uses, and refuse what exceeds a limit."""

from __future__ import annotations

from decimal import Decimal

from ..flow.step_options import OwnLimits
from ..text.diagnostics import Diagnostic, StepError
from ..text.source import Span
from .limits import FAN_OUT_DEPTH, MAX_COST, MAX_TOKENS, SPAWNS, Limits, how_to_set_for_rows


class LimitReached(StepError):
    """A limit was exceeded. ``on_error`` neither retries nor drops this error (decision P15)."""

    ends_run = False
    """True if the limit ends the whole run, although other limits count for each row."""


class Budget:
    """The use of a run's limits so far; one object per run, and one for each row of a table."""

    __slots__ = ("again", "cost", "limits", "spawn_limit", "spawned", "tokens", "unpriced", "whole")

    def __init__(
        self, limits: Limits, whole: Budget | None = None, spawns: int = 0, again: str = ""
    ) -> None:
        """``whole``: the budget of the run, if this is the budget of one row; default None.
        ``spawns``: the number of agent sessions that this row may have; 0: no limit. ``again``: how
        the rows that failed run again, for a hint; empty: nobody knows. Only a row uses them."""
        self.limits = limits
        self.again = again
        self.whole = whole
        self.spawn_limit = limits.spawns if whole is None else spawns
        """The number of agent sessions that the run or the row may have; 0: no limit."""
        self.spawned = 0
        """The number of agent sessions so far, of this row if it is the budget of a row."""
        self.tokens = 0
        self.cost = Decimal(0)
        self.unpriced = 0
        """The number of replies whose price is unknown."""

    def use(self, tokens: int, cost: Decimal | None = None) -> None:
        """Count a reply of a model, and refuse what exceeds the limit. ``cost``: None: it is not
        known."""
        # A reply is counted before it is refused: its tokens have been paid for.
        self.tokens += tokens
        self.cost += cost or 0
        self.unpriced += cost is None
        if self.whole is not None:  # the limits of tokens and dollars are for all rows together
            try:
                self.whole.use(tokens, cost)
            except LimitReached as error:
                error.ends_run = True
                raise
            return
        max_tokens = self.limits.max_tokens
        dollars = self.limits.max_cost
        if max_tokens and self.tokens > max_tokens:
            message = f"this run has used {self.tokens:,} tokens of the {max_tokens:,} it may"
            raise LimitReached(Diagnostic("limit.tokens", message, hint=MAX_TOKENS.how_to_set))
        if dollars and self.cost > _decimal(dollars):
            message = f"this run has cost ${self.cost:f} of the ${dollars:g} it may"
            raise LimitReached(Diagnostic("limit.cost", message, hint=MAX_COST.how_to_set))

    def spawn(self, span: Span | None) -> None:
        """Count an agent session before its prompt is built; retries count, too."""
        limit = self.spawn_limit
        if limit and self.spawned >= limit:
            plural = "" if limit == 1 else "s"
            message = f"this {self._owner} has used its {limit} agent session{plural}"
            raise LimitReached(Diagnostic("limit.spawns", message, span, self._how_to_set))
        self.spawned += 1

    def foresee(self, sessions: int, span: Span | None) -> None:
        """Refuse a fan-out that needs more sessions than are left, before its first element
        (decision A15)."""
        remaining = self.spawn_limit - self.spawned
        if self.spawn_limit and sessions > remaining:
            message = (
                f"this step needs at least {sessions} of the {self._owner}'s agent sessions, and "
                f"{remaining} are left"
            )
            raise LimitReached(Diagnostic("limit.spawns", message, span, self._how_to_set))

    @property
    def _owner(self) -> str:
        return "run" if self.whole is None else "row"

    @property
    def _how_to_set(self) -> str:
        """The hint about the number of agent sessions."""
        if self.whole is None:
            return SPAWNS.how_to_set
        return how_to_set_for_rows(SPAWNS, self.again)

    def deepen(self, depth: int, span: Span | None) -> None:
        """Refuse a fan-out (for_each, batch, map, instances) at nesting level ``depth``."""
        limit = self.limits.fan_out_depth
        if limit and depth > limit:
            message = f"fan-outs may nest {limit} deep, and this one would be number {depth}"
            hint = FAN_OUT_DEPTH.how_to_set
            raise LimitReached(Diagnostic("limit.fan-out-depth", message, span, hint))


class Meter:
    """The use of a definition's own limits (`OwnLimits`) by one run of it and its calls."""

    __slots__ = ("below", "cost", "model_calls", "name", "own_limits", "tokens", "tool_calls")

    def __init__(self, name: str, own_limits: OwnLimits, below: int) -> None:
        self.name = name
        self.own_limits = own_limits
        self.below = below
        """The number of flows and agents that were open when this run of the definition began."""
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
        max_tokens = self.own_limits.tokens
        dollars = self.own_limits.cost
        if dollars is not None and self.cost > _decimal(dollars):
            reason = f"has cost ${self.cost:f} of the ${dollars:g} it may"
            raise self._limit_reached("limit.cost", reason)
        if max_tokens is not None and self.tokens > max_tokens:
            reason = f"has used {self.tokens:,} tokens of the {max_tokens:,} it may"
            raise self._limit_reached("limit.tokens", reason)

    def open(self, calls: int) -> None:
        """Refuse a flow or agent at nesting level ``calls``."""
        limit = self.own_limits.depth
        if limit is not None and calls - self.below > limit:
            reason = f"may delegate {limit} deep, and this would be one more"
            raise self._limit_reached("limit.delegation-depth", reason)

    def _count(self, counter: str, code: str, words: str) -> None:
        """Add one to ``counter``, a field of this meter and of its limits. Raise LimitReached with
        ``code`` if the limit is exceeded; ``words`` name what is counted."""
        limit = getattr(self.own_limits, counter)
        count = getattr(self, counter)
        if limit is not None and count >= limit:
            calls = words.format(s="" if limit == 1 else "s")
            reason = f"may make {limit} {calls}, and this would be one more"
            raise self._limit_reached(code, reason)
        setattr(self, counter, count + 1)

    def _limit_reached(self, code: str, reason: str) -> LimitReached:
        message = f"{self.name!r} {reason}"
        hint = "the definition sets this limit"
        return LimitReached(Diagnostic(code, message, self.own_limits.span, hint))


def _decimal(dollars: float) -> Decimal:
    """``dollars`` as the decimal number that the person wrote: 0.1 is exactly a tenth."""
    return Decimal(str(dollars))
