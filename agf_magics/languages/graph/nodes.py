"""Nodes to steps: the step of each kind of node, and the keys that it writes.

One builder for each kind, by table (kinds.py). A step gives a value; the node's `Write` turns it
into new values of keys, and state.py combines the values of one round.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

from ...flow.step import Exchange, Frame, Lookup
from ...flow.steps import Branches, Compute, Computed, Failing, Invoke, Name, NamedArguments, Step
from ...flow.values import Value
from ...text.diagnostics import Diagnostic, Span, suggest
from ...text.nodes import shorten
from ..documents import named
from .calls import (
    Tools,
    Values,
    WithState,
    complete,
    passed,
    write_as_subgraph,
    write_changed,
    write_key,
    write_object,
    write_or_note_failure,
    write_output,
)
from .prompts import Folders
from .reading import Reader, Slot
from .state import Failed, State, Write

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


def build_passthrough(reader: Reader, given: Given, here: Here) -> Built:
    if "output" in given and "set" in given:
        hint = "keep one of them: set is another name for output"
        reader.error(
            "graph.same-key", "a passthrough cannot have both 'output' and 'set'", here.span, hint
        )
    values: Values = given.get("output") or given.get("set") or ()
    label = ", ".join(str(name) for name, _ in values)
    step = Compute(**at(here), label=shorten(label), value=Outputs(here.span, values))
    keys = tuple(Written(name.text, name.span, declares=False) for name, _ in values)
    return Built(step, lambda state, value: value, keys)


def build_tool(reader: Reader, given: Given, here: Here) -> Built:
    name: Name = given["tool"]
    here.tools.used.add(name.text)
    command, values = here.tools.commands.get(name.text), given.get("variables")
    values = None if values is None else complete(values)
    write, key = state_key(given, here)
    if command is None:
        file = here.tools.files.get(name.text)
        step = Invoke(
            **common(here, given, name.text),
            kind="tool",
            name=name,
            args=NamedArguments(values or ()),
            lookup=Lookup(file),
        )
        return on_error(given, here, Built(step, write, (key,)))
    args = command.call(values)
    check_slots(reader, "graph.command-variable", args.slots, values)
    step = Invoke(
        **common(here, given, name.text), kind="tool", name=Name("shell", name.span), args=args
    )
    return on_error(
        given, here, Built(step, write_output(write, command), (key,), collects=here.inside)
    )


def build_python(reader: Reader, given: Given, here: Here) -> Built:
    name: Name | None = given.get("tool") or given.get("function")
    if name is None:
        reader.refuse("graph.missing-key", "python needs 'tool'", here.span, "tool: score")
    here.tools.used.add(name.text)
    if name.text in here.tools.commands:
        hint = f"write type: tool to run the command {name.text!r}"
        message = f"{name.text!r} is a command, and python calls a function"
        reader.error("graph.tool-kind", message, name.span, hint)
    write, key = state_key(given, here, write_object)
    step = Invoke(
        **common(here, given, name.text),
        kind="tool",
        name=name,
        args=WithState(complete(given.get("variables") or ()), given.get("requires") or ()),
        lookup=Lookup(here.tools.files.get(name.text)),
        exchange=Exchange(wants=True),
    )
    return on_error(given, here, Built(step, write, (key,)))


def build_subgraph(reader: Reader, given: Given, here: Here) -> Built:
    name: Name = given["graph"]
    into, out = given.get("input_mapping"), given.get("output_mapping")
    if given.get("mode") == "direct":
        into = out = "auto"
    if not into and not out:
        hint = "write input_mapping: {own: other} and output_mapping: {own: other}, or mode: direct"
        reader.warn(
            "graph.subgraph-mapping", f"no key is passed to {name.text!r} or back", name.span, hint
        )
    is_file = "/" in name.text or name.text.endswith((".yaml", ".yml", ".json"))
    step = Invoke(
        **common(here, given, name.text),
        kind="flow",
        name=name,
        args=passed(here.span, None if into == "auto" else into or ()),
        lookup=Lookup(name if is_file else None),
        exchange=Exchange(
            wants=True, while_waiting=_show_waiting(given.get("interrupt_output_mapping") or ())
        ),
    )
    if out == "auto":
        write = write_changed if here.inside else write_as_subgraph
        return on_error(given, here, Built(step, write, collects=here.inside))
    mapping: tuple[tuple[Name, Name], ...] = out or ()

    def write_mapped(state: State, value: Value) -> Mapping[str, Value]:
        result = _keys_of(value)
        return {own.text: result[other.text] for own, other in mapping if other.text in result}

    def note_missing(value: Value) -> Diagnostic | None:
        result = _keys_of(value)
        for own, other in mapping:
            if type(value) is not Failed and other.text not in result:
                message = f"the result of {name.text!r} has no {other.text!r} for {own.text!r}"
                hint = suggest(other.text, result, "its keys")
                return Diagnostic(
                    "graph.subgraph-mapping", message, other.span, hint, severity="warning"
                )
        return None

    keys = tuple(Written(own.text, own.span) for own, _ in mapping)
    built = Built(step, write_mapped, keys, collects=here.inside, note=note_missing)
    return on_error(given, here, built)


def _keys_of(value: Value) -> Mapping[str, Value]:
    return value if isinstance(value, dict) else {"output": value}


def _show_waiting(mapping: tuple[tuple[Name, Name], ...]) -> Callable[[Frame, State], Frame] | None:
    """``interrupt_output_mapping``: keys of the other graph in the stores of the waiting run."""
    if not mapping:
        return None

    def show(frame: Frame, stores: State) -> Frame:
        shown = {own.text: stores[other.text] for own, other in mapping if other.text in stores}
        return {**frame, "state": {**frame["state"], **shown}}

    return show


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
    declares = "state_key" in given or how is write_object
    return how(key.text), Written(key.text, key.span, declares=declares)


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
