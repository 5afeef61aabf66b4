"""Limits and grants, which apply to everything below a run. A person sets them; a definition cannot
widen them.

The rights of code: what it may use, and whether it runs inside a run.

Two context variables hold them; coroutines, tasks and callbacks inherit them. A thread does not
(before Python 3.14): so after the first run, `threading.Thread.start` and
`ThreadPoolExecutor.submit` pass on the rights of the caller (decision D2). Code outside of a run is
not affected.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import Context, ContextVar
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

from ..catalog import USER
from ..flow.step import Caps
from ..text.diagnostics import Diagnostic, Span, StepError
from .user_code import is_awaitable, running

LAUNCHES = frozenset(
    {"run_pipeline", "run_pipeline_async", "run_pipeline_inline", "run_pipeline_inline_async"}
)
"""Never tools of a step: a run nests with `call` (decision A13)."""

RUN_RESULT = "run_result"
"""The tool with which an agent outside of a run gets the result of a run that it started."""

OFFERED = "pipeline__"
"""The prefix of a registered flow as a tool of an agent outside of a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one run; 0 means no limit."""

    fan_out_depth: int = 5
    """The depth of nested fan-outs (for_each, agf.batch, map, instances), through calls of any
    language."""
    spawns: int = 100
    """The number of agent steps of pipelines and sessions of models; retries count again."""
    timeout: float | None = None
    """Seconds for the whole run; None: no limit."""
    model_timeout: float | None = 300.0
    """Seconds for one reply of a model; None: no limit."""
    step_timeout: float | None = None
    """Seconds for one call of a tool, agent or transform, in addition to its own ``timeout``; None:
    no limit."""

    max_tokens: int = 0
    """Tokens of all models, input and output together."""
    max_cost: float = 0.0
    """US dollars for all models. A model without a known price is then not asked."""

    def __post_init__(self) -> None:
        cost = self.max_cost
        # `not >=` instead of `<`: NaN would pass, as a limit that nothing reaches.
        if type(cost) not in (int, float) or not cost >= 0:
            raise ValueError(f"max_cost is a number of US dollars, 0 or more, not {cost!r}")
        for name in ("fan_out_depth", "spawns", "max_tokens"):
            most = getattr(self, name)
            if type(most) is not int or most < 0:
                raise ValueError(f"{name} is a whole number, 0 or more, not {most!r}")
        for name in ("timeout", "step_timeout", "model_timeout"):
            seconds = getattr(self, name)
            if seconds is not None and (type(seconds) not in (int, float) or not seconds > 0):
                raise ValueError(f"{name} is a number of seconds above 0 or None, not {seconds!r}")


def shortest(*seconds: float | None) -> float | None:
    """The shortest of several time limits; None: there is none."""
    return min(filter(None, seconds), default=None)  # none is 0


class LimitReached(StepError):
    """A limit was exceeded. ``on_error`` neither retries nor drops this error (decision P15)."""

    ends_run = False
    """Whether it is a limit of a whole run, also where the limits count for each row."""


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
        most, dollars = self.limits.max_tokens, self.limits.max_cost
        if most and self.tokens > most:
            message = f"this run has used {self.tokens:,} tokens of the {most:,} it may"
            raise LimitReached(
                Diagnostic("limit.tokens", message, hint=_SET_BY.format("max_tokens", "max-tokens"))
            )
        if dollars and self.cost > _decimal(dollars):
            message = f"this run has cost ${self.cost:f} of the ${dollars:g} it may"
            raise LimitReached(
                Diagnostic("limit.cost", message, hint=_SET_BY.format("max_cost", "max-cost"))
            )

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
                    _raise_it("spawns"),
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
            raise LimitReached(Diagnostic("limit.spawns", message, span, _raise_it("spawns")))

    def deepen(self, depth: int, span: Span | None) -> None:
        """Refuse a fan-out (for_each, batch, map, instances) at nesting level ``depth``."""
        most = self.limits.fan_out_depth
        if most and depth > most:
            message = f"fan-outs may nest {most} deep, and this one would be number {depth}"
            raise LimitReached(
                Diagnostic("limit.fan-out-depth", message, span, _raise_it("fan_out_depth"))
            )


class Meter:
    """What one run of a definition and its calls have used of its own limits (`Caps`)."""

    __slots__ = ("below", "caps", "cost", "model_calls", "name", "tokens", "tool_calls")

    def __init__(self, name: str, caps: Caps, below: int) -> None:
        self.name = name
        self.caps = caps
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
        most, dollars = self.caps.tokens, self.caps.cost
        if dollars is not None and self.cost > _decimal(dollars):
            raise self._reached("limit.cost", f"has cost ${self.cost:f} of the ${dollars:g} it may")
        if most is not None and self.tokens > most:
            raise self._reached(
                "limit.tokens", f"has used {self.tokens:,} tokens of the {most:,} it may"
            )

    def open(self, calls: int) -> None:
        """Refuse a flow or agent at nesting level ``calls``."""
        most = self.caps.depth
        if most is not None and calls - self.below > most:
            raise self._reached(
                "limit.delegation-depth", f"may delegate {most} deep, and this would be one more"
            )

    def _count(self, what: str, code: str, words: str) -> None:
        most = getattr(self.caps, what)
        if most is not None and getattr(self, what) >= most:
            few = words.format(s="" if most == 1 else "s")
            raise self._reached(code, f"may make {most} {few}, and this would be one more")
        setattr(self, what, getattr(self, what) + 1)

    def _reached(self, code: str, what: str) -> LimitReached:
        return LimitReached(
            Diagnostic(
                code, f"{self.name!r} {what}", self.caps.span, "the definition sets this limit"
            )
        )


class Grant(NamedTuple):
    """The identity of a step and the tools that it may use."""

    identity: str = USER
    tools: frozenset[str] | None = None
    """None: every registered tool."""
    asked: frozenset[str] = frozenset()
    """Further tools, for a step that asks a person before the call. What it calls does not get
    them: it would not ask (AMB-35)."""

    def allows(self, tool: str, asks: bool = False) -> bool:
        """``asks``: whether the step asks a person."""
        if asks and tool in self.asked:
            return True
        return tool not in LAUNCHES and (self.tools is None or tool in self.tools)

    def narrow(
        self,
        *tools: Iterable[str] | None,
        identity: str | None = None,
        asked: frozenset[str] = frozenset(),
    ) -> Grant:
        """This grant, limited to ``tools`` (None: not limited), of which ``asked`` are for steps
        that ask a person."""
        allowed = self.tools
        for more in tools:
            if more is not None:
                allowed = frozenset(more) if allowed is None else allowed & frozenset(more)
        if allowed is None:
            return Grant(identity or self.identity)
        return Grant(identity or self.identity, allowed - asked, allowed & asked - LAUNCHES)


ANYTHING = Grant()
"""The grant of the person: every tool."""

granted: ContextVar[Grant] = ContextVar("granted", default=ANYTHING)
"""The grant of the user code that runs; a run that it starts gets no more. Read it with
`rights`."""


def granting(grant: Grant, function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """``function(**arguments)`` under ``grant``, also while its result is awaited."""
    # Set twice: a coroutine function runs nothing before it is awaited, perhaps in another context.
    before = granted.set(grant)
    try:
        value = function(**arguments)
    finally:
        granted.reset(before)
    return _awaiting(grant, value) if is_awaitable(value) else value


async def _awaiting(grant: Grant, value: Awaitable[Any]) -> Any:
    before = granted.set(grant)
    try:
        return await value
    finally:
        granted.reset(before)


inside: ContextVar[bool] = ContextVar("inside", default=False)


_SET_BY = (
    "%config AgfMagics.{0}, --{1} and, in Python, limits=Limits({0}=…) set the limit; 0 means none"
)


def _decimal(dollars: float) -> Decimal:
    """As the person wrote it: 0.1 is a tenth."""
    return Decimal(str(dollars))


def _raise_it(what: str) -> str:
    return (
        f"%config AgfMagics.max_pipeline_{what} sets the cap (in Python: "
        f"limits=Limits({what}=…)); 0 means none"
    )


class Rights(NamedTuple):
    grant: Grant = ANYTHING
    """What a run that it starts may use."""
    inside: bool = False
    """Whether it runs inside a run, where it must not launch runs."""


PERSON = Rights()
"""The rights of code outside of runs."""

NO_RIGHTS = Rights(Grant(tools=frozenset()), True)
"""The rights of the engine's thread; the code on it has the rights of its run."""


