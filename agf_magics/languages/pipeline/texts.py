"""The names that an expression may use, by the place of its step (decisions P1 and P19).

A step sees ``ctx`` and ``pipe``; the ``do`` of a fan-out or a fold also sees the names that it
binds. A step nested in that one (a ``do``, a branch, a ``collect``) does not see the ``item``
around it; the error says how to pass it.

Prompt templates: text in which ``{ctx.dotted.path}`` is replaced; every other brace stays text
(decision P3).

A brace is replaced if it holds a path whose first name is known. The loader does not know the
input, so a name that it does not know is looked up among the stores when the prompt is made. It is
warned about, because it may be misspelt.

Text that looks like an expression but is text (decision P21): the warnings that say what to
write.

Only text that uses a name of its place is reported. Everything else stays silent.

The sources of a pipeline's values besides R1 expressions, the shapes of all of them, and the targets
of its results.

The frame of a pipeline is ``{"ctx": stores, "pipe": value}``, with ``item`` and ``acc`` inside a
fan-out or a fold.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from ...flow.shapes import TEXT, Look, Shape, either, list_of, literal
from ...flow.step import DROPPED, Args, Expr, FanOutResult, FlowInput, FlowResult, Frame, Ref
from ...flow.steps import Constant, NamedArguments, Stored, named_values
from ...flow.values import ATOMS, Value, is_json, type_name
from ...text.diagnostics import DefinitionError, Diagnostic, Source, Span, StepError, Text, suggest
from ..documents import MISSING, descend
from . import r1
from .r1 import R1
from .r1.closures import text_form
from .r1.nodes import (
    COMBINATORS,
    KEYWORDS,
    STORES,
    Arithmetic,
    Inference,
    Lit,
    Names,
    Node,
    Path,
    concatenation,
    kinds_of,
    nested,
    spelling,
)

ROOTS = {"ctx": "it is all stores", "pipe": "it is the result of the step before"}
"""The names that are visible everywhere, and what they mean."""
_ROOTS: Mapping[str, tuple[str, ...]] = {name: (name,) for name in ROOTS}
_PASS_ON = (
    "a nested step does not see the {name!r} around it: use it in the step's own over, init, on, "
    "args or prompt, "
    'for instance over: "map({name}.parts, p -> {{part: p, whole: {name}}})", or nest a call with '
    "pass: [{name}]"
)


NOTHING: Mapping[str, str] = MappingProxyType({})


class Scope(NamedTuple):
    """The names that are visible at one place."""

    names: Names
    stores: frozenset[str]
    """The stores that some step of the pipeline writes and that may be visible here."""
    top: bool = False
    """Whether the result of a step here is the pipe of the next step."""

    def inside(
        self,
        binds: tuple[str, ...],
        branches: Iterable[str] = (),
        stores: frozenset[str] = frozenset(),
        unseen: Mapping[str, str] = NOTHING,
    ) -> Scope:
        """The scope of a step nested in one of this scope. ``unseen``: names one might expect, each
        with a hint."""
        roots = {
            **{branch: ("pipe", branch) for branch in branches},
            **_ROOTS,
            **{name: (name,) for name in binds},
        }
        around = {
            name: _PASS_ON.format(name=name) for name in ("item", "acc") if name in self.names.roots
        }
        hints = {**unseen, **around, **self.names.hidden}
        hidden = {name: hint for name, hint in hints.items() if name not in roots}
        # A union would copy all of them, for each nested step.
        return Scope(
            Names(roots, STORES, hidden),
            self.stores if stores <= self.stores else self.stores | stores,
        )

    def path(self, name: str) -> tuple[str, ...]:
        """The path of a bare name's value."""
        return self.names.roots.get(name) or (*STORES, name)

    def knows(self, name: str) -> bool:
        """Whether a name means something here, as far as the text decides."""
        return name in self.names.roots or name in self.stores or name in self.names.hidden


def outermost(stores: frozenset[str]) -> Scope:
    """The scope of the steps at the top level of a pipeline."""
    return Scope(Names(_ROOTS, STORES, {}), stores, top=True)


_BRACES = re.compile(r"\{([^{}]*)\}")
_B, _NAME = r"[ \t\r\n]*+", "[A-Za-z_][A-Za-z0-9_]*+"
_PATH = re.compile(rf"{_B}(({_NAME})(?:{_B}\.{_B}{_NAME})*){_B}")


