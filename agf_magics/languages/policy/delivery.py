"""What an agent is given: a mapping of its fields to paths, read under the JSON Schema of what it takes.

The rules for absent, null, default and type are AGF-24 to AGF-30 with AMB-6 to AMB-9: nothing is converted. What is
absent is the target's default; else missing where it is required, left out where it is declared, and an error at the
path where nobody knows the field. Null is a value, which a required field refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from ...flow.conforms import JSON_TYPES
from ...flow.frame import Frame, Ref
from ...flow.json_schema import Violation, judge
from ...flow.values import Value, isolate
from ...flow.violations import kinds, told
from ...text.diagnostics import DefinitionError, Diagnostic, StepError, meant
from ...text.source import Span
from .path import ABSENT, ELEMENT, Absent, Path, iteration_problem, parse_path

ANYTHING: Final[Mapping[str, Any]] = {}
_SAYS_NOTHING = frozenset({"title", "description", "default", "examples", "deprecated", "$comment"})


class _Field(NamedTuple):
    """A field of what is delivered to."""

    name: str
    path: Path | None
    """None: required, and nothing maps to it."""
    required: bool
    declared: bool
    default: Value | Absent
    fits: Callable[[Value], bool]
    violations: Callable[[Value], list[Violation]]


class _Plan(NamedTuple):
    """What a schema asks of a mapping."""

    wanted: Mapping[str, Any] | None
    kind: Any
    """Its ``type``."""
    fields: tuple[_Field, ...]
    """In the order of the mapping, then what is required and not mapped."""


class Delivery:
    """The mapping of one call. `build` is what it is given, for one frame; made once for each schema."""

    __slots__ = ("_plan", "paths", "spans", "who")

    def __init__(self, who: str, paths: Mapping[str, Path], spans: Mapping[str, Span] | None = None) -> None:
        """``who``: the agent, as errors call it. ``spans``: where each field's name stands in the text."""
        self.who = who
        self.paths = dict(paths)
        self.spans = dict(spans or {})
        self._plan = self._read(None)

    @property
    def names(self) -> tuple[tuple[str, Span | None], ...]:
        return tuple((name, self.spans.get(name)) for name in self.paths)

    def reads(self) -> tuple[Ref, ...]:
        return tuple(ref._replace(into=name) for name, path in self.paths.items() for ref in path.reads())

    def build(self, frame: Frame, wanted: Mapping[str, Any] | None = None) -> dict[str, Value]:
        """``wanted``: the JSON Schema of what the agent takes; None: nobody knows it. Raises StepError."""
        plan = self._plan  # taken once: another run may be building with another schema
        if wanted is not plan.wanted:
            plan = self._plan = self._read(wanted)
        if plan.kind is not None and "object" not in plan.kind:
            message = f"{self.who} takes {kinds(plan.kind)}, and a mapping gives an object"
            hint = "without an input_mapping it is given the parent's whole input"
            raise StepError(Diagnostic("policy.type-mismatch", message, self._span(None), hint))
        given: dict[str, Value] = {}
        for field in plan.fields:
            value = self._deliver(field, frame)
            if value is not ABSENT:
                given[field.name] = value
        return given

    def _deliver(self, field: _Field, frame: Frame) -> Value:
        path = field.path
        value = ABSENT if path is None else path.find(frame)
        if value is ABSENT:
            if field.default is not ABSENT:
                return isolate(field.default)
            if field.required:
                raise self._missing(field, frame)
            if path is not None and not field.declared:
                raise path.absent(frame)
        elif value is None:
            if field.required:
                message = f"{field.name!r} is required by {self.who}, and {path} is null"
                hint = "a required field takes no null; let the step before give a value, or make the field optional"
                raise StepError(Diagnostic("policy.null-required", message, self._span(field), hint))
        elif not field.fits(value):
            message = f"{field.name!r} of {self.who} {told(field.violations(value))}"
            hint = f"nothing is converted on the way: {path} must have the type that {self.who} takes"
            raise StepError(Diagnostic("policy.type-mismatch", message, self._span(field), hint))
        return value

    def _missing(self, field: _Field, frame: Frame) -> StepError:
        message = f"{field.name!r} is required by {self.who} and missing"
        if field.path is None:
            free = [one.name for one in self._plan.fields if one.path is not None and not one.declared]
            slip = next(iter(meant([field.name], free)), None)  # what the agent takes is not a slip
            span = self.spans.get(slip or "", self._span(field))
            hint = f"did you mean {field.name} where {slip} stands?" if slip else f"map it: {field.name}: PATH"
            return StepError(Diagnostic("policy.missing-value", message, span, hint))
        absent = field.path.absent(frame).diagnostic
        return StepError(replace(absent, code="policy.missing-value", message=f"{message}: {absent.message}"))

    def _span(self, field: _Field | None) -> Span | None:
        return field.path.span if field and field.path else next(iter(self.spans.values()), None)

    def _read(self, wanted: Mapping[str, Any] | None) -> _Plan:
        rules = _rules(wanted or ANYTHING)
        required: Sequence[str] = rules.get("required", ())
        known: Mapping[str, Any] = rules.get("properties", ANYTHING)
        unmapped = [name for name in required if name not in self.paths]
        root = wanted or ANYTHING
        fields = (self._field(name, known, name in required, root) for name in (*self.paths, *unmapped))
        return _Plan(wanted, rules.get("type"), tuple(fields))

    def _field(self, name: str, known: Mapping[str, Any], required: bool, root: Mapping[str, Any]) -> _Field:
        schema = known.get(name, ANYTHING)
        schema = schema if isinstance(schema, Mapping) else ANYTHING if schema else {"not": {}}
        violations = judge(schema, root) if schema.keys() - _SAYS_NOTHING else _nothing
        default = schema.get("default", ABSENT)
        fits = _quick(schema) or (lambda value: not violations(value))
        return _Field(name, self.paths.get(name), required, name in known, default, fits, violations)