class _ThreadRights(threading.local):
    rights: Rights | None = None
    """The rights of the tool that started this thread."""


_thread = _ThreadRights()


def rights() -> Rights:
    """The rights of the caller.

    Code can leave its context (``contextvars.Context().run``): then those of the call on this
    thread count, or of the code that started the thread.
    """
    around = running.call.context if running.call is not None else Context()
    other = _thread.rights or PERSON
    # With defaults of their own: a context without them is one that the code has made itself.
    return Rights(
        granted.get(around.get(granted, other.grant)), inside.get(around.get(inside, other.inside))
    )


def refuse_inside(launch: str) -> None:
    """Raise StepError for a launch inside a run (decision A13)."""
    if rights().inside:
        hint = "nest with a call step; Python code in a tool may use agf_magics.run"
        raise StepError(
            Diagnostic(
                "flow.launch", f"a pipeline cannot be launched inside a run: {launch}", hint=hint
            )
        )


def watch_threads() -> None:
    """Give each thread that a tool starts the rights of the tool, from now on."""
    # Once, also if the extension is loaded again; and only from the first run on, so that importing
    # the package changes no class of Python.
    if not hasattr(threading.Thread.start, "agf_rights"):
        threading.Thread.start = _starting(threading.Thread.start)  # type: ignore[method-assign, assignment]
        ThreadPoolExecutor.submit = _submitting(ThreadPoolExecutor.submit)  # type: ignore[method-assign]


