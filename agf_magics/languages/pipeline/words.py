"""The pipeline language as data: the one table for the loader, the hints, completion and the JSON
Schema.

A key that is not here does not exist. takes.py has the kinds of value that a key may take.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..documents import Key, Kind, kind
from . import takes
from .r1.nodes import FORMS
from .schema_documents import SCHEMA, TYPES
from .takes import PASS_KEY, PIPELINE_KEY, TARGET
from .values import ERRORS


class Words(NamedTuple):
    """The tables of a language, for completion."""

    steps: Mapping[str, Kind]
    documents: Mapping[str, Kind]
    target: Kind
    field_types: Mapping[str, str]
    """With one line on each."""
    functions: Mapping[str, str]
    """Of the expression language, each with its signature."""


_OUTPUT = Key("output", takes.NAME, "The store the result is written to.", null=True)
_SCHEMA = Key(
    "schema", takes.NAME, "The schema the result must conform to, else the step fails.", null=True
)
_OVER = Key(
    "over",
    takes.EXPRESSION,
    "Gives the list or the sequence; without over and items it is the incoming pipe.",
    null=True,
    explicit=True,
)
_ITEMS = Key("items", takes.LITERALS, "The list itself, as written.", null=True, explicit=True)
STEPS: Mapping[str, Kind] = {
    each.name: each
    for each in (
        kind(
            "transform",
            "Evaluates an expression.",
            Key("value", takes.EXPRESSION, "What the step's result is.", required=True),
            _OUTPUT,
        ),
        kind(
            "tool",
            "Calls a registered tool.",
            Key("name", takes.NAME, "The tool.", required=True),
            Key(
                "args",
                takes.ARGUMENTS,
                "Its arguments: literals, or expressions after !expr.",
                null=True,
            ),
            _SCHEMA,
            _OUTPUT,
        ),
        kind(
            "shell",
            "Runs a command with the tool named shell; no shell interprets it.",
            Key("command", takes.COMMAND, "The command and its arguments.", required=True),
            _SCHEMA,
            _OUTPUT,
        ),
        kind(
            "agent",
            "Asks an agent.",
            Key(
                "prompt",
                takes.TEMPLATE,
                "What it is asked; {ctx.x}, {pipe} and {item} are replaced.",
                required=True,
            ),
            Key(
                "identity",
                takes.NAME,
                "The registered agent that answers; without it the default agent.",
                null=True,
            ),
            Key("capabilities", takes.TOOLS, "The tools it may use at most.", null=True),
            Key(
                "model",
                takes.NAME,
                "The model that answers, as openai:gpt-4o; an extension of the language.",
                null=True,
            ),
            Key(
                "attach",
                takes.ATTACH,
                "Images and documents for the model: paths or bytes; an extension of the language.",
                null=True,
            ),
            _SCHEMA,
            _OUTPUT,
        ),
        kind("call", "Runs another pipeline.", PIPELINE_KEY, PASS_KEY, _OUTPUT),
        kind(
            "match",
            "Runs the pipeline whose label a value has.",
            Key("on", takes.EXPRESSION, "The value whose text selects the case.", required=True),
            Key("cases", takes.CASES, "The pipelines by label.", required=True),
            Key("default", takes.TARGET_OF_CASE, "The pipeline for every other value.", null=True),
            _OUTPUT,
        ),
        kind(
            "fold",
            "Runs a step for one item after the other, with an accumulator.",
            _OVER,
            _ITEMS,
            Key("init", takes.EXPRESSION, "What acc is before the first item.", required=True),
            Key(
                "do",
                takes.STEP,
                "Runs once per item; its result is the next acc.",
                True,
                binds=("item", "acc"),
            ),
            Key("output", takes.NAME, "The store the last acc is written to.", required=True),
            Key("max_items", takes.COUNT, "Items after this many are left out.", null=True),
        ),
        kind(
            "for_each",
            "Runs a step once per item, several items at a time.",
            _OVER,
            _ITEMS,
            Key(
                "max_parallel",
                takes.COUNT,
                "How many items run at once (8 when left out; with workers, as many as they run).",
                null=True,
            ),
            Key("on_error", takes.ON_ERROR, "What happens when an item fails.", required=True),
            Key("do", takes.STEP, "Runs once per item.", True, binds=("item",)),
            Key(
                "collect",
                takes.STEP,
                "Runs once at the end: pipe is the list of results.",
                required=True,
                binds=(ERRORS,),
            ),
            _OUTPUT,
        ),
        kind(
            "parallel",
            "Runs named steps at the same time.",
            Key(
                "on_error",
                takes.ON_ERROR,
                "What happens when a branch fails (abort when left out).",
            ),
            Key("branches", takes.BRANCHES, "The steps by name; all run at once.", required=True),
            Key(
                "collect",
                takes.STEP,
                "Runs once at the end: pipe maps each branch to its result.",
                required=True,
            ),
            _OUTPUT,
        ),
    )
}

DOCUMENTS: Mapping[str, Kind] = {
    "pipeline": kind(
        "pipeline",
        "A pipeline.",
        Key(
            "pipeline",
            takes.NAME,
            "Its name, under which it is registered and called.",
            required=True,
        ),
        Key("description", takes.TEXT, "What it does, for people and for agents that may call it."),
        Key("steps", takes.LISTED_STEPS, "What runs, in order.", required=True),
    ),
    "schema": SCHEMA,
}

PLANNED = ("input", "defaults", "refine")
"""Keys of a pipeline document that the language reserves (decision P9)."""

FIELD_TYPES: Mapping[str, str] = {name: each.doc for name, each in TYPES.items()}

FUNCTIONS: Mapping[str, str] = FORMS
"""R1's closed set of combinators."""

WORDS = Words(STEPS, DOCUMENTS, TARGET, FIELD_TYPES, FUNCTIONS)
