"""Tools: Python functions that a flow may call by name. A decorator registers one and returns it unchanged."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, overload

from ..flow.declared import DerivedTool
from ..flow.values import Value
from ..text.diagnostics import Diagnostic, StepError, suggest
from .arguments import Arguments, invalid_names
from .callables import (
    F,
    Names,
    Where,
    callable_by_name,
    checked_limits,
    checked_names,
    description_of,
    is_async,
    name_of,
)
from .registry import Registry, into

MASK = "•••"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Tool:
    """A function with what is said of it. Called as ``function(**check(given))``."""

    name: str
    function: Callable[..., Any]
    """To be called with keyword arguments."""
    arguments: Arguments
    description: str = ""
    where: Where | None = None
    """None: decided from the flow."""
    timeout: float | None = None
    """Seconds."""
    reuse: bool = True
    is_async: bool = False

    def __repr__(self) -> str:
        return f"<Tool {self.name}({self.takes})>"

    @property
    def secret(self) -> frozenset[str]:
        """Arguments that are shown and kept as `MASK`."""
        return self.arguments.secret

    @property
    def accepts(self) -> dict[str, Any]:
        """JSON Schema of its arguments."""
        return self.arguments.schema

    @property
    def gives(self) -> dict[str, Any] | None:
        """JSON Schema of its result; None where its annotation does not say, or it is not JSON."""
        return self.arguments.gives

    @property
    def takes(self) -> str:
        """Its arguments in a line: ``name (text), limit (number, optional)``."""
        return self.arguments.takes

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """Annotations that cannot be used, asked for when a flow is linked: a later cell may have cured them."""
        return tuple(
            Diagnostic("tool.annotation", f"tool {self.name!r}: {doubt}", severity="warning")
            for doubt in self.arguments.doubts
        )

    def check(self, given: dict[str, Value]) -> dict[str, Value]:
        """The keyword arguments to call it with; a StepError ``tool.arguments`` says everything that is wrong."""
        try:
            return self.arguments.validate(given)
        except Exception as error:  # pydantic's, or whatever a validator of somebody's class raises
            wrong = error
        # Raised out here: the cause would carry the values, and a secret is one of them.
        found = StepError(self.arguments.explain("tool.arguments", f"tool {self.name!r}", wrong, given))
        found.arguments = invalid_names(wrong)
        raise found


@overload
def tool(
    function: F, /, *, name: str | None = ..., registry: Registry | None = ..., timeout: float | None = ...,
    where: Where | None = ..., reuse: bool = ..., secret: Names = ..., group: str | None = ...,
) -> F: ...  # fmt: skip
@overload
def tool(
    *, name: str | None = ..., registry: Registry | None = ..., timeout: float | None = ...,
    where: Where | None = ..., reuse: bool = ..., secret: Names = ..., group: str | None = ...,
) -> Callable[[F], F]: ...  # fmt: skip
def tool(
    function: F | None = None,
    /,
    *,
    name: str | None = None,
    registry: Registry | None = None,
    timeout: float | None = None,
    where: Where | None = None,
    reuse: bool = True,
    secret: Names = (),
    group: str | None = None,
) -> F | Callable[[F], F]:
    """Register a function as a tool and return it unchanged. A tool that has the same name is replaced.

        @tool
        def fetch(name: str) -> dict: ...

        @tool(timeout=30, secret=["token"])
        async def search(query: str, token: str) -> list[str]: ...

        tool(client.search)
        tool(functools.partial(fetch, limit=3), name="fetch_three")

    Parameters:

    - ``function``: the function. Default None: the call returns a decorator.
    - ``name``: the name of the tool. Default None: the name of the function.
    - ``registry``: the `Registry` to register in. Default None: the registry of this process.
    - ``timeout``: the longest time that one call may take, in seconds. Default None: the limits of the run decide.
    - ``where``: the place where the function runs: ``"loop"``, ``"kernel"`` or ``"worker"``. Default None: decided from
      the flow.
    - ``reuse``: whether ``--reuse`` may use an earlier result for an identical call. Use False if a call has an effect
      or depends on the time. Default True.
    - ``secret``: the names of arguments that are never shown or stored. Default: none.
    - ``group``: a prefix: ``group="a"`` registers ``a__b``. Default None: no prefix.
    """

    def register(function: F) -> F:
        made = _make(
            function, name_of(function, "tool", name, group), where, timeout, reuse, checked_names(secret, "secret")
        )
        into(registry).tools.add(made)
        return function

    return register if function is None else register(function)


def derive(spec: DerivedTool, base: Tool) -> Tool:
    """The tool that a definition makes from the registered tool ``base``."""

    def call(**given: Value) -> Value:
        return spec.result(base.function(**base.check(dict(spec.arguments(given)))))

    async def call_async(**given: Value) -> Value:
        return spec.result(await base.function(**base.check(dict(spec.arguments(given)))))

    function: Any = call_async if base.is_async else call
    parameters = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in spec.parameters]
    function.__signature__ = inspect.Signature(parameters)
    function.__name__, function.__doc__ = spec.name, spec.description
    return _make(function, spec.name, base.where, base.timeout, base.reuse, ())


def _make(
    function: Callable[..., Any],
    name: str,
    where: Where | None,
    timeout: float | None,
    reuse: bool,
    secret: tuple[str, ...],
) -> Tool:
    checked_limits(where, timeout)
    if not isinstance(reuse, bool):
        raise TypeError(f"reuse is True or False, not {reuse!r}")
    arguments = Arguments(function, f"tool {name!r}", secret=secret)
    for hidden in secret:
        if hidden not in arguments.parameters and not arguments.more:
            hint = suggest(hidden, arguments.parameters, "its arguments")
            raise ValueError(f"tool {name!r} has no argument {hidden!r} to keep secret" + (f": {hint}" if hint else ""))
    return Tool(
        name=name,
        function=callable_by_name(function, arguments.signature),
        arguments=arguments,
        description=description_of(function),
        where=where,
        timeout=timeout,
        reuse=reuse,
        is_async=is_async(function),
    )
