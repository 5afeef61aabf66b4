"""Describes to a planning model its tools, as the JSON Schema of a plan, and the context, as text."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ...catalog import Registry, Tool
from ...flow.flow import Flow
from ...flow.sessions.session import format_for_model
from ...journal.secrets.masking import Secrets
from ...languages.plan import Log
from ...languages.plan.log.lines import format_lines
from ...languages.plan.log.messages import kind_of, render
from ...limits.grants import LAUNCHES
from ...text.diagnostics import DefinitionError, Diagnostic
from ...values.value import Value

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
calls to make next, and `output`: null until the task is done, then the answer or a reference \
to it.
An argument can be a reference such as †state.total: the call then waits for the call that \
writes this value. The result of a call is stored at its _outputPath, and you see it in the \
next round. †input cannot be changed. A failed call is in the context as a message of the kind \
error: change it before you repeat it."""


@dataclass(frozen=True, slots=True)
class PlanOffer:
    """The calls that a reply may contain."""

    calls: Mapping[str, Mapping[str, Any]]
    """JSON Schema of the calls of each tool, latent ones first."""
    defs: Mapping[str, Any]
    """The definitions that these schemas refer to."""
    latent: frozenset[str]
    """The names of the tools that are never executed."""
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
    return _call_schema(name, properties, ["_output"], paths.get(name), description)


def _call(
    name: str, callee: Tool | Flow, path: str | None, defs: dict[str, Any], prefix: str
) -> dict[str, Any]:
    """The schema of a call of a tool or a flow. Its definitions are added to ``defs``, with the
    ``prefix`` before their names."""
    interface = callee if isinstance(callee, Tool) else callee.declared
    accepts = interface.accepts or {"type": "object"}
    for definition, schema in accepts.get("$defs", {}).items():
        defs[prefix + definition] = _prefix_references(schema, prefix)
    secret = callee.secret if isinstance(callee, Tool) else frozenset[str]()
    arguments = dict[str, Any]()
    for argument, schema in accepts.get("properties", {}).items():
        if argument.startswith("_"):
            continue  # a call has keys of these names; the engine fills such parameters
        if argument in secret:
            arguments[argument] = {**REFERENCE, "description": "A secret: only a reference"}
        else:
            arguments[argument] = _or_reference(_prefix_references(schema, prefix))
    required = [field for field in accepts.get("required", ()) if field in arguments]
    call = _call_schema(name, arguments, required, path, interface.description)
    more = accepts.get("additionalProperties", "properties" not in accepts)
    return call if more is False else {**call, "patternProperties": {"^[^_]": {}}}


def _call_schema(
    name: str,
    arguments: Mapping[str, Any],
    required: list[str],
    path: str | None,
    description: str,
) -> dict[str, Any]:
    """The schema of a call of the tool ``name``. ``path``: its prescribed output path; None: the
    model chooses (the seed's two modes)."""
    output_path = PATH
    needed = ["_tool", *required]
    if path is not None:
        output_path = {"type": "string", "const": path}
        needed.append("_outputPath")
    return {
        "type": "object",
        **({"description": description} if description else {}),
        "properties": {"_tool": {"const": name}, **arguments, "_outputPath": output_path},
        "required": needed,
        "additionalProperties": False,
    }


def _or_reference(schema: Any) -> Any:
    """A schema that also accepts a reference, in its elements and fields too."""
    if not isinstance(schema, Mapping):
        return schema
    # The schema accepts any text, so it accepts a reference.
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


def _prefix_references(schema: Any, prefix: str) -> Any:
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
    lines = format_lines(message for message in masked if isinstance(message, dict))
    return "\n".join(map(format_for_model, lines))


def _visible(message: Mapping[str, Value]) -> dict[str, Value]:
    """A message without the engine's own fields, also in its content and in a failed call."""
    visible = render(message)
    if isinstance(visible.get("content"), dict):
        visible["content"] = render(visible["content"])
    data = visible.get("data")
    call = data.get("call") if isinstance(data, dict) else None
    if kind_of(message) == "error" and isinstance(data, dict) and isinstance(call, dict):
        visible["data"] = {**data, "call": render(call)}
    return visible


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
