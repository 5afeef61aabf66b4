"""The plan language as data: the one table for the loader, hints, completion, JSON Schema and docs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..documents import ANYTHING, FLAG, NAME, TEXT
from ..key_schemas import mapping_schema, reference
from ..keys import Key, mapping_spec
from . import takes

_CALL = "plan.bad-call"

PLAN: Final = mapping_spec(
    "a plan",
    "A plan.",
    Key(
        "name",
        NAME,
        "The name of the plan, under which it is registered and called.",
        code="plan.wrong-type",
    ),
    Key("description", TEXT, "What it does, for people and for agents that may call it."),
    Key(
        "context",
        NAME,
        "The named context that it continues. Without one, each run begins with an empty context.",
        code="plan.wrong-type",
    ),
    Key(
        "calls",
        takes.CALLS,
        "The calls. Each one runs as soon as the values that it reads exist.",
        required=True,
    ),
    Key("input", ANYTHING, "The value of `†input` before the first call."),
    Key("state", ANYTHING, "The value of `†state` before the first call."),
    Key("data", ANYTHING, "The value of `†data` before the first call."),
    Key("messages", takes.MESSAGES, "Messages of any kind, as a context contains them."),
    Key(
        "instances",
        takes.INSTANCES,
        "The own values of each instance. Every call runs once for each instance.",
    ),
    Key(
        "tools",
        takes.TOOLS,
        "Schemas of tools: the `_outputPath` that their calls must have. A tool in this list may "
        "be latent.",
    ),
    Key("output", takes.VALUE, "The output of the plan, read after the last call."),
    Key("mode", takes.MODE, "`lazy` checks and draws the plan, without calls."),
    Key(
        "ordered",
        FLAG,
        "Whether overlapping results are stored in the order of the list instead of the order in "
        "which calls end.",
    ),
    Key("confirm", takes.CONFIRM, "The calls that a person must approve before they are made."),
)
CALL: Final = mapping_spec(
    "a call",
    "A call; a key without an underscore is an argument: a value, with references anywhere in it.",
    Key("_tool", NAME, "The tool or the flow that is called.", code=_CALL),
    Key(
        "_outputPath",
        takes.PATH,
        "The destinations of the result. Without it the plan does not wait for the call.",
        code="plan.bad-output-path",
    ),
    Key(
        "_outputMethod",
        takes.METHOD,
        "How the result is combined with the existing value. Defaults to `set`.",
        code="plan.unknown-method",
    ),
    Key(
        "_instance",
        takes.INSTANCE_NAME,
        "The instance that the call reads and writes for. `null` makes the call once for all "
        "instances.",
        code="plan.instance",
    ),
    Key(
        "_scopes",
        takes.SCOPES,
        "The kinds of messages that the tool receives as `_context`.",
        code=_CALL,
    ),
    Key(
        "_activity",
        takes.ACTIVITY,
        "The registered tool that is called, if it has another name. Empty: the call is latent "
        "(never executed).",
        code=_CALL,
    ),
    Key(
        "_delegate",
        NAME,
        "The registered flow that is called, with the arguments as its input.",
        code=_CALL,
    ),
    Key("_output", ANYTHING, "The answer of a latent call."),
    Key("_reasoningForCall", takes.REASON, "The reason of the call, for people and models only."),
    prefix="_",
)

SCHEMA: Final[Mapping[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "A plan",
    "anyOf": [{"type": "array", "items": reference("call")}, reference("plan")],
    "$defs": {
        "call": {
            "anyOf": [{"required": ["_tool"]}, {"required": ["_delegate"]}],
            **mapping_schema(CALL),
        },
        "instance": mapping_schema(takes.INSTANCE),
        "plan": mapping_schema(PLAN),
    },
}
"""JSON Schema of a plan's document."""
