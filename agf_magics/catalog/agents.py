"""`Agent`, a Python function that answers a prompt: its arguments and the check of its replies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from inspect import Parameter
from typing import Any, Literal, NoReturn

from ..flow.sessions.session import format_for_model, format_prompt, read_json, strip_fence
from ..schemas.schema import Schema, conform
from ..text.diagnostics import Diagnostic, StepError
from ..text.raised import RAISED
from ..text.suggestions import suggest
from ..values.value import Value, isolate
from .tools.arguments import Arguments, errors_of
from .tools.callables import Where, callable_by_name, check_limits, description_of, is_async

USER = "user"
"""The identity of the person in the notebook, which may use all tools (decision A12). No agent can
have it."""

HANDED = ("prompt", "input", "schema", "tools", "identity")
"""The parameters that a caller fills; any other parameter is a field of the input object."""

OURS = frozenset({"schema", "tools", "identity"})
"""The parameters whose values do not come from the data of a run. Their annotations are not
checked."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Agent:
    """A function that answers prompts, called as ``function(**arguments(...))``. `check_reply`
    checks its value."""

    name: str
    function: Callable[..., Any]
    """Called with keyword arguments."""
    takes: Arguments
    description: str = ""
    tools: tuple[str, ...] | None = None
    """The tools that the agent may use; None: all registered tools."""
    default: bool = False
    """Whether the agent answers steps that name no identity."""
    where: Where | None = None
    """The place of its calls; None: decided from the flow."""
    timeout: float | None = None
    """The longest time of a call, in seconds; None: only the step and the run limit it."""
    is_async: bool = False
    """Whether a call returns a coroutine."""
    only: str | None = field(init=False)
    """The only parameter, if it has no annotation and its name is not in `HANDED`; else None."""
    handed: tuple[str, ...] = field(init=False)
    """The parameters of the function that are in `HANDED`."""
    fields: tuple[str, ...] = field(init=False)
    """The other parameters, which are fields of the input object."""

    def __repr__(self) -> str:
        return f"<Agent {self.name}({', '.join(self.takes.parameters)})>"

    def __post_init__(self) -> None:  # computed once: an agent is called often
        parameters = self.takes.parameters
        only = None
        if len(parameters) == 1 and not self.takes.more:
            ((name, parameter),) = parameters.items()
            if name not in HANDED and parameter.annotation is parameter.empty:
                only = name
        object.__setattr__(self, "only", only)
        object.__setattr__(self, "handed", tuple(name for name in HANDED if name in parameters))
        object.__setattr__(self, "fields", tuple(name for name in parameters if name not in HANDED))

    def renewed(self) -> Agent:
        """The agent with the current parameters of its function. It is this agent if nothing has
        changed, or if the parameters do not fit an agent any more."""
        if self.takes.are_current:
            return self
        function = self.takes.function
        where = self.where
        timeout = self.timeout
        try:
            return make_agent(function, self.name, self.tools, self.default, where, timeout)
        except (TypeError, ValueError):  # the next registration reports it
            return self

    @property
    def answers(self) -> tuple[str, tuple[str, ...] | None]:
        """The name of the agent, and the tools that it may use at most; None: all."""
        return self.name, self.tools

    @property
    def prompt_only(self) -> bool:
        """Whether the function receives the prompt and nothing else of its input."""
        takes_fields = bool(self.fields) or self.takes.more
        return "prompt" in self.handed and "input" not in self.handed and not takes_fields

    @property
    def gives(self) -> Mapping[str, Any] | None:
        """The JSON Schema of the result; None if the result has no annotation or is not JSON."""
        return self.takes.gives

    def arguments(
        self,
        *,
        prompt: str | None = None,
        system: str | None = None,
        input: Value = None,
        schema: Mapping[str, Any] | None = None,
        tools: Mapping[str, Callable[..., Any]] | None = None,
        identity: str = USER,
        alone: Literal["prompt", "input", "field"] = "prompt",
    ) -> dict[str, Value]:
        """The keyword arguments for a call of the function, whose parameters are filled by name.

        ``prompt``: None stands for the field ``prompt`` of ``input``, or else the input as text.
        ``input``: the input object, whose fields fill all other parameters. ``system``: the system
        prompt, for a parameter of that name; without such a parameter it comes before the prompt.
        ``alone``: the value of a single parameter without annotation: the prompt in a pipeline; in
        a policy the input's field of its name if an input_mapping has that field, else the input.
        Raises StepError ``agent.arguments`` with everything that is missing or does not fit.
        """
        fields = input if isinstance(input, dict) else {}
        needs_prompt = "prompt" in self.handed or alone == "prompt"
        if prompt is None and needs_prompt:  # computed only then, because it may be long
            own_prompt = fields.get("prompt")
            prompt = own_prompt if isinstance(own_prompt, str) else format_prompt(input)
        own_system = system is not None and "system" in self.fields
        if system is not None and prompt is not None and not own_system:
            prompt = f"{system}\n\n{prompt}"
        if self.only is not None:
            if alone == "field" and self.only in fields:
                return {self.only: fields[self.only]}
            return {self.only: prompt if alone == "prompt" else input}
        has = {
            "prompt": prompt,
            "input": input,
            "schema": schema,
            "tools": tools or {},
            "identity": identity,
        }
        arguments_by_name: dict[str, Value] = {name: has[name] for name in self.handed}
        if own_system:
            fields = {**fields, "system": system}
        for name in fields if self.takes.more else self.fields:
            if name in fields and name not in HANDED:
                arguments_by_name[name] = fields[name]
        try:
            return self.takes.validate(arguments_by_name)
        except RAISED as error:  # from pydantic, or from a validator of a user's class
            failure = error
        if alone != "prompt" and (delivered := self._relax(failure, arguments_by_name)) is not None:
            return delivered
        self._refuse(failure, arguments_by_name, fields, alone)

    def _relax(
        self, failure: BaseException, arguments: dict[str, Value]
    ) -> dict[str, Value] | None:
        """The arguments with the values that a policy's rules allow although the annotations refuse
        them: null for an optional parameter (AMB-6), 5.0 for a whole number (AMB-9). None if
        anything else is wrong."""
        nulls: dict[str, Value] = {}
        arguments = isolate(arguments)
        for error in errors_of(failure):
            *outer, last = error["loc"]
            inside: Any = arguments
            with suppress(KeyError, IndexError, TypeError):  # the place is not in the arguments
                for part in outer:
                    inside = inside[part]
                if (
                    type(inside[last]) is float
                    and inside[last].is_integer()
                    and error["type"].startswith("int_")
                ):
                    inside[last] = int(inside[last])
                elif (
                    not outer
                    and inside[last] is None
                    and self.takes.parameters[last].default is not Parameter.empty
                ):
                    nulls[last] = arguments.pop(last)
        with suppress(Exception):  # the first error is reported
            return {**self.takes.validate(arguments), **nulls}
        return None

    @property
    def accepts(self) -> Mapping[str, Any] | None:
        """The JSON Schema of the input object; None if the parameters do not describe it."""
        if self.only is not None or "input" in self.handed or not self.fields:
            return None
        schema = self.takes.schema
        shown = {
            name: field
            for name, field in schema.get("properties", {}).items()
            if name in self.fields
        }
        needed = [name for name in schema.get("required", ()) if name in self.fields]
        return {**schema, "properties": shown, "required": needed}

    def _refuse(
        self,
        failure: BaseException,
        arguments: Mapping[str, Value],
        fields: Mapping[str, Value],
        alone: str,
    ) -> NoReturn:
        """Raise StepError for arguments that do not fit, with a hint about the fields of the input."""
        diagnostic = self.takes.explain(
            "agent.arguments", f"agent {self.name!r}", failure, arguments
        )
        near = [
            suggest(name, [*fields, *HANDED])
            for name in self.takes.parameters
            if name not in arguments
        ]
        has = f"its input has {', '.join(fields)}" if fields else "its input has no fields"
        hint = " ".join(dict.fromkeys(filter(None, near)))
        lacking = [name for name in self.fields if name not in arguments]
        if alone == "input" and lacking and not hint:  # the policy's hint has the path
            error = StepError(Diagnostic(diagnostic.code, f"{diagnostic.message}, but {has}"))
            error.arguments = frozenset(lacking[:1])
            raise error
        rule = f"a parameter is {', '.join(HANDED)} or a field of the input; {has}"
        raise StepError(
            Diagnostic(diagnostic.code, diagnostic.message, hint=f"{hint} {rule}".strip())
        )


