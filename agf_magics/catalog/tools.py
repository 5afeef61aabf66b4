"""Tools: Python functions that a flow may call by name; and what is read of any callable to make one.

Functions, bound methods, partials, callable objects, classes and builtins are inspected in
different ways: their name, their description, their signature, and whether they are async. The
signature is read when a tool is registered. The model of its annotations is built when it is first
needed: a later cell may define the types, and pydantic is imported only for calls.
"""

from __future__ import annotations

import functools
import inspect
import math
import sys
import types
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, get_args

from ..flow.patterns import unusable
from ..flow.step import DerivedTool
from ..flow.values import Value
from ..text.diagnostics import Diagnostic, StepError, suggest
from .throttle import Throttle, is_number
from .tool_context import ToolContext, is_context

if TYPE_CHECKING:
    from .annotations import ArgumentsModel

Where: TypeAlias = Literal["loop", "kernel", "thread", "worker"]
"""The place of a call: the engine's loop, the thread that waits for the run, another thread, a
worker of the run."""

Names: TypeAlias = list[str] | tuple[str, ...] | set[str] | frozenset[str] | str
"""Names for a decorator; a string is one name."""

F = TypeVar("F", bound=Callable[..., Any])

PLACES = get_args(Where)

_NO_FUNCTION = {
    "agent": "write the name as name=…; a model is agf.model_agent(NAME, model='openai:gpt-4o')"
}


def name_of(
    function: Callable[..., Any], what: str, name: str | None, group: str | None = None
) -> str:
    """The name to register ``function`` under: the one that is given, or its own; ``group`` makes
    ``group__name``."""
    if not callable(function):
        hint = _NO_FUNCTION.get(what, "write the name as name=…")
        raise TypeError(f"@{what} needs a function, not {function!r}; {hint}")
    own = getattr(function, "__name__", None)
    if name is None:
        if isinstance(function, functools.partial) or own == "<lambda>":
            kind = "a lambda" if own == "<lambda>" else "a partial"
            raise ValueError(f"{kind} has no name: write {what}(…, name=…)")
        name = own or type(function).__name__
    checked_name(name, what, "name")
    _refuse_shape(function, what, name)
    if group is None:
        return name
    checked_name(group, what, "group")
    return f"{group}__{name}"


def description_of(function: Callable[..., Any]) -> str:
    """The first line of its docstring; empty without one."""
    inner = _inner(function)
    if not inspect.isroutine(inner) and not inspect.isclass(inner):
        inner = inner if type(inner).__call__.__doc__ is None else type(inner).__call__
    lines = (inspect.getdoc(inner) or "").strip().splitlines()
    return lines[0].strip() if lines else ""


def is_async(function: Callable[..., Any]) -> bool:
    """Whether a call returns a coroutine."""
    inner = _inner(function)
    if inspect.iscoroutinefunction(inner):
        return True
    call = getattr(inner, "__call__", None)  # noqa: B004  # a method, not whether there is one
    return not inspect.isclass(inner) and inspect.iscoroutinefunction(call)


def signature_of(function: Callable[..., Any]) -> inspect.Signature | None:
    """None for a builtin without one (``math.log``)."""
    with suppress(ValueError):
        return inspect.signature(function)
    return None


def names_around(function: Callable[..., Any]) -> dict[str, Any]:
    """The globals that its annotations use."""
    inner = inspect.unwrap(_inner(function))
    if inspect.isclass(inner):
        return getattr(sys.modules.get(inner.__module__), "__dict__", {})
    if not hasattr(inner, "__globals__"):
        inner = inspect.unwrap(type(inner).__call__)
    found = getattr(inner, "__globals__", {})
    return found if isinstance(found, dict) else {}


def callable_by_name(
    function: Callable[..., Any], signature: inspect.Signature | None
) -> Callable[..., Any]:
    """``function``, wrapped if it has positional-only parameters, so that it can be called by
    names."""
    positional = (
        [p for p in signature.parameters.values() if p.kind is p.POSITIONAL_ONLY]
        if signature
        else []
    )
    if not positional:
        return function

    def by_name(**given: Any) -> Any:
        first = [given.pop(p.name, p.default) for p in positional]
        return function(*first, **given)

    return by_name


def checked_limits(where: object, timeout: Any) -> None:
    """Raise TypeError or ValueError for a wrong place or time."""
    if where is not None and where not in PLACES:
        raise ValueError(f"where must be one of {', '.join(map(repr, PLACES))}, got {where!r}")
    if timeout is None:
        return
    if not is_number(timeout):
        raise TypeError(f"timeout must be a number of seconds, got {timeout!r}")
    if not (math.isfinite(timeout) and timeout > 0):
        raise ValueError(f"timeout must be a number of seconds above 0, got {timeout!r}")


