"""`Tool`, a function that a flow may call by name, with its options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ...text.diagnostics import Diagnostic, StepError
from ...text.raised import RAISED
from ...text.suggestions import suggest
from ...values.value import Value
from .arguments import Arguments
from .callables import Where, callable_by_name, check_limits, description_of, is_async
from .schema_arguments import SchemaArguments
from .throttle import Throttle, is_number

MASK = "•••"
"""The text in place of a secret."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Tool:
    """A tool and its options. A call is ``function(**check(arguments))``."""

    name: str
    function: Callable[..., Any]
    """Called with keyword arguments."""
    arguments: Arguments | SchemaArguments
    description: str = ""
    where: Where | None = None
    """The place of its calls; None: decided from the flow."""
    timeout: float | None = None
    """The longest time of a call, in seconds; None: only the step and the run limit it."""
    reuse: bool = True
    """Whether a later run may use a result again; False: the call has an effect."""
    is_async: bool = False
    """Whether a call returns a coroutine."""
    kernel_only: bool = False
    """Whether the tool needs this process and its folder, so that it never runs on a worker."""
    listed_only: bool = False
    """Whether models are offered the tool only if it is listed, as a built-in tool (decision
    A12)."""
    resources: Mapping[str, float] = field(default_factory=dict)
    """The resources that a call needs of its worker, by name."""
    digest: str | None = None
    """The digest that ``--reuse`` compares, in place of the digest of the function's code; None:
    the code decides."""
    asks_first: bool = False
    """Whether a person must approve each call that a model picks, because the tool is from a server
    that the person does not trust."""
    server: str = ""
    """The local name of the MCP server with the tool; empty: the tool is from no server."""
    server_ref: str = ""
    """The name of that server in documents (``server_ref``)."""
    throttle: Throttle | None = None
    """The limits and the retries of the calls; None: there are none."""

    def __repr__(self) -> str:
        return f"<Tool {self.name}({self.takes})>"

    @property
    def secret(self) -> frozenset[str]:
        """The arguments that are shown and journaled as `MASK`."""
        return self.arguments.secret

    @property
    def context(self) -> tuple[str, ...]:
        """The parameters that get a `ToolContext`."""
        return self.arguments.context

    @property
    def accepts(self) -> dict[str, Any]:
        """The JSON Schema of the arguments."""
        return self.arguments.schema

    @property
    def gives(self) -> dict[str, Any] | None:
        """The JSON Schema of the result; None if the result has no annotation or is not JSON."""
        return self.arguments.gives

    @property
    def takes(self) -> str:
        """The arguments in one line: ``name (text), limit (number, optional)``."""
        return self.arguments.takes

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """The warnings about annotations that cannot be used. They are read when a flow is linked,
        because a later cell may define the missing names."""
        return tuple(
            Diagnostic("tool.annotation", f"tool {self.name!r}: {doubt}", severity="warning")
            for doubt in self.arguments.problems
        )

    def renewed(self) -> Tool:
        """The tool with the current parameters of its function. It is this tool if nothing has
        changed, or if the parameters do not fit a tool any more."""
        if self.arguments.are_current:
            return self
        function = self.arguments.function
        assert function is not None, "a schema is always current"
        name = self.name
        secret = tuple(self.secret)
        try:
            tool = make_tool(function, name, self.where, self.timeout, self.reuse, secret)
        except (TypeError, ValueError):  # the next registration reports it
            return self
        # What follows from the function is new; all other options stay.
        same = {"function", "arguments", "description", "is_async"}
        return replace(self, **{option: getattr(tool, option) for option in same})

    def check(
        self, arguments: dict[str, Value], changes: Mapping[str, Value] | None = None
    ) -> dict[str, Value]:
        """The keyword arguments for the call. Raises StepError ``tool.arguments`` with all mistakes.
        ``changes``: the values that replace some of ``arguments``, which are checked already;
        None: nothing is checked yet."""
        try:
            if changes is None:
                return self.arguments.validate(arguments)
            return self.arguments.validate_changed(arguments, changes)
        except RAISED as error:  # from pydantic, or from a validator of a user's class
            failure = error
        arguments = {**arguments, **(changes or {})}
        # Raised outside of `except`: otherwise the values, secrets included, would be in its cause.
        step_error = StepError(
            self.arguments.explain("tool.arguments", f"tool {self.name!r}", failure, arguments)
        )
        step_error.arguments = self.arguments.wrong_names(failure)
        raise step_error

    def refused_literal(self, name: str, value: Value) -> Diagnostic | None:
        """What is wrong with ``value`` as the argument ``name``, as far as no code of a user decides;
        None: nothing."""
        return self.arguments.refused_literal("tool.arguments", f"tool {self.name!r}", name, value)

    def check_unread(self, arguments: dict[str, Value]) -> dict[str, Value] | None:
        """`check` for arguments of which some are unread; None: they must be read, because some do
        not fit or may be converted."""
        if not isinstance(self.arguments, Arguments):
            return None
        try:
            return self.arguments.validate_unread(arguments)
        except RAISED:
            return None


def are_resources(value: object) -> bool:
    """Whether ``value`` is a mapping of names to numbers above 0, such as ``{"gpu": 1}``."""
    if not isinstance(value, Mapping):
        return False
    has_names = all(isinstance(name, str) for name in value)
    return has_names and all(is_number(amount) and amount > 0 for amount in value.values())


def make_tool(
    function: Callable[..., Any],
    name: str,
    where: Where | None,
    timeout: float | None,
    reuse: bool,
    secret: tuple[str, ...],
    resources: Mapping[str, float] | None = None,
    throttle: Throttle | None = None,
) -> Tool:
    """The tool for ``function`` with the options of `@tool`. Raises TypeError or ValueError for
    wrong options."""
    check_limits(where, timeout)
    if resources is not None and not are_resources(resources):
        raise TypeError(
            f"resources must be a mapping of names to numbers above 0, got {resources!r}"
        )
    if not isinstance(reuse, bool):
        raise TypeError(f"reuse must be True or False, got {reuse!r}")
    arguments = Arguments(function, f"tool {name!r}", secret=secret)
    _check_secrets(name, arguments)
    return Tool(
        name=name,
        function=callable_by_name(function, arguments.signature),
        arguments=arguments,
        description=description_of(function),
        where=where,
        timeout=timeout,
        reuse=reuse,
        is_async=is_async(function),
        resources=dict(resources or {}),
        throttle=throttle,
    )


def _check_secrets(name: str, arguments: Arguments) -> None:
    """Raises ValueError for a secret that is no argument of the tool ``name``."""
    for hidden in arguments.secret:
        hint = suggest(hidden, arguments.parameters, "its arguments")
        if hidden == arguments.starred:
            hint = f"**{hidden} are other arguments, so name the secret one"
        elif hidden in arguments.parameters or arguments.more:
            continue
        raise ValueError(
            f"secret: tool {name!r} has no argument {hidden!r}" + (f": {hint}" if hint else "")
        )
