"""Reads the text of a planner's cell: the task, and a plan without calls, which a model will
write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from ...text.diagnostics import Diagnostics
from ...text.source import Source
from ...text.yaml.nodes import Fields, Node
from ...text.yaml.reader import Bounds
from ...values.value import Value
from ..documents import ANYTHING, NAME, DocumentProblem, one_document, text_at
from ..key_schemas import mapping_of, mapping_schema
from ..keys import Key, Takes, mapping_spec
from .document import DocumentReader
from .log.reference import sign_of
from .reader import Reader
from .words import PLAN, SCHEMA

OF_THE_MODEL: Final = ("calls", "output")
"""The keys of a plan that the model writes."""


def _input(reader: Reader, node: Node, key: Key) -> Mapping[str, Value]:
    return {
        name.text: ANYTHING.read(reader, value, key)
        for name, value in reader.named_entries(reader.mapping(node, key))
    }


INPUT: Final = Takes("a mapping of names to values", "{fruit: fig}", mapping_of({}), _input)
TASK: Final = NAME._replace(says="a text", example="What do two kilos of figs cost?")
HEADER: Final = mapping_spec(
    "a planner",
    "A planner: a task and the first values of its context.",
    Key("task", TASK, "The task in words.", required=True, code="plan.wrong-type"),
    *(
        key._replace(takes=INPUT) if name == "input" else key
        for name, key in PLAN.keys.items()
        if name not in (*OF_THE_MODEL, "mode", "ordered")
    ),
)
HEADER_SCHEMA: Final[Mapping[str, Any]] = {**mapping_schema(HEADER), "$defs": SCHEMA["$defs"]}
"""JSON Schema of a header."""


_NO_HEADER = DocumentProblem(
    "plan.document-shape",
    "the cell of a planner must be a mapping with 'task'",
    HEADER.keys["task"].example,
)
_TWO_HEADERS = DocumentProblem(
    "plan.two-plans", "one planner per cell", "define the other one in its own cell"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The text that a person writes for a planner."""

    task: str
    name: str
    context: str
    messages: tuple[Mapping[str, Value], ...]
    """The first messages of the context, without the input."""
    input: Mapping[str, Value]
    tools: Mapping[str, Mapping[str, Value]]
    """The declared tools: latent ones, and prescribed output paths."""
    confirm: bool | tuple[str, ...]


class HeaderReader(DocumentReader):
    """Reads a header."""

    advice: ClassVar[Mapping[str, str]] = {
        **DocumentReader.advice,
        **dict.fromkeys(
            OF_THE_MODEL, "the model writes it: remove it, or define the plan without --planner"
        ),
    }

    def header(self, node: Fields) -> Header:
        """The readable parts of a header."""
        fields = self.fields(HEADER, node, node.head)
        values = fields.pop("input", {})  # which may have secrets: no message has them
        confirm = fields.get("confirm")
        return Header(
            task=text_at(fields, "task"),
            name=text_at(fields, "name"),
            context=text_at(fields, "context"),
            messages=self.messages(fields, node),
            input=values,
            tools=fields.get("tools", {}),
            confirm=tuple(confirm) if isinstance(confirm, Mapping) else confirm is True,
        )


def load_header(source: Source, problems: Diagnostics, bounds: Bounds) -> Header | None:
    """The header in a text; None if the text has errors, which are added to ``problems``."""
    before = problems.error_count
    first = one_document(source, problems, bounds, _NO_HEADER, _TWO_HEADERS)
    if first is None:
        return None
    if not isinstance(first, Fields):
        problems.error(_NO_HEADER.code, _NO_HEADER.message, first.span, _NO_HEADER.hint)
        return None
    reader = HeaderReader(problems, sign_of(source.text))
    header = reader.header(first)
    return header if problems.error_count == before else None
