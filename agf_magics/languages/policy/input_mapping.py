"""Builds the input of an agent from a mapping of its fields to paths, by the JSON Schema of its
input.

The rules for absent values, null, defaults and types are AGF-24 to AGF-30 with AMB-6 to AMB-9;
nothing is converted. An absent value becomes the default of its field. Without a default, it is an
error if the field is required or undeclared, and is left out otherwise. Null is a value, which only
a required field refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from ...flow.protocols import Frame, Ref
from ...schemas.json_schema import Violation, judge
from ...schemas.violations import describe_all, kinds, resolve_reference
from ...text.diagnostics import Diagnostic, StepError
from ...text.source import Span
from ...text.suggestions import misspelled_names
from ...values.value import Value, isolate
from ..descend import MISSING, Missing
from .path import Absent, Path

ANYTHING: Final[Mapping[str, Any]] = {}


class _Field(NamedTuple):
    """A field of the input."""

    name: str
    path: Path | None
    """The path that the field gets its value from; None: the field is required and not mapped."""
    required: bool
    declared: bool
    """Whether it is among the ``properties`` of the schema."""
    default: Value | Missing
    """MISSING: it has none."""
    violations: Callable[[Value], list[Violation]]


class _Plan(NamedTuple):
    """A mapping and a schema combined."""

    wanted: Mapping[str, Any] | None
    """The JSON Schema of the input; None: it is not known."""
    kind: Any
    """The ``type`` of the whole input in the schema, a word or a list of words; None: any."""
    fields: tuple[_Field, ...]
    """The fields in the order of the mapping, then required fields that are not mapped."""


class Delivery:
    """The mapping of one call. `build` makes the input for one frame."""

    __slots__ = ("_plan", "paths", "spans", "who")

    def __init__(
        self, who: str, paths: Mapping[str, Path], spans: Mapping[str, Span] | None = None
    ) -> None:
        """``who``: the agent, in errors. ``spans``: the place of each field's name."""
        self.who = who
        self.paths = dict(paths)
        self.spans = dict(spans or {})
        self._plan = self._read(None)

    @property
    def names(self) -> tuple[tuple[str, Span | None], ...]:
        return tuple((name, self.spans.get(name)) for name in self.paths)

    def reads(self) -> tuple[Ref, ...]:
        return tuple(
            ref._replace(into=name) for name, path in self.paths.items() for ref in path.reads()
        )

    def build(self, frame: Frame, wanted: Mapping[str, Any] | None = None) -> dict[str, Value]:
        """The input of the agent. ``wanted``: the JSON Schema of the input; None: unknown. Raises
        StepError."""
        plan = self._plan  # read once: a concurrent run may replace it
        if wanted is not plan.wanted:
            plan = self._plan = self._read(wanted)
        if plan.kind is not None and "object" not in plan.kind:
            message = f"{self.who} takes {kinds(plan.kind)}, but an input_mapping gives an object"
            hint = "without an input_mapping the agent gets the parent's whole input"
            raise StepError(Diagnostic("policy.type-mismatch", message, self._span(None), hint))
        arguments: dict[str, Value] = {}
        for field in plan.fields:
            value = self._deliver(field, frame)
            if value is not MISSING:
                arguments[field.name] = value
        return arguments

    def _deliver(self, field: _Field, frame: Frame) -> Value:
        """The value of a field, or MISSING if it is left out. Raises StepError."""
        path = field.path
        try:
            if path is None:
                return self._otherwise(field, None)
            value = path.evaluate(frame)
        except Absent as absent:
            return self._otherwise(field, absent)
        if value is None:
            if field.required:
                message = f"{field.name!r} is required by {self.who}, but {path} is null"
                hint = "let the earlier step return a value, or make the field optional"
                raise StepError(
                    Diagnostic("policy.null-required", message, self._span(field), hint)
                )
        elif violations := field.violations(value):
            message = f"{field.name!r} of {self.who} {describe_all(violations)}"
            hint = f"values are not converted: {path} must have the type that {self.who} takes"
            raise StepError(Diagnostic("policy.type-mismatch", message, self._span(field), hint))
        return value

    def _otherwise(self, field: _Field, absent: Absent | None) -> Value:
        """The value for an absent field: its default, or MISSING."""
        if field.default is not MISSING:
            return isolate(field.default)
        if field.required:
            raise self._missing(field, absent)
        if absent is not None and not field.declared:
            raise absent
        return MISSING

    def _missing(self, field: _Field, absent: Absent | None) -> StepError:
        message = f"{field.name!r} is required by {self.who}, but missing"
        if absent is None:
            free = [
                other.name
                for other in self._plan.fields
                if other.path is not None and not other.declared
            ]
            # A declared field is not a slip.
            slip = next(iter(misspelled_names([field.name], free)), None)
            span = self.spans.get(slip or "", self._span(field))
            hint = (
                f"did you mean {field.name} instead of {slip}?"
                if slip
                else f"add {field.name}: PATH to the input_mapping"
            )
            return StepError(Diagnostic("policy.missing-value", message, span, hint))
        problem = absent.diagnostic
        return StepError(
            replace(problem, code="policy.missing-value", message=f"{message}: {problem.message}")
        )

    def _span(self, field: _Field | None) -> Span | None:
        """The place of the field's path, else that of the first key of the mapping."""
        return field.path.span if field and field.path else next(iter(self.spans.values()), None)

    def _read(self, wanted: Mapping[str, Any] | None) -> _Plan:
        """The mapping combined with the schema ``wanted``."""
        root = wanted or ANYTHING
        rules = resolve_reference(root, root)
        rules = rules if isinstance(rules, Mapping) else ANYTHING
        required: Sequence[str] = rules.get("required", ())
        properties: Mapping[str, Any] = rules.get("properties", ANYTHING)
        unmapped = [name for name in required if name not in self.paths]
        fields = (
            self._field(name, properties, name in required, root)
            for name in (*self.paths, *unmapped)
        )
        return _Plan(wanted, rules.get("type"), tuple(fields))

    def _field(
        self, name: str, properties: Mapping[str, Any], required: bool, root: Mapping[str, Any]
    ) -> _Field:
        schema = properties.get(name, ANYTHING)
        default = schema.get("default", MISSING) if isinstance(schema, Mapping) else MISSING
        return _Field(
            name, self.paths.get(name), required, name in properties, default, judge(schema, root)
        )
