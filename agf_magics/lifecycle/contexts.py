"""Named contexts: the messages of plans and their values, to read, save and load; and what a model
that plans gets of one: its tools as the JSON Schema of a plan, and the context as text.

A tool is one of the calls that a reply may contain. Each argument accepts its own schema or a
reference, because calls feed each other. A secret argument accepts only a reference: the model
never has the value. Latent tools are first in the schema, because a model writes its reply in that
order and must think before it calls.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from ..catalog import Registry, Tool, default
from ..engine.limits import LAUNCHES
from ..flow.session import format_for_model
from ..flow.steps import Flow
from ..flow.values import TooDeep, Value, settle, type_name
from ..journal.secrets import Secrets
from ..languages.plan import Log, resolve
from ..languages.plan.log import format_lines, parse_lines
from ..languages.plan.messages import kind_of, rendered
from ..languages.plan.reference import parse, references
from ..text.diagnostics import DefinitionError, Diagnostic, Source, StepError
from .define import source_of


def context(name: str, *, registry: Registry | None = None) -> NamedContext:
    """Return the context of a name. It is a live view: it shows the messages that plans add later.

    Parameters:

    - ``name``: the name of the context. Required.
    - ``registry``: the `Registry` that contains it. Default None: the registry of this process.
    """
    return NamedContext(name, default(registry))


class NamedContext(Sequence[Mapping[str, Value]]):
    """The messages of a context, oldest first. Messages are never removed."""

    def __init__(self, name: str, registry: Registry) -> None:
        self.name = name
        self._registry = registry

    @property
    def log(self) -> Log:
        held = self._registry.contexts.get(self.name)
        log = held.log if held is not None else None
        return log if isinstance(log, Log) else Log(log or ())

    def __len__(self) -> int:
        return len(self.log)

    def __getitem__(self, at: Any) -> Any:
        return self.log[at]

    @property
    def instances(self) -> tuple[str, ...]:
        """The names of the instances, in the order of their first message."""
        return self.log.instances

    def resolve(self, reference: str, instance: str | None = None, at: int | None = None) -> Value:
        """Return the value of a reference.

        Parameters:

        - ``reference``: the text of the reference, for example ``"†state.rows"``. Required.
        - ``instance``: the instance to read for. Default None: no instance.
        - ``at``: a number of messages: read the context as it was after that many. Default None:
          all messages.
        """
        try:
            return resolve(self._at(at), reference, instance)
        except StepError as error:
            diagnostic = error.diagnostic
            if at is None or diagnostic.code != "plan.not-found":
                raise
        hint = f"at={at} reads the context after the first {at} of its {len(self)} messages"
        raise StepError(replace(diagnostic, hint=hint))

    def sources(
        self, reference: str, instance: str | None = None, at: int | None = None
    ) -> tuple[int, ...]:
        """Return the numbers of the messages that the value of a reference is composed of, oldest
        first.

        Parameters:

        - ``reference``: the text of the reference. Required.
        - ``instance``: the instance to read for. Default None: no instance.
        - ``at``: a number of messages: read the context as it was after that many. Default None:
          all messages.
        """
        log, expression = self._at(at), parse(Source("<reference>", reference).span())
        return tuple(
            sorted({number for ref in references(expression) for number in log.used(ref, instance)})
        )

    def append(self, message: Mapping[str, Value]) -> None:
        """Add a message.

        ``message``: the message, a mapping of names to values. Required.

        Raises DefinitionError if the message is malformed or a run is writing to the context.
        """
        if not isinstance(message, Mapping) or not all(isinstance(key, str) for key in message):
            raise TypeError(
                f"a message must be a mapping of names to values, not {type_name(message)}"
            )
        held = self._registry.contexts.named(self.name)
        held.hold("agf.context")
        try:
            held.log = self.log.append(settle(dict(message)))
        except TooDeep as error:
            raise DefinitionError(
                Diagnostic("run.input", f"cannot store the message: {error}")
            ) from None
        finally:
            held.release("agf.context")

    def clear(self) -> None:
        """Start a new, empty context of this name. Raises DefinitionError while a run is writing to
        the old one."""
        self._registry.contexts.renew(self.name)

    def save(self, path: str | Path) -> None:
        """Write the messages to a file, one per line. Of a value that is not JSON only the type and
        the ``repr`` are written.

        ``path``: the file to write; an existing file is replaced. Required.
        """
        Path(path).write_text(
            "".join(f"{line}\n" for line in format_lines(self.log)), encoding="utf-8"
        )

    def load(self, path: str | Path) -> None:
        """Start a new context of this name with the messages of a file.

        ``path``: the file to read, as `save` writes it. Required.

        Raises DefinitionError if a line is not a message.
        """
        messages = parse_lines(source_of(Path(path)))
        self._registry.contexts.renew(self.name, Log(messages, loses=True))

    def _at(self, count: int | None) -> Log:
        return self.log if count is None else self.log.until(count)

    def __repr__(self) -> str:
        return f"<context {self.name!r} of {len(self)} messages>"


MOST_PLAN_CALLS: Final = 100
"""Calls of one plan."""

REFERENCE: Final[dict[str, Any]] = {
    "type": "string",
    "pattern": "^†",
    "description": "A reference to a value: †state.NAME, †input.NAME",
}
PATH: Final[dict[str, Any]] = {
    "type": "string",
    "pattern": "^†",
    "description": "The place of the result: †state.NAME. Without it the result is lost.",
}
ANY_JSON: Final = [{"type": name} for name in ("string", "number", "boolean", "object", "array")]
"""One schema for each type: not every provider accepts a list of types."""
INSTRUCTIONS: Final = """\
You plan calls of tools. You get a task and the messages of a context. Reply with `calls`, the \
calls to make next, and \
`output`: null until the task is done, then the answer or a reference to it.
An argument can be a reference such as †state.total: the call then waits for the call that \
writes this value. The \
result of a call is stored at its _outputPath, and you see it in the next round. †input cannot \
be changed. A failed \
call is in the context as a message of the kind error: change it before you repeat it."""


@dataclass(frozen=True, slots=True)
class PlanOffer:
    """The calls that a reply may contain."""

    calls: Mapping[str, Mapping[str, Any]]
    """JSON Schema of the calls of each tool, latent ones first."""
    defs: Mapping[str, Any]
    """The definitions that these schemas refer to."""
    latent: frozenset[str]
    secret: Mapping[str, frozenset[str]]
    """The secret arguments of each tool."""
    gives: Mapping[str, Any] | None = None
    """JSON Schema of the output; None: anything."""

    def for_instances(self, names: Sequence[str]) -> PlanOffer:
        """The offer in a context with these instances: each call may name one."""
        if not names:
            return self
        about = (
            "The instance that the call is for; null: one call for all; left out: one call for each"
        )
        which = {"enum": [*names, None], "description": about}
        return replace(
            self,
            calls={
                tool: {**schema, "properties": {**schema["properties"], "_instance": which}}
                for tool, schema in self.calls.items()
            },
        )

    @property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of a reply."""
        output = {**(self.gives or {})}
        defs = {**self.defs, **output.pop("$defs", {})}
        ways = [output, REFERENCE] if output else ANY_JSON
        return {
            "type": "object",
            "properties": {
                "calls": {"type": "array", "items": {"anyOf": list(self.calls.values())}},
                "output": {
                    "anyOf": [*ways, {"type": "null"}],
                    "description": "The answer or a reference to it; null until the task is done",
                },
            },
            "required": ["calls", "output"],
            "additionalProperties": False,
            **({"$defs": defs} if defs else {}),
        }


