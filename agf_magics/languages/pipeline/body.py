"""Reads the steps of a pipeline.

`Reader.fields` reads the keys of a mapping by their table, with the functions of `key_values`. A
key that holds a step reads it with `Reader.step`. `Grammar.build` builds the step.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

from ...flow.expressions import Computed, Constant
from ...flow.protocols import Frame
from ...flow.step import Step
from ...flow.steps import Compute
from ...text.diagnostics import DefinitionError, Diagnostic, Diagnostics
from ...text.shorten import shorten
from ...text.source import Span
from ...text.suggestions import misspelled_names, suggest
from ...text.yaml.nodes import (
    Fields,
    Items,
    Node,
    Scalar,
    braced,
    every_node,
    flow_text,
    is_text,
    plain,
    shown,
)
from ...values.value import Value
from .. import documents
from ..foreign_keys import advice_on
from ..keys import Key, MappingSpec
from . import lookalikes
from .foreign_steps import foreign_step
from .r1 import R1, parse
from .r1.nodes import Lit, Path, nodes_in
from .r1.written import HOLES, literal
from .scope import Scope
from .values import any_store, store_target

TITLE = Key("title", documents.NAME, "What its box and its row show; an extension of the language.")
"""The key that may stand beside the kind of every step."""


_FORMS = {
    "literals": "over: {2}",
    "pass": "pass: [{1}]",
    "target": "{0}: {{pipeline: {2}}}",
}
"""What to write for a text in place of another type, by the word of the type. {0} is the key, {1}
the text, {2} the text in quotes if it needs them."""
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
    **dict.fromkeys(("bash", "command", "run"), "write: shell: {command: …}"),
    **dict.fromkeys(("set", "value"), "write: transform: {value: …, output: …}"),
    "reduce": "write: fold",
    "pipeline": "write: call: {pipeline: …}",
}
"""Step kinds of other languages; what to write here."""


_PYTHON_CALL = re.compile(r"(\w+)\((.*)\)", re.DOTALL)
_PYTHON_ARGUMENT = re.compile(r"\b(\w++) ?= ?(\"[^\"]*\"|'[^']*'|[\w.-]+)")


class Grammar(NamedTuple):
    """The kinds of steps, for the readers of one definition."""

    kinds: Mapping[str, MappingSpec]
    build: Callable[[Reader, str, Fields], Step]
    """Builds the step of a kind from the values of its keys."""
    yaml_is_broken: bool
    """Whether the YAML has errors: then a text may be the rest of something else."""
    doubts: list[tuple[str, Diagnostic]]
    """Problems that hold only if no expression of the pipeline reads a store, each with the name of
    the store."""
    refused_schemas: set[str]
    """The names of the schemas with errors, of which nothing is known."""
    reads: frozenset[str]
    """The names that the text reads as ``ctx.NAME``: stores and fields of the input."""


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
        "item": "an element is called item in do:, without a key; a list as it is: items: [1, 2]",
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
        self.values: dict[str, Any] = {}
        """The values of the keys of the mapping that were read so far."""

    def step(self, node: Node, id: str, scope: Scope) -> Step:
        """The step in ``node``. After an error, which is reported, what could not be read is
        unknown."""
        if not isinstance(node, Fields):
            hint = "a step is one kind with its keys: transform: {value: ...}"
            if isinstance(node, Items):
                hint = (
                    "one step belongs here; several are a pipeline of their own: "
                    "call: {pipeline: NAME, pass: [item]}"
                )
            message = f"a step must be a mapping with one key, its kind, got {shown(node)}"
            self.error("pipeline.step-shape", message, node.span, hint)
            return refused_step(node, id, scope)
        chosen = self._kind(node)
        if chosen is None:
            return refused_step(node, id, scope)
        key, body = chosen
        kind = self.grammar.kinds[key.text]
        reader = Reader(self.problems, self.grammar, id, key.span, scope)
        reader.fields(kind, body, key.span, reader.values)
        if TITLE.name in node.fields:  # beside the kind, for all of them (decision P20)
            reader.values[TITLE.name] = reader.name(node.fields[TITLE.name], TITLE)
        # A slip that was not read as what it resembles means something else.
        taken = {
            name
            for name, written in body.keys.items()
            if written.text == name or reader.values.get(name) is not None
        }
        if {"over", "items"} <= taken & kind.keys.keys():
            hint = "over takes an expression, items a literal list: keep one"
            message = "over and items exclude each other"
            span = body.keys["items"].span
            reader.error("pipeline.over-and-items", message, span, hint)
        return self.grammar.build(reader, key.text, body)

    def _kind(self, node: Fields) -> tuple[Scalar, Fields] | None:
        """The kind of a step and its keys, also if the kind is misspelt or the keys stand beside it;
        None if they are not known, after an error."""
        words = [key for name, key in node.keys.items() if name != TITLE.name]
        kinds = self.grammar.kinds
        if foreign := self._foreign(node, words):
            return foreign
        if len(words) != 1:
            self._not_one(node, words)
            first = [key for key in words if key.text in kinds]
            return (first[0], _gathered(node, first[0], kinds)) if len(first) == 1 else None
        (key,) = words
        if key.text not in kinds:
            tool = f"a tool is called with tool: {{name: {key.text}, args: {{…}}}}"
            near = suggest(key.text, kinds)
            hint = (
                _ELSEWHERE.get(key.text)
                or f"{near or f'{tool};'} step kinds are {', '.join(kinds)}"
            )
            self.error("pipeline.step-kind", f"no step kind {key.text!r}", key.span, hint)
            meant = next(iter(misspelled_names([key.text], kinds)), "")
            body = node.fields[key.text]
            needs = {name for name, of in kinds[meant].keys.items() if of.required} if meant else ()
            if not isinstance(body, Fields) or body.fields.keys().isdisjoint(needs):
                return None
            return key._replace(text=meant), body
        body = node.fields[key.text]
        if isinstance(body, Fields):
            return key, body
        self._no_keys(key, body)
        return None

    def _foreign(self, node: Fields, words: list[Scalar]) -> tuple[Scalar, Fields] | None:
        """The kind and the keys of a step of another program, after errors; None: it is none."""
        is_alone = len(words) == 1
        kinds = self.grammar.kinds
        step = None if is_alone and words[0].text in kinds else foreign_step(node, kinds)
        if step is None:
            return None
        if is_alone:
            message = f"no step kind {words[0].text!r}"
            self.error("pipeline.step-kind", message, words[0].span, step.hint)
        else:
            message = "a step is a mapping with one key, its kind"
            self.error("pipeline.step-shape", message, step.kind.span, step.hint)
        self.understood()
        all_keys = f"the keys of {step.kind.text} are {', '.join(kinds[step.kind.text].keys)}"
        for key in step.unread:
            self.no_key(
                key, advice_on(self.advice, key.text, node.fields[key.text].text) or all_keys
            )
        return step.kind, step.body

    def no_key(self, key: Scalar, hint: str) -> None:
        """Report a key that no step has."""
        self.error("pipeline.step-shape", f"a step has no key {key.text!r}", key.span, hint)

    def _no_keys(self, word: Scalar, body: Node) -> None:
        """Report a kind whose value is not a mapping of its keys."""
        span = body.span if not isinstance(body, Scalar) or body.text else word.span
        keys = self.grammar.kinds[word.text].keys
        needed = ", ".join(key.example for key in keys.values() if key.required)
        hint = f"write: {word.text}: {{{needed}}}"
        first = next(iter(keys.values()))
        if first.required and body.text:
            quoted = first.takes.word in ("expression", "template")
            value = lookalikes.quoted(body.text) if quoted else body.text
            hint = f"write: {word.text}: {{{first.name}: {value}}}"
            if "identity" in keys and body.text.isidentifier():
                hint = f"write: {word.text}: {{identity: {body.text}, {first.example}}}"
            elif call := _PYTHON_CALL.fullmatch(body.text):
                args = ", ".join(map("{0[0]}: {0[1]}".format, _PYTHON_ARGUMENT.findall(call[2])))
                hint = f"write: {word.text}: {{name: {call[1]}, args: {{{args or 'NAME: VALUE'}}}}}"
        if isinstance(body, Items) and "branches" in keys:
            collect = "collect: {transform: {value: pipe}}"
            hint = f"write: {word.text}: {{branches: {_as_branches(body)}, {collect}}}"
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
            body = node.inner(kind.text)
            keys_inside = kinds[kind.text].keys
            hint = f"indent the keys of {kind.text} below it, or write {kind.text}: {{...}}"
            beside = list[Scalar]()
            for extra in (key for key in words if key is not kind):
                advice = advice_on(self.advice, extra.text, node.fields[extra.text].text)
                if advice and (extra.text not in keys_inside or extra.text in body.fields):
                    self.no_key(extra, advice)
                else:
                    beside.append(extra)
            for extra in beside[:1]:  # the hint is about all of them
                message = f"{extra.text!r} must be inside {kind.text!r}"
                self.error("pipeline.step-shape", message, extra.span, hint)
        else:
            foreign = (_ELSEWHERE[key.text] for key in words if key.text in _ELSEWHERE)
            near = next(foreign, None) or suggest(next(iter(node.fields), ""), kinds, "step kinds")
            self.error(
                "pipeline.step-shape",
                "a step is a mapping with one key, its kind",
                node.span,
                near,
            )

    def unknown_hint(self, spec: MappingSpec, name: str, value: Node) -> str | None:
        """The advice of all languages, and the kinds of steps that have the key ``name``."""
        if name == "as" and "do" in spec.keys:
            return "the element is called item in do:; output: names the result of the step"
        hint = super().unknown_hint(spec, name, value)
        kinds = self.grammar.kinds
        if spec.name == "target" and name in kinds:
            return (
                "a case names a pipeline: put the step into one of its own, and write here "
                "{pipeline: NAME}"
            )
        is_foreign = name in self.slips or advice_on(self.advice, name)
        if spec.name == "match" and not is_foreign and not misspelled_names([name], spec.keys):
            return f"indent a case below cases: {name}: {{pipeline: NAME}}"
        is_slip = misspelled_names([name], spec.keys)
        if spec.name == "parallel" and isinstance(value, Fields) and not is_slip:
            return "indent a branch below branches:"
        other_kinds = [step.name for step in kinds.values() if name in step.keys]
        return f"{name!r} is a key of {', '.join(other_kinds)}; {hint}" if other_kinds else hint

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
        inner = braced(node)
        inner = inner if lookalikes.is_readable(inner, self.scope) else ""
        if inner and key.takes.word == "template":
            hint = f'put quotes around the braces: {key.name}: "{{{inner}}}"'
        elif inner:
            hint = f"write: {key.name}: {inner}"
        elif isinstance(node, Items) and key.name == "over":
            hint = f"write: items: {flow_text(node)}"
        elif isinstance(node, Items) and key.takes.word == "branches":
            hint = f"name each branch: branches: {_as_branches(node)}"
        elif node.text and key.takes.word in _FORMS:
            quoted = lookalikes.with_tag(node.text).removeprefix("!expr ")
            hint = f"write: {_FORMS[key.takes.word].format(key.name, node.text, quoted)}"
        super().wrong_type(node, key, hint)

    def r1(self, node: Scalar) -> R1 | Computed:
        """An expression, with or without its tag; after an error one of an unknown value."""
        scope = self.scope
        try:
            expr = parse(node, scope.names)
        except DefinitionError as error:
            self.problems.extend(error.diagnostics)
            return refused_value(node.span)
        # `!expr "'item'"` is the text itself, as the hints about such a text say.
        before = self.error_count
        if not (node.is_expr and isinstance(expr.node, Lit)):
            self.problems.extend(lookalikes.in_expression(expr.node, node, scope))
        self.hidden(expr)
        return expr if self.error_count == before else refused_value(node.span)

    def hidden(self, expr: R1) -> None:
        """Warn of each path whose first name is hidden at this place."""
        for path in nodes_in(expr.node):
            if isinstance(path, Path) and path.hidden_hint is not None:
                self.hidden_name(
                    path.parts[0], expr.locate(path.offset, path.offset + len(path.parts[0]))
                )

    def hidden_name(self, name: str, span: Span) -> None:
        # No error: the input may bring a store of that name (P1 looks there last).
        if name not in self.scope.stores:
            message = f"{name!r} is not visible here: this reads a store of that name"
            self.warn("pipeline.hidden-name", message, span, self.scope.names.hidden[name])

    def literal(self, node: Node, key: Key) -> Constant | Computed:
        """A literal value. Text in it that looks like an expression is reported (decision P21)."""
        before = self.error_count
        is_braced = False
        for inner in every_node(node):
            if inner.is_expr:
                hint = (
                    "only a whole argument can be an !expr; build the value there: !expr "
                    "\"[ctx.a, 'b']\""
                )
                self.error(
                    "pipeline.nested-expr", "!expr inside a list or mapping", inner.span, hint
                )
            elif (name := braced(inner)) and lookalikes.is_expression(name, self.scope):
                is_braced = True
                message = f"{key.name!r} has a mapping: braces without quotes are YAML's"
                hint = f"write: {lookalikes.with_tag(name)}"
                if inner is not node:
                    hint = "make the whole value one expression, with !expr"
                self.literal_path(message, inner.span, hint, "")
            elif (
                is_text(inner)
                and not self.grammar.yaml_is_broken
                and (lookalike := lookalikes.lookalike(inner.text, self.scope, self.grammar.reads))
            ):
                relation = "is" if inner is node else "has"
                message = (
                    f"{key.name!r} {relation} the text {shorten(inner.text)!r}: {lookalike.reason}"
                )
                hint = lookalikes.pass_on(lookalike.expression, self.scope) or _tag_hint(
                    inner, node, key, lookalike.expression
                )
                store = "" if inner is node and key.name == lookalike.store else lookalike.store
                self.literal_path(message, inner.span, hint, store)
        if is_braced:  # told: it does not fit the tool either
            return Computed(node.span, lambda frame: plain(node))
        return (
            Constant(node.span, plain(node))
            if self.error_count == before
            else refused_value(node.span)
        )

    def literal_path(self, message: str, span: Span, hint: str, store: str) -> None:
        """Warn of a text that is meant as an expression; with ``store``, once it is known that
        nothing reads that store."""
        problem = Diagnostic(lookalikes.CODE, message, span, hint, "warning")
        if store:
            self.grammar.doubts.append((store, problem))
        else:
            self.problems.add(problem)


def refused_value(span: Span) -> Computed:
    """An expression, or the arguments of a call, of which nothing is known, since they could not be
    read."""
    return Computed(span, _no_value)


def _no_value(frame: Frame) -> Value:
    """The value of what could not be read: its pipeline never runs."""
    return None


def refused_step(node: Node, id: str, scope: Scope) -> Step:
    """A step that could not be read. It writes the store that its text names; without one it may
    write any."""
    stores = written(node)
    target = any_store(scope.top)
    for store in stores:
        target = store_target(store, node.span, scope.top)
    return Compute(id=id, word="", span=node.span, target=target, value=refused_value(node.span))


def _gathered(node: Fields, kind: Scalar, kinds: Mapping[str, MappingSpec]) -> Fields:
    """The keys below ``kind`` with those that stand beside it and belong to it."""
    body = node.inner(kind.text)
    beside = [name for name in node.fields if name in kinds[kind.text].keys]
    fields = {**{name: node.fields[name] for name in beside}, **body.fields}
    keys = {**{name: node.keys[name] for name in beside}, **body.keys}
    return Fields(fields, keys, kind.span)


def _as_branches(steps: Items) -> str:
    """A list of steps as branches with names."""
    named = (f"{chr(97 + i % 26)}: {flow_text(step)}" for i, step in enumerate(steps.items))
    return f"{{{', '.join(named)}}}"


def _tag_hint(inner: Scalar, node: Node, key: Key, expression: str) -> str:
    if not expression:
        return HOLES
    whole = lookalikes.with_tag(expression if inner is node else f"[{expression}]")
    if key.takes.word == "literals":
        return f"items are literals; write an expression: over: {whole.removeprefix('!expr ')}"
    if inner is not node:
        return f"make the whole value one expression, for example {whole}"
    return f"write: {whole} (for the text itself: {lookalikes.with_tag(literal(inner.text))})"


def written(node: Node) -> frozenset[str]:
    """The store that a step's ``output`` names, or none; the step is not read yet."""
    for body in (node, *node.fields.values()) if isinstance(node, Fields) else ():
        output = body.scalar("output") if isinstance(body, Fields) else None
        if output:
            return frozenset((output.text,))
    return frozenset()
