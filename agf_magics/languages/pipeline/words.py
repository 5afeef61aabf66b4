"""The pipeline language as data: the one table for the loader, hints, completion and JSON Schema.

A key that is not in the table does not exist. takes.py has the kinds of values that keys may have.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..documents import COUNT, NAME, TEXT
from ..keys import Key, MappingSpec, mapping_spec
from .r1.functions import FUNCTIONS as ROWS
from .schema_documents import SCHEMA, TYPES
from .takes import (
    ARGUMENTS,
    ATTACH,
    BRANCHES,
    CASES,
    COMMAND,
    EXPRESSION,
    INITIAL,
    LISTED_STEPS,
    LITERALS,
    ON_ERROR,
    OUTPUT,
    PASS_KEY,
    PIPELINE_KEY,
    SCHEMA_NAME,
    STEP,
    TARGET_OF_CASE,
    TEMPLATE,
    TOOLS,
)
from .values import BRANCH_ERRORS, ERRORS

_OUTPUT = Key("output", OUTPUT, "The store the result is written to.", null=True)
_SCHEMA = Key(
    "schema",
    SCHEMA_NAME,
    "The schema the result must conform to, else the step fails.",
    null=True,
)
_ON_ERROR = Key(
    "on_error",
    ON_ERROR,
    "What a failure of this call does: continue gives null, retry(N) tries again; an extension of "
    "the language.",
)
_OVER = Key(
    "over",
    EXPRESSION,
    "Gives the list or the sequence; without over and items it is the incoming pipe.",
    null=True,
    explicit=True,
)
_ITEMS = Key("items", LITERALS, "The list itself, as written.", null=True, explicit=True)
STEPS: Mapping[str, MappingSpec] = {
    each.name: each
    for each in (
        mapping_spec(
            "transform",
            "Evaluates an expression.",
            Key("value", EXPRESSION, "What the step's result is.", required=True),
            _OUTPUT,
        ),
        mapping_spec(
            "tool",
            "Calls a registered tool.",
            Key("name", NAME, "The tool.", required=True),
            Key(
                "args",
                ARGUMENTS,
                "Its arguments: literals, or expressions after !expr.",
                null=True,
            ),
            _SCHEMA,
            _ON_ERROR,
            _OUTPUT,
        ),
        mapping_spec(
            "shell",
            "Runs a command with the tool named shell; no shell interprets it.",
            Key("command", COMMAND, "The command and its arguments.", required=True),
            _SCHEMA,
            _ON_ERROR,
            _OUTPUT,
        ),
        mapping_spec(
            "agent",
            "Asks an agent.",
            Key(
                "prompt",
                TEMPLATE,
                "What it is asked; {ctx.x}, {pipe} and {item} are replaced.",
                required=True,
            ),
            Key(
                "identity",
                NAME,
                "The registered agent that answers; without it the default agent.",
                null=True,
            ),
            Key("capabilities", TOOLS, "The tools it may use at most.", null=True),
            Key(
                "model",
                NAME,
                "The model that answers, as openai:gpt-4o; an extension of the language.",
                null=True,
            ),
            Key(
                "attach",
                ATTACH,
                "Images and documents for the model: paths or bytes; an extension of the language.",
                null=True,
            ),
            _SCHEMA,
            _ON_ERROR,
            _OUTPUT,
        ),
        mapping_spec("call", "Runs another pipeline.", PIPELINE_KEY, PASS_KEY, _ON_ERROR, _OUTPUT),
        mapping_spec(
            "match",
            "Runs the pipeline whose label a value has.",
            Key("on", EXPRESSION, "The value whose text selects the case.", required=True),
            Key("cases", CASES, "The pipelines by label.", required=True, holds=True),
            Key("default", TARGET_OF_CASE, "The pipeline for every other value.", null=True),
            _OUTPUT,
        ),
        mapping_spec(
            "fold",
            "Runs a step for one item after the other, with an accumulator.",
            _OVER,
            _ITEMS,
            Key("init", INITIAL, "What acc is before the first item.", required=True),
            Key(
                "do",
                STEP,
                "Runs once per item; its result is the next acc.",
                required=True,
                binds=("item", "acc"),
            ),
            Key("output", OUTPUT, "The store the last acc is written to.", required=True),
            Key("max_items", COUNT, "Items after this many are left out.", null=True),
        ),
        mapping_spec(
            "for_each",
            "Runs a step once per item, several items at a time.",
            _OVER,
            _ITEMS,
            Key(
                "max_parallel",
                COUNT,
                "How many items run at once (8 when left out; with workers, as many as they run).",
                null=True,
            ),
            Key("on_error", ON_ERROR, "What happens when an item fails.", required=True),
            Key("do", STEP, "Runs once per item.", required=True, binds=("item",)),
            Key(
                "collect",
                STEP,
                "Runs once at the end: pipe is the list of results.",
                required=True,
                binds=(ERRORS,),
            ),
            _OUTPUT,
        ),
        mapping_spec(
            "parallel",
            "Runs named steps at the same time.",
            Key(
                "on_error",
                ON_ERROR,
                "What happens when a branch fails (abort when left out).",
            ),
            Key(
                "branches",
                BRANCHES,
                "The steps by name; all run at once.",
                required=True,
                holds=True,
            ),
            Key(
                "collect",
                STEP,
                "Runs once at the end: pipe maps each branch to its result.",
                required=True,
                binds=(BRANCH_ERRORS,),
            ),
            _OUTPUT,
        ),
    )
}
"""The kinds of steps, each with its keys."""

DOCUMENTS: Mapping[str, MappingSpec] = {
    "pipeline": mapping_spec(
        "pipeline",
        "A pipeline.",
        Key(
            "pipeline",
            NAME,
            "Its name, under which it is registered and called.",
            required=True,
        ),
        Key("description", TEXT, "What it does, for people and for agents that may call it."),
        Key("steps", LISTED_STEPS, "What runs, in order.", required=True),
    ),
    "schema": SCHEMA,
}
"""The kinds of documents in a definition, by the key that tells the kind."""

PLANNED: Mapping[str, str] = {
    "input": "delete it; an expression reads the input as ctx.NAME",
    "defaults": "delete it",
    "refine": "delete it",
}
"""Keys of a pipeline document that the language reserves (decision P9), each with a hint."""

FIELD_TYPES: Mapping[str, str] = {name: each.doc for name, each in TYPES.items()}
"""The types of a field in a schema, each with its meaning."""

FUNCTION_HELP: Mapping[str, str] = {name: row.help for name, row in ROWS.items()}
"""The functions of R1, each with its form and its meaning."""
