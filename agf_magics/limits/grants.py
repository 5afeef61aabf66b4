"""The tools that the code of a run may call. A person grants them; a definition only narrows them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import ContextVar
from typing import Any, NamedTuple

from ..catalog import USER
from ..values.value import is_awaitable

LAUNCHES = frozenset(
    {"run_pipeline", "run_pipeline_async", "run_pipeline_inline", "run_pipeline_inline_async"}
)
"""Tools that start or steer runs. No step may call them: a run nests with `call` (decision A13)."""

RUN_RESULT = "run_result"
"""The tool with which an agent outside of a run gets the result of a run that it started."""

OFFERED = "pipeline__"
"""The prefix of a registered flow as a tool of an agent outside of a run."""


class Grant(NamedTuple):
    """The identity of a step and the tools that it may use."""

    identity: str = USER
    tools: frozenset[str] | None = None
    """The names of the tools; None: every registered tool."""
    only_if_asking: frozenset[str] = frozenset()
    """Tools for a step that asks a person before the call. The code that this step calls does not
    get them: it would not ask (AMB-35, decision D160)."""
    barred: frozenset[str] = frozenset()
    """Tools that a caller may use only in steps that ask a person. No step may use them here,
    unless the flow itself names them as tools that ask (``asked`` of `narrow`)."""

    def allows(self, tool: str, asks: bool = False) -> bool:
        """Whether a step may call ``tool``. ``asks``: whether the step asks a person; default
        False."""
        if asks and tool in self.only_if_asking:
            return True
        if tool in LAUNCHES or tool in self.only_if_asking or tool in self.barred:
            return False
        return self.tools is None or tool in self.tools

    def narrow(
        self,
        *tools: Iterable[str] | None,
        identity: str | None = None,
        asked: frozenset[str] = frozenset(),
        barred: frozenset[str] = frozenset(),
    ) -> Grant:
        """This grant, limited to the tools that each of ``tools`` has (None: not limited) and with
        ``barred`` barred. ``identity``: the new identity; None: as before. ``asked``: the tools
        that only a step that asks a person may use."""
        # Nobody asks below a step that asks, so what only that step may use is barred from here on.
        barred |= self.barred | self.only_if_asking
        allowed = self.tools
        for more in tools:
            if more is not None:
                allowed = frozenset(more) if allowed is None else allowed & frozenset(more)
        if allowed is None:
            return Grant(identity or self.identity, None, asked - LAUNCHES, barred - asked)
        asked = allowed & asked - LAUNCHES
        return Grant(identity or self.identity, allowed - asked, asked, barred - asked)


ANYTHING = Grant()
"""The grant of the person: every tool."""

granted: ContextVar[Grant] = ContextVar("granted", default=ANYTHING)
"""The grant of the user code that runs; a run that it starts gets no more. Read it with
`rights`."""


def granting(grant: Grant, function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """``function(**arguments)`` under ``grant``, also while its result is awaited."""
    # Set here and in `_awaiting`: a coroutine function runs nothing before it is awaited, and that
    # may happen in another context.
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
"""Whether the code runs inside a run. Read it with `rights`."""
