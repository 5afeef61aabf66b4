"""What a model gets as a planner: its tools as the JSON Schema of a plan, and the context as text.

A tool is one of the calls that a reply may contain. Each argument accepts its own schema or a
reference, because calls feed each other. A secret argument accepts only a reference: the model
never has the value. Latent tools are first in the schema, because a model writes its reply in that
order and must think before it calls.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ..catalog import Registry, Tool
from ..flow.session import format_for_model
from ..flow.steps import Flow
from ..flow.values import Value
from ..host.limits import LAUNCHES
from ..languages.plan import Log
from ..languages.plan.lines import format_lines
from ..languages.plan.messages import kind_of, rendered
from ..secrets.masking import Secrets
from ..text.diagnostics import DefinitionError, Diagnostic

MOST_CALLS: Final = 100
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
class Offer:
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

    def for_instances(self, names: Sequence[str]) -> Offer:
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
) -> Offer:
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
    secret = {
        name: callee.secret
        for name, callee in callees.items()
        if isinstance(callee, Tool) and callee.secret
    }
    return Offer(calls, defs, frozenset(latent), secret, gives)


def _callees(
    registry: Registry, names: Collection[str] | None, latent: Mapping[str, str]
) -> Mapping[str, Tool | Flow]:
    if names is None:
        return {
            name: tool
            for name, tool in registry.offered.items()
            if name not in LAUNCHES and name not in latent
        }
    found: dict[str, Tool | Flow] = {}
    problems = []
    for name in dict.fromkeys(names):
        callee = registry.tools.get(name) or registry.flows.get(name)
        if callee is None or name in LAUNCHES:
            problems.append(registry.tools.missing(name, None, "flow.unknown-tool"))
        elif name not in latent:
            found[name] = callee
    if problems:
        raise DefinitionError(*problems)
    return found


def _latent_call(name: str, description: str, paths: Mapping[str, str]) -> dict[str, Any]:
    properties = {
        "_tool": {"const": name},
        "_output": {"type": "string"},
        "_outputPath": _where(paths.get(name)),
    }
    return _object(
        properties, ["_tool", "_output", *(["_outputPath"] if name in paths else [])], description
    )


def _where(path: str | None) -> dict[str, Any]:
    """The schema of an output path: the prescribed one, or the model's choice (the seed's two
    modes)."""
    return PATH if path is None else {"type": "string", "const": path}


def _call(
    name: str, callee: Tool | Flow, path: str | None, defs: dict[str, Any], prefix: str
) -> dict[str, Any]:
    accepts = callee.accepts or {"type": "object"}
    for own, schema in accepts.get("$defs", {}).items():
        defs[prefix + own] = _renamed(schema, prefix)
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
    required = [one for one in accepts.get("required", ()) if one in arguments]
    properties = {"_tool": {"const": name}, **arguments, "_outputPath": _where(path)}
    made = _object(
        properties,
        ["_tool", *required, *(["_outputPath"] if path is not None else [])],
        callee.description,
    )
    more = accepts.get("additionalProperties", "properties" not in accepts)
    return made if more is False else {**made, "patternProperties": {"^[^_]": {}}}


def _object(properties: Mapping[str, Any], required: list[str], description: str) -> dict[str, Any]:
    about = {"description": description} if description else {}
    closed = {"required": required, "additionalProperties": False}
    return {"type": "object", **about, "properties": dict(properties), **closed}


def _or_reference(schema: Any) -> Any:
    """A schema that also accepts a reference, in its elements and fields too."""
    if (
        not isinstance(schema, Mapping)
        or not schema
        or schema.keys() <= {"title", "description", "default"}
    ):
        return schema  # it accepts any text
    if schema.get("type") == "string" and schema.keys() <= {
        "type",
        "title",
        "description",
        "default",
    }:
        return schema
    inner = dict(schema)
    if isinstance(inner.get("items"), Mapping):
        inner["items"] = _or_reference(inner["items"])
    if isinstance(inner.get("properties"), Mapping):
        inner["properties"] = {
            name: _or_reference(one) for name, one in inner["properties"].items()
        }
    return {"anyOf": [inner, REFERENCE]}


def _renamed(schema: Any, prefix: str) -> Any:
    """A schema whose references to definitions have a prefix, so that two tools can define the same
    name."""
    if isinstance(schema, list):
        return [_renamed(part, prefix) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    made = {key: _renamed(part, prefix) for key, part in schema.items() if key != "$defs"}
    target = schema.get("$ref")
    if isinstance(target, str) and target.startswith("#/$defs/"):
        made["$ref"] = f"#/$defs/{prefix}{target.removeprefix('#/$defs/')}"
    return made


# --- the context
# --------------------------------------------------------------------------------------------------


def context_text(messages: Iterable[Mapping[str, Value]], secrets: Secrets) -> str:
    """The messages as a model gets them, one JSON object per line: without the engine's own fields
    (ACT-6), with secrets masked, and each at most 100,000 characters long."""
    masked = (secrets.shown(message) for message in map(_visible, messages))
    return "\n".join(
        format_for_model(line)
        for line in format_lines(one for one in masked if isinstance(one, dict))
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


def secret_fields(offer: Offer, input: Mapping[str, Value]) -> Iterator[str]:
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
