"""Builds the node ``subgraph``, which calls another flow with parts of the state as input."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ....flow.protocols import Frame, Name
from ....flow.step_options import Exchange, Lookup
from ....flow.steps import Invoke
from ....text.diagnostics import Diagnostic
from ....text.suggestions import suggest
from ....values.value import Value
from ..expressions.reading import Reader
from ..state import State
from .builder_contract import BuiltNode, FieldValues, NodeSite, WrittenKey
from .call_arguments import pass_keys
from .on_error import Failed, on_error
from .step_fields import common
from .writes import write_as_subgraph, write_changed


def build_subgraph(reader: Reader, fields: FieldValues, site: NodeSite) -> BuiltNode:
    """The call of another flow."""
    name: Name = fields["graph"]
    inputs = fields.get("input_mapping")
    outputs = fields.get("output_mapping")
    if fields.get("mode") == "direct":
        inputs = outputs = "auto"
    if not inputs and not outputs:
        hint = "write input_mapping: {own: other} and output_mapping: {own: other}, or mode: direct"
        reader.warn(
            "graph.subgraph-mapping", f"no key is passed to {name.text!r} or back", name.span, hint
        )
    is_file = "/" in name.text or name.text.endswith((".yaml", ".yml", ".json"))
    step = Invoke(
        **common(site, fields, name.text),
        kind="flow",
        name=name,
        args=pass_keys(site.span, None if inputs == "auto" else inputs or ()),
        lookup=Lookup(name if is_file else None),
        exchange=Exchange(
            with_schema=True,
            while_waiting=_show_waiting(fields.get("interrupt_output_mapping") or ()),
        ),
    )
    if outputs == "auto":
        write = write_changed if site.inside else write_as_subgraph
        built = BuiltNode(step, write, collects=site.inside, writes_any=True)
    else:
        built = _with_mapping(step, name, outputs or (), site)
    return on_error(fields, site, built)


def _with_mapping(
    step: Invoke, name: Name, mapping: tuple[tuple[Name, Name], ...], site: NodeSite
) -> BuiltNode:
    """A node with an ``output_mapping``: a key of this graph for each key of the other one."""

    def write_mapped(state: State, value: Value) -> Mapping[str, Value]:
        result = _keys_of(value)
        return {key.text: result[other.text] for key, other in mapping if other.text in result}

    def note_missing(value: Value) -> Diagnostic | None:
        result = _keys_of(value)
        for key, other in mapping:
            if type(value) is not Failed and other.text not in result:
                message = f"the result of {name.text!r} has no {other.text!r} for {key.text!r}"
                hint = suggest(other.text, result, "its keys")
                return Diagnostic(
                    "graph.subgraph-mapping", message, other.span, hint, severity="warning"
                )
        return None

    keys = tuple(WrittenKey(key.text, key.span, sure=False) for key, _ in mapping)
    return BuiltNode(step, write_mapped, keys, collects=site.inside, note=note_missing)


def _show_waiting(mapping: tuple[tuple[Name, Name], ...]) -> Callable[[Frame, State], Frame] | None:
    """``interrupt_output_mapping``: keys of the other graph in the stores of the waiting run."""
    if not mapping:
        return None

    def show(frame: Frame, stores: State) -> Frame:
        mapped = {key.text: stores[other.text] for key, other in mapping if other.text in stores}
        return {**frame, "state": {**frame["state"], **mapped}}

    return show


def _keys_of(value: Value) -> Mapping[str, Value]:
    return value if isinstance(value, dict) else {"output": value}