def checked_names(names: object, option: str) -> tuple[str, ...]:
    """The names for an option; a string is one name, not its letters."""
    if isinstance(names, str):
        return (names,)
    if not isinstance(names, (list, tuple, set, frozenset)) or not all(
        isinstance(n, str) for n in names
    ):
        raise TypeError(f"{option} must be a list of names, got {names!r}")
    return tuple(dict.fromkeys(names))


def checked_name(name: object, what: str, word: str) -> None:
    if not isinstance(name, str):
        raise TypeError(f"the {word} of {what} must be text, not {name!r}")
    if not name or any(c.isspace() or not c.isprintable() for c in name):
        raise ValueError(
            f"the {word} of {what} must be text without spaces, not {name!r}: write 'fetch_page'"
        )


def _refuse_shape(function: Callable[..., Any], what: str, name: str) -> None:
    inner = _inner(function)
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        raise ValueError(
            f"{what} {name!r} yields, but a call has one result: return a list instead"
        )
    if isinstance(inner, types.FunctionType):
        around = inner.__qualname__.rpartition(".")[0]
        first = next(iter(inspect.signature(inner).parameters), None)
        if first in ("self", "cls") and around and not around.endswith("<locals>"):
            raise ValueError(
                f"{around}.{name} is not bound to an object: register a bound method, "
                f"{what}(obj.{name})"
            )


def _inner(function: Callable[..., Any]) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    return function


def invalid_names(error: Exception) -> frozenset[str]:
    """The arguments that ``error`` is about, which `Arguments.validate` raised."""
    found = error.errors(include_url=False) if hasattr(error, "errors") else []
    return frozenset(str(e["loc"][0]) for e in found if e["loc"])


class Arguments:
    """``validate`` gives the checked arguments or raises pydantic's ValidationError, which
    `explain` makes readable."""

    def __init__(
        self,
        function: Callable[..., Any],
        what: str,
        *,
        secret: Collection[str] = (),
        unchecked: Collection[str] = (),
    ) -> None:
        """``what``: the subject of errors, ``tool 'fetch'``; ``secret``: parameters whose values
        are never shown; ``unchecked``: parameters whose annotations are not checked."""
        self._function, self._what = function, what
        self._refused: tuple[Diagnostic, ...] = ()
        self._model: ArgumentsModel | None = None
        self.signature = signature_of(function)
        """None: unknown."""
        self.parameters: dict[str, inspect.Parameter] = {}
        self.more = self.signature is None
        """Whether it takes other names too."""
        self.context: tuple[str, ...] = ()
        """The parameters that get a `ToolContext`; `validate` does not know them."""
        starred, names = "", names_around(function)
        for name, parameter in self.signature.parameters.items() if self.signature else ():
            if parameter.kind is parameter.VAR_KEYWORD:
                self.more = True
            elif parameter.kind is parameter.VAR_POSITIONAL:
                starred = name
            elif is_context(parameter.annotation, names):
                self.context = (*self.context, name)
            else:
                self.parameters[name] = parameter
        if starred and not self.more:
            raise ValueError(
                f"{what} cannot have *{starred}: arguments are passed by name, so write "
                f"{starred}: list"
            )
        self._unchecked = frozenset(unchecked)
        self.secret = frozenset(secret)
        self.validate: Callable[[dict[str, Value]], dict[str, Value]] = self._first

    @property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments."""
        return self._read().schema

    @property
    def problems(self) -> tuple[str, ...]:
        """Annotations that cannot be used; their arguments are not checked."""
        return self._read().doubts

    @property
    def refused(self) -> tuple[Diagnostic, ...]:
        """Patterns of the annotations that cannot be used, as errors (decision D5)."""
        self._read()
        return self._refused

    @property
    def takes(self) -> str:
        """``name (text), limit (number, optional)``"""
        from .annotations import takes

        return takes(self.schema)

    @cached_property
    def gives(self) -> dict[str, Any] | None:
        """JSON Schema of the result; None if it has no annotation or is not JSON."""
        if self.signature is None or self.signature.return_annotation is inspect.Signature.empty:
            return None
        from .annotations import schema_of

        return schema_of(self.signature.return_annotation, names_around(self._function))

    def explain(
        self, code: str, who: str, error: Exception, given: Mapping[str, Value]
    ) -> Diagnostic:
        """Everything that is wrong with ``given``; ``error``: raised by `validate`."""
        if not hasattr(error, "errors"):  # a validator in a user's class that raises anything else
            why = type(error).__name__ if self.secret else f"{type(error).__name__}: {error}"
            return Diagnostic(code, f"{who} cannot check its arguments: {why}")
        found = error.errors(include_url=False)
        hints = [
            suggest(e["loc"][0], self.parameters)
            for e in found
            if e["type"] == "extra_forbidden" and len(e["loc"]) == 1
        ]
        if any(e["type"] in ("extra_forbidden", "missing") for e in found):
            hints.append(f"it takes {self.takes}")
        plain = given.keys() - self.secret
        hints += [
            _unquoted(given[name], e["type"]) for e in found if (name := e["loc"][0]) in plain
        ]
        hint = " ".join(dict.fromkeys(filter(None, hints))) or None
        from .annotations import faults

        return Diagnostic(code, f"{who} {'; '.join(faults(found, given, self.secret))}", hint=hint)

    def _first(self, given: dict[str, Value]) -> dict[str, Value]:
        self._read()
        return self.validate(given)

    def _read(self) -> ArgumentsModel:
        # Types of later cells are looked up again here, but not at every call.
        if self._model is None or self._model.unresolved:
            from .annotations import build

            checked = {
                n: p.replace(annotation=Any) if n in self._unchecked else p
                for n, p in self.parameters.items()
            }
            self._model = build(checked, self.more, names_around(self._function), self.secret)
            self.validate = self._model.validate
            self._refused = unusable(self._model.schema, self._what)
        return self._model


def _unquoted(value: Value, wanted: str) -> str | None:
    """The hint for a value that YAML reads as another one than its author meant; ``wanted``: the
    kind of pydantic's error."""
    is_number = isinstance(value, str) and value.replace(".", "", 1).lstrip("-").isdecimal()
    if is_number and wanted.startswith(("int_", "float_")):
        return f"a number has no quotes: {value}"
    if isinstance(value, dict) and list(value.values()) == [None] and wanted.startswith("string_"):
        return f"write it without braces: {next(iter(value))}"
    return None


