"""The input of an agent: a mapping of its fields to paths, read with the JSON Schema of its input.

The rules for absent, null, default and type are AGF-24 to AGF-30 with AMB-6 to AMB-9; nothing is
converted. An absent value becomes the default of its field; without a default it is an error if the
field is required or undeclared, and is left out otherwise. Null is a value, which only a required
field refuses.

The values of a policy: the inputs of its agents, the places of their outputs, its start and its
end.

The frame is ``{"parent": {"input": …}, alias: {"input": …, "output": …}, …}``, as paths read it; an
alias has the values of its latest run (AMB-4). Values that no path may read have names that no
alias can have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, NamedTuple, NoReturn

from ...flow.json_schema import (
    Violation,
    describe_all,
    judge,
    kinds,
    place,
    referred,
)
from ...flow.schemas import shown_value
from ...flow.step import DROPPED, FanOutResult, FlowInput, FlowResult, Frame, Outcome, Ref
from ...flow.steps import Computed, Stored
from ...flow.values import Value, is_json, isolate
from ...text.diagnostics import Diagnostic, Span, StepError, misspelled_names
from ..documents import MISSING, Missing
from .path import ELEMENT, PARENT, Absent, Path

ANYTHING: Final[Mapping[str, Any]] = {}


class _Field(NamedTuple):
    """A field of the input."""

    name: str
    path: Path | None
    """None: the field is required and not mapped."""
    required: bool
    declared: bool
    default: Value | Missing
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
        """What an absent field gets: its default, or MISSING."""
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
        found = absent.diagnostic
        return StepError(
            replace(found, code="policy.missing-value", message=f"{message}: {found.message}")
        )

    def _span(self, field: _Field | None) -> Span | None:
        return field.path.span if field and field.path else next(iter(self.spans.values()), None)

    def _read(self, wanted: Mapping[str, Any] | None) -> _Plan:
        root = wanted or ANYTHING
        rules = referred(root, root)
        rules = rules if isinstance(rules, Mapping) else ANYTHING
        required: Sequence[str] = rules.get("required", ())
        known: Mapping[str, Any] = rules.get("properties", ANYTHING)
        unmapped = [name for name in required if name not in self.paths]
        fields = (
            self._field(name, known, name in required, root) for name in (*self.paths, *unmapped)
        )
        return _Plan(wanted, rules.get("type"), tuple(fields))

    def _field(
        self, name: str, known: Mapping[str, Any], required: bool, root: Mapping[str, Any]
    ) -> _Field:
        schema = known.get(name, ANYTHING)
        default = schema.get("default", MISSING) if isinstance(schema, Mapping) else MISSING
        return _Field(
            name, self.paths.get(name), required, name in known, default, judge(schema, root)
        )


FIRST: Final = "first()"
"""The output of the agent that finished first."""
PARALLEL: Final = "parallel()"
"""The outputs of a parallel policy's agents by alias."""
OUTPUT: Final = "output()"
"""The output of the policy."""
_HIDDEN: Final = "parent()"
"""An agent with the alias ``parent``: it runs, but no path can read it (AMB-23)."""


def place_of(alias: str) -> str:
    """The name in the frame for the input and output of an agent."""
    return _HIDDEN if alias == PARENT else alias


def output_of(alias: str) -> tuple[str, ...]:
    return (place_of(alias), "output")


def value_at(frame: Frame, path: tuple[str, ...]) -> Value:
    value: Value = frame
    for name in path:
        value = value[name]
    return value


def whole_input(span: Span) -> Computed:
    """The whole input of the parent: the input of a vendor's policy."""
    return Computed(span, lambda frame: frame[PARENT]["input"], (Ref((PARENT, "input")),))


class AgentInput:
    """The input of an agent: the values of its mapping, or without one the whole input of the
    parent (AMB-3)."""

    __slots__ = ("delivery", "ran")

    def __init__(self, delivery: Delivery | None, ran: tuple[str, ...] = ()) -> None:
        self.delivery = delivery
        self.ran = ran
        """The aliases of the earlier steps."""

    @property
    def names(self) -> tuple[tuple[str, Span | None], ...] | None:
        return self.delivery.names if self.delivery else None

    def build(self, frame: Frame, wanted: Mapping[str, Any] | None = None) -> dict[str, Value]:
        if self.delivery is None:
            return {"input": frame[PARENT]["input"], "alone": "input"}
        return {"input": self.delivery.build(frame, wanted), "alone": "field"}

    def reads(self) -> tuple[Ref, ...]:
        return self.delivery.reads() if self.delivery else (Ref((PARENT, "input")),)

    def hint_for(self, name: str, frame: Frame) -> str:
        """The hint for an agent that gets the whole input, without its field ``name``: the path of
        that field in the input or in an earlier output, else of a field of the latest value."""
        values = {f"{alias}.output": frame[place_of(alias)]["output"] for alias in self.ran}
        paths = [
            f"{place}.{field}"
            for place, value in reversed(
                [(f"{PARENT}.input", frame[PARENT]["input"]), *values.items()]
            )
            if isinstance(value, dict)
            for field in value
        ]
        paths.sort(key=lambda path: not path.endswith(f".{name}"))
        path = next(iter(paths), f"{PARENT}.input.NAME")
        return f"add input_mapping: {{{name}: {path}}}"