def check_reply(value: Value, schema: Schema | None, schemas: Mapping[str, Schema]) -> Value:
    """The value of an agent's answer (decision P10): the answer itself, or if there is a
    ``schema``, the JSON in the answer, which must conform.

    Raises StepError ``agent.reply-not-json``, ``agent.reply-schema``.
    """
    if schema is None:
        return value
    read = parse_json_reply(value) if isinstance(value, str) else value
    faults = conform(schema, read, schemas)
    if not faults:
        return read
    reasons = "; ".join(fault.message for fault in faults[:5])
    more = f"; and {len(faults) - 5} more" if len(faults) > 5 else ""
    message = f"the reply does not conform to {schema.name!r}: {reasons}{more}"
    raise StepError(Diagnostic("agent.reply-schema", message, hint=f"it was: {_short(value)}"))


def make_agent(
    function: Callable[..., Any],
    name: str,
    tools: tuple[str, ...] | None,
    default: bool,
    where: Where | None,
    timeout: float | None,
) -> Agent:
    """The agent for ``function`` with the options of `@agent`. Raises TypeError or ValueError for
    wrong options."""
    if name == USER:
        raise ValueError(
            f"{USER!r} is the person in the notebook, who may use all tools: choose another name, "
            f"agent(…, name=…)"
        )
    check_limits(where, timeout)
    if not isinstance(default, bool):
        raise TypeError(f"default must be True or False, got {default!r}")
    arguments = Arguments(function, f"agent {name!r}", unchecked=OURS)
    if arguments.context:
        raise TypeError(f"only a tool gets an agf.ToolContext, and {name!r} is an agent")
    return Agent(
        name=name,
        function=callable_by_name(function, arguments.signature),
        takes=arguments,
        description=description_of(function),
        tools=tools,
        default=default,
        where=where,
        timeout=timeout,
        is_async=is_async(function),
    )


def parse_json_reply(text: str, *, once_each: bool = False) -> Value:
    """The JSON in a reply, with or without a code fence. ``once_each``: whether an object may have
    each key only once; default False. Raises StepError ``agent.reply-not-json``."""
    read, why = read_json(strip_fence(text), once_each=once_each)
    if not why:
        return read
    raise StepError(
        Diagnostic(
            "agent.reply-not-json", f"the reply is not JSON: {why}", hint=f"it was: {_short(text)}"
        )
    )


def _short(value: Value) -> str:
    """The beginning of a reply, for a hint."""
    text = format_for_model(value).strip() or "empty text"
    return text if len(text) <= 300 else f"{text[:300]}… ({len(text):,} characters)"
