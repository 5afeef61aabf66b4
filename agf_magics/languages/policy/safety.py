"""Reads constraints, governance and memory: limits of a run, and fields that are not implemented.

No safety field is ignored silently (AMB-35). An unimplemented field that is required refuses the
run, with a warning when the flow is defined.
"""

from __future__ import annotations

from ...flow.step_options import OwnLimits
from ...text.diagnostics import Diagnostic, Diagnostics
from ...text.yaml.nodes import Fields

_CAPS = {
    ("budget", "max_token_usage"): "tokens",
    ("budget", "max_duration_seconds"): "seconds",
    ("limits", "max_llm_calls"): "model_calls",
    ("limits", "max_tool_calls"): "tool_calls",
    ("limits", "max_delegation_depth"): "depth",
}
"""The fields of ``constraints`` that limit a run, each with its field of `OwnLimits`."""


def caps(root: Fields, problems: Diagnostics) -> OwnLimits | None:
    """The limits of a run of the definition. An agent that the run calls never gets more, whatever
    the agent's own limits are."""
    constraints = root.inner("constraints")
    loose = constraints.scalar("tighten_only_invariant")
    if loose and loose.value is False:
        message = "tighten_only_invariant: false has no effect"
        problems.warn(
            "policy.only-tightened",
            message,
            loose.span,
            "an agent never gets more than the agent that calls it",
        )
    limits = {
        name: int(limit)  # 5.0 is a whole number in JSON Schema
        for (group, key), name in _CAPS.items()
        if type(limit := constraints.inner(group).value_at(key)) in (int, float)
    }
    return OwnLimits(**limits, span=root.keys["constraints"].span) if limits else None


def unmet_requirements(root: Fields, problems: Diagnostics) -> tuple[Diagnostic, ...]:
    """Requirements of the definition that this runtime cannot meet."""
    problems_found: list[Diagnostic] = []
    required = root.inner("memory").scalar("required")
    if required and required.value is True:
        message = "memory is required, but not supported"
        problems_found.append(
            Diagnostic(
                "policy.memory", message, required.span, "write required: false to run without it"
            )
        )
    for policy in root.inner("constraints").entries("governance_policies"):
        ref = policy.scalar("policy_ref")
        if ref is None:
            continue
        if policy.value_at("required") is not False:
            message = (
                f"governance policy {ref.text!r} is required, but governance policies are "
                f"not supported"
            )
            hint = "write required: false to run without it"
            problems_found.append(Diagnostic("policy.governance", message, ref.span, hint))
        else:
            message = (
                f"governance policy {ref.text!r} is ignored: governance policies are not supported"
            )
            problems.warn("policy.governance", message, ref.span)
    return tuple(problems_found)
