"""Builds the nodes ``tool`` and ``python``, which call one function; a tool may also be a
command."""

from __future__ import annotations

from ....flow.expressions import NamedArguments
from ....flow.protocols import Name
from ....flow.step_options import Exchange, Lookup
from ....flow.steps import Invoke
from ....text.diagnostics import Diagnostic
from ....values.value import Value
from ..expressions.reading import Reader
from .builder_contract import BuiltNode, FieldValues, NodeSite
from .call_arguments import WithState, check_slots, complete
from .on_error import Failed, on_error
from .step_fields import common, state_key
from .writes import write_object, write_output


def build_tool(reader: Reader, fields: FieldValues, site: NodeSite) -> BuiltNode:
    """A node ``tool``: the call of a tool, or of a command that the graph declares."""
    name: Name = fields["tool"]
    site.tools.used.add(name.text)
    command = site.tools.commands.get(name.text)
    values = fields.get("variables")
    values = None if values is None else complete(values)
    write, key = state_key(fields, site)
    if command is None:
        file = site.tools.files.get(name.text)
        step = Invoke(
            **common(site, fields, name.text),
            kind="tool",
            name=name,
            args=NamedArguments(values or ()),
            lookup=Lookup(file),
        )
        return on_error(fields, site, BuiltNode(step, write, (key,)))
    args = command.call(values)
    check_slots(reader, "graph.command-variable", args.slots, values)
    step = Invoke(
        **common(site, fields, name.text), kind="tool", name=Name("shell", name.span), args=args
    )
    key = key._replace(sure=command.parse != "none")
    return on_error(
        fields, site, BuiltNode(step, write_output(write, command), (key,), collects=site.inside)
    )


def build_python(reader: Reader, fields: FieldValues, site: NodeSite) -> BuiltNode:
    """A node ``python``: the call of a function, which may read the whole state."""
    name: Name | None = fields.get("tool") or fields.get("function")
    if name is None:
        reader.refuse("graph.missing-key", "python needs 'tool'", site.span, "tool: score")
    site.tools.used.add(name.text)
    if name.text in site.tools.commands:
        hint = f"write type: tool to run the command {name.text!r}"
        message = f"{name.text!r} is a command, and python calls a function"
        reader.error("graph.tool-kind", message, name.span, hint)
    write, key = state_key(fields, site, write_object)
    step = Invoke(
        **common(site, fields, name.text),
        kind="tool",
        name=name,
        args=WithState(complete(fields.get("variables") or ()), fields.get("requires") or ()),
        lookup=Lookup(site.tools.files.get(name.text)),
        exchange=Exchange(with_schema=True),
    )
    declares = reader.declared is None or key.name in reader.declared or "state_key" in fields

    def note_undeclared(value: Value) -> Diagnostic | None:
        """The warning that a result that is no object was stored under the name of the node, which
        is not a declared key."""
        if type(value) is Failed or write({}, value).keys() != {key.name}:
            return None
        message = f"{key.name!r} is not declared in the state"
        hint = f"name the key of the result: state_key: KEY; or declare state: {{{key.name}: any}}"
        return Diagnostic("graph.undeclared-key", message, key.span, hint, "warning")

    note = None if declares or site.inside else note_undeclared
    return on_error(fields, site, BuiltNode(step, write, (key,), writes_any=True, note=note))
