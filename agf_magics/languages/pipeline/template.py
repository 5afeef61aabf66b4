"""Parses and fills prompt templates, in which ``{ctx.dotted.path}`` is replaced (decision P3).

Braces are replaced if they hold a path whose first name is known; other braces stay text. The
loader does not know the input, so an unknown name is looked up among the stores when the prompt is
written. The loader warns of it, because it may be misspelt.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ...flow.protocols import Frame, Ref
from ...text.diagnostics import Diagnostic, StepError
from ...text.source import Span, Text
from ...text.suggestions import suggest
from ..foreign_keys import ROOTS
from . import r1
from .lookalikes import is_expression
from .r1 import R1
from .r1.functions import FUNCTIONS, text_form
from .r1.nodes import KEYWORDS
from .scope import Scope

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
        """The paths that the template reads, in the order of the text. A name that the loader does
        not know is not certain."""
        return tuple(
            ref if hole.is_known else ref._replace(certain=False, optional=True)
            for hole in self.holes
            for ref in hole.path.reads()
        )


class _Hole(NamedTuple):
    """A brace with a path in it."""

    path: R1
    written: str
    is_known: bool
    store: str
    """The first name, which may be a store."""

    def fill(self, frame: Frame) -> str:
        if not self.is_known and self.store not in frame["ctx"]:
            return self.written
        try:
            value = self.path.evaluate(frame)
        except StepError as error:
            hint = f"{error.diagnostic.hint} (in a transform before: braces hold only a path)"
            raise StepError(replace(error.diagnostic, hint=hint)) from None
        return _value_words(value, self.path)


class _Inside(NamedTuple):
    """The part of a text between two braces, as a Text."""

    outer: Text
    start: int
    text: str

    def locate(self, start: int, end: int) -> Span:
        return self.outer.locate(self.start + start, self.start + end)


def parse_template(text: Text, scope: Scope) -> Template:
    """The template of ``text``. Every text is a template."""
    source = text.text
    parts = list[str | _Hole]()
    warnings = list[Diagnostic]()
    end = 0
    choices: list[str] = []
    for braces in _BRACES.finditer(source):
        content = braces[1]
        path = _PATH.match(content)
        if path is None or path[2] in KEYWORDS:
            continue
        first = path[2]
        is_known = scope.knows(first)
        if path.end() == len(content):
            inner = _Inside(text, braces.start(1) + path.start(1), path[1])
            hole = _Hole(r1.parse(inner, scope.names), braces[0], is_known, first)
            parts += [source[end : braces.start()], hole]
            end = braces.end()
            if not is_known:
                choices = choices or _known_names(scope)
                warnings.append(_unknown_name(first, inner, choices))
        elif is_known or (first in FUNCTIONS and content[path.end() :].startswith("(")):
            place = text.locate(braces.start(), braces.end())
            warnings.append(_no_expression(content, place, scope))
    parts.append(source[end:])
    return Template(
        text.locate(0, len(source)), tuple(part for part in parts if part), tuple(warnings)
    )


def _known_names(scope: Scope) -> list[str]:
    names = scope.names
    return [*sorted(names.roots), *sorted(names.hidden), *sorted(scope.stores)]


_ELSEWHERE = re.compile(rf"(?:{'|'.join(ROOTS)}|parent\.input)\.([\w.]+)")
"""The path in a placeholder of another language."""


def _unknown_name(name: str, path: _Inside, choices: list[str]) -> Diagnostic:
    """The warning about a path whose first name is not known."""
    near = suggest(name, choices)
    reason = f"if the input has it, write {{ctx.{name}}}"
    message = f"{{{name}}} stays text unless the input has {name!r}: no step writes it"
    hint = " ".join(filter(None, (near, reason)))
    if elsewhere := _ELSEWHERE.fullmatch(path.text):
        hint = f"write {{ctx.{elsewhere[1]}}}"
    place = path.locate(0, len(name))
    return Diagnostic("pipeline.template-name", message, place, hint, "warning")


def _no_expression(content: str, place: Span, scope: Scope) -> Diagnostic:
    """The warning about braces with more than a path in them."""
    where = "a transform" if is_expression(content, scope) else "a tool"
    hint = f"compute it in {where} before, name its output, and write {{NAME}} here"
    message = f"{{{content}}} stays text: braces hold a path"
    return Diagnostic("pipeline.template-expression", message, place, hint, "warning")


def _value_words(value: Any, path: R1) -> str:
    """The text of a value in a prompt. Raises StepError for a value that has no text."""
    try:
        return text_form(value, repr(path.text))
    except ValueError as problem:
        message = f"{path.text!r} {problem}"
    hint = "turn it into text in a tool first"
    raise StepError(Diagnostic("pipeline.template-value", message, path.span, hint))
