"""The pipeline language as data: the one table that loader, hints, completion and JSON Schema are made from.

A key that is not here does not exist anywhere; what a key takes is a word of `TAKES`, for which the loader has a reader
and the JSON Schema a shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

TAKES: Mapping[str, str] = {
    "name": "a name",
    "text": "a text",
    "expression": "an expression",
    "template": "a text",
    "arguments": "a mapping of argument names to values",
    "command": "a text, a list of texts, or an !expr that gives a list of texts",
    "tools": "a mapping with the key tools",
    "pass": "a list of names, or a mapping of names to expressions",
    "literals": "a list of values",
    "count": "a whole number, 1 or more",
    "on_error": "abort, continue or retry(N)",
    "step": "one step",
    "steps": "a list of steps",
    "branches": "a mapping of branch names to steps",
    "target": "a mapping with the key pipeline",
    "cases": "a mapping of labels to pipelines",
    "fields": "a mapping of field names to types",
}
"""Every kind of value a key may take, as an error says it."""

EXAMPLES: Mapping[str, str] = {
    "name": "review",
    "text": "what it is for",
    "expression": '"ctx.n + 1"',
    "template": '"Review {ctx.doc}"',
    "arguments": "{path: notes.txt, content: !expr ctx.notes}",
    "command": "ls -l",
    "tools": "{tools: [file__read]}",
    "pass": "[doc, notes]",
    "literals": "[1, 2, 3]",
    "count": "4",
    "on_error": "abort",
    "step": '{transform: {value: "pipe"}}',
    "steps": '[{transform: {value: "1"}}]',
    "branches": '{left: {transform: {value: "1"}}}',
    "target": "{pipeline: report, pass: [doc]}",
    "cases": '{"True": {pipeline: report}}',
    "fields": "{passed: {type: bool}}",
}
"""One of each, as a hint shows it."""


class Key(NamedTuple):
    """A key of a mapping."""

    name: str
    takes: str
    doc: str
    required: bool = False
    binds: tuple[str, ...] = ()
    """For a nested step: the names it sees beside ``ctx`` and ``pipe``."""
    null: bool = False
    """Whether null is as good as leaving the key out."""


class Kind(NamedTuple):
    """A mapping of the language: a step of one kind, or a document."""

    name: str
    doc: str
    keys: Mapping[str, Key]


class Words(NamedTuple):
    """What a language says about itself: for hints, completion and its JSON Schema."""

    takes: Mapping[str, str]
    examples: Mapping[str, str]
    steps: Mapping[str, Kind]
    documents: Mapping[str, Kind]
    target: Kind
    field_types: Mapping[str, str]
    """With one line on each."""
    functions: Mapping[str, str]
    """Of the expression language, each with its signature."""


def _kind(name: str, doc: str, *keys: Key) -> Kind:
    return Kind(name, doc, {key.name: key for key in keys})


_OUTPUT = Key("output", "name", "The store the result is written to.", null=True)
_SCHEMA = Key("schema", "name", "The schema the result must conform to, else the step fails.", null=True)
_OVER = Key("over", "expression", "Gives the list; without over and items it is the incoming pipe.")
_ITEMS = Key("items", "literals", "The list itself, as written.")
_PIPELINE = Key("pipeline", "name", "The pipeline to run: always a literal name.", required=True)
_PASS = Key("pass", "pass", "What the called pipeline finds in its ctx; it sees nothing else.", null=True)

STEPS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        _kind(
            "transform",
            "Evaluates an expression.",
            Key("value", "expression", "What the step's result is.", required=True),
            _OUTPUT,
        ),
        _kind(
            "tool",
            "Calls a registered tool.",
            Key("name", "name", "The tool.", required=True),
            Key("args", "arguments", "Its arguments: literal, or an expression behind !expr.", null=True),
            _SCHEMA,
            _OUTPUT,
        ),
        _kind(
            "shell",
            "Runs a command with the tool named shell; no shell interprets it.",
            Key("command", "command", "The command and its arguments.", required=True),
            _SCHEMA,
            _OUTPUT,
        ),
        _kind(
            "agent",
            "Asks an agent.",
            Key("prompt", "template", "What it is asked; {ctx.x}, {pipe} and {item} are replaced.", required=True),
            Key("identity", "name", "The registered agent that answers; without it the default agent.", null=True),
            Key("capabilities", "tools", "The tools it may use at most.", null=True),
            _SCHEMA,
            _OUTPUT,
        ),
        _kind("call", "Runs another pipeline.", _PIPELINE, _PASS, _OUTPUT),
        _kind(
            "match",
            "Runs the pipeline whose label a value has.",
            Key("on", "expression", "The value whose text selects the case.", required=True),
            Key("cases", "cases", "The pipelines by label.", required=True),
            Key("default", "target", "The pipeline for every other value.", null=True),
            _OUTPUT,
        ),
        _kind(
            "fold",
            "Walks a list in order and carries an accumulator along.",
            _OVER,
            _ITEMS,
            Key("init", "expression", "What acc is before the first item.", required=True),
            Key("do", "step", "Runs once per item; its result is the next acc.", True, ("item", "acc")),
            Key("output", "name", "The store the last acc is written to.", required=True),
            Key("max_items", "count", "Items after this many are left out.", null=True),
        ),
        _kind(
            "for_each",
            "Runs a step once per item, side by side.",
            _OVER,
            _ITEMS,
            Key("max_parallel", "count", "How many items run at once (8 when left out).", null=True),
            Key("on_error", "on_error", "What a failing item does to the others.", required=True),
            Key("do", "step", "Runs once per item.", True, ("item",)),
            Key("collect", "step", "Runs once at the end: pipe is the list of results.", required=True),
            _OUTPUT,
        ),
        _kind(
            "parallel",
            "Runs named steps side by side.",
            Key("on_error", "on_error", "What a failing branch does to the others (abort when left out)."),
            Key("branches", "branches", "The steps by name; all run at once.", required=True),
            Key("collect", "step", "Runs once at the end: pipe maps each branch to its result.", required=True),
            _OUTPUT,
        ),
    )
}

TARGET = _kind("target", "A pipeline to run.", _PIPELINE, _PASS)
"""What stands under a label of `match`."""

DOCUMENTS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        _kind(
            "pipeline",
            "A pipeline.",
            Key("pipeline", "name", "Its name, under which it is registered and called.", required=True),
            Key("description", "text", "What it does, for people and for agents that may call it."),
            Key("steps", "steps", "What runs, in order.", required=True),
        ),
        _kind(
            "schema",
            "A schema that steps can demand of a result.",
            Key("schema", "name", "Its name.", required=True),
            Key("fields", "fields", "Its fields and their types.", required=True),
        ),
    )
}

PLANNED = ("input", "defaults", "refine")
"""Keys of a pipeline document that the language reserves (decision P9)."""

FIELD_TYPES: Mapping[str, str] = {
    "bool": "true or false",
    "string": "a text",
    "number": "a number; may carry minimum and maximum",
    "enum": "one of the literals in values: [...]",
    "list": "a list whose elements are of: {type: ...}",
    "object": "an object with fields: {...}",
    "ref": "another schema, by schema: Name",
}

FUNCTIONS: Mapping[str, str] = {
    "map": "map(list, x -> expr)",
    "filter": "filter(list, x -> expr)",
    "all": "all(list, x -> expr)",
    "any": "any(list, x -> expr)",
    "find": "find(list, x -> expr)",
    "count": "count(list)",
    "sum": "sum(list)",
    "join": "join(list, separator)",
    "get": "get(object, 'dotted.path', default)",
}
"""R1's closed set of combinators."""

WORDS = Words(TAKES, EXAMPLES, STEPS, DOCUMENTS, TARGET, FIELD_TYPES, FUNCTIONS)
