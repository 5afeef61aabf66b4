"""What is handed to a call, and what it hands back: the one copied, the other held to the step's schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..catalog import Policy, Tool, Transform
from ..flow.frame import Frame
from ..flow.schemas import conform
from ..flow.steps import Invoke
from ..flow.values import TooDeep, Value, isolate
from ..text.diagnostics import Diagnostic, StepError
from .linked import Linked


def given_to(
    step: Invoke, frame: Frame, callee: Tool | Transform | Policy | str, wanted: Mapping[str, Any] | None = None
) -> Any:
    """The arguments, copied."""
    return copied(step.args.build(frame, wanted), step, callee)


def copied(value: Value, step: Invoke, callee: Tool | Transform | Policy | str) -> Value:
    try:
        return isolate(value)
    except TooDeep as error:
        span = step.name.span or step.span
        whose = callee if isinstance(callee, str) else repr(callee.name)
        raise StepError(Diagnostic("step.too-deep", f"arguments of {whose}: {error}", span)) from None


def must_conform(value: Value, step: Invoke, linked: Linked) -> None:
    assert step.gives is not None
    faults = conform(linked.schemas[step.gives.text], value, linked.schemas)
    if faults:
        reasons = "; ".join(fault.message for fault in faults[:5])
        more = f"; and {len(faults) - 5} more" if len(faults) > 5 else ""
        message = f"the result of {step.name.text!r} does not conform to {step.gives.text!r}: {reasons}{more}"
        raise StepError(Diagnostic("step.schema", message, step.gives.span))
