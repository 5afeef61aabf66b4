"""The text of a planner's cell: a plan without its calls, which a model writes, and the task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ...flow.values import Value
from ...text.diagnostics import Diagnostics, misspelled_names, suggest
from ...text.source import Source
from ...text.yamlnodes import Bounds, Fields, Items, Scalar, documents, plain, shown
from .document import DocumentReader
from .reference import sign_of
from .words import PLAN, SCHEMA

OF_THE_MODEL: Final = ("calls", "output")
"""The keys of a plan that the model writes."""
KEYS: Final = ("task", *(name for name in PLAN if name not in (*OF_THE_MODEL, "mode", "ordered")))


def header_schema() -> Mapping[str, Any]:
    """JSON Schema of a header, for completion."""
    of_plan = {name: rule for name, rule in SCHEMA["$defs"]["plan"]["properties"].items() if name in KEYS}
    task = {"type": "string", "description": "The task in words."}
    return {"type": "object", "properties": {"task": task, **of_plan}, "$defs": SCHEMA["$defs"]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a person writes for a planner."""

    task: str
    name: str
    context: str
    messages: tuple[Mapping[str, Value], ...]
    """The first messages of the context, without the input."""
    input: Mapping[str, Value]
    tools: Mapping[str, Mapping[str, Value]]
    """The declared tools: latent ones, and prescribed output paths."""
    confirm: bool | tuple[str, ...]


def load_header(source: Source, problems: Diagnostics, bounds: Bounds) -> Header | None:
    """The header in a text. Errors are added to ``problems``; None if there is one."""
    before = len(problems.errors)
    nodes = documents(source, problems, bounds)
    if len(problems.errors) > before:
        return None
    sign = sign_of(source.text)
    reader = DocumentReader(problems, sign)
    first = nodes[0] if nodes else None
    hint = "write task: What do two kilos of figs cost?"
    if not isinstance(first, Fields):
        message = "the cell of a planner must be a mapping with 'task'"
        reader.error("document-shape", message, first.span if first is not None else source.span(0, 0), hint)
        return None
    for other in nodes[1:]:
        reader.error("two-plans", "one planner per cell", other.span, "define the other one in its own cell")
    _check_keys(reader, first)
    task = reader.name(first.fields.get("task"), "wrong-type", "'task' must be a text")
    if "task" not in first.fields and "task" not in misspelled_names(first.fields.keys() - set(KEYS), KEYS):
        reader.error("missing-key", "a planner needs the key 'task'", first.span, hint)
    own = {name: first.fields[name] for name in first.fields if name in KEYS and name not in ("task", "confirm")}
    given = own.pop("input", None)
    if given is not None and not isinstance(given, Fields):
        reader.mistyped("input", given)
    empty = Items((), first.whole)
    document = reader.document(Fields({**own, "calls": empty}, {**first.keys, "calls": _key(first)}, first.whole))
    confirm = _confirm(reader, first)
    if len(problems.errors) > before or task is None:
        return None
    return Header(
        task=task.text,
        name=document.name.text if document.name else "",
        context=document.context or "",
        messages=document.messages,
        input=plain(given) if given is not None else {},
        tools=reader.tools,
        confirm=confirm,
    )


def _check_keys(reader: DocumentReader, node: Fields) -> None:
    for name, key in node.keys.items():
        if name in OF_THE_MODEL:
            hint = "remove it, or define the plan without --planner"
            reader.error("unknown-key", f"the model writes {name!r} of a planner's plans", key.span, hint)
        elif name not in KEYS:
            hint = suggest(name, KEYS, "the keys of a planner") or ""
            reader.error("unknown-key", f"unknown key {name!r} of a planner", key.span, hint)


def _key(node: Fields) -> Scalar:
    return next(iter(node.keys.values()), Scalar("calls", "calls", node.span))


def _confirm(reader: DocumentReader, node: Fields) -> bool | tuple[str, ...]:
    given = node.fields.get("confirm")
    if isinstance(given, Items) and all(isinstance(one, Scalar) and type(one.value) is str for one in given.items):
        return tuple(str(one) for one in plain(given))
    if isinstance(given, Scalar) and type(given.value) is bool:
        return given.value
    if given is not None:
        reader.error("wrong-type", f"'confirm' must be {PLAN['confirm'].takes}, not {shown(given)}", given.span)
    return False
