"""Builds the node ``passthrough``, which computes new values of keys from the state without a
call."""

from __future__ import annotations

from ....flow.expressions import Computed, NamedArguments
from ....flow.protocols import Frame
from ....flow.steps import Compute
from ....text.shorten import shorten
from ....values.value import Value
from ..expressions.reading import Reader
from .builder_contract import BuiltNode, FieldValues, NodeSite, WrittenKey
from .call_arguments import Values
from .step_fields import at


def build_passthrough(reader: Reader, fields: FieldValues, site: NodeSite) -> BuiltNode:
    if "output" in fields and "set" in fields:
        hint = "keep one of them: set is another name for output"
        reader.error(
            "graph.same-key", "a passthrough cannot have both 'output' and 'set'", site.span, hint
        )
    values: Values = fields.get("output") or fields.get("set") or ()
    label = ", ".join(str(name) for name, _ in values)
    step = Compute(**at(site), label=shorten(label), value=Outputs(site, values))
    keys = tuple(WrittenKey(name.text, name.span, declares=False) for name, _ in values)
    return BuiltNode(step, lambda state, value: value, keys)


class Outputs(Computed):
    """The new values of a passthrough."""

    __slots__ = ("values",)

    def __init__(self, site: NodeSite, values: Values) -> None:
        def evaluate(frame: Frame) -> Value:
            state = frame["state"]
            updates = NamedArguments(values).build(frame)
            # A null value leaves an existing key unchanged. It is not written, because a reducer
            # would add the old value to itself. A map collects it.
            unchanged = {name for name, value in updates.items() if value is None and name in state}
            return {
                name: state[name] if name in unchanged else value
                for name, value in updates.items()
                if site.inside or name not in unchanged
            }

        super().__init__(site.span, evaluate, NamedArguments(values).reads())
        self.values = values