def resolve_path(
    path: Path | str, context: Frame, schema: Mapping[str, Any] | None = None, field: str | None = None
) -> Value:
    """The value of a path in ``{"parent": {"input": …}, alias: {"input": …, "output": …}}``.

    With the ``schema`` of what an agent takes it is what arrives there in ``field``: its default where nothing is,
    ABSENT where it is then left out.

    >>> resolve_path("parent.input.n", {"parent": {"input": {"n": 5}}})
    5
    """
    path = parse_path(path, "batch") if isinstance(path, str) else path
    if schema is None or field is None:
        return path.evaluate(context)
    only = {**schema, "required": [name for name in schema.get("required", ()) if name == field]}
    return Delivery("the agent", {field: path}).build(context, only).get(field, ABSENT)


def batch_inputs(
    mapping: Mapping[str, Path | str], context: Frame, most: int = 0, schema: Mapping[str, Any] | None = None
) -> list[dict[str, Value]]:
    """What each call of a batch is given, in the order of the list; ``most``: only the first so many, 0 is all.

    >>> batch_inputs({"n": "parent.input.items.[].n"}, {"parent": {"input": {"items": [{"n": 1}, {"n": 2}]}}})
    [{'n': 1}, {'n': 2}]
    """
    paths = {name: parse_path(path, "batch") if isinstance(path, str) else path for name, path in mapping.items()}
    if wrong := iteration_problem(paths, None):
        raise DefinitionError(wrong)
    over = next(path for path in paths.values() if path.elements is not None)
    elements, delivery = over.over(context), Delivery("the agent", paths)
    given = []
    for index, element in enumerate(elements[:most] if most else elements):
        try:
            given.append(delivery.build({**context, ELEMENT: element}, schema))
        except StepError as error:
            found = error.diagnostic
            problem = replace(found, message=f"element {index} of {over.array}: {found.message}")
            break
    else:
        return given
    raise StepError(problem)


def _rules(wanted: Mapping[str, Any]) -> Mapping[str, Any]:
    """The object that has the properties: where the root is only a reference, what it refers to."""
    rules: Any = wanted
    for _ in range(20):
        where = rules.get("$ref")
        if not isinstance(where, str) or not where.startswith("#/") or "properties" in rules:
            break
        found: Any = wanted
        for part in where[2:].split("/"):
            found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
        if not isinstance(found, Mapping):
            break
        rules = found
    return rules if isinstance(rules, Mapping) else ANYTHING


def _quick(schema: Mapping[str, Any]) -> Callable[[Value], bool] | None:
    """Whether a value is of the type, where a schema says nothing else: what nearly every schema says."""
    says = schema.keys() - _SAYS_NOTHING
    if not says:
        return lambda value: True
    kind = schema.get("type")
    return JSON_TYPES.get(kind) if says == {"type"} and isinstance(kind, str) else None


def _nothing(value: Value) -> list[Violation]:
    return []
