"""Checks the input and the output of a policy against JSON Schemas, at the start and the end of a
run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NoReturn

from ...flow.protocols import FlowInput, FlowResult, Frame
from ...schemas.json_schema import judge
from ...schemas.schema import shown_value
from ...schemas.violations import describe_all, place
from ...text.diagnostics import Diagnostic, StepError
from ...text.source import Span
from ...values.value import Value, is_json
from .frame import OUTPUT, outputs
from .input_mapping import ANYTHING
from .path import PARENT


class Interface:
    """The input or output of a policy: a JSON Schema that is checked before the first step or at
    the end (AMB-32)."""

    __slots__ = ("_judge", "schema", "span", "word")

    def __init__(
        self, word: Literal["input", "output"], schema: Mapping[str, Any] | None, span: Span | None
    ) -> None:
        self.word = word
        self.schema = schema
        self.span = span
        self._judge = judge(schema or ANYTHING)

    def check(self, value: Value) -> None:
        """Check a value by the schema. Raises StepError ``policy.invalid-input`` or
        ``policy.invalid-output``."""
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
        properties = schema.get("properties")
        required = schema.get("required", ())
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

    def first_frame(flow_input: FlowInput) -> Frame:
        interface.check(flow_input.input)
        return {PARENT: {"input": flow_input.input}}

    return first_frame


def end(interface: Interface) -> Callable[[Frame], FlowResult]:
    """The function that checks and returns the output at the end of a run."""

    def finish(frame: Frame) -> FlowResult:
        interface.check(frame[OUTPUT])
        return FlowResult(frame[OUTPUT], outputs(frame))

    return finish


def _odd(value: Value) -> tuple[tuple[Any, ...], Value]:
    """The place of the first part of a value that is not JSON, and the part."""
    parts = enumerate(value) if type(value) is list else ()
    for name, part in value.items() if type(value) is dict else parts:
        if not is_json(part):
            path, odd = _odd(part)
            return (name, *path), odd
    return (), value
