"""Builds and checks the arguments of a call, if the step may make the call, and counts the call.

User code gets copies of the values in a frame, because it may change its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ...catalog import Policy, Tool, Transform
from ...flow.protocols import Args, Frame, Ref
from ...flow.steps import Invoke
from ...journal.secrets.placeholders import is_placeholder, refuse_placeholders, substitute_secrets
from ...limits.grants import LAUNCHES, Grant
from ...text.diagnostics import Diagnostic, StepError
from ...text.source import Span
from ...values.extent import TooDeep
from ...values.value import Value, isolate
from ..runner import CallSite
from .failures import with_place
from .read_once import warn_of_read_once


def permit(site: CallSite[Invoke], tool: Tool) -> dict[str, Value]:
    """Count a call that the step is allowed to make, and return its checked arguments. Raises
    StepError."""
    run = site.run
    step = site.step
    scope = site.scope
    # Checked first, because a call that is not allowed must not even evaluate its arguments.
    if not scope.grant.allows(tool.name, step.permit is not None):
        raise StepError(_denial(tool.name, scope.grant, step.name.span))
    needs_schema = step.exchange.extra_arguments or step.exchange.with_schema
    arguments = build_arguments(site, tool, tool.accepts if needs_schema else None)
    try:
        checked = (_check_secrets if tool.secret else check)(site, tool, arguments)
    except StepError as error:
        raise with_place(error, step, site.frame) from None
    run.large.follow(arguments, checked)
    warn_of_read_once(site, tool.name, arguments.values())
    if tool.secret:
        run.secrets.receive(tool, checked)
    # Counted after the check, because a call that cannot be made does not count.
    for meter in scope.meters:
        meter.tool()
    run.counts.calls += 1
    return checked


def _check_secrets(
    site: CallSite[Invoke], tool: Tool, arguments: dict[str, Value]
) -> dict[str, Value]:
    """The checked arguments of a call with secrets, of which a model has only placeholders. Raises
    StepError."""
    recording = site.run.options.recording
    passed = substitute_secrets(tool, arguments, site.run.models.placeholders)
    # A recorded call needs no secret, and its placeholder is no value that a check could judge.
    if recording is None or not recording.replays_tools:
        refuse_placeholders(tool, passed)
    held = {name: value for name, value in passed.items() if is_placeholder(value)}
    if not held:
        return check(site, tool, passed)
    others = {name: value for name, value in passed.items() if name not in held}
    return check(site, tool, held, others)


def check(
    site: CallSite[Invoke],
    tool: Tool,
    arguments: dict[str, Value],
    changes: Mapping[str, Value] | None = None,
) -> dict[str, Value]:
    """The checked arguments; ``changes``: see `Tool.check`. Raises StepError. The arguments of a call
    that an evaluation of a recorded run finds are returned as they are, because previews may stand
    for their values."""
    journal = site.run.journal
    if journal is not None and journal.skips_check(site.key, arguments):
        return {**arguments, **(changes or {})}
    return tool.check(arguments, changes)


def build_arguments(
    site: CallSite[Invoke],
    callee: Tool | Transform | Policy | str,
    schema: Mapping[str, Any] | None = None,
) -> Any:
    """A copy of the arguments, which user code may change. ``schema``: the schema of the callee's
    input, if the step needs it to build the arguments; default None."""
    value = site.step.args.build(site.frame, schema)
    return copy_value(value, site.step, callee, site.run.large.isolate)


def copy_value(
    value: Value,
    step: Invoke,
    callee: Tool | Transform | Policy | str,
    copy: Callable[[Value], Value] = isolate,
) -> Value:
    """``copy(value)``. Raises StepError for arguments that are too deep."""
    try:
        return copy(value)
    except TooDeep as error:
        name = callee if isinstance(callee, str) else repr(callee.name)
        span = step.place
        raise StepError(
            Diagnostic("step.too-deep", f"arguments of {name}: {error}", span)
        ) from None


@dataclass(frozen=True, slots=True)
class AsInput:
    """The arguments of a call as the input object of an agent."""

    args: Args
    """The arguments, which become the fields of the input."""
    names: tuple[tuple[str, Span | None], ...] | None = None

    def build(self, frame: Frame, schema: Mapping[str, Any] | None = None) -> Value:
        return {"input": self.args.build(frame, schema)}

    def reads(self) -> tuple[Ref, ...]:
        return self.args.reads()


def _denial(tool: str, grant: Grant, span: Span | None) -> Diagnostic:
    """The problem that ``grant`` does not allow ``tool``."""
    if tool in LAUNCHES:
        return Diagnostic(
            "flow.launch",
            f"a step cannot launch a pipeline: {tool!r}",
            span,
            "nest with a call step",
        )
    if tool in grant.barred or tool in grant.only_if_asking:
        message = (
            f"{tool!r} cannot be called here: a person must approve its calls, and nobody is asked"
        )
        hint = (
            "call it where it is approved: in the plan with confirm, or by the model of the policy"
        )
        return Diagnostic("step.not-allowed", message, span, hint)
    allowed = ", ".join(sorted((grant.tools or frozenset()) - LAUNCHES))
    hint = f"it may use {allowed or 'none'}"
    if not allowed:
        hint += (
            ": the document, the agent or the step around it lists none (action_space, tools, "
            "capabilities)"
        )
    return Diagnostic(
        "step.not-allowed", f"{grant.identity!r} may not use tool {tool!r}", span, hint
    )