def _starting(start: Callable[[threading.Thread], None]) -> Callable[[threading.Thread], None]:
    @functools.wraps(start)
    def started(self: threading.Thread) -> None:
        mine = rights()
        if mine == PERSON:
            return start(self)
        # That of this object: a subclass, or the tool itself, may define one.
        run = self.run

        def run_with_rights() -> None:
            # First, so that the thread's own code finds the `run` that it has written.
            self.run = run  # type: ignore[method-assign]
            under(mine, run)

        self.run = run_with_rights  # type: ignore[method-assign]
        try:
            return start(self)
        except RuntimeError:  # it was started before, or there are no more threads
            self.run = run  # type: ignore[method-assign]
            raise

    started.agf_rights = True  # type: ignore[attr-defined]
    return started


def _submitting(submit: Callable[..., Future[Any]]) -> Callable[..., Future[Any]]:
    @functools.wraps(submit)
    def submitted(
        self: ThreadPoolExecutor, fn: Callable[..., Any], /, *args: Any, **named: Any
    ) -> Future[Any]:
        mine = rights()
        # A pool of interpreters pickles its arguments, and other interpreters have no runs.
        if mine == PERSON or type(self).__name__ == "InterpreterPoolExecutor":
            return submit(self, fn, *args, **named)
        return submit(self, under, mine, fn, *args, **named)

    return submitted


def under(mine: Rights, function: Callable[..., Any], /, *args: Any, **named: Any) -> Any:
    """``function(*args, **named)`` with the rights ``mine``."""
    # On the thread too: code can leave its context, but not its thread.
    before, _thread.rights = _thread.rights, mine
    grant, within = granted.set(mine.grant), inside.set(mine.inside)
    try:
        return function(*args, **named)
    finally:
        granted.reset(grant)
        inside.reset(within)
        _thread.rights = before
