"""Nodes that call a function: ``tool``, ``python``, ``passthrough`` and ``subgraph``."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ....flow.expressions import Computed, NamedArguments
from ....flow.protocols import Frame, Name
from ....flow.step_options import Exchange, Lookup
from ....flow.steps import Compute, Invoke
from ....text.diagnostics import Diagnostic
from ....text.source import Span
from ....text.suggestions import suggest
from ....text.yaml.nodes import shorten
from ....values.value import Value
from ..expressions.reading import Reader
from ..state import Failed, State
from .builder_contract import Built, Given, Here, Written
from .calls import Values, WithState, check_slots, complete, passed
from .on_error import on_error
from .step_fields import at, common, state_key
from .writes import write_as_subgraph, write_changed, write_object, write_output


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
    key = key._replace(sure=command.parse != "none")
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
    return on_error(given, here, Built(step, write, (key,), writes_any=True))


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
        built = Built(step, write, collects=here.inside, writes_any=True)
        return on_error(given, here, built)
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

    keys = tuple(Written(own.text, own.span, sure=False) for own, _ in mapping)
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