@dataclass(slots=True, eq=False)
class Template:
    """A prompt. An Expr that gives text."""

    span: Span
    parts: tuple[str | _Hole, ...]
    warnings: tuple[Diagnostic, ...]

    def evaluate(self, frame: Frame) -> str:
        return "".join([part if isinstance(part, str) else part.fill(frame) for part in self.parts])

    @property
    def holes(self) -> list[_Hole]:
        return [part for part in self.parts if isinstance(part, _Hole)]

    def reads(self) -> tuple[Ref, ...]:
        """In the order of the text; a name that the loader did not know is not certain."""
        return tuple(
            ref if hole.known else ref._replace(certain=False, optional=True)
            for hole in self.holes
            for ref in hole.path.reads()
        )


class _Hole(NamedTuple):
    """A brace with a path in it."""

    path: R1
    written: str
    known: bool
    store: str
    """Its first name, which may be a store."""

    def fill(self, frame: Frame) -> str:
        if not self.known and self.store not in frame["ctx"]:
            return self.written
        try:
            value = self.path.evaluate(frame)
        except StepError as error:
            hint = f"{error.diagnostic.hint} (in a transform before: braces hold only a path)"
            raise StepError(replace(error.diagnostic, hint=hint)) from None
        return _shown(value, self.path)


class _Inside(NamedTuple):
    """The part of a text between two braces, as a Text."""

    outer: Text
    start: int
    text: str

    def locate(self, start: int, end: int) -> Span:
        return self.outer.locate(self.start + start, self.start + end)


def parse_template(text: Text, scope: Scope) -> Template:
    """The template of ``text``. Every text is a template."""
    source, parts, warnings, end = text.text, list[str | _Hole](), list[Diagnostic](), 0
    choices: list[str] = []
    for found in _BRACES.finditer(source):
        path = _PATH.match(found[1])
        if path is None or path[2] in KEYWORDS:
            continue
        first, known = path[2], scope.knows(path[2])
        if path.end() == len(found[1]):
            inner = _Inside(text, found.start(1) + path.start(1), path[1])
            parts += [
                source[end : found.start()],
                _Hole(r1.parse(inner, scope.names), found[0], known, first),
            ]
            end = found.end()
            if not known:
                choices = choices or [
                    *sorted(scope.names.roots),
                    *sorted(scope.names.hidden),
                    *sorted(scope.stores),
                ]
                near, given = suggest(first, choices), f"if the input has it, write {{ctx.{first}}}"
                message = (
                    f"{{{first}}} stays text unless the input has {first!r}: no step writes it"
                )
                place, hint = inner.locate(0, len(first)), " ".join(filter(None, (near, given)))
                warnings.append(
                    Diagnostic("pipeline.template-name", message, place, hint, "warning")
                )
        elif known or (first in COMBINATORS and found[1][path.end() :].startswith("(")):
            place = text.locate(found.start(), found.end())
            where = "a transform" if _is_expression(found[1], scope) else "a tool"
            hint = f"compute it in {where} before, name its output, and write {{NAME}} here"
            message = f"{found[0]} stays text: braces hold a path"
            warnings.append(
                Diagnostic("pipeline.template-expression", message, place, hint, "warning")
            )
    parts.append(source[end:])
    return Template(
        text.locate(0, len(source)), tuple(part for part in parts if part), tuple(warnings)
    )


def _shown(value: Any, path: R1) -> str:
    try:
        return text_form(value)
    except ValueError as problem:
        message = f"{path.text!r} {problem}"
    hint = "turn it into text in a tool first"
    raise StepError(Diagnostic("pipeline.template-value", message, path.span, hint))


LONGEST = 1_000
"""Characters of a text that is compared with expressions."""

_WORD = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*", re.ASCII)
_FILE = re.compile(
    r"[\w./ -]{1,500}\.(?i:png|jpe?g|gif|webp|svg|pdf|txt|md|rst|html?|xml|csv|tsv|xlsx?|parquet|jsonl?"
    r"|ya?ml|toml|ini|log|db|sqlite|zip|gz|py|ipynb|docx?|pptx?|mp3|mp4|wav)"
)
_ANY_BRACES = re.compile(r"\{\{?([^{}]*)\}\}?")
_SIGN = re.compile(
    r"\s*(?:\$\{?(?:\{\s*)?|\{\{\s*)(?:(?:ctx|inputs?|vars|params|env)\.)?([A-Za-z_]\w*)((?:\.\w+)*)"
    r"\s*\}{0,2}\s*",
    re.ASCII,
)
"""A variable in the notation of a shell, of GitHub Actions or of Jinja."""
_TAGGED = re.compile(r"(?:!expr?|expr!)[ \t]+(.+)", re.DOTALL)
_PLAIN = re.compile(r"[A-Za-z_][\w.]*(?: [-+*/<>=]+ [\w.]+)*", re.ASCII)
_STATEMENT = re.compile(r"\{%-? *(?:if|for|set|elif|else|endif|endfor|endset)\b[^{}]*%\}")
CODE = "pipeline.literal-path"


