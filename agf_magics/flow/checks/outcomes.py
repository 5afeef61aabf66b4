"""Infers the shape of each step's value, as far as it is certain before a run.

Schemas, literals and expressions determine a shape along the wires between steps. Each shape is
computed on demand, once per step.
"""

from __future__ import annotations

from functools import cached_property

from ...schemas.shape_paths import ShapeAtPath, descend
from ...schemas.shapes import SchemaShapes, Shape, list_of
from ...text.diagnostics import Diagnostic
from ..flow import Flow
from ..protocols import Args, Expr
from ..step import Step
from ..steps import Branches, Compute, Each, Fold, Invoke
from .wiring import Accesses, Prefix, Read, Write


class Outcomes:
    """The shapes of the values in one flow."""

    def __init__(self, flow: Flow, trace: Accesses) -> None:
        self.flow = flow
        self.problems: list[Diagnostic] = []
        """The errors of the expressions that were inferred so far."""
        self._repeated = trace.repeated
        """The ids of the steps that run for each item of a list."""
        self._reads: dict[str, dict[tuple[str, ...], Read]] = {}
        """The reads of each step, by its id and the path."""
        for read in trace.reads:
            self._reads.setdefault(read.step.id, {})[read.ref.path] = read
        self._outcomes: dict[str, Shape | None] = {}
        """The shapes of the values of steps, by id."""
        self._expressions: dict[int, Shape | None] = {}
        """The shapes of expressions by identity. Each expression is inferred once, so that its
        errors are reported once."""

    @cached_property
    def _schemas(self) -> SchemaShapes:
        # In most flows no step names a schema.
        return SchemaShapes(self.flow.declared.schemas)

    def of(self, step: Step) -> Shape | None:
        """The shape of the value of ``step``."""
        if step.id not in self._outcomes:
            self._outcomes[step.id] = self._find(step)
        return self._outcomes[step.id]

    def expression(self, step: Step, expr: Expr | Args) -> Shape | None:
        """The shape of an expression of ``step``."""
        infer = self.flow.dialect.infer
        if infer is None:
            return None
        if id(expr) in self._expressions:
            return self._expressions[id(expr)]
        reads = self._reads.get(step.id, {})

        def look(path: tuple[str, ...]) -> ShapeAtPath:
            read = reads.get(path)
            if read is None:
                return None, None
            shape, fault = self._read(read)
            if fault is not None and (fault.name,) in read.visible:
                fault = fault._replace(alone=".".join(path[-1 - fault.after :]))
            return shape, fault

        self._expressions[id(expr)] = shape = infer(
            expr, look, self.problems, step.id in self._repeated
        )
        return shape

    def _find(self, step: Step) -> Shape | None:
        match step:
            case Invoke(gives=name) if name is not None:
                return self._schemas.of(name.text)
            case Compute():
                return self.expression(step, step.value)
            case Each(collect=collect) | Branches(collect=collect) if collect is not None:
                return self.of(collect)
        return None

    def _read(self, read: Read) -> ShapeAtPath:
        """The shape of what ``read`` reads."""
        path_inside = read.ref.path[len(read.key) :]
        if isinstance(read.writes, Prefix):  # the read is of all stores
            return None, None
        if any(write.from_second_iteration for write in read.writes):  # the value depends on itself
            return None, None
        if read.writes and all(write.part for write in read.writes):
            fields = {str(write.part): self._shape_written(write) for write in read.writes}
            return descend(Shape(frozenset({"object"}), fields=fields, closed=True), path_inside)
        if len(read.writes) == 1:
            return descend(self._shape_written(read.writes[0]), path_inside)
        return None, None

    def _shape_written(self, write: Write) -> Shape | None:
        """The shape of a written value; None: unknown."""
        step = write.step
        match write.role:
            case "outcome":
                return self.of(step)
            case "results":
                return list_of(self.of(step))
            case "element" if isinstance(step, (Each, Fold)):
                items = self.expression(step, step.over)
                return items.of if items else None
        return None