class PolicyTarget(NamedTuple):
    """A Target: stores the outcome of a step in the frame."""

    store: Callable[[Frame, Outcome], Frame]
    refs: tuple[Ref, ...]

    def writes(self) -> tuple[Ref, ...]:
        return self.refs


def store_agent(alias: str, first: bool) -> PolicyTarget:
    """Store the input and the output of an agent. ``first``: also store its output for
    ``output_from: first``."""
    name = place_of(alias)

    def store(frame: Frame, outcome: Outcome) -> Frame:
        stored = {**frame, name: {"input": outcome.given, "output": outcome.value}}
        return {**stored, FIRST: outcome.value} if first else stored

    return PolicyTarget(store, (Ref((name,)), *([Ref((FIRST,))] if first else [])))


def store_output(alias_of: Callable[[Frame], str | None]) -> PolicyTarget:
    """Store the output of a policy that runs one agent, also under its alias; of a batch a list of
    outputs."""

    def store(frame: Frame, outcome: Outcome) -> Frame:
        alias = alias_of(frame)
        own = (
            {}
            if alias is None
            else {place_of(alias): {"input": outcome.given, "output": outcome.value}}
        )
        return {**frame, **own, OUTPUT: outcome.value}

    return PolicyTarget(store, (Ref((OUTPUT,)),))


RESULT = PolicyTarget(lambda frame, outcome: {**frame, OUTPUT: outcome.value}, (Ref((OUTPUT,)),))
EACH = Stored(lambda frame, value: {**frame, ELEMENT: value}, (Ref((ELEMENT,)),))


class JoinParallel:
    """The frame after parallel agents."""

    __slots__ = ()

    def join(self, frame: Frame, ran: FanOutResult) -> Frame:
        assert ran.names is not None, "branches have names"
        outputs = {
            alias: value
            for alias, value in zip(ran.names, ran.values, strict=True)
            if value is not DROPPED
        }
        return {**frame, PARALLEL: outputs, FIRST: ran.values[ran.order[0]]}

    def writes(self) -> tuple[Ref, ...]:
        return (Ref((PARALLEL,)),)


class Interface:
    """The input or output of a policy: a JSON Schema that is checked before the first step or at
    the end (AMB-32)."""

    __slots__ = ("_judge", "schema", "span", "word")

    def __init__(
        self, word: Literal["input", "output"], schema: Mapping[str, Any] | None, span: Span | None
    ) -> None:
        self.word, self.schema, self.span = word, schema, span
        self._judge = judge(schema or ANYTHING)

    def check(self, value: Value) -> None:
        """Raises StepError ``policy.invalid-input`` or ``policy.invalid-output``."""
        if not self.schema:
            return
        if not is_json(
            value
        ):  # opaque values are passed on, but do not conform to a JSON Schema (decision A1)
            path, odd = _odd(value)
            self._refuse(f"is not JSON: {place(path) or 'it'} is {shown_value(odd)}")
        if violations := self._judge(self._without_nulls(value)):
            self._refuse(f"does not conform to interface.{self.word}: {describe_all(violations)}")

    def _without_nulls(self, value: Value) -> Value:
        """An input without the optional fields that are null: only required fields refuse null
        (AMB-6)."""
        if self.word == "output" or type(value) is not dict:
            return value
        schema = self.schema or ANYTHING
        properties, required = schema.get("properties"), schema.get("required", ())
        optional = properties.keys() - required if isinstance(properties, Mapping) else ()
        return {
            name: field
            for name, field in value.items()
            if field is not None or name not in optional
        }

    def _refuse(self, why: str) -> NoReturn:
        raise StepError(Diagnostic(_CODES[self.word], f"the {self.word} {why}", self.span))


_CODES: Mapping[str, str] = {"input": "policy.invalid-input", "output": "policy.invalid-output"}


def start(interface: Interface) -> Callable[[FlowInput], Frame]:
    """The function that makes the frame of the first step. It does not fill in defaults of the
    schema."""

    def first_frame(given: FlowInput) -> Frame:
        interface.check(given.input)
        return {PARENT: {"input": given.input}}

    return first_frame


def end(interface: Interface) -> Callable[[Frame], FlowResult]:
    def finish(frame: Frame) -> FlowResult:
        interface.check(frame[OUTPUT])
        return FlowResult(frame[OUTPUT], outputs(frame))

    return finish


def outputs(frame: Frame) -> dict[str, Value]:
    """The outputs by alias."""
    ours = (
        PARENT,
        FIRST,
        PARALLEL,
        OUTPUT,
        ELEMENT,
    )  # these, and the state of a model's session, are not agents
    ran = {
        PARENT if name == _HIDDEN else name: stored["output"]
        for name, stored in frame.items()
        if name not in ours and type(stored) is dict and "output" in stored
    }
    return {**ran, **frame.get(PARALLEL, {})}


def _odd(value: Value) -> tuple[tuple[Any, ...], Value]:
    """The part of a value that is not JSON, and its place."""
    parts = (
        value.items() if type(value) is dict else enumerate(value) if type(value) is list else ()
    )
    for name, part in parts:
        if not is_json(part):
            path, odd = _odd(part)
            return (name, *path), odd
    return (), value
