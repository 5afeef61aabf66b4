"""The pipeline language as data: the one table for the loader, the hints, completion and the JSON
Schema.

The kinds of value that a key may take, each a row with its phrase, example, JSON Schema and reader;
then the keys by the kinds of steps and documents. A key that is not here does not exist.

The readers of steps and of what they evaluate are in body.py; those of what only some keys take (a
pipeline to run, capabilities, attachments) are here, since they name keys of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ...flow.step import Name
from ...flow.steps import NamedArguments
from ...text.diagnostics import Span
from ...text.nodes import Fields, Items, Node
from ..documents import (
    COUNT,
    NAME,
    S_NAME,
    S_NAMES,
    S_TEXT,
    TEXT,
    Json,
    Key,
    Kind,
    Takes,
    kind,
    kind_schema,
    mapping_of,
    reference,
)
from . import texts
from .body import (
    RETRY,
    TITLE,
    Reader,
    read_arguments,
    read_branches,
    read_command,
    read_expression,
    read_literals,
    read_on_error,
    read_output,
    read_step,
    read_steps,
    read_template,
)
from .r1.nodes import FORMS
from .schema_documents import SCHEMA, TYPES
from .texts import BRANCH_ERRORS, ERRORS, Attached, Named


def read_attach(reader: Reader, node: Node, key: Key) -> Attached:
    exprs = []
    for item in reader.elements(node, key):
        is_known = reader.scope.knows(item.text.partition(".")[0])
        if texts.is_file_name(item.text, reader.scope) and not is_known:
            message = f"{item.text!r} is an expression here, not a path"
            reader.error(
                "pipeline.attach-path", message, item.span, f"quote the path: \"'{item.text}'\""
            )
            continue
        expr = read_expression(reader, item, key)
        if expr is not None:
            exprs.append(expr)
    return Attached(node.span, tuple(exprs))


def _names(reader: Reader, node: Node, key: Key) -> tuple[Name, ...]:
    names: dict[str, Name] = {}
    for name in reader.names(node, key):
        if names.setdefault(name.text, name) is not name:
            reader.warn("pipeline.listed-twice", f"{name.text!r} is listed twice", name.span)
    return tuple(names.values())


CAPABILITIES = kind(
    "capabilities",
    "What an agent may use.",
    Key(
        "tools",
        Takes("a list of names", "[file__read]", S_NAMES, _names, word="names"),
        "The tools.",
        required=True,
    ),
)


def read_tools(reader: Reader, node: Node, key: Key) -> tuple[Name, ...] | None:
    limits = reader.mapping(node, key)
    if limits is None:
        return None
    tools: tuple[Name, ...] | None = reader.fields(CAPABILITIES, limits, node.span).get("tools")
    return tools


def read_pass(reader: Reader, node: Node, key: Key) -> NamedArguments | None:
    if isinstance(node, Fields):  # P4: the newer form
        return NamedArguments(tuple(reader.read_entries(node, key, EXPRESSION)))
    if not isinstance(node, Items):
        reader.wrong_type(node, key)
        return None
    names = _names(reader, node, Key("pass", NAME))
    return NamedArguments(tuple((name, _listed(reader, name)) for name in names))


def _listed(reader: Reader, name: Name) -> Named:
    """A name in the list form of ``pass``: it is looked up as in an expression."""
    span = name.span or reader.span
    if name.text in reader.scope.names.hidden:
        reader.hidden_name(name.text, span)
    elif "." in name.text and name.text not in reader.scope.stores:
        last = name.text.rpartition(".")[2]
        hint = f"pass a field with the mapping form: {{{last}: {name.text}}}"
        reader.error(
            "pipeline.pass", f"'pass' lists names, and {name.text!r} is a path", span, hint
        )
    return Named(span, reader.scope.path(name.text))


class Target(NamedTuple):
    """The value of a label of a match."""

    span: Span
    """The place of an error about all of it: its label."""
    pipeline: Name
    args: NamedArguments


def _target(reader: Reader, node: Node, key: Key) -> Target | None:
    body = reader.mapping(node, key)
    if body is None:
        return None
    span = body.keys["pipeline"].span if "pipeline" in body.keys else body.span
    fields = reader.fields(TARGET, body, span)
    name = fields.get("pipeline")
    return Target(span, name, fields.get("pass") or NamedArguments(())) if name else None


def _cases(reader: Reader, node: Node, key: Key) -> dict[str, Target]:
    cases = {}
    for label, value in reader.filled(node, key):
        case = Key(label.text, TARGET_OF_CASE)
        if value.value is None:
            reader.empty(case, value, label)
        elif target := _target(reader, value, case):
            cases[label.text] = target._replace(span=label.span or target.span)
    return cases


_S_TOOLS = {
    "type": "object",
    "properties": {"tools": S_NAMES},
    "required": ["tools"],
    "additionalProperties": False,
}
_S_STEP, _S_TARGET = reference("step"), reference("target")

OUTPUT = NAME._replace(read=read_output)
EXPRESSION = Takes("an expression", '"ctx.n + 1"', S_NAME, read_expression, word="expression")
SCHEMA_NAME = NAME._replace(says="the name of a schema: document", example="Reply")
INITIAL = EXPRESSION._replace(example='"0"')
TEMPLATE = Takes("a text", '"Review {ctx.doc}"', S_TEXT, read_template, word="template")
ARGUMENTS = Takes(
    "a mapping of argument names to values",
    "{path: notes.txt, content: !expr ctx.notes}",
    {"type": "object"},
    read_arguments,
    word="arguments",
)
COMMAND = Takes(
    "a text, a list of texts, or an !expr that gives a list of texts",
    "ls -l",
    {"anyOf": [S_NAME, {"type": "array", "items": S_TEXT, "minItems": 1}]},
    read_command,
    word="command",
)
TOOLS = Takes(
    "a mapping with the key tools", "{tools: [file__read]}", _S_TOOLS, read_tools, word="tools"
)
ATTACH = Takes(
    "a list of expressions",
    "[\"'figure.png'\"]",
    {"type": "array", "items": S_NAME},
    read_attach,
    word="attach",
)
PASS = Takes(
    "a list of names, or a mapping of names to expressions",
    "[doc, notes]",
    {"anyOf": [S_NAMES, mapping_of(S_TEXT)]},
    read_pass,
    word="pass",
)
LITERALS = Takes("a list of values", "[1, 2, 3]", {"type": "array"}, read_literals, word="literals")
ON_ERROR = Takes(
    "abort, continue or retry(N)",
    "abort",
    {
        "type": "string",
        "pattern": f"^(abort|continue|{RETRY})$",
        "examples": ["abort", "continue", "retry(2)"],
    },
    read_on_error,
    word="on_error",
)
STEP = Takes("one step", '{transform: {value: "pipe"}}', _S_STEP, read_step, word="step")
LISTED_STEPS = Takes(
    "a list of steps",
    '[{transform: {value: "1"}}]',
    {"type": "array", "items": _S_STEP, "minItems": 1},
    read_steps,
    word="steps",
)
BRANCHES = Takes(
    "a mapping of branch names to steps",
    '{left: {transform: {value: "1"}}}',
    {**mapping_of(_S_STEP), "minProperties": 1, "propertyNames": S_NAME},
    read_branches,
    word="branches",
)
TARGET_OF_CASE = Takes(
    "a mapping with the key pipeline",
    "{pipeline: report, pass: [doc]}",
    _S_TARGET,
    _target,
    word="target",
)
CASES = Takes(
    "a mapping of labels to pipelines",
    '{"True": {pipeline: report}}',
    {**mapping_of(_S_TARGET), "minProperties": 1},
    _cases,
    word="cases",
)

PIPELINE_KEY = Key("pipeline", NAME, "The pipeline to run: always a literal name.", required=True)
PASS_KEY = Key(
    "pass", PASS, "What the called pipeline finds in its ctx; it sees nothing else.", null=True
)
TARGET = kind("target", "A pipeline to run.", PIPELINE_KEY, PASS_KEY)
"""The value of a label of `match`."""

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
STEPS: Mapping[str, Kind] = {
    each.name: each
    for each in (
        kind(
            "transform",
            "Evaluates an expression.",
            Key("value", EXPRESSION, "What the step's result is.", required=True),
            _OUTPUT,
        ),
        kind(
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
        kind(
            "shell",
            "Runs a command with the tool named shell; no shell interprets it.",
            Key("command", COMMAND, "The command and its arguments.", required=True),
            _SCHEMA,
            _ON_ERROR,
            _OUTPUT,
        ),
        kind(
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
        kind("call", "Runs another pipeline.", PIPELINE_KEY, PASS_KEY, _ON_ERROR, _OUTPUT),
        kind(
            "match",
            "Runs the pipeline whose label a value has.",
            Key("on", EXPRESSION, "The value whose text selects the case.", required=True),
            Key("cases", CASES, "The pipelines by label.", required=True),
            Key("default", TARGET_OF_CASE, "The pipeline for every other value.", null=True),
            _OUTPUT,
        ),
        kind(
            "fold",
            "Runs a step for one item after the other, with an accumulator.",
            _OVER,
            _ITEMS,
            Key("init", INITIAL, "What acc is before the first item.", required=True),
            Key(
                "do",
                STEP,
                "Runs once per item; its result is the next acc.",
                True,
                binds=("item", "acc"),
            ),
            Key("output", OUTPUT, "The store the last acc is written to.", required=True),
            Key("max_items", COUNT, "Items after this many are left out.", null=True),
        ),
        kind(
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
            Key("do", STEP, "Runs once per item.", True, binds=("item",)),
            Key(
                "collect",
                STEP,
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
                ON_ERROR,
                "What happens when a branch fails (abort when left out).",
            ),
            Key("branches", BRANCHES, "The steps by name; all run at once.", required=True),
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

DOCUMENTS: Mapping[str, Kind] = {
    "pipeline": kind(
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

PLANNED: Mapping[str, str] = {
    "input": "delete it; an expression reads the input as ctx.NAME",
    "defaults": "delete it",
    "refine": "delete it",
}
"""Keys of a pipeline document that the language reserves (decision P9), each with a hint."""

FIELD_TYPES: Mapping[str, str] = {name: each.doc for name, each in TYPES.items()}

FUNCTIONS: Mapping[str, str] = FORMS
"""R1's closed set of combinators."""


