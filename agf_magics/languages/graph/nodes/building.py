"""The node that is being built: its place, its outputs, its error policy.

There is one builder for each kind of node, by table (node_kinds.py). A step gives a value; the node's `Write` turns it
into new values of keys, and state.py combines the values of one round.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

from ....flow.expressions import Computed, NamedArguments
from ....flow.protocols import Frame, Name
from ....flow.step import Failing, Step
from ....flow.steps import Branches
from ....text.diagnostics import Diagnostic
from ....text.source import Span
from ....text.suggestions import suggest
from ....text.yaml.nodes import shorten
from ....values.value import Value
from ...documents import named
from ..expressions.reading import Reader
from ..prompts.prompts import Folders
from ..prompts.slots import Slot
from ..state import Failed, Write
from .calls import Values
from .python_tools import Tools
from .writes import write_key, write_object, write_or_note_failure

Given = dict[str, Any]


class Written(NamedTuple):
    """A key that a node writes, as far as its text says."""

    name: str
    span: Span | None
    declares: bool = True
    """Whether writing it declares it; a key of `output`, and a node's name in place of a key, does
    not."""
    type: str = "any"
    reducer: str | None = None
    option: str = ""
    """The option of the node that names it; empty: none."""
    sure: bool = True
    """Whether the node writes it whenever it runs."""


class Built(NamedTuple):
    """A node: its step and what it writes."""

    step: Step
    write: Write
    keys: tuple[Written, ...] = ()
    collects: bool = False
    """Whether in a map `write` makes the collected value, not the step alone."""
    routes: tuple[Name, ...] = ()
    """The nodes that a router names."""
    answers: Mapping[str, str] = MappingProxyType({})
    """Of a router: the answers that lead to each node."""
    binds: tuple[str, ...] = ()
    """Of a map: the names that its item has."""
    writes_any: bool = False
    """Whether it may write keys that its text does not name."""
    note: Callable[[Value], Diagnostic | None] | None = None
    """The warning about its value, if there is one."""


class Here(NamedTuple):
    """A node that is being built."""

    name: str
    id: str
    kind: str
    span: Span
    defaults: Given
    tools: Tools
    limits: Mapping[str, Any]
    inside: bool = False
    """Whether it is the node of a map."""
    folders: Folders = Folders()
    timeout: float | None = None
    """Of the map around it: the longest time for one item."""


class Outputs(Computed):
    """The new values of a passthrough."""

    __slots__ = ("values",)

    def __init__(self, span: Span, values: Values) -> None:
        def evaluate(frame: Frame) -> Value:
            state, made = frame["state"], NamedArguments(values).build(frame)
            # A null value leaves an existing key unchanged.
            return {
                name: state[name] if value is None and name in state else value
                for name, value in made.items()
            }

        super().__init__(span, evaluate, NamedArguments(values).reads())
        self.values = values


# --- shared by several kinds ---


def at(here: Here) -> dict[str, Any]:
    return {"id": here.id, "word": here.kind, "span": here.span}


def common(here: Here, given: Given, label: str) -> dict[str, Any]:
    """The fields that every call has."""
    return {**at(here), "label": shorten(label), "timeout": given.get("timeout", here.timeout)}


def state_key(
    given: Given, here: Here, how: Callable[[str], Write] = write_key
) -> tuple[Write, Written]:
    key = named(given, "state_key", Name(here.name, here.span))
    is_object = how is write_object  # its keys are those of the state, not this one
    written = Written(
        key.text,
        key.span,
        declares="state_key" in given or is_object,
        option="state_key",
        sure=not is_object,
    )
    return how(key.text), written


def on_error(given: Given, here: Here, built: Built) -> Built:
    how = given.get("on_error")
    if how == "retry":
        return repeated(given, built)
    if how != "skip" or here.inside:  # a map collects the failures of its items itself
        return built
    key = built.keys[0].name if built.keys else None
    write = write_or_note_failure(here.name, key, built.write)
    return built._replace(step=replace(built.step, rescue=Failed), write=write)


def repeated(given: Given, built: Built) -> Built:
    """``on_error: retry``: the call is the only branch of a step that retries its branches."""
    step = built.step
    inner = replace(step, id=f"{step.id}.call")
    again = Branches(
        id=step.id,
        word=step.word,
        label=step.label,
        span=step.span,
        branches={"call": inner},
        gather=lambda ran: ran.values[0],
        failing=Failing(retries=given.get("max_retries") or 3),
    )
    return built._replace(step=again)


def check_slots(reader: Reader, code: str, slots: tuple[Slot, ...], values: Values | None) -> None:
    """Warn about a slot that names no variable; None: every key of the state is one."""
    if values is None:
        return
    variables = [name.text for name, _ in values]
    for slot in slots:
        if slot.certain and not slot.in_state and slot.names[0] not in variables:
            hint = (
                suggest(slot.names[0], variables, "variables")
                or f"write {{state.{'.'.join(slot.names)}}}"
            )
            reader.warn(code, f"{slot.text} has no variable {slot.names[0]!r}", slot.span, hint)