def make_offer(
    registry: Registry,
    tools: Collection[str] | None,
    latent: Mapping[str, str],
    paths: Mapping[str, str],
    gives: Mapping[str, Any] | None,
) -> PlanOffer:
    """The offer of these tools. Raises DefinitionError ``flow.unknown-tool``,
    ``planner.no-tools``."""
    callees = _callees(registry, tools, latent)
    if not callees:
        hint = "register one with @tool, or name one in tools=; a latent tool alone calls nothing"
        raise DefinitionError(
            Diagnostic("planner.no-tools", "the planner has no tools to call", hint=hint)
        )
    calls: dict[str, Mapping[str, Any]] = {
        name: _latent_call(name, text, paths) for name, text in latent.items()
    }
    defs: dict[str, Any] = {}
    for number, (name, callee) in enumerate(callees.items(), 1):
        calls[name] = _call(name, callee, paths.get(name), defs, f"{number}.")
    secret = {name: callee.secret for name, callee in callees.items() if isinstance(callee, Tool)}
    return PlanOffer(calls, defs, frozenset(latent), secret, gives)


def _callees(
    registry: Registry, names: Collection[str] | None, latent: Mapping[str, str]
) -> Mapping[str, Tool | Flow]:
    if names is None:
        left_out = {*LAUNCHES, *latent}
        return {name: tool for name, tool in registry.offered.items() if name not in left_out}
    callees: dict[str, Tool | Flow] = {}
    problems = []
    for name in dict.fromkeys(names):
        callee = registry.tools.get(name) or registry.flows.get(name)
        if callee is None or name in LAUNCHES:
            problems.append(registry.tools.missing(name, None, "flow.unknown-tool"))
        elif name not in latent:
            callees[name] = callee
    if problems:
        raise DefinitionError(*problems)
    return callees


