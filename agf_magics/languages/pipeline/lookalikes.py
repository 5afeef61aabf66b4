"""Warns of text that looks like an expression but is text, and tells what to write (decision P21).

Only text that is certainly meant as an expression is reported: everything that it names can be read
in its place, and it is not another name that happens to equal a store's name (decision D180).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

from ...text.diagnostics import DefinitionError, Diagnostic
from ...text.source import Source, Text
from ..file_texts import FILE
from ..foreign_keys import ROOTS
from . import r1
from .r1.nodes import STORES, Arithmetic, Lit, Node, Path, nodes_in
from .r1.written import HOLES, concatenation, literal, spelling
from .scope import Scope

LONGEST = 1_000
"""Characters of a text that is compared with expressions."""

_WORD = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*", re.ASCII)
_ANY_BRACES = re.compile(r"\{\{?([^{}]*)\}\}?")
_SIGN = re.compile(
    r"\s*(?:\$\{?(?:\{\s*)?|\{\{\s*)(?:(?:ctx|inputs?|vars|params|env)\.)?([A-Za-z_]\w*)((?:\.\w+)*)"
    r"\s*\}{0,2}\s*",
    re.ASCII,
)
"""A variable in the notation of a shell, of GitHub Actions or of Jinja."""
_OTHER = re.compile(
    rf"\s*+\{{\s*+(?:{'|'.join(ROOTS)}|parent\.input)\.([A-Za-z_]\w*+)((?>(?:\.\w++)*))\s*+\}}\s*+",
    re.ASCII,
)
"""A placeholder of our other languages: ``{input.word}``, ``{state.word}``."""
_TAGGED = re.compile(r"(?:!expr?|expr!)[ \t]+(.+)", re.DOTALL)
_TAG_INSIDE = re.compile(r"(.*\s)!expr\s+(.+)", re.DOTALL)
_PLAIN = re.compile(r"[A-Za-z_][\w.]*(?: [-+*/<>=]+ [\w.]+)*", re.ASCII)
_STATEMENT = re.compile(r"\{%-? *(?:if|for|set|elif|else|endif|endfor|endset)\b[^{}]*%\}")
_WORDS = re.compile(r"\w+(?:[ -]\w+)*")
"""Words and nothing else: a title, or a name with hyphens."""
_COMPUTED_BEFORE = "compute the text in a transform before, name its output, and write {NAME} here"
CODE = "pipeline.literal-path"


class Lookalike(NamedTuple):
    """The expression that a text looks like."""

    expression: str
    """Empty: it cannot be written as an expression, because of a format in a hole."""
    reason: str
    """The reason why it is text."""
    store: str = ""
    """A store whose name is the whole text. The expression is meant only if nothing reads the
    store, because the text may be a word that is also the name of a store. Empty: it is meant in
    any case."""


def lookalike(text: str, scope: Scope, reads: Collection[str] = frozenset()) -> Lookalike | None:
    """The expression that ``text`` looks like at a place with these names. ``reads``: names that exist
    elsewhere in the text."""
    if len(text) > LONGEST:
        return None
    if (other := _OTHER.fullmatch(text)) and (scope.has(other[1]) or other[1] in reads):
        return Lookalike(f"ctx.{other[1]}{other[2]}", "only a prompt replaces braces")
    if tagged := _TAGGED.fullmatch(text):
        written = text[: len(text) - len(tagged[1])].strip()
        quoted = "the quotes make it text" if written == "!expr" else "the tag is written !expr"
        return Lookalike(tagged[1], quoted)
    if (inside := _TAG_INSIDE.fullmatch(text)) and is_readable(inside[2], scope):
        whole = f"{literal(inside[1])} + text({inside[2].strip()})"
        return Lookalike(whole, "the tag stands before a whole value")
    if _has_hole(text, scope):
        return Lookalike(concatenation(text), "only a prompt replaces braces")
    if sign := _SIGN.fullmatch(text):
        path = ".".join(scope.path(sign[1])) + sign[2]
        return Lookalike(path, "an argument has no $ and no {{ }}")
    names = _WORD.findall(text)
    if _is_path(text, scope) or (any(map(scope.has, names)) and is_expression(text, scope)):
        return _without_sign(text.strip(), scope)
    return None


def _without_sign(text: str, scope: Scope) -> Lookalike | None:
    """The lookalike of an expression without any sign of one; None for words, such as a title."""
    store = text if text not in scope.names.roots and _WORD.fullmatch(text) else ""
    is_prose = _WORDS.fullmatch(text) and not _WORD.fullmatch(text)
    return None if is_prose else Lookalike(text, "it has no !expr", store)


def pass_on(expression: str, scope: Scope) -> str | None:
    """The hint how to pass on a name of an outer step that an expression here cannot read."""
    had = next(filter(scope.had, _WORD.findall(expression)), None)
    return None if had is None else scope.names.hidden[had]


def _has_hole(text: str, scope: Scope) -> bool:
    """Whether there are braces around a name of this place."""
    return any(
        (name := _WORD.match(match[1].strip())) and (scope.has(name[0]) or scope.had(name[0]))
        for match in _ANY_BRACES.finditer(text)
    )


def is_file_name(text: str, scope: Scope) -> bool:
    """Whether ``text`` is the name of a file: ``totals.json`` is, even if there is a store
    ``totals``, but ``item.json`` is not."""
    return bool(FILE.fullmatch(text)) and text.partition(".")[0] not in scope.names.roots


def _is_path(text: str, scope: Scope) -> bool:
    """Whether ``text`` is a dotted path whose first name is known."""
    path = "." in text and bool(_DOTTED.fullmatch(text)) and not is_file_name(text, scope)
    first = text.partition(".")[0]
    return path and (scope.has(first) or scope.had(first))


def is_readable(text: str, scope: Scope) -> bool:
    """Whether ``text`` can be parsed as an expression."""
    try:
        r1.parse(Source("", text).span(), scope.names)
    except DefinitionError:
        return False
    return True


def is_expression(text: str, scope: Scope) -> bool:
    """Whether ``text`` can be parsed, and everything that it reads exists."""
    try:
        node = r1.parse(Source("", text).span(), scope.names).node
    except DefinitionError:
        return False
    paths = [
        part for part in nodes_in(node) if isinstance(part, Path) and isinstance(part.read[0], str)
    ]
    is_file = isinstance(node, Path) and is_file_name(text, scope)
    return bool(paths) and not is_file and all(scope.has(path.parts[0]) for path in paths)


def with_tag(expression: str) -> str:
    """The expression as a YAML value with its tag.

    >>> with_tag("ctx.n + 1"), with_tag("'Hi ' + ctx.name")
    ('!expr ctx.n + 1', '!expr "\\'Hi \\' + ctx.name"')
    """
    return f"!expr {expression if _PLAIN.fullmatch(expression) else quoted(expression)}"


def quoted(text: str) -> str:
    """A text as YAML writes it in quotes: as few signs as possible are escaped.

    >>> print(quoted("it's"), quoted("a 'b' \\"c\\""))
    "it's" 'a \'\'b\'\' "c"'
    """
    if not text.isprintable():
        return json.dumps(text, ensure_ascii=False)
    if '"' not in text and "\\" not in text:
        return f'"{text}"'
    doubled = text.replace("'", "''")
    return f"'{doubled}'"


def in_expression(node: Node, text: Text, scope: Scope) -> Iterator[Diagnostic]:
    """Warnings about texts in a parsed expression, and errors that can only be mistakes."""
    for part in nodes_in(node):
        match part:
            case Path(offset=offset, parts=(name, *_), read=(str(), *_)):
                hint = spelling(name)
                if hint and not scope.knows(name):
                    place = text.locate(offset, offset + len(name))
                    yield Diagnostic("r1.operator", f"there is no {name!r}", place, hint)
            case Lit(offset=offset, value=str() as value):
                if _has_hole(value, scope) or _is_path(value, scope):
                    reason = "it is in quotes"
                    meant = value
                    if "{" in value:
                        reason = "only a prompt replaces braces"
                        meant = concatenation(value)
                    hint = f"write: {meant}" if meant else HOLES
                    place = text.locate(offset, offset + len(value) + 2)
                    message = f"{value!r} is text: {reason}"
                    yield Diagnostic(CODE, message, place, hint, "warning")
            case Arithmetic():
                yield from _warn_hyphens(part, text, scope)


def _warn_hyphens(node: Arithmetic, text: Text, scope: Scope) -> Iterator[Diagnostic]:
    """``my-total`` where a store or a branch has that name: the expression subtracts."""
    if not isinstance(node.first, Path) or scope.knows(node.first.parts[-1]):
        return
    for operation in node.rest:
        if operation.op != "-" or not isinstance(operation.operand, Path):
            continue
        end = operation.operand.end
        written = text.text[node.first.offset : end]
        for thing, base, names in (
            ("store", STORES[0], scope.stores),
            ("branch", "pipe", scope.branches),
        ):
            path = written.removeprefix(f"{base}.")
            name = path.partition(".")[0]
            if name in names:
                message = f"'-' subtracts here, so this does not read the {thing} {name!r}"
                plain = name.replace("-", "_")
                hint = f"call the {thing} {plain}, or write: get({base}, {path!r})"
                place = text.locate(node.first.offset, end)
                yield Diagnostic("pipeline.store-name", message, place, hint)
                break


def in_prompt(text: Text, scope: Scope) -> Iterator[Diagnostic]:
    """The syntax of other templates in a prompt, and a prompt that is an expression alone."""
    source = text.text
    for braces in _ANY_BRACES.finditer(source):
        inner = braces[1].strip()
        doubled = (
            braces[0].startswith("{{") and braces[0].endswith("}}") and _has_hole(braces[0], scope)
        )
        if doubled:
            message = f"{braces[0]} keeps one pair of its braces"
            hint = f"write: {{{inner}}}" if _DOTTED.fullmatch(inner) else _COMPUTED_BEFORE
            yield _warning(message, text, braces.start(), braces.end(), hint)
        elif inner in scope.stores and not _DOTTED.fullmatch(inner):
            plain = re.sub(r"\W", "_", inner)
            message = f"{braces[0]} stays text: braces hold a path"
            yield _warning(message, text, braces.start(), braces.end(), f"call the store {plain}")
    if statement := _STATEMENT.search(source):
        hint = _COMPUTED_BEFORE
        message = f"{statement[0]} stays text: a prompt has no statements"
        yield _warning(message, text, statement.start(), statement.end(), hint)
    alone = source.strip()
    if _is_path(alone, scope):
        message = f"the prompt is the text {alone!r}"
        hint = f"write: {{{alone}}}"
        yield Diagnostic(CODE, message, text.locate(0, len(source)), hint, "warning")


def _warning(message: str, text: Text, start: int, end: int, hint: str) -> Diagnostic:
    return Diagnostic(
        "pipeline.template-expression", message, text.locate(start, end), hint, "warning"
    )