def document_schema() -> Json:
    """The language as a JSON Schema (Draft 2020-12), for editors: one document of a definition. It
    cannot describe expressions and ``!expr``."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A document of a pipeline definition",
        "oneOf": [reference(f"{name}_document") for name in DOCUMENTS],
        "$defs": {
            **{f"{name}_document": kind_schema(kind) for name, kind in DOCUMENTS.items()},
            "step": {
                "description": "One step: its kind, and under it the kind's keys.",
                "type": "object",
                "properties": {
                    **{name: reference(name) for name in STEPS},
                    TITLE.name: {**TITLE.takes.schema, "description": TITLE.doc},
                },
                "additionalProperties": False,
                "oneOf": [{"required": [name]} for name in STEPS],
            },
            **{name: _step_schema(kind) for name, kind in STEPS.items()},
            "target": kind_schema(TARGET),
            "fields": {**mapping_of(reference("type")), "minProperties": 1},
            "type": {"oneOf": [kind_schema(kind) for kind in TYPES.values()]},
        },
    }


def _step_schema(kind: Kind) -> Json:
    takes_a_list = {"over", "items"} <= kind.keys.keys()
    lists = {"not": {"required": ["over", "items"]}} if takes_a_list else {}
    return {**kind_schema(kind), **lists}
