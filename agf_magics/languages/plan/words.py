"""The plan language as data: the one table that loader, hints, completion and JSON Schema are made from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from .messages import METHODS


class Key(NamedTuple):
    """A key of a mapping."""

    name: str
    takes: str
    doc: str
    shape: Mapping[str, Any] | bool
    """JSON Schema of what it takes."""


_TEXT: Final = {"type": "string", "minLength": 1}
_CALLS: Final = {"type": "array", "items": {"$ref": "#/$defs/call"}}
_NAMES: Final = {"type": "array", "items": _TEXT}

PLAN: Final[Mapping[str, Key]] = {
    key.name: key
    for key in (
        Key("name", "a name", "Its name, under which it is registered and called.", _TEXT),
        Key("description", "a text", "What it does, for people and for agents that may call it.", {"type": "string"}),
        Key("context", "a name", "The named context it reads and adds to; without it the plan's name.", _TEXT),
        Key("calls", "a list of calls", "What is called; each runs when what it reads is there.", _CALLS),
        Key("input", "any value", "What `†input` is before the first call.", True),
        Key("state", "any value", "What `†state` is before the first call.", True),
        Key("data", "any value", "What `†data` is before the first call.", True),
        Key(
            "messages",
            "a list of messages",
            "Messages of any kind, as they stand in a context.",
            {"type": "array", "items": {"type": "object"}},
        ),
        Key(
            "instances",
            "a mapping of instances to their input, state and data, or a list of such",
            "What each instance is told beside what all are told; every call runs once for each of them.",
            {"type": ["object", "array"], "additionalProperties": {"$ref": "#/$defs/instance"},
             "items": {"$ref": "#/$defs/instance"}},
        ),
        Key(
            "tools",
            "a mapping of tool names to schemas",
            "What is said of tools: the `_outputPath` that a call of one must have; and that a tool may be latent.",
            {"type": "object", "additionalProperties": {"type": "object"}},
        ),
        Key("output", "any value, with references", "What the plan gives, read when nothing runs any more.", True),
        Key("mode", "eager or lazy", "`lazy`: checked and shown, and nothing is called.", {"enum": ["eager", "lazy"]}),
        Key(
            "ordered",
            "true or false",
            "Whether results that overlap are kept in the order of the list, not in the order in which calls end.",
            {"type": "boolean"},
        ),
        Key(
            "confirm",
            "true, false or a list of tools",
            "Which calls a person must approve before they are made.",
            {"anyOf": [{"type": "boolean"}, _NAMES]},
        ),
    )
}  # fmt: skip
"""The keys of a plan."""

CALL: Final[Mapping[str, Key]] = {
    key.name: key
    for key in (
        Key("_tool", "a name", "The tool, or the flow, that is called.", _TEXT),
        Key(
            "_outputPath",
            "an output path",
            "Where the result goes; without it the call is made and nobody waits for it.",
            {"type": "string", "pattern": r"^\s*[(\s]*[†$]"},
        ),
        Key("_outputMethod", "a method", "How the result joins what is there.", {"enum": list(METHODS)}),
        Key(
            "_instance",
            "an instance, or null",
            "Whose layer the call reads and writes; null: everybody's, in a plan that runs once for each instance.",
            {"type": ["string", "null"], "minLength": 1},
        ),
        Key("_scopes", "a list of kinds", "The messages that the tool finds in its `_context`.", _NAMES),
        Key(
            "_activity",
            "a name, or an empty text",
            "The registered tool that does it, where it has another name; empty: nobody does, the call is latent.",
            {"type": "string"},
        ),
        Key("_delegate", "a name", "The registered flow that does it, with the arguments as its input.", _TEXT),
        Key("_output", "any value", "The answer of a latent call.", True),
        Key("_reasoningForCall", "a text", "Why it is called; for people and models only.", {"type": "string"}),
    )
}
"""The keys of a call that are not its arguments."""


INSTANCE: Final = ("input", "state", "data")
"""What an instance may be told."""

METHOD_DOCS: Final[Mapping[str, str]] = {
    "set": "It is the value; what was there before counts no more.",
    "merge": "Objects are merged deeply; the newer value wins, lists are replaced whole, null overwrites.",
    "assign": "The fields of an object replace those of the same names.",
    "push": "It is appended to a list, as one element.",
    "concat": "A list is appended to a list, a text to a text.",
}

SCHEMA: Final[Mapping[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "A plan",
    "anyOf": [
        _CALLS,
        {
            "type": "object",
            "required": ["calls"],
            "additionalProperties": False,
            "properties": {
                name: {"description": key.doc, **(key.shape if isinstance(key.shape, Mapping) else {})}
                for name, key in PLAN.items()
            },
        },
    ],
    "$defs": {
        "call": {
            "type": "object",
            "anyOf": [{"required": ["_tool"]}, {"required": ["_delegate"]}],
            "patternProperties": {"^[^_]": {"description": "An argument: a value, with references anywhere in it."}},
            "additionalProperties": False,
            "properties": {
                name: {"description": key.doc, **(key.shape if isinstance(key.shape, Mapping) else {})}
                for name, key in CALL.items()
            },
        },
        "instance": {
            "type": "object",
            "additionalProperties": False,
            "properties": dict.fromkeys(INSTANCE, True),
        },
    },
}
"""JSON Schema of a plan's document."""
