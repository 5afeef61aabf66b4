"""The pipeline language as data: the one table for the loader, the hints, completion and the JSON Schema.

A key that is not here does not exist. What a key takes is a word of `TAKES`, for which the loader has a reader and the
JSON Schema a shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from .r1.hints import FORMS


class Takes(NamedTuple):
    """A kind of value: what an error calls it, and one as a hint shows it."""

    says: str
    example: str


TAKES: Mapping[str, Takes] = {
    "name": Takes("a name", "review"),
    "text": Takes("a text", "what it is for"),
    "expression": Takes("an expression", '"ctx.n + 1"'),
    "template": Takes("a text", '"Review {ctx.doc}"'),
    "arguments": Takes("a mapping of argument names to values", "{path: notes.txt, content: !expr ctx.notes}"),
    "command": Takes("a text, a list of texts, or an !expr that gives a list of texts", "ls -l"),
    "tools": Takes("a mapping with the key tools", "{tools: [file__read]}"),
    "pass": Takes("a list of names, or a mapping of names to expressions", "[doc, notes]"),
    "literals": Takes("a list of values", "[1, 2, 3]"),
    "count": Takes("a whole number, 1 or more", "4"),
    "on_error": Takes("abort, continue or retry(N)", "abort"),
    "step": Takes("one step", '{transform: {value: "pipe"}}'),
    "steps": Takes("a list of steps", '[{transform: {value: "1"}}]'),
    "branches": Takes("a mapping of branch names to steps", '{left: {transform: {value: "1"}}}'),
    "target": Takes("a mapping with the key pipeline", "{pipeline: report, pass: [doc]}"),
    "cases": Takes("a mapping of labels to pipelines", '{"True": {pipeline: report}}'),
    "fields": Takes("a mapping of field names to types", "{passed: {type: bool}}"),
}
"""Every kind of value that a key may take."""


class Key(NamedTuple):
    """A key of a mapping."""

    name: str
    takes: str
    doc: str
    required: bool = False
    binds: tuple[str, ...] = ()
    """For a nested step: the names that it sees besides ``ctx`` and ``pipe``."""
    null: bool = False
    """Whether null is the same as no key."""

    @property
    def says(self) -> str:
        return TAKES[self.takes].says

    @property
    def example(self) -> str:
        return f"{self.name}: {TAKES[self.takes].example}"


class Kind(NamedTuple):
    """A mapping of the language: a step of one kind, or a document."""

    name: str
    doc: str
    keys: Mapping[str, Key]


class Words(NamedTuple):
    """The tables of a language, for completion."""

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
_OVER = Key("over", "expression", "Gives the list; without over and items it is the incoming pipe.", null=True)
_ITEMS = Key("items", "literals", "The list itself, as written.", null=True)
LIST_SOURCES = ("over", "items")
"""Keys with null as the incoming pipe; with nothing as the value, the author most likely forgot it."""
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
            Key("args", "arguments", "Its arguments: literals, or expressions after !expr.", null=True),
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
            Key("model", "name", "The model that answers, as openai:gpt-4o; an extension of the language.", null=True),
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
            "Runs a step for one item after the other, with an accumulator.",
            _OVER,
            _ITEMS,
            Key("init", "expression", "What acc is before the first item.", required=True),
            Key("do", "step", "Runs once per item; its result is the next acc.", True, ("item", "acc")),
            Key("output", "name", "The store the last acc is written to.", required=True),
            Key("max_items", "count", "Items after this many are left out.", null=True),
        ),
        _kind(
            "for_each",
            "Runs a step once per item, several items at a time.",
            _OVER,
            _ITEMS,
            Key("max_parallel", "count", "How many items run at once (8 when left out).", null=True),
            Key("on_error", "on_error", "What happens when an item fails.", required=True),
            Key("do", "step", "Runs once per item.", True, ("item",)),
            Key("collect", "step", "Runs once at the end: pipe is the list of results.", required=True),
            _OUTPUT,
        ),
        _kind(
            "parallel",
            "Runs named steps at the same time.",
            Key("on_error", "on_error", "What happens when a branch fails (abort when left out)."),
            Key("branches", "branches", "The steps by name; all run at once.", required=True),
            Key("collect", "step", "Runs once at the end: pipe maps each branch to its result.", required=True),
            _OUTPUT,
        ),
    )
}

TARGET = _kind("target", "A pipeline to run.", _PIPELINE, _PASS)
"""The value of a label of `match`."""

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

FUNCTIONS: Mapping[str, str] = FORMS
"""R1's closed set of combinators."""

WORDS = Words(STEPS, DOCUMENTS, TARGET, FIELD_TYPES, FUNCTIONS)
