"""The fields that keep a run safe: approvals, constraints, governance, memory. None is ignored (AMB-35): what this
runtime cannot do refuses the run, and says so when the definition is made."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping

from ...flow.declared import Caps
from ...flow.frame import Frame
from ...flow.values import Value, type_name
from ...text.diagnostics import Diagnostic, Diagnostics
from ...text.yamlnodes import Fields, Items, Node, Scalar, plain
from .matchers import Condition, Keys, condition

Permit = Callable[[Frame, Mapping[str, Value], Mapping[str, Value]], str | None]
"""Given a frame, what a call is given, and that as it may be shown: what a person must approve; None: nothing."""

LONGEST = 500
"""Letters of a call's arguments that a question shows."""

_PLACEHOLDER = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_.]*)\s*\}\}", re.ASCII)


def approval(node: Node | None, who: str, keys: Keys, problems: Diagnostics) -> tuple[Permit | None, Condition | None]:
    """What ``approval`` demands before ``who`` is called, and the condition it does so under.

    ``true``, and an object without a condition (AGF-D5), always; an object with one when that matches: the call's
    arguments for a tool, paths for an agent.
    """
    if node is None or (isinstance(node, Scalar) and node.value is not True):
        return None, None
    fields = node.fields if isinstance(node, Fields) else {}
    found = fields.get("condition")
    when = condition(found, keys, problems) if found is not None else None
    template = fields.get("message_template")
    text = template.text if isinstance(template, Scalar) else ""

    def permit(frame: Frame, given: Mapping[str, Value], shown: Mapping[str, Value]) -> str | None:
        # What an agent is given is handed with its prompt; a person is asked about the input.
        handed = keys == "condition" and isinstance(shown, dict) and shown.get("alone") == "input"
        sees = shown["input"] if handed else shown
        if when is not None and when.evaluate(frame if keys == "condition" else dict(given)) is None:
            return None
        asked = f"{who} with {_shown(sees)}"
        return f"{_filled(text, frame, sees)} ({asked})" if text else f"may {asked} run?"

    return permit, when


def _filled(template: str, frame: Frame, given: Value) -> str:
    """``{{tool_args.amount}}`` is an argument of the call, ``{{parent.input.x}}`` of the agent around it; a placeholder
    that names nothing stays, for the one who is asked to see."""

    def fill(found: re.Match[str]) -> str:
        names = found[1].split(".")
        value: Value = {"tool_args": given, **frame}
        for name in names if names[0] in value else ["tool_args", *names]:
            if type(value) is not dict or name not in value:
                return found[0]
            value = value[name]
        return value if isinstance(value, str) else _shown(value)

    return _PLACEHOLDER.sub(fill, template)


def _shown(value: Value) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=lambda one: f"<{type_name(one)}>")
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text):,} letters)"


_CAPS = {
    ("budget", "max_token_usage"): "tokens",
    ("budget", "max_duration_seconds"): "seconds",
    ("limits", "max_llm_calls"): "model_calls",
    ("limits", "max_tool_calls"): "tool_calls",
    ("limits", "max_delegation_depth"): "depth",
}


def caps(root: Fields, problems: Diagnostics) -> Caps | None:
    """What a run of the definition may use. An agent it calls never gets more, whatever it says of itself."""
    constraints = root.fields.get("constraints")
    if not isinstance(constraints, Fields):
        return None
    loose = constraints.fields.get("tighten_only_invariant")
    if isinstance(loose, Scalar) and loose.value is False:
        message = "an agent that this one calls cannot be allowed more than this one"
        problems.warn("policy.only-tightened", message, loose.span, "here constraints are only ever tightened")
    said = plain(constraints)
    found = {
        name: said[group][key]
        for (group, key), name in _CAPS.items()
        if isinstance(said.get(group), dict) and said[group].get(key) is not None
    }
    return Caps(**found, span=root.keys["constraints"].span) if found else None


def refused(root: Fields, problems: Diagnostics) -> tuple[Diagnostic, ...]:
    """What the definition needs and nobody here can give."""
    found: list[Diagnostic] = []
    memory = root.fields.get("memory")
    required = memory.fields.get("required") if isinstance(memory, Fields) else None
    if isinstance(required, Scalar) and required.value is True:
        message = "it requires a memory, and there is none"
        found.append(Diagnostic("policy.memory", message, required.span, "required: false runs it without"))
    for ref, must in _governance(root):
        if must:
            message = f"governance policy {ref.text!r} is required and cannot be resolved"
            hint = "required: false runs without it; there is no registry of governance policies here"
            found.append(Diagnostic("policy.governance", message, ref.span, hint))
        else:
            message = f"governance policy {ref.text!r} cannot be resolved: it runs without"
            problems.warn("policy.governance", message, ref.span)
    return tuple(found)


def _governance(root: Fields) -> list[tuple[Scalar, bool]]:
    constraints = root.fields.get("constraints")
    listed = constraints.fields.get("governance_policies") if isinstance(constraints, Fields) else None
    found = []
    for each in listed.items if isinstance(listed, Items) else ():
        ref = each.fields.get("policy_ref") if isinstance(each, Fields) else None
        if isinstance(each, Fields) and isinstance(ref, Scalar):
            required = each.fields.get("required")
            found.append((ref, not (isinstance(required, Scalar) and required.value is False)))
    return found
