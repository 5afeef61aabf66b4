"""A tool: a Python function that a flow may call by name, with its options."""

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


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Tool:
    """A tool and its options. Called as ``function(**check(given))``."""

    name: str
    function: Callable[..., Any]
    """Called with keyword arguments."""
    arguments: Arguments | SchemaArguments
    description: str = ""
    where: Where | None = None
    """The thread of its calls; None: decided from the flow."""
    timeout: float | None = None
    """Seconds."""
    reuse: bool = True
    is_async: bool = False
    kernel_only: bool = False
    """Whether it needs this process and its folder, so that it never runs on a worker."""
    listed_only: bool = False
    """Whether a model is offered it only where it is listed: a built-in tool (decision A12)."""
    resources: Mapping[str, float] = field(default_factory=dict)
    """The resources that a call needs of its worker, by name."""
    digest: str | None = None
    """What its results are reused by, in place of the code of its function (``--reuse``); None: its
    code."""
    asks_first: bool = False
    """Whether a person approves each call that a model picks: the tool of a server that the person
    does not trust."""
    server: str = ""
    """The MCP server that has it: its name here; empty: it is of no server."""
    server_ref: str = ""
    """The name of that server in documents (``server_ref``)."""
    throttle: Throttle | None = None
    """How its calls are repeated, and how many are made at a time; None: each at once, and once."""

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
        """JSON Schema of its arguments."""
        return self.arguments.schema

    @property
    def gives(self) -> dict[str, Any] | None:
        """JSON Schema of its result; None if it has no annotation or is not JSON."""
        return self.arguments.gives

    @property
    def takes(self) -> str:
        """Its arguments in one line: ``name (text), limit (number, optional)``."""
        return self.arguments.takes

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """Annotations that cannot be used. Read when a flow is linked: a later cell may define what
        they need."""
        return tuple(
            Diagnostic("tool.annotation", f"tool {self.name!r}: {doubt}", severity="warning")
            for doubt in self.arguments.problems
        )

    def renewed(self) -> Tool:
        """The tool with the present parameters of its function; the same one if nothing has
        changed, or if they do not fit a tool any more."""
        if self.arguments.are_current:
            return self
        function = self.arguments.function
        assert function is not None, "a schema is always current"
        name = self.name
        secret = tuple(self.secret)
        try:
            tool = make_tool(function, name, self.where, self.timeout, self.reuse, secret)
        except (TypeError, ValueError):  # told where it is registered again
            return self
        same = {"function", "arguments", "description", "is_async"}
        return replace(self, **{each: getattr(tool, each) for each in same})

    def check(self, arguments: dict[str, Value]) -> dict[str, Value]:
        """The keyword arguments to call it with. Raises StepError ``tool.arguments`` with
        everything that is wrong."""
        try:
            return self.arguments.validate(arguments)
        except RAISED as error:  # pydantic's, or any other of a validator in a user's class
            failure = error
        # Not in the except: its cause would have the values, secrets included.
        step_error = StepError(
            self.arguments.explain("tool.arguments", f"tool {self.name!r}", failure, arguments)
        )
        step_error.arguments = self.arguments.wrong_names(failure)
        raise step_error

    def check_unread(self, arguments: dict[str, Value]) -> dict[str, Value] | None:
        """As `check`, for arguments of which some are not read yet; None: they must be read, as some
        do not fit or may become other values."""
        if not isinstance(self.arguments, Arguments):
            return None
        try:
            return self.arguments.validate_unread(arguments)
        except RAISED:
            return None


def are_resources(value: object) -> bool:
    """Whether ``value`` is a mapping of names to numbers above 0, such as ``{"gpu": 1}``."""
    return isinstance(value, Mapping) and all(
        isinstance(name, str) and is_number(amount) and amount > 0 for name, amount in value.items()
    )


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
    check_limits(where, timeout)
    if resources is not None and not are_resources(resources):
        raise TypeError(
            f"resources must be a mapping of names to numbers above 0, got {resources!r}"
        )
    if not isinstance(reuse, bool):
        raise TypeError(f"reuse must be True or False, got {reuse!r}")
    arguments = Arguments(function, f"tool {name!r}", secret=secret)
    for hidden in secret:
        if hidden not in arguments.parameters and not arguments.more:
            hint = suggest(hidden, arguments.parameters, "its arguments")
            raise ValueError(
                f"secret: tool {name!r} has no argument {hidden!r}" + (f": {hint}" if hint else "")
            )
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
