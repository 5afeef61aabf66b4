"""Reads the values of a plan's document, in which a text that begins like a reference is a
reference.

The module also has the hints for keys of other languages: `slips`, and `advice` by a key or by one
of the meanings in `foreign_keys.ELSEWHERE`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar, Literal

from ...text.diagnostics import DefinitionError, Diagnostics
from ...text.source import Span
from ...text.yaml.nodes import Node, Scalar, read_scalars
from ...values.value import Value
from .. import documents
from ..keys import Key, MappingSpec
from .log.reference import DAGGER, KINDS, Reference, canonical, parse
from .lookalikes import Suspect, find_suspects, suspect_hint

_BEGINS = re.compile(r"[\s(]*([†$])([†$]?)([A-Za-z_][A-Za-z0-9_-]*)?")
"""The pattern of the begin of a reference: its sign (twice if it is text), its kind."""


class Reader(documents.Reader):
    """The state of one loading: its problems, and what the document declares."""

    layer = "plan"
    slips: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **dict.fromkeys(("steps", "nodes", "tasks", "plan"), ("calls",)),
        **dict.fromkeys(
            ("_outputs", "_out", "_result", "_save", "_store", "_path", "_to"), ("_outputPath",)
        ),
    }
    advice: ClassVar[Mapping[str, str]] = {
        "id": "a call is known by its result: _outputPath: †state.x, which others read as †state.x",
        "order": "a call waits for the values that it reads: pass a result as an argument, "
        "†state.x",
        "condition": "a plan has no conditions and loops; a pipeline or a graph has: name it in "
        "_tool",
        "loop": "a plan has no conditions and loops; a pipeline or a graph has: name it in _tool",
        "retries": "a tool has it where it is registered: @tool(retry=agf.Retry(NUMBER))",
        "timeout": "a tool has it where it is registered: @tool(timeout=NUMBER)",
        "latent": "write --latent TOOL in the line of the cell, or declare it in tools:",
        "args": "the arguments are keys of the call itself: {_tool: measure, word: pear}",
        "confirm": "confirm: [TOOL] stands beside calls:",
        "environment": "a value comes from the input: --set NAME=$name, read as †input.NAME",
    }

    def __init__(self, problems: Diagnostics, sign: str, latent: Collection[str] = ()) -> None:
        super().__init__(problems)
        self.sign = sign
        """The sign of references in hints: the one that the document uses."""
        self.latent = frozenset(latent)
        """Tools that are declared latent outside of the document."""
        self.kinds: Collection[str] = KINDS
        self.tools: dict[str, Mapping[str, Value]] = {}
        self.suspects: list[Suspect] = []

    def missing(self, spec: MappingSpec, key: Key, span: Span | None) -> None:
        hint = key.example.replace(DAGGER, self.sign)
        self.error("plan.missing-key", f"{spec.name} needs {key.name!r}", span, hint)

    def refuse_tag(self, node: Scalar, key: Key | None = None) -> None:
        hint = f"write the reference alone: {self.sign}state.x"
        self.error("plan.expr-tag", "a plan has no !expr", node.span, hint)

    def template(self, node: Node) -> Any:
        """A JSON value that may contain expressions."""
        return read_scalars(node, self.expression)

    def expression(self, node: Scalar) -> Any:
        """An expression, or any other scalar as its value."""
        if node.is_expr:
            self.refuse_tag(node)
            return Reference("", span=node.span)
        if type(node.value) is not str:
            return node.value
        begins = self.begins(node.text)
        if begins == "literal":
            double = DAGGER * 2 if DAGGER * 2 in node.text else "$$"
            return node.text.replace(double, double[0], 1)
        if begins == "text":
            self.suspects += find_suspects(node, self.kinds, self.sign)
            return node.text
        try:
            return parse(node)
        except DefinitionError as error:
            self.problems.extend(
                replace(problem, hint=suspect_hint(problem.hint, node.text))
                for problem in error.diagnostics
            )
            return Reference("", span=node.span)  # one of which nothing is known

    def begins(self, text: str) -> Literal["reference", "literal", "text"]:
        """Whether a text is a ``reference``, a ``literal`` that escapes one, or any other
        ``text``."""
        match = _BEGINS.match(text)
        if not match:
            return "text"
        sign, again, kind = match.groups()
        if sign == DAGGER:
            return "literal" if again == DAGGER else "reference"
        if kind not in self.kinds:
            return "text"
        if again == "$":
            return "literal"
        return "text" if again else "reference"

    def authored(self, node: Node) -> Value:
        """A value as its author wrote it, with † for $."""
        return read_scalars(node, self._as_authored)

    def _as_authored(self, node: Scalar) -> Value:
        if type(node.value) is str and "$" in node.text and self.begins(node.text) == "reference":
            with suppress(DefinitionError):  # `template` reports it
                return canonical(node)
        return node.value
