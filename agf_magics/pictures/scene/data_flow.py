"""What each step of a flow reads and writes, as its box and its line of the outline show it."""

from __future__ import annotations

from ...flow.checks.wiring import wires
from ...flow.flow import Flow
from ...flow.graph_steps import Walk
from ...flow.step import Step
from ...flow.steps import every


class DataFlow:
    """The reads and writes of one flow, by the ids of its steps."""

    def __init__(self, flow: Flow) -> None:
        self.wires = wires(flow)
        self.nodes: set[str] = set()
        """The ids of the steps of a graph, which read and write the state that all of them share."""
        self.returning: set[str] = set()
        """The nodes whose functions may return other keys of the state than those that the text names."""
        self._reads: dict[str, dict[str, None]] = {}
        self._writes: dict[str, tuple[str, ...]] = {}
        for wire in self.wires:
            self._reads.setdefault(wire.dest, {})[wire.name] = None
        for step in every(flow.body):
            if isinstance(step, Walk):
                self.nodes |= {inner.id for inner in every(step)}
                self.returning |= {
                    node.id for name, node in step.nodes.items() if name in step.writes_any
                }
                self._writes |= {
                    node.id: step.written.get(name, ()) for name, node in step.nodes.items()
                }

    def reads(self, step: Step) -> str:
        return ", ".join(self._reads.get(step.id, ()))

    def writes(self, step: Step) -> str:
        written = step.target.writes() if step.target else ()
        names = [ref.path[-1] for ref in written if len(ref.path) > 1]
        return ", ".join(dict.fromkeys((*names, *self._writes.get(step.id, ()))))

    def summary(self, step: Step) -> str:
        """``→ rows``; in a graph also what the node reads: ``draft, topic → score``."""
        reads = self.reads(step) if step.id in self.nodes else ""
        writes = self.writes(step)
        if writes:
            return f"{reads} → {writes}".strip()
        return f"reads {reads}" if reads else ""