class Lookalike(NamedTuple):
    """The expression that a text looks like."""

    expression: str
    reason: str
    """Why it is text."""


def lookalike(text: str, scope: Scope) -> Lookalike | None:
    """The expression that ``text`` looks like at a place with these names."""
    if len(text) > LONGEST:
        return None
    if tagged := _TAGGED.fullmatch(text):
        written = text[: len(text) - len(tagged[1])].strip()
        quoted = "the quotes make it text" if written == "!expr" else "the tag is written !expr"
        return Lookalike(tagged[1], quoted)
    if _has_hole(text, scope):
        return Lookalike(concatenation(text), "only a prompt replaces braces")
    if sign := _SIGN.fullmatch(text):
        path = ".".join(scope.path(sign[1])) + sign[2]
        return Lookalike(path, "an argument has no $ and no {{ }}")
    if any(map(scope.knows, _WORD.findall(text))) and _is_expression(text, scope):
        return Lookalike(text.strip(), "it has no !expr")
    return None


def _has_hole(text: str, scope: Scope) -> bool:
    """Whether there are braces around a name of this place."""
    return any(
        (name := _WORD.match(found[1].strip())) and scope.knows(name[0])
        for found in _ANY_BRACES.finditer(text)
    )


def is_file_name(text: str, scope: Scope) -> bool:
    """Whether it is the name of a file: ``totals.json`` is one also where there is a store
    ``totals``, and ``item.json`` is none."""
    return bool(_FILE.fullmatch(text)) and text.partition(".")[0] not in scope.names.roots


def _is_path(text: str, scope: Scope) -> bool:
    """Whether it is a dotted path whose first name is known."""
    path = "." in text and bool(_DOTTED.fullmatch(text)) and not is_file_name(text, scope)
    return path and scope.knows(text.partition(".")[0])


def _is_expression(text: str, scope: Scope) -> bool:
    """Whether it can be parsed, and all that it reads is known."""
    try:
        node = r1.parse(Source("", text).span(), scope.names).node
    except DefinitionError:
        return False
    paths = [
        part for part in nested(node) if isinstance(part, Path) and isinstance(part.read[0], str)
    ]
    is_file = isinstance(node, Path) and is_file_name(text, scope)
    return bool(paths) and not is_file and all(scope.knows(path.parts[0]) for path in paths)


def tagged(expression: str) -> str:
    """The expression as a YAML value with its tag.

    >>> tagged("ctx.n + 1"), tagged("'Hi ' + ctx.name")
    ('!expr ctx.n + 1', '!expr "\\'Hi \\' + ctx.name"')
    """
    if _PLAIN.fullmatch(expression):
        return f"!expr {expression}"
    doubled = expression.replace("'", "''")
    return f'!expr "{expression}"' if '"' not in expression else f"!expr '{doubled}'"


def in_expression(node: Node, text: Text, scope: Scope) -> Iterator[Diagnostic]:
    """Warnings about texts in a parsed expression, and errors that can only be mistakes."""
    for part in nested(node):
        match part:
            case Path(at=at, parts=(name, *_), read=(str(), *_)) if spelling(
                name
            ) and not scope.knows(name):
                place = text.locate(at, at + len(name))
                yield Diagnostic("r1.operator", f"there is no {name!r}", place, spelling(name))
            case Lit(at=at, value=str() as value) if _has_hole(value, scope) or _is_path(
                value, scope
            ):
                reason, meant = "it is in quotes", value
                if "{" in value:
                    reason, meant = "only a prompt replaces braces", concatenation(value)
                place = text.locate(at, at + len(value) + 2)
                message = f"{value!r} is text: {reason}"
                yield Diagnostic(CODE, message, place, f"write: {meant}", "warning")
            case Arithmetic():
                yield from _hyphenated(part, text, scope)


