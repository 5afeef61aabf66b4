"""Readers of what a call gets: arguments, commands, capabilities, and ``pass`` for another
pipeline.

The kinds of value that a key may take: one row each with its phrase, example, JSON Schema and
reader.
"""

from __future__ import annotations

from typing import NamedTuple

from ...flow.step import Expr, Name, Step
from ...flow.steps import Constant, NamedArguments, part
from ...text.diagnostics import Span
from ...text.nodes import Fields, Items, Node, is_expression, is_text, shown
from ..documents import COUNT as COUNT
from ..documents import NAME as NAME
from ..documents import (
    S_NAME,
    S_NAMES,
    S_TEXT,
    Key,
    Takes,
    kind,
    mapping_of,
    reference,
    said,
)
from ..documents import TEXT as TEXT
from . import texts
from .body import (
    RETRY,
    Reader,
    check_name,
    read_expression,
    read_literals,
    read_on_error,
    read_output,
    read_template,
)
from .r1.nodes import literal
from .texts import Attached, Command, Named

SHELL = "shell"
"""The tool of a shell step, and the kind of the step."""


def read_arguments(reader: Reader, node: Node, key: Key) -> NamedArguments | None:
    if not isinstance(node, Fields):
        reader.wrong_type(node, key)
        return None
    # shell: {command: …} is sugar for tool: {name: shell, args: {command: …}}
    is_shell = said(reader.given, "name") == SHELL
    given = []
    for name, value in node.fields.items():
        argument = Key(name, key.takes)
        expr: Expr | None
        if is_shell and name == "command":
            expr = read_command(reader, value, argument)
        elif is_expression(value):
            expr = reader.r1(value)
        else:
            expr = reader.literal(value, argument)
        if expr is not None:
            given.append((Name(name, node.keys[name].span), expr))
    return NamedArguments(tuple(given))


def read_attach(reader: Reader, node: Node, key: Key) -> Attached | None:
    if not isinstance(node, Items):
        reader.wrong_type(node, key)
        return None
    exprs = []
    for item in node.items:
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


def read_command(reader: Reader, node: Node, key: Key) -> Expr | None:
    if is_expression(node):
        expr = reader.r1(node)
        return Command(expr.span, expr) if expr else None
    if is_text(node):
        words = reader.words(node) or []
    elif isinstance(node, Items):
        words = [item.text for item in node.items]
        for item in node.items:
            if item.is_expr or type(item.value) is not str:
                hint = f'quote it: "{item.text}"' if item.text else None
                if item.is_expr:
                    hint = "the whole command can be one: !expr \"['ls', ctx.folder]\""
                message = f"a command must be a list of texts, got {shown(item)}"
                reader.error("pipeline.command", message, item.span, hint)
        if not words:
            reader.error("pipeline.command", "the command is empty", node.span)
    else:
        reader.wrong_type(node, key)
        return None
    _check_words(reader, words, node, key)
    return Constant(node.span, words)


def _check_words(reader: Reader, words: list[str], node: Node, key: Key) -> None:
    """Warn of words of a command that look like expressions (decision P21)."""
    alike = [texts.lookalike(word, reader.scope) for word in words]
    first = next((index for index, one in enumerate(alike) if one is not None), None)
    if first is not None:
        parts = ", ".join(
            one.expression if one else literal(word) for word, one in zip(words, alike, strict=True)
        )
        message = (
            f"{key.name!r} has the text {words[first]!r}: no expression is replaced in a command"
        )
        hint = f"write: {key.name}: {texts.tagged(f'[{parts}]')}"
        reader.warn(texts.CODE, message, node.span, hint)


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


IN_COLLECT = (
    "collect runs once, over all results: pipe is their list, for instance map(pipe, r -> r.name)"
)
IN_BRANCH = "a branch does not see another one; collect sees them all"


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
    given = reader.fields(TARGET, body, span)
    name = given.get("pipeline")
    return Target(span, name, given.get("pass") or NamedArguments(())) if name else None


def _cases(reader: Reader, node: Node, key: Key) -> dict[str, Target]:
    cases = {}
    for label, value in reader.filled(node, key):
        case = Key(label.text, TARGET_OF_CASE)
        if value.value is None:
            reader.empty(case, value, label)
        elif target := _target(reader, value, case):
            cases[label.text] = target._replace(span=label.span or target.span)
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


def _branches(reader: Reader, node: Node, key: Key) -> dict[str, Step]:
    steps, branches = {}, list(reader.filled(node, key))
    scope = reader.scope.inside((), unseen={name.text: IN_BRANCH for name, _ in branches})
    for name, value in branches:
        if not name.text.strip():
            message = "a branch has a blank name"
            reader.error("pipeline.blank-name", message, name.span, "give it a name")
        check_name(reader, name, "this branch", "pipe")
        step = reader.step(value, f"{reader.id}.branches{part(name.text)}", scope)
        if step is not None:
            steps[name.text] = step
    return steps


def written(node: Node) -> frozenset[str]:
    """The store that a step's ``output`` names; the step is not read yet."""
    for body in node.fields.values() if isinstance(node, Fields) else ():
        output = body.scalar("output") if isinstance(body, Fields) else None
        if output:
            return frozenset((output.text,))
    return frozenset()


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
