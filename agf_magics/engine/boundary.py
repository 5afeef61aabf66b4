"""Values on their way to a call and back: arguments are copied, results are checked against the step's schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..catalog import Policy, Tool, Transform
from ..flow.schemas import conform
from ..flow.steps import Invoke
from ..flow.values import TooDeep, Value, isolate
from ..secrets.placeholders import substitute_secrets
from ..text.diagnostics import Diagnostic, StepError
from .failures import with_place
from .linked import Linked
from .runner import CallSite


def build_arguments(
    site: CallSite[Invoke], callee: Tool | Transform | Policy | str, wanted: Mapping[str, Any] | None = None
) -> Any:
    return copy_value(site.step.args.build(site.frame, wanted), site.step, callee)


def checked_arguments(site: CallSite[Invoke], tool: Tool, wanted: Mapping[str, Any] | None = None) -> dict[str, Value]:
    """The arguments of a call of ``tool``. Raises StepError if they are not what it takes."""
    given = build_arguments(site, tool, wanted)
    try:
        return tool.check(substitute_secrets(tool, given, site.run.models.placeholders) if tool.secret else given)
    except StepError as error:
        raise with_place(error, site.step) from None


def copy_value(value: Value, step: Invoke, callee: Tool | Transform | Policy | str) -> Value:
    try:
        return isolate(value)
    except TooDeep as error:
        name = callee if isinstance(callee, str) else repr(callee.name)
        span = step.name.span or step.span
        raise StepError(Diagnostic("step.too-deep", f"arguments of {name}: {error}", span)) from None


def check_result(value: Value, step: Invoke, linked: Linked) -> None:
    """Raise StepError if ``value`` does not conform to the schema of the step."""
    assert step.gives is not None
    faults = conform(linked.schemas[step.gives.text], value, linked.schemas)
    if faults:
        reasons = "; ".join(fault.message for fault in faults[:5])
        more = f"; and {len(faults) - 5} more" if len(faults) > 5 else ""
        message = f"the result of {step.name.text!r} does not conform to {step.gives.text!r}: {reasons}{more}"
        raise StepError(Diagnostic("step.schema", message, step.gives.span))
