"""The kinds of value that a key may take: one row each with its phrase, example, JSON Schema and
reader."""

from __future__ import annotations

from typing import NamedTuple

from ...flow.steps import Name, Step, part
from ...text.nodes import Fields, Items, Node, Scalar
from ...text.source import Span
from ..documents import COUNT as COUNT
from ..documents import S_NAME, S_NAMES, S_TEXT, Key, Takes, is_null, kind, mapping_of, reference
from ..documents import TEXT as TEXT
from .body import Reader, read_expression, read_literals, read_name, read_on_error, read_template
from .calls import read_arguments, read_attach, read_command, read_pass, read_tools
from .values import Arguments

IN_COLLECT = (
    "collect runs once, over all results: pipe is their list, for instance map(pipe, r -> r.name)"
)
IN_BRANCH = "a branch does not see another one; collect sees them all"


class Target(NamedTuple):
    """The value of a label of a match."""

    span: Span
    """The place of an error about all of it: its label."""
    pipeline: Name
    args: Arguments


def _target(reader: Reader, node: Node, key: Key) -> Target | None:
    body = reader.mapping(node, key)
    if body is None:
        return None
    span = body.keys["pipeline"].span if "pipeline" in body.keys else body.span
    given = reader.fields(TARGET, body, span)
    name = given.get("pipeline")
    return Target(span, name, given.get("pass") or Arguments(())) if name else None


def _cases(reader: Reader, node: Node, key: Key) -> dict[str, Target] | None:
    if not isinstance(node, Fields) or not node.fields:
        reader.wrong_type(node, key)
        return None
    cases = {}
    for label, value in node.fields.items():
        case = Key(label, TARGET_OF_CASE)
        if isinstance(value, Scalar) and is_null(value):
            reader.empty(case, value, node.keys[label])
        elif target := _target(reader, value, case):
            cases[label] = target._replace(span=node.keys[label].span)
    return cases


def _steps(reader: Reader, node: Node, key: Key) -> tuple[Step, ...]:
    if not isinstance(node, Items) or not node.items:
        first = next(iter(node.fields), "") if isinstance(node, Fields) else ""
        reader.wrong_type(node, key, f"begin each step with a dash: - {first}:" if first else None)
        return ()
    steps = [
        reader.step(item, f"steps[{index}]", reader.scope) for index, item in enumerate(node.items)
    ]
    return tuple(step for step in steps if step is not None)


def _step(reader: Reader, node: Node, key: Key) -> Step | None:
    loops = "acc" in key.binds  # the stores of a fold's step are visible in its next iteration
    branches = reader.given.get("branches") or () if key.name == "collect" else ()
    unseen = {"item": IN_COLLECT} if key.name == "collect" and not branches else {}
    scope = reader.scope.inside(
        key.binds, branches, written(node) if loops else frozenset(), unseen
    )
    return reader.step(node, f"{reader.id}.{key.name}", scope)


def _branches(reader: Reader, node: Node, key: Key) -> dict[str, Step] | None:
    if not isinstance(node, Fields) or not node.fields:
        reader.wrong_type(node, key)
        return None
    steps, scope = {}, reader.scope.inside((), unseen=dict.fromkeys(node.fields, IN_BRANCH))
    for name, value in node.fields.items():
        if not name.strip():
            reader.error(
                "pipeline.blank-name",
                "a branch has a blank name",
                node.keys[name].span,
                "give it a name",
            )
        step = reader.step(value, f"{reader.id}.branches{part(name)}", scope)
        if step is not None:
            steps[name] = step
    return steps


def written(node: Node) -> frozenset[str]:
    """The store that a step's ``output`` names; the step is not read yet."""
    for body in node.fields.values() if isinstance(node, Fields) else ():
        output = body.fields.get("output") if isinstance(body, Fields) else None
        if isinstance(output, Scalar):
            return frozenset((output.text,))
    return frozenset()


_S_TOOLS = {
    "type": "object",
    "properties": {"tools": S_NAMES},
    "required": ["tools"],
    "additionalProperties": False,
}
_S_STEP, _S_TARGET = reference("step"), reference("target")

NAME = Takes("a name", "review", S_NAME, read_name, word="name")
EXPRESSION = Takes("an expression", '"ctx.n + 1"', S_NAME, read_expression, word="expression")
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
    {"type": "string", "pattern": r"^(abort|continue|retry\([0-9]{1,9}\))$"},
    read_on_error,
    word="on_error",
)
STEP = Takes("one step", '{transform: {value: "pipe"}}', _S_STEP, _step, word="step")
LISTED_STEPS = Takes(
    "a list of steps",
    '[{transform: {value: "1"}}]',
    {"type": "array", "items": _S_STEP, "minItems": 1},
    _steps,
    word="steps",
)
BRANCHES = Takes(
    "a mapping of branch names to steps",
    '{left: {transform: {value: "1"}}}',
    {**mapping_of(_S_STEP), "minProperties": 1, "propertyNames": S_NAME},
    _branches,
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