def _hyphenated(node: Arithmetic, text: Text, scope: Scope) -> Iterator[Diagnostic]:
    """``my-total`` where a store has that name: the expression subtracts."""
    if not isinstance(node.first, Path) or scope.knows(node.first.parts[-1]):
        return
    for operation in node.rest:
        end = (
            operation.operand.end
            if operation.op == "-" and isinstance(operation.operand, Path)
            else 0
        )
        name = text.text[node.first.at : end].removeprefix(f"{STORES[0]}.")
        if name in scope.stores:
            message = f"'-' subtracts here, so this does not read the store {name!r}"
            hint = f"call the store {name.replace('-', '_')}, or write: get(ctx, {name!r})"
            yield Diagnostic("pipeline.store-name", message, text.locate(node.first.at, end), hint)


def in_prompt(text: Text, scope: Scope) -> Iterator[Diagnostic]:
    """The syntax of other templates in a prompt, and a prompt that is an expression alone."""
    source = text.text
    for braces in _ANY_BRACES.finditer(source):
        inner = braces[1].strip()
        doubled = (
            braces[0].startswith("{{") and braces[0].endswith("}}") and _has_hole(braces[0], scope)
        )
        if doubled:
            message, hint = f"{braces[0]} keeps one pair of its braces", f"write: {{{inner}}}"
            yield _warning(message, text, braces.start(), braces.end(), hint)
        elif inner in scope.stores and not _DOTTED.fullmatch(inner):
            plain = re.sub(r"\W", "_", inner)
            message = f"{braces[0]} stays text: braces hold a path"
            yield _warning(message, text, braces.start(), braces.end(), f"call the store {plain}")
    if statement := _STATEMENT.search(source):
        hint = "compute the text in a transform before, name its output, and write {NAME} here"
        message = f"{statement[0]} stays text: a prompt has no statements"
        yield _warning(message, text, statement.start(), statement.end(), hint)
    alone = source.strip()
    if _is_path(alone, scope):
        message, hint = f"the prompt is the text {alone!r}", f"write: {{{alone}}}"
        yield Diagnostic(CODE, message, text.locate(0, len(source)), hint, "warning")


def _warning(message: str, text: Text, start: int, end: int, hint: str) -> Diagnostic:
    return Diagnostic(
        "pipeline.template-expression", message, text.locate(start, end), hint, "warning"
    )


@dataclass(slots=True, eq=False)
class Named:
    """A value by its place in the frame: the incoming pipe, or a name listed in ``pass``."""

    span: Span
    path: tuple[str, ...]

    def evaluate(self, frame: Frame) -> Value:
        value = descend(frame, self.path)
        if value is not MISSING:
            return value
        hint = f"the stores here are {', '.join(frame['ctx']) or 'none'}"
        message = f"cannot pass {self.path[-1]!r}: no store has this name"
        failure = StepError(Diagnostic("pipeline.pass", message, self.span, hint))
        failure.is_unknown_name = True
        raise failure

    def reads(self) -> tuple[Ref, ...]:
        return (Ref(self.path, self.span),)


@dataclass(slots=True, eq=False)
class Command:
    """A shell step's expression: its value must be what P8 allows."""

    span: Span
    expr: Expr

    def evaluate(self, frame: Frame) -> Value:
        value = self.expr.evaluate(frame)
        if type(value) is list and value and all(type(word) is str for word in value):
            return value
        found = type_name(value) if value != [] else "[]"
        if type(value) is list and value:
            found += f" with {type_name(next(word for word in value if type(word) is not str))}"
        hint = "one text per word: ['ls', '-l', ctx.folder]"
        raise StepError(
            Diagnostic(
                "pipeline.command", f"a command is a list of texts, not {found}", self.span, hint
            )
        )

    def reads(self) -> tuple[Ref, ...]:
        return self.expr.reads()


@dataclass(slots=True, eq=False)
class Attached:
    """The expressions of ``attach``: a list of their values."""

    span: Span
    exprs: tuple[Expr, ...]

    def evaluate(self, frame: Frame) -> Value:
        return [expr.evaluate(frame) for expr in self.exprs]

    def reads(self) -> tuple[Ref, ...]:
        return tuple(ref for expr in self.exprs for ref in expr.reads())


_PIPE = (Ref(("pipe",)),)


def store_target(name: str, span: Span | None, pipe: bool) -> Stored:
    """Stores a value under a name in ``ctx``, and passes it on as the pipe at the top level."""

    def write(frame: Frame, value: Value) -> Frame:
        stored = {**frame, "ctx": {**frame["ctx"], name: value}}
        return {**stored, "pipe": value} if pipe else stored

    store = Ref((*STORES, name), span)
    return Stored(write, (store, *_PIPE) if pipe else (store,))


