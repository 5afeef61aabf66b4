"""The input of an agent: a mapping of its fields to paths, read with the JSON Schema of its input.

The rules for absent, null, default and type are AGF-24 to AGF-30 with AMB-6 to AMB-9; nothing is
converted. An absent value becomes the default of its field; without a default it is an error if the
field is required or undeclared, and is left out otherwise. Null is a value, which only a required
field refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from ...flow.conforms import JSON_TYPES
from ...flow.frame import Frame, Ref
from ...flow.json_schema import Violation, judge
from ...flow.values import Value, isolate
from ...flow.violations import describe_all, kinds
from ...text.diagnostics import Diagnostic, StepError, misspelled_names
from ...text.source import Span
from ..scan import MISSING, Missing
from .path import Path

ANYTHING: Final[Mapping[str, Any]] = {}
_ANNOTATIONS = frozenset({"title", "description", "default", "examples", "deprecated", "$comment"})


class _Field(NamedTuple):
    """A field of the input."""

    name: str
    path: Path | None
    """None: the field is required and not mapped."""
    required: bool
    declared: bool
    default: Value | Missing
    fits: Callable[[Value], bool]
    violations: Callable[[Value], list[Violation]]


class _Plan(NamedTuple):
    """A mapping and a schema combined."""

    wanted: Mapping[str, Any] | None
    kind: Any
    """Its ``type``."""
    fields: tuple[_Field, ...]
    """In the order of the mapping, then required fields that are not mapped."""


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
        """``wanted``: the JSON Schema of the agent's input; None: unknown. Raises StepError."""
        plan = self._plan  # read once: a concurrent run may replace it
        if wanted is not plan.wanted:
            plan = self._plan = self._read(wanted)
        if plan.kind is not None and "object" not in plan.kind:
            message = f"{self.who} takes {kinds(plan.kind)}, but an input_mapping gives an object"
            hint = "without an input_mapping the agent gets the parent's whole input"
            raise StepError(Diagnostic("policy.type-mismatch", message, self._span(None), hint))
        given: dict[str, Value] = {}
        for field in plan.fields:
            value = self._deliver(field, frame)
            if value is not MISSING:
                given[field.name] = value
        return given

    def _deliver(self, field: _Field, frame: Frame) -> Value:
        path = field.path
        value = MISSING if path is None else path.find(frame)
        if value is MISSING:
            if field.default is not MISSING:
                return isolate(field.default)
            if field.required:
                raise self._missing(field, frame)
            if path is not None and not field.declared:
                raise path.absent(frame)
        elif value is None:
            if field.required:
                message = f"{field.name!r} is required by {self.who}, but {path} is null"
                hint = "let the earlier step return a value, or make the field optional"
                raise StepError(
                    Diagnostic("policy.null-required", message, self._span(field), hint)
                )
        elif not field.fits(value):
            message = f"{field.name!r} of {self.who} {describe_all(field.violations(value))}"
            hint = f"values are not converted: {path} must have the type that {self.who} takes"
            raise StepError(Diagnostic("policy.type-mismatch", message, self._span(field), hint))
        return value

    def _missing(self, field: _Field, frame: Frame) -> StepError:
        message = f"{field.name!r} is required by {self.who}, but missing"
        if field.path is None:
            free = [
                one.name for one in self._plan.fields if one.path is not None and not one.declared
            ]
            slip = next(
                iter(misspelled_names([field.name], free)), None
            )  # a declared field is not a slip
            span = self.spans.get(slip or "", self._span(field))
            hint = (
                f"did you mean {field.name} instead of {slip}?"
                if slip
                else f"add {field.name}: PATH to the input_mapping"
            )
            return StepError(Diagnostic("policy.missing-value", message, span, hint))
        absent = field.path.absent(frame).diagnostic
        return StepError(
            replace(absent, code="policy.missing-value", message=f"{message}: {absent.message}")
        )

    def _span(self, field: _Field | None) -> Span | None:
        return field.path.span if field and field.path else next(iter(self.spans.values()), None)

    def _read(self, wanted: Mapping[str, Any] | None) -> _Plan:
        rules = _rules(wanted or ANYTHING)
        required: Sequence[str] = rules.get("required", ())
        known: Mapping[str, Any] = rules.get("properties", ANYTHING)
        unmapped = [name for name in required if name not in self.paths]
        root = wanted or ANYTHING
        fields = (
            self._field(name, known, name in required, root) for name in (*self.paths, *unmapped)
        )
        return _Plan(wanted, rules.get("type"), tuple(fields))

    def _field(
        self, name: str, known: Mapping[str, Any], required: bool, root: Mapping[str, Any]
    ) -> _Field:
        schema = known.get(name, ANYTHING)
        schema = schema if isinstance(schema, Mapping) else ANYTHING if schema else {"not": {}}
        violations = judge(schema, root) if schema.keys() - _ANNOTATIONS else _nothing
        default = schema.get("default", MISSING)
        fits = _quick(schema) or (lambda value: not violations(value))
        return _Field(
            name, self.paths.get(name), required, name in known, default, fits, violations
        )


def _rules(wanted: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema with the properties: the target of a root that is only a reference."""
    rules: Any = wanted
    for _ in range(20):
        where = rules.get("$ref")
        if not isinstance(where, str) or not where.startswith("#/") or "properties" in rules:
            break
        found: Any = wanted
        for part in where[2:].split("/"):
            found = (
                found.get(part.replace("~1", "/").replace("~0", "~"))
                if isinstance(found, Mapping)
                else None
            )
        if not isinstance(found, Mapping):
            break
        rules = found
    return rules if isinstance(rules, Mapping) else ANYTHING


def _quick(schema: Mapping[str, Any]) -> Callable[[Value], bool] | None:
    """A test of the type, if the schema contains nothing else, which is the usual case."""
    says = schema.keys() - _ANNOTATIONS
    if not says:
        return lambda value: True
    kind = schema.get("type")
    return JSON_TYPES.get(kind) if says == {"type"} and isinstance(kind, str) else None


def _nothing(value: Value) -> list[Violation]:
    return []
