"""The kinds of values that the keys of a pipeline may have: phrase, example, JSON Schema, reader.

`key_values` has the readers of steps and expressions. The readers of values that only some keys
have (a pipeline to run, capabilities, attachments) are here, since they name these keys.
"""

from __future__ import annotations

from typing import NamedTuple

from ...flow.expressions import NamedArguments
from ...flow.protocols import Args, Name
from ...text.source import Span
from ...text.yaml.nodes import Fields, Items, Node
from ..documents import NAME
from ..key_schemas import S_NAME, S_NAMES, S_TEXT, mapping_of, reference
from ..keys import Key, Takes, mapping_spec
from . import lookalikes
from .body import Reader, refused_value
from .key_values import (
    RETRY,
    check_blank,
    check_name,
    check_readable,
    read_arguments,
    read_branches,
    read_command,
    read_expression,
    read_literals,
    read_on_error,
    read_output,
    read_schema_name,
    read_step,
    read_steps,
    read_template,
)
from .r1.written import literal
from .scope import HANDED_ON
from .values import Attached, Named


def read_attach(reader: Reader, node: Node, key: Key) -> Attached:
    exprs = []
    for item in reader.each_item(node, key):
        is_known = reader.scope.knows(item.text.partition(".")[0])
        if lookalikes.is_file_name(item.text, reader.scope) and not is_known:
            message = f"{item.text!r} is an expression here, not a path"
            reader.error(
                "pipeline.attach-path",
                message,
                item.span,
                f"quote the path: {lookalikes.quoted(literal(item.text))}",
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


CAPABILITIES = mapping_spec(
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
        passed = NamedArguments(tuple(reader.read_values(node, key, EXPRESSION)))
        for name, expr in passed.values:
            check_blank(reader, name, "a value that is passed")
            check_readable(reader, name, "this value")
            if not (name.text == HANDED_ON and expr.span.text == HANDED_ON):
                check_name(reader, name, "this value", "ctx")
        return passed if len(passed.values) == len(node.fields) else None
    if not isinstance(node, Items):
        reader.wrong_type(node, key)
        return None
    names = _names(reader, node, Key("pass", NAME))
    for name in names:
        if name.text != HANDED_ON:
            check_name(reader, name, "this value", "ctx")
    return NamedArguments(tuple((name, _read_listed_name(reader, name)) for name in names))


def _read_listed_name(reader: Reader, name: Name) -> Named:
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
    """The label, where an error about the whole target is shown."""
    pipeline: Name | None
    """The pipeline; None: it could not be read."""
    args: Args


def _target(reader: Reader, node: Node, key: Key) -> Target:
    body = reader.mapping(node, key)
    if body is None:
        return Target(node.span, None, refused_value(node.span))
    span = body.keys["pipeline"].span if "pipeline" in body.keys else body.span
    is_step = not reader.grammar.kinds.keys().isdisjoint(body.fields)
    fields = reader.fields(_STEP_FOR_TARGET if is_step else TARGET, body, span)
    args = fields.get("pass", NamedArguments(()))
    return Target(span, fields.get("pipeline"), args or refused_value(span))


def _cases(reader: Reader, node: Node, key: Key) -> dict[str, Target]:
    cases: dict[str, Target] = {}
    # The item itself is not the mapping that is wanted: `- {when: true, do: …}` has no label.
    if isinstance(node, Items) and not all(
        isinstance(item, Fields) and len(item.fields) == 1 for item in node.items
    ):
        reader.wrong_type(node, key, key.example)
        return cases
    for label, value in reader.written_entries(node, key):
        case = Key(label.text, TARGET_OF_CASE)
        if value.value is None:
            reader.empty(case, value, label)
            cases[label.text] = Target(label.span, None, refused_value(label.span))
        else:
            cases[label.text] = _target(reader, value, case)._replace(span=label.span)
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
SCHEMA_NAME = NAME._replace(
    says="the name of a schema: document", example="Reply", read=read_schema_name
)
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
    {"anyOf": [S_NAMES, {**mapping_of(S_TEXT), "propertyNames": S_NAME}]},
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
TARGET = mapping_spec("target", "A pipeline to run.", PIPELINE_KEY, PASS_KEY)
"""The value of a label of `match`."""
_STEP_FOR_TARGET = mapping_spec(
    TARGET.name, TARGET.doc, PIPELINE_KEY._replace(required=False), PASS_KEY
)
"""The keys of a step in the place of a target, whose error says that a pipeline belongs there."""