@dataclass(frozen=True, slots=True)
class Collected:
    """The frame of a ``collect``: no item, and the results without the dropped ones as its pipe.

    Also which elements are missing, as `ERRORS`, so that the rows of two runs can be matched; or
    which branches, as `BRANCH_ERRORS`. The failures are kept only where it reads them.
    """

    def join(self, frame: Frame, ran: FanOutResult) -> Frame:
        failed = {i: error.diagnostic.message for i, error in sorted(ran.failures.items())}
        if ran.names is None:
            pipe = [value for value in ran.values if value is not DROPPED]
            errors = [{"index": i, "error": message} for i, message in failed.items()]
            return {"ctx": frame["ctx"], "pipe": pipe, ERRORS: errors}
        ended = zip(ran.names, ran.values, strict=True)
        return {
            "ctx": frame["ctx"],
            "pipe": {name: value for name, value in ended if value is not DROPPED},
            BRANCH_ERRORS: {ran.names[i]: message for i, message in failed.items()},
        }

    def writes(self) -> tuple[Ref, ...]:
        return (*_PIPE, Ref((ERRORS,)), Ref((BRANCH_ERRORS,)))


PIPE = Stored(lambda frame, value: {**frame, "pipe": value}, _PIPE)
"""Passes a step's value to the next step."""
ITEM = Stored(lambda frame, value: {**frame, "item": value}, (Ref(("item",)),))
ACC = Stored(lambda frame, value: {**frame, "acc": value}, (Ref(("acc",)),))
ERRORS = "__errors__"
"""In the ``collect`` of a ``for_each``: the index and the error of each element that was
dropped."""
BRANCH_ERRORS = "__branch_errors__"
"""In the ``collect`` of a ``parallel``: the errors of the branches that were dropped, by name."""


def labels(value: Any) -> tuple[str, ...]:
    """The labels that select a value (decision P5): its text in Python, then in JSON.

    >>> labels("a"), labels(True), labels(None), labels(1.0), labels({"k": [1, "x"]})
    (('a',), ('True', 'true'), ('None', 'null'), ('1.0',), ("{'k': [1, 'x']}", '{"k":[1,"x"]}'))
    """
    kind = type(value)
    if kind is str:
        return (value,)
    if kind not in (*ATOMS, list, dict):
        return (type_name(value),)  # opaque
    try:
        text = str(value)
    except Exception:  # a number of too many digits, or an object inside without a text
        return (type_name(value),)
    if not is_json(value):
        return (text,)
    return tuple(
        dict.fromkeys((text, json.dumps(value, ensure_ascii=False, separators=(",", ":"))))
    )


def start(given: FlowInput) -> Frame:
    """The frame of the first step: the names of the input are its stores."""
    message, hint = (
        "a pipeline's input is a mapping of names to values",
        "its names become the stores: ctx.name",
    )
    stores = named_values(given, "pipeline.input", message, hint)
    return {"ctx": dict(stores), "pipe": given.pipe}


def end(frame: Frame) -> FlowResult:
    return FlowResult(frame["pipe"], frame["ctx"])


def infer(
    read: Expr | Args, look: Look, found: list[Diagnostic], repeated: bool = False
) -> Shape | None:
    """The shape of the value of ``read``; certain errors are added to ``found``.

    ``repeated``: whether it is evaluated for each item of a list. Then all of it counts as
    evaluated: ``on_error: continue`` would drop the item that comes to the error (decision P24).
    """

    def inside(part: Expr | Args) -> Shape | None:
        return infer(part, look, found, repeated)

    match read:
        case R1():
            return Inference(read.locate, look, found, repeated).shape(read.node, True)
        case Constant():
            return literal(read.value)
        case Template():
            for hole in read.holes:
                inside(hole.path)
            return TEXT
        case Command():
            inside(read.expr)
            return list_of(TEXT)
        case Attached():
            return list_of(either([_attached(inside(expr), expr, found) for expr in read.exprs]))
        case Named():
            return look(read.path)[0]
        case NamedArguments():
            for _, expr in read.values:
                inside(expr)
    return None


def _attached(shape: Shape | None, expr: Expr, found: list[Diagnostic]) -> Shape | None:
    """The shape of an attachment; a number, an object, null or true is certainly none."""
    if kinds_of(shape).isdisjoint(("text", "list")):
        hint = "give the path of a file as text"
        found.append(
            Diagnostic(
                "agent.attach", f"an attachment is a path or bytes, not {shape}", expr.span, hint
            )
        )
    return shape
