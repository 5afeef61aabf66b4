"""Reads the steps of a pipeline, and the values of their keys.

A text becomes a flow in one way: `Reader.fields` reads the keys of a mapping by their table, a key
that holds a step reads it with `Reader.step`, and `Grammar.build` makes the step.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

from ...flow.expressions import Constant, NamedArguments
from ...flow.protocols import Expr, Name
from ...flow.step import FailurePolicy, Step
from ...flow.steps import part
from ...text.diagnostics import DefinitionError, Diagnostic, Diagnostics
from ...text.names import same_name
from ...text.shorten import shorten
from ...text.source import Span
from ...text.suggestions import suggest
from ...text.yaml.nodes import (
    Fields,
    Items,
    Node,
    Scalar,
    every_node,
    flow_text,
    is_expression,
    is_text,
    plain,
    shown,
)
from .. import documents
from ..documents import Key, Kind, advised, said
from . import lookalikes
from .r1 import R1, parse
from .r1.nodes import Lit, Path, nested
from .r1.written import literal
from .scope import ROOTS, Scope
from .template import Template, parse_template
from .values import BRANCH_ERRORS, Command

RETRY = (
    r"retry\(([0-9]{1,9})(?:, ?wait: ?([0-9]{1,6}(?:\.[0-9]{1,3})?)(ms|s|min))?"
    r"(, ?then: ?continue)?\)"
)
_RETRY = re.compile(RETRY, re.ASCII)
_SECONDS = {"ms": 0.001, "s": 1.0, "min": 60.0}


TITLE = Key("title", documents.NAME, "What its box and its row show; an extension of the language.")
"""May stand beside the kind of every step."""


_ON_ERROR = {"abort": FailurePolicy("abort"), "continue": FailurePolicy("continue")}
_ON_ERROR_ELSEWHERE = {
    "ignore": "continue",
    "skip": "continue",
    "drop": "continue",
    "fail": "abort",
    "stop": "abort",
    "raise": "abort",
    "retry": "retry(1)",
}
"""Other words for the policies."""


_FORMS = {
    "literals": "over: {2}",
    "pass": "pass: [{1}]",
    "target": "{0}: {{pipeline: {2}}}",
}
"""What a text means in the place of another type, by the word of the type. {2} is the text in quotes
if it needs them."""
_MATCH = "match: {on: VALUE, cases: {true: {pipeline: NAME}}}"
_ELSEWHERE = {
    **dict.fromkeys(
        ("python", "code"), "Python code is a tool: @tool def f(…), then tool: {name: f, args: {…}}"
    ),
    **dict.fromkeys(
        ("if", "switch"),
        "match runs a pipeline by a value: "
        f"{_MATCH.replace('VALUE', 'ctx.n > 2')}; in an expression write: condition and a or b",
    ),
    **dict.fromkeys(("for", "loop", "while"), "write: for_each, or fold"),
    **dict.fromkeys(("llm", "prompt"), "write: agent: {prompt: …}"),
    **dict.fromkeys(("bash", "command"), "write: shell: {command: …}"),
    **dict.fromkeys(("set", "value"), "write: transform: {value: …, output: …}"),
    "reduce": "write: fold",
    "pipeline": "write: call: {pipeline: …}",
}
"""Step kinds of other languages; what to write here."""


class Grammar(NamedTuple):
    """What a step can be, for the readers of one definition."""

    kinds: Mapping[str, Kind]
    build: Callable[[Reader, str, Fields], Step]
    """Makes the step of a kind from the values of its keys."""
    is_broken: bool
    """Whether the YAML has errors: then a text may be the rest of something else."""
    doubts: list[tuple[str, Diagnostic]]
    """Problems that hold if no expression of the pipeline reads the store."""


class Reader(documents.Reader):
    """Reads one mapping: a document, or the keys of a step."""

    layer = "pipeline"
    slips: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **dict.fromkeys(("arguments", "parameters", "inputs", "input", "with"), ("args", "pass")),
        "args": ("pass",),
        "pass": ("args",),
        **dict.fromkeys(("in", "list", "for", "each"), ("over",)),
        **dict.fromkeys(("start", "initial"), ("init",)),
        **dict.fromkeys(
            ("workers", "max_workers", "threads", "jobs", "concurrency", "parallel", "width"),
            ("max_parallel",),
        ),
        **dict.fromkeys(("body", "step", "then"), ("do",)),
        **dict.fromkeys(("store", "save", "as", "result", "output_key"), ("output",)),
        **dict.fromkeys(("question", "message", "text", "instructions"), ("prompt",)),
        **dict.fromkeys(("name", "agent"), ("identity", "pipeline")),
        **dict.fromkeys(("tool", "function"), ("name",)),
        **dict.fromkeys(("expr", "expression"), ("value",)),
        **dict.fromkeys(("value", "if"), ("on",)),
        **dict.fromkeys(("steps", "tasks"), ("branches",)),
        **dict.fromkeys(("else", "otherwise"), ("default",)),
        "run": ("command",),
    }
    advice: ClassVar[Mapping[str, str]] = {
        "condition": f"a step has no condition; match runs a pipeline by a value: {_MATCH}",
        "retries": "write on_error: retry(NUMBER)",
        "wait": "the time between attempts is part of on_error: 'retry(3, wait: NUMBERs)'",
        "timeout": "the time of a tool is set where it is registered: @tool(timeout=NUMBER)",
        "tools": "write capabilities: {tools: [NAME]}",
        "order": "steps run in the order of the list; those of parallel: at the same time",
        "loop": "for_each is a step around this one: for_each: {over: ctx.items, on_error: abort, "
        "do: {…}, collect: {transform: {value: pipe}}}",
        "id": "a step is known by its result: output: VALUE; its box shows title: VALUE",
        "environment": "a value comes from the input: --set NAME=$name, read as ctx.NAME",
    }

    def __init__(
        self, problems: Diagnostics, grammar: Grammar, id: str, span: Span, scope: Scope
    ) -> None:
        super().__init__(problems)
        self.grammar = grammar
        self.id = id
        self.span = span
        self.scope = scope
        self.given: dict[str, Any] = {}
        """The values of its keys so far."""

    def step(self, node: Node, id: str, scope: Scope) -> Step | None:
        """The step in ``node``; None if it has errors, which are reported."""
        if not isinstance(node, Fields):
            hint = "a step is one kind with its keys: transform: {value: ...}"
            if isinstance(node, Items):
                hint = (
                    "one step belongs here; several are a pipeline of their own: "
                    "call: {pipeline: NAME, pass: [item]}"
                )
            message = f"a step must be a mapping with one key, its kind, got {shown(node)}"
            self.error("pipeline.step-shape", message, node.span, hint)
            return None
        chosen = self._kind(node)
        if chosen is None:
            return None
        key, body = chosen
        kind = self.grammar.kinds[key.text]
        reader = Reader(self.problems, self.grammar, id, key.span, scope)
        reader.fields(kind, body, key.span, reader.given)
        if TITLE.name in node.fields:  # beside the kind, for all of them (decision P23)
            reader.given[TITLE.name] = reader.name(node.fields[TITLE.name], TITLE)
        if {"over", "items"} <= body.fields.keys() & kind.keys.keys():
            hint = "over takes an expression, items a literal list: keep one"
            message, span = "over and items exclude each other", body.keys["items"].span
            reader.error("pipeline.over-and-items", message, span, hint)
        return None if reader.error_count else self.grammar.build(reader, key.text, body)

    def _kind(self, node: Fields) -> tuple[Scalar, Fields] | None:
        """The kind of a step and its keys; None after an error."""
        words = [key for name, key in node.keys.items() if name != TITLE.name]
        if len(words) != 1:
            self._not_one(node, words)
            return None
        (key,) = words
        kinds = self.grammar.kinds
        if key.text not in kinds:
            tool = f"a tool is called with tool: {{name: {key.text}, args: {{…}}}}"
            near = suggest(key.text, kinds)
            hint = (
                _ELSEWHERE.get(key.text)
                or f"{near or f'{tool};'} step kinds are {', '.join(kinds)}"
            )
            self.error("pipeline.step-kind", f"no step kind {key.text!r}", key.span, hint)
            return None
        body = node.fields[key.text]
        if isinstance(body, Fields):
            return key, body
        self._no_keys(key, body)
        return None

    def _no_keys(self, word: Scalar, body: Node) -> None:
        """Report a kind whose value is not a mapping of its keys."""
        span = body.span if not isinstance(body, Scalar) or body.text else word.span
        keys = self.grammar.kinds[word.text].keys
        needed = ", ".join(key.example for key in keys.values() if key.required)
        hint = f"write: {word.text}: {{{needed}}}"
        first = next(iter(keys.values()))
        if first.required and body.text:
            quoted = first.takes.word in ("expression", "template")
            value = f'"{body.text}"' if quoted else body.text
            hint = f"write: {word.text}: {{{first.name}: {value}}}"
        if isinstance(body, Items) and "branches" in keys:
            collect = "collect: {transform: {value: pipe}}"
            hint = f"write: {word.text}: {{branches: {_named(body)}, {collect}}}"
        message = f"{word.text!r} must be a mapping, got {shown(body)}"
        self.error("pipeline.wrong-type", message, span, hint)

    def _not_one(self, node: Fields, words: list[Scalar]) -> None:
        kinds = self.grammar.kinds
        kind_keys = [key for key in words if key.text in kinds]
        if len(kind_keys) > 1:
            self.error(
                "pipeline.step-shape",
                "several kinds in one step",
                kind_keys[1].span,
                "begin each step with a dash",
            )
        elif kind_keys:
            (kind,) = kind_keys
            extra = next(key for key in words if key is not kind)
            hint = f"indent the keys of {kind.text} below it, or write {kind.text}: {{...}}"
            message = f"{extra.text!r} must be inside {kind.text!r}"
            advice = advised(self.advice, extra.text, node.fields[extra.text].text)
            if advice and extra.text not in kinds[kind.text].keys:
                message, hint = f"a step has no key {extra.text!r}", advice
            self.error("pipeline.step-shape", message, extra.span, hint)
        else:
            near = suggest(next(iter(node.fields), ""), kinds, "step kinds")
            self.error(
                "pipeline.step-shape",
                "a step is a mapping with one key, its kind",
                node.span,
                near,
            )

    def unknown(self, kind: Kind, node: Fields) -> frozenset[str]:
        slips = super().unknown(kind, node)
        is_step = kind.name == "target" and not self.grammar.kinds.keys().isdisjoint(node.keys)
        return slips | {"pipeline"} if is_step else slips

    def unknown_hint(self, kind: Kind, name: str, value: Node) -> str | None:
        hint, kinds = super().unknown_hint(kind, name, value), self.grammar.kinds
        if kind.name == "target" and name in kinds:
            return (
                "a case names a pipeline: put the step into one of its own, and write here "
                "{pipeline: NAME}"
            )
        if kind.name == "parallel" and isinstance(value, Fields):
            return "indent a branch below branches:"
        others = [step.name for step in kinds.values() if name in step.keys]
        return f"{name!r} is a key of {', '.join(others)}; {hint}" if others else hint

    def refuse_tag(self, node: Scalar, key: Key) -> None:
        hint = (
            "remove !expr: it is an expression already"
            if key.takes.word == "expression"
            else f"it must be {key.takes.says}"
        )
        self.error(
            "pipeline.misplaced-expr", f"!expr does not belong in {key.name!r}", node.span, hint
        )

    def wrong_type(self, node: Node, key: Key, hint: str | None = None) -> None:
        if isinstance(node, Items) and key.name == "over":
            hint = f"write: items: {flow_text(node)}"
        elif isinstance(node, Items) and key.takes.word == "branches":
            hint = f"name each branch: branches: {_named(node)}"
        elif node.text and key.takes.word in _FORMS:
            quoted = lookalikes.tagged(node.text).removeprefix("!expr ")
            hint = f"write: {_FORMS[key.takes.word].format(key.name, node.text, quoted)}"
        super().wrong_type(node, key, hint)

    def r1(self, node: Scalar) -> R1 | None:
        """An expression, with or without its tag."""
        scope = self.scope
        try:
            expr = parse(node, scope.names)
        except DefinitionError as error:
            self.problems.extend(error.diagnostics)
            return None
        # `!expr "'item'"` is the text itself, as the hints about such a text say.
        if not (node.is_expr and isinstance(expr.node, Lit)):
            self.problems.extend(lookalikes.in_expression(expr.node, node, scope))
        self.hidden(expr)
        return expr

    def hidden(self, expr: R1) -> None:
        """Warn of each path whose first name is hidden at this place."""
        for path in nested(expr.node):
            if isinstance(path, Path) and path.hidden is not None:
                self.hidden_name(path.parts[0], expr.locate(path.at, path.at + len(path.parts[0])))

    def hidden_name(self, name: str, span: Span) -> None:
        # No error: the input may bring a store of that name (P1 looks there last).
        if name not in self.scope.stores:
            message = f"{name!r} is not visible here: this reads a store of that name"
            self.warn("pipeline.hidden-name", message, span, self.scope.names.hidden[name])

    def literal(self, node: Node, key: Key) -> Constant:
        """A literal value. Text in it that looks like an expression is reported (decision P21)."""
        for inner in every_node(node):
            if inner.is_expr:
                hint = (
                    "only a whole argument can be an !expr; build the value there: !expr "
                    "\"[ctx.a, 'b']\""
                )
                self.error(
                    "pipeline.nested-expr", "!expr inside a list or mapping", inner.span, hint
                )
            elif (
                is_text(inner)
                and not self.grammar.is_broken
                and (found := lookalikes.lookalike(inner.text, self.scope))
            ):
                relation = "is" if inner is node else "has"
                message = (
                    f"{key.name!r} {relation} the text {shorten(inner.text)!r}: {found.reason}"
                )
                hint = lookalikes.pass_on(found.expression, self.scope) or _tag_hint(
                    inner, node, key, found.expression
                )
                store = "" if inner is node and key.name == found.store else found.store
                self.literal_path(message, inner.span, hint, store)
        return Constant(node.span, plain(node))

    def literal_path(self, message: str, span: Span, hint: str, store: str) -> None:
        """Warn of a text that is meant as an expression; with ``store``, once it is known that
        nothing reads that store."""
        problem = Diagnostic(lookalikes.CODE, message, span, hint, "warning")
        if store:
            self.grammar.doubts.append((store, problem))
        else:
            self.problems.add(problem)


def _named(steps: Items) -> str:
    """A list of steps as branches with names."""
    named = (f"{chr(97 + i % 26)}: {flow_text(step)}" for i, step in enumerate(steps.items))
    return f"{{{', '.join(named)}}}"


def _tag_hint(inner: Scalar, node: Node, key: Key, expression: str) -> str:
    whole = lookalikes.tagged(expression if inner is node else f"[{expression}]")
    if key.takes.word == "literals":
        return f"items are literals; write an expression: over: {whole.removeprefix('!expr ')}"
    if inner is not node:
        return f"make the whole value one expression, for example {whole}"
    text = inner.text.replace("'", "\\'")
    return (
        f"write: {whole} (for the text itself: !expr \"'{text}'\")"
        if '"' not in text
        else f"write: {whole}"
    )


def read_output(reader: Reader, node: Node, key: Key) -> Name | None:
    """The name of a store."""
    name = reader.name(node, key)
    if name is None:
        return None
    check_name(reader, name, "this store", "ctx")
    meant = lookalikes.lookalike(name.text, reader.scope)
    if meant and (meant.expression != name.text or "." in name.text):
        last = meant.expression.rpartition(".")[2]
        message = f"'output' is a name: this creates a store called {name.text!r}"
        reader.warn(lookalikes.CODE, message, name.span, f"write: output: {last}")
    return name


def check_name(reader: Reader, name: Name | Scalar, what: str, root: str) -> None:
    """Warn of a name that alone means something else. No error: the path from its root reads it, as
    in Reyn."""
    if name.text in ROOTS:
        message = f"{name.text!r} alone never reads {what}: {ROOTS[name.text]}"
        hint = f"choose another name; {root}.{name.text} reads this one"
        reader.warn("pipeline.store-name", message, name.span, hint)


def read_expression(reader: Reader, node: Node, key: Key) -> R1 | None:
    text = reader.text(node, key)
    return reader.r1(text) if text else None


def read_template(reader: Reader, node: Node, key: Key) -> Template | None:
    text = reader.text(node, key)
    if text is None:
        return None
    if not text.text.strip():
        reader.warn("pipeline.empty-prompt", "the prompt is empty", text.span)
    template = parse_template(text, reader.scope)
    reader.problems.extend((*template.warnings, *lookalikes.in_prompt(text, reader.scope)))
    for hole in template.holes:
        reader.hidden(hole.path)
    return template


def read_literals(reader: Reader, node: Node, key: Key) -> Constant | None:
    return None if reader.items(node, key) is None else reader.literal(node, key)


def read_on_error(reader: Reader, node: Node, key: Key) -> FailurePolicy | None:
    text = "" if node.is_expr else node.text
    if text in _ON_ERROR:
        return _ON_ERROR[text]
    if retry := _RETRY.fullmatch(text):
        wait = float(retry[2]) * _SECONDS[retry[3]] if retry[2] else 0.0
        return FailurePolicy("continue" if retry[4] else "abort", int(retry[1]), wait)
    known = _ON_ERROR_ELSEWHERE.get(text)
    if not known and text.startswith("retry") and (times := re.search("[1-9][0-9]*", text)):
        known = f"retry({times[0]})"
    hint = f"write: {known}" if known else suggest(text, (*_ON_ERROR, "retry(1)"))
    if isinstance(node, Items) or "," in text:
        hint = "to try again and then skip: 'retry(2, then: continue)', in quotes"
    timed = re.sub(r"(wait: *[0-9.]+)(?=[,)])", r"\1s", text)  # it had no unit
    if _RETRY.fullmatch(timed):
        hint = f"write: '{timed}'"
    reader.error(
        "pipeline.on-error",
        f"{key.name!r} must be {key.takes.says}, got {shown(node)}",
        node.span,
        hint,
    )
    return None


SHELL = "shell"
"""The tool of a shell step, and the kind of the step."""


def read_arguments(reader: Reader, node: Node, key: Key) -> NamedArguments | None:
    if not isinstance(node, Fields):
        reader.wrong_type(node, key)
        return None
    # shell: {command: …} is sugar for tool: {name: shell, args: {command: …}}
    is_shell = said(reader.given, "name") == SHELL
    arguments = []
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
            arguments.append((Name(same_name(name), node.keys[name].span), expr))
    return NamedArguments(tuple(arguments))


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
    alike = [lookalikes.lookalike(word, reader.scope) for word in words]
    first = next((i for i, expression in enumerate(alike) if expression is not None), None)
    if first is not None:
        parts = ", ".join(
            meant.expression if meant else literal(word)
            for word, meant in zip(words, alike, strict=True)
        )
        message = (
            f"{key.name!r} has the text {words[first]!r}: no expression is replaced in a command"
        )
        hint = f"write: {key.name}: {lookalikes.tagged(f'[{parts}]')}"
        doubtful = all(meant.store for meant in alike if meant)
        store = next(meant.store for meant in alike if meant) if doubtful else ""
        reader.literal_path(message, node.span, hint, store)


IN_COLLECT = (
    "collect runs once, over all results: pipe is their list, for instance map(pipe, r -> r.name)"
)
IN_BRANCH = "a branch does not see another one; collect sees them all"


def read_steps(reader: Reader, node: Node, key: Key) -> tuple[Step, ...]:
    if not isinstance(node, Items) or not node.items:
        first = next(iter(node.fields), "") if isinstance(node, Fields) else ""
        reader.wrong_type(node, key, f"begin each step with a dash: - {first}:" if first else None)
        return ()
    steps = [
        reader.step(item, f"steps[{index}]", reader.scope._replace(number=index))
        for index, item in enumerate(node.items)
    ]
    return tuple(step for step in steps if step is not None)


def read_step(reader: Reader, node: Node, key: Key) -> Step | None:
    loops = "acc" in key.binds  # the stores of a fold's step are visible in its next iteration
    branches = reader.given.get("branches") or () if key.name == "collect" else ()
    unseen = {"item": IN_COLLECT} if key.name == "collect" and not branches else {}
    scope = reader.scope.inside(
        key.binds, branches, written(node) if loops else frozenset(), unseen
    )
    return reader.step(node, f"{reader.id}.{key.name}", scope)


def read_branches(reader: Reader, node: Node, key: Key) -> dict[str, Step]:
    steps, branches = {}, list(reader.filled(node, key))
    scope = reader.scope.inside((), unseen={name.text: IN_BRANCH for name, _ in branches})
    for name, value in branches:
        if not name.text.strip():
            message = "a branch has a blank name"
            reader.error("pipeline.blank-name", message, name.span, "give it a name")
        if name.text == BRANCH_ERRORS:  # an error as in Reyn: collect would not see one of the two
            message = f"a branch is not called {name.text!r}: collect finds the errors under it"
            reader.error("pipeline.store-name", message, name.span, "choose another name")
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