def _latent_call(name: str, description: str, paths: Mapping[str, str]) -> dict[str, Any]:
    properties = {"_output": {"type": "string"}}
    return _closed_call(name, properties, ["_output"], paths.get(name), description)


def _call(
    name: str, callee: Tool | Flow, path: str | None, defs: dict[str, Any], prefix: str
) -> dict[str, Any]:
    interface = callee if isinstance(callee, Tool) else callee.declared
    accepts = interface.accepts or {"type": "object"}
    for definition, schema in accepts.get("$defs", {}).items():
        defs[prefix + definition] = _renamed(schema, prefix)
    secret = callee.secret if isinstance(callee, Tool) else frozenset[str]()
    arguments = {
        argument: {**REFERENCE, "description": "A secret: only a reference"}
        if argument in secret
        else _or_reference(_renamed(schema, prefix))
        for argument, schema in accepts.get("properties", {}).items()
        if not argument.startswith(
            "_"
        )  # a call has keys of these names; the engine fills such parameters
    }
    required = [field for field in accepts.get("required", ()) if field in arguments]
    call = _closed_call(name, arguments, required, path, interface.description)
    more = accepts.get("additionalProperties", "properties" not in accepts)
    return call if more is False else {**call, "patternProperties": {"^[^_]": {}}}


def _closed_call(
    name: str,
    arguments: Mapping[str, Any],
    required: list[str],
    path: str | None,
    description: str,
) -> dict[str, Any]:
    """The schema of a call of the tool ``name``. ``path``: its prescribed output path; None: the
    model chooses (the seed's two modes)."""
    where, needed = PATH, ["_tool", *required]
    if path is not None:
        where, needed = {"type": "string", "const": path}, [*needed, "_outputPath"]
    return {
        "type": "object",
        **({"description": description} if description else {}),
        "properties": {"_tool": {"const": name}, **arguments, "_outputPath": where},
        "required": needed,
        "additionalProperties": False,
    }


def _or_reference(schema: Any) -> Any:
    """A schema that also accepts a reference, in its elements and fields too."""
    if not isinstance(schema, Mapping):
        return schema
    # It accepts any text, and so a reference.
    is_open = schema.keys() <= {"type", "title", "description", "default"}
    if is_open and schema.get("type", "string") == "string":
        return schema
    inner = dict(schema)
    if isinstance(inner.get("items"), Mapping):
        inner["items"] = _or_reference(inner["items"])
    if isinstance(inner.get("properties"), Mapping):
        inner["properties"] = {
            name: _or_reference(field) for name, field in inner["properties"].items()
        }
    return {"anyOf": [inner, REFERENCE]}


def _renamed(schema: Any, prefix: str) -> Any:
    """A schema whose references to definitions have a prefix, so that two tools can define the same
    name."""

    def rename(part: dict[str, Any]) -> dict[str, Any]:
        if isinstance(part.get("$ref"), str):
            part["$ref"] = part["$ref"].replace("#/$defs/", f"#/$defs/{prefix}", 1)
        return part

    return json.loads(json.dumps(schema, default=str), object_hook=rename)


# --- the context
# --------------------------------------------------------------------------------------------------


def context_text(messages: Iterable[Mapping[str, Value]], secrets: Secrets) -> str:
    """The messages as a model gets them, one JSON object per line: without the engine's own fields
    (ACT-6), with secrets masked, and each at most 100,000 characters long."""
    masked = map(secrets.shown, map(_visible, messages))
    return "\n".join(
        format_for_model(line)
        for line in format_lines(entry for entry in masked if isinstance(entry, dict))
    )


def _visible(message: Mapping[str, Value]) -> dict[str, Value]:
    seen = rendered(message)
    if isinstance(seen.get("content"), dict):
        seen["content"] = rendered(seen["content"])
    data = seen.get("data")
    if (
        kind_of(message) == "error"
        and isinstance(data, dict)
        and isinstance(data.get("call"), dict)
    ):
        seen["data"] = {**data, "call": rendered(data["call"])}
    return seen


def secret_fields(offer: PlanOffer, input: Mapping[str, Value]) -> Iterator[str]:
    """The fields of the input that are secret: those with the name of a secret argument of an
    offered tool."""
    names = frozenset[str]().union(*offer.secret.values())
    return (name for name in input if name in names)


def request_text(task: str, log: Log, secret: Mapping[str, Value], secrets: Secrets) -> str:
    """The prompt of one round. ``secret``: the secret fields of the input, which are not in the
    log."""
    hidden = [{"type": "data", "kind": "input", "data": dict(secret)}] if secret else []
    messages = context_text([*hidden, *log], secrets)
    return (
        f"Task: {secrets.text(task)}\n\nThe messages of the context, oldest "
        f"first:\n{messages or '(none)'}"
    )
