"""Reads the mappings of the language by their table: each kind of value has a reader.

A reader reports every error to the `Diagnostics` and returns what it could read. The number of errors shows whether all
went well, so no reader needs a second channel.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from ...flow.steps import Name, OnError
from ...text.diagnostics import DefinitionError, Diagnostic, Diagnostics, misspelled_names, suggest
from ...text.nodes import shorten
from ...text.source import Span
from ...text.yamlnodes import Fields, Items, Node, Scalar, plain, shown
from . import lookalikes
from .r1 import R1, parse
from .r1.nodes import Path, nested
from .scope import Scope
from .template import Template, parse_template
from .values import Constant
from .words import LIST_SOURCES, STEPS, TARGET, Key, Kind

_RETRY = re.compile(r"retry\(([0-9]{1,9})\)", re.ASCII)
_QUOTED = ("name", "text", "expression", "template")


class Policy(NamedTuple):
    """The value of ``on_error``."""

    on_error: OnError = "abort"
    retries: int = 0


_ON_ERROR = {"abort": Policy("abort"), "continue": Policy("continue")}
_ON_ERROR_ELSEWHERE = {
    "ignore": "continue", "skip": "continue", "drop": "continue", "fail": "abort", "stop": "abort", "raise": "abort",
    "retry": "retry(1)",
}  # fmt: skip
"""Other words for the policies."""


class ReadContext(NamedTuple):
    """A mapping that is being read: its place, and the values of its keys so far."""

    id: str
    span: Span
    scope: Scope
    given: dict[str, Any]


class Reader:
    """The readers of one loading, and the number of errors so far."""

    def __init__(self, problems: Diagnostics, readers: Mapping[str, Read]) -> None:
        self.problems = problems
        self.readers = readers
        self.error_count = 0
        self.is_broken = bool(problems.errors)
        """Whether the YAML has errors: then a text may be the rest of something else."""

    def error(self, what: str, message: str, span: Span | None, hint: str | None = None) -> None:
        self.error_count += 1
        self.problems.error(f"pipeline.{what}", message, span, hint)

    def add(self, diagnostic: Diagnostic) -> None:
        self.error_count += diagnostic.severity == "error"
        self.problems.add(diagnostic)

    def fields(self, kind: Kind, node: Fields, context: ReadContext) -> dict[str, Any]:
        """Every key of ``node``, read as the table says; unknown and missing keys are reported."""
        fields, readers = node.fields, self.readers
        slips = set[str]() if fields.keys() <= kind.keys.keys() else self.unknown(kind, node)
        for name, key in kind.keys.items():
            if name not in fields:
                if key.required and name not in slips:
                    self.error("missing-key", f"{kind.name} needs {name!r}", context.span, key.example)
            elif not is_null(value := fields[name]):
                context.given[name] = readers[key.takes](self, value, key, context)
            elif not key.null or key.required or (key.name in LIST_SOURCES and is_nothing(value)):
                self.empty(value, node.keys[name], key)
        return context.given

    def unknown(self, kind: Kind, node: Fields) -> set[str]:
        """Report every key that ``kind`` does not have; return the keys that they seem to be meant for."""
        unknown = node.keys.keys() - kind.keys.keys()
        slips = misspelled_names(unknown, kind.keys)
        for name in unknown:
            message = f"{kind.name} has no key {name!r}"
            hint = suggest(name, kind.keys, f"the keys of {kind.name}")
            others = [step.name for step in STEPS.values() if name in step.keys]
            if kind is TARGET and name in STEPS:
                slips.add("pipeline")
                message = f"a case names a pipeline: it cannot hold a {name} step"
                hint = "put the step into a pipeline of its own, and write here {pipeline: NAME}"
            elif others:
                hint = f"{name!r} is a key of {', '.join(others)}; {hint}"
            self.error("unknown-key", message, node.keys[name].span, hint)
        return slips

    def empty(self, node: Node, written: Scalar, key: Key) -> None:
        """Report the key ``written``, whose value is null or nothing."""
        span = node.span if isinstance(node, Scalar) and node.text else written.span
        self.error("wrong-type", f"{key.name!r} is empty: it takes {key.says}", span, key.example)

    def mistyped(self, node: Node, key: Key) -> None:
        """Report that ``node`` is not of the type that its key takes."""
        if isinstance(node, Scalar) and node.is_expr:
            hint = "it is an expression already" if key.takes == "expression" else f"it takes {key.says}"
            self.error("misplaced-expr", f"!expr does not belong in {key.name!r}", node.span, hint)
            return
        hint = key.example
        if isinstance(node, Scalar) and key.takes in _QUOTED:
            hint = f'quote it: "{node.text}"'
        elif isinstance(node, Items) and key.name == "over":
            hint = f"write: items: {node.whole.text if node.span == node.whole else '[…]'}"
        elif isinstance(node, Scalar) and key.name == "items":
            hint = f"write: over: {node.text}"
        elif isinstance(node, Scalar) and key.takes == "pass":
            hint = f"write: pass: [{node.text}]"
        self.error("wrong-type", f"{key.name!r} takes {key.says}, not {shown(node)}", node.span, hint)

    def text(self, node: Node, key: Key) -> Scalar | None:
        """``node`` if it is a text; else the error is reported."""
        if isinstance(node, Scalar) and not node.is_expr and type(node.value) is str:
            return node
        self.mistyped(node, key)
        return None

    def name(self, node: Node, key: Key) -> Name | None:
        """A text that names something."""
        text = self.text(node, key)
        if text is None:
            return None
        if not text.text.strip():
            self.error("blank-name", f"{key.name!r} is blank", text.span, "give it a name")
        return Name(text.text, text.span)

    def r1(self, node: Scalar, scope: Scope) -> R1 | None:
        """An expression, with or without its tag."""
        try:
            expr = parse(node, scope.names)
        except DefinitionError as error:
            self.error_count += 1
            self.problems.extend(error.diagnostics)
            return None
        for finding in lookalikes.in_expression(expr.node, node, scope):
            self.add(finding)
        self.hidden(expr, scope)
        return expr

    def hidden(self, expr: R1, scope: Scope) -> None:
        """Warn of each path whose first name is hidden at this place."""
        for path in nested(expr.node) if scope.names.hidden else ():
            if isinstance(path, Path) and path.hidden is not None:
                self.hidden_name(path.parts[0], expr.locate(path.at, path.at + len(path.parts[0])), scope)

    def hidden_name(self, name: str, span: Span, scope: Scope) -> None:
        # No error: the input may bring a store of that name (P1 looks there last).
        if name not in scope.stores:
            message = f"{name!r} is not visible here: this reads a store of that name"
            self.problems.warn("pipeline.hidden-name", message, span, scope.names.hidden[name])

    def literal(self, node: Node, key: Key, scope: Scope) -> Constant:
        """A literal value. Text in it that looks like an expression is reported (decision P21)."""
        for part in _scalars(node):
            if part.is_expr:
                hint = "only a whole argument can be an !expr; build the value there: !expr \"[ctx.a, 'b']\""
                self.error("nested-expr", "!expr inside a list or mapping", part.span, hint)
            elif type(part.value) is str and not self.is_broken and (found := lookalikes.lookalike(part.text, scope)):
                relation = "is" if part is node else "has"
                message = f"{key.name!r} {relation} the text {shorten(part.text)!r}: {found.reason}"
                self.problems.warn(lookalikes.CODE, message, part.span, _tag_hint(part, node, key, found.expression))
        return Constant(node.span, plain(node))


Read = Callable[[Reader, Node, Key, ReadContext], Any]
"""The reader of one kind of value."""


def _tag_hint(part: Scalar, node: Node, key: Key, expression: str) -> str:
    whole = lookalikes.tagged(expression if part is node else f"[{expression}]")
    if key.takes == "literals":
        return f"items are literals; write an expression: over: {whole.removeprefix('!expr ')}"
    if part is not node:
        return f"make the whole value one expression, for example {whole}"
    text = part.text.replace("'", "\\'")
    return f"write: {whole} (for the text itself: !expr \"'{text}'\")" if '"' not in text else f"write: {whole}"


def _name(reader: Reader, node: Node, key: Key, context: ReadContext) -> Name | None:
    name = reader.name(node, key)
    found = lookalikes.lookalike(name.text, context.scope) if name and key.name == "output" else None
    if name and found and (found.expression != name.text or "." in name.text):
        last = found.expression.rpartition(".")[2]
        message = f"'output' is a name: this creates a store called {name.text!r}"
        reader.problems.warn(lookalikes.CODE, message, name.span, f"write: output: {last}")
    return name


def _text(reader: Reader, node: Node, key: Key, context: ReadContext) -> Name | None:
    text = reader.text(node, key)
    return Name(text.text, text.span) if text else None


def _expression(reader: Reader, node: Node, key: Key, context: ReadContext) -> R1 | None:
    text = reader.text(node, key)
    return reader.r1(text, context.scope) if text else None


def _template(reader: Reader, node: Node, key: Key, context: ReadContext) -> Template | None:
    text, scope = reader.text(node, key), context.scope
    if text is None:
        return None
    if not text.text.strip():
        reader.problems.warn("pipeline.empty-prompt", "the prompt is empty", text.span)
    template = parse_template(text, scope)
    reader.problems.extend((*template.warnings, *lookalikes.in_prompt(text, scope)))
    for part in template.parts:
        if not isinstance(part, str):
            reader.hidden(part.path, scope)
    return template


def _literals(reader: Reader, node: Node, key: Key, context: ReadContext) -> Constant | None:
    if isinstance(node, Items):
        return reader.literal(node, key, context.scope)
    reader.mistyped(node, key)
    return None


def _count(reader: Reader, node: Node, key: Key, context: ReadContext) -> int | None:
    if not isinstance(node, Scalar) or type(node.value) is not int:
        reader.mistyped(node, key)
    elif node.value < 1:
        reader.error("count", f"{key.name!r} must be 1 or more, not {node.text}", node.span)
    else:
        return node.value
    return None


def _on_error(reader: Reader, node: Node, key: Key, context: ReadContext) -> Policy | None:
    text = node.text if isinstance(node, Scalar) and not node.is_expr else ""
    if text in _ON_ERROR:
        return _ON_ERROR[text]
    if retry := _RETRY.fullmatch(text):
        return Policy("abort", int(retry[1]))
    known = _ON_ERROR_ELSEWHERE.get(text)
    if not known and text.startswith("retry") and (times := re.search("[1-9][0-9]*", text)):
        known = f"retry({times[0]})"
    hint = f"write: {known}" if known else suggest(text, (*_ON_ERROR, "retry(1)"))
    if isinstance(node, Fields) and "retry" in node.fields:
        count = node.fields["retry"]
        hint = f"as one text: retry({count.text if isinstance(count, Scalar) else 'N'})"
    elif isinstance(node, Items) or "," in text:
        hint = "choose one; after its last attempt retry(N) aborts"
    reader.error("on-error", f"'on_error' takes {key.says}, not {shown(node)}", node.span, hint)
    return None


VALUES: Mapping[str, Read] = {
    "name": _name,
    "text": _text,
    "expression": _expression,
    "template": _template,
    "literals": _literals,
    "count": _count,
    "on_error": _on_error,
}


def is_null(node: Node) -> bool:
    return type(node) is Scalar and node.value is None


def is_nothing(node: Node) -> bool:
    """Whether the author wrote nothing, not even null."""
    return isinstance(node, Scalar) and not node.text


def _scalars(node: Node) -> Iterator[Scalar]:
    """Every scalar in ``node``."""
    if isinstance(node, Scalar):
        yield node
        return
    for child in node.items if isinstance(node, Items) else node.fields.values():
        yield from _scalars(child)