MASK = "•••"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Tool:
    """A tool and its options. Called as ``function(**check(given))``."""

    name: str
    function: Callable[..., Any]
    """Called with keyword arguments."""
    arguments: Arguments
    description: str = ""
    where: Where | None = None
    """None: decided from the flow."""
    timeout: float | None = None
    """Seconds."""
    reuse: bool = True
    is_async: bool = False
    kernel_only: bool = False
    """Whether it needs this process and its folder, so that it never runs on a worker."""
    listed_only: bool = False
    """Whether a model is offered it only where it is listed: a built-in tool (decision A12)."""
    resources: Mapping[str, float] = field(default_factory=dict)
    """What a call needs of its worker, by name."""
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

    def check(self, given: dict[str, Value]) -> dict[str, Value]:
        """The keyword arguments to call it with. Raises StepError ``tool.arguments`` with
        everything that is wrong."""
        try:
            return self.arguments.validate(given)
        except Exception as error:  # pydantic's, or any other of a validator in a user's class
            failure = error
        # Not in the except: its cause would have the values, secrets included.
        found = StepError(
            self.arguments.explain("tool.arguments", f"tool {self.name!r}", failure, given)
        )
        found.arguments = invalid_names(failure)
        raise found


def derive(spec: DerivedTool, base: Tool) -> Tool:
    """The tool that a definition makes from the registered tool ``base``."""

    def arguments(given: dict[str, Any]) -> dict[str, Any]:
        context = dict.fromkeys(base.context, given.pop(_CONTEXT, None))
        return {**base.check(dict(spec.arguments(given))), **context}

    def call(**given: Value) -> Value:
        return spec.result(base.function(**arguments(given)))

    async def call_async(**given: Value) -> Value:
        return spec.result(await base.function(**arguments(given)))

    function: Any = call_async if base.is_async else call
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter(name, keyword) for name in spec.parameters]
    if base.context:
        parameters.append(inspect.Parameter(_CONTEXT, keyword, annotation=ToolContext))
    function.__signature__ = inspect.Signature(parameters)
    function.__name__, function.__doc__ = spec.name, spec.description
    made = make_tool(function, spec.name, base.where, base.timeout, base.reuse, ())
    return replace(made, throttle=base.throttle)


_CONTEXT = "_tool_context"


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
    checked_limits(where, timeout)
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
