"""Reads the approvals of an action space: which calls ask a person, and with which question."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ...flow.protocols import Frame, Name
from ...flow.question_text import LONGEST, value_line, word_or_json
from ...flow.step_options import Permit
from ...text.diagnostics import Diagnostics
from ...text.yaml.nodes import NOTHING, Fields, Node, Scalar
from ...values.value import Value
from ..descend import MISSING, descend
from .lookalikes import input_field, warn_of_braces
from .matchers import Condition, Keys, condition

_PLACEHOLDER = re.compile(r"\{\{\s*([^\W\d][\w.]*)\s*\}\}")
"""The names of arguments are those of a function, in any script."""


def approval(
    node: Node | None, who: str, keys: Keys, problems: Diagnostics
) -> tuple[Permit | None, Condition | None]:
    """The approval that a call of ``who`` needs, and its condition.

    ``true`` and an object without a condition (AGF-D5) always need one; an object with a condition
    if that matches. The condition reads the arguments of a tool, or paths for an agent.
    """
    if node is None or (isinstance(node, Scalar) and node.value is not True):
        return None, None
    fields = node if isinstance(node, Fields) else NOTHING
    condition_node = fields.fields.get("condition")
    when = condition(condition_node, keys, problems) if condition_node is not None else None
    text = fields.text_at("message_template")
    if template := fields.scalar("message_template"):
        warn_of_braces(template, _placeholder, problems, "write {{%s}}", filled=True)

    def ask(frame: Frame, arguments: Mapping[str, Value], shown: Value) -> str | None:
        read_in = frame if keys == "condition" else dict(arguments)
        # Asked in doubt: a limit that is not a number would let every amount pass.
        if when is not None and when.evaluate(read_in) is None and not when.is_doubtful(read_in):
            return None
        what_runs = f"{who} with {_value_words(shown)}"
        if not text:
            return f"may {what_runs} run?"
        shown_arguments = shown if isinstance(shown, dict) else {"input": shown}
        # An argument that the call leaves out is not secret.
        return f"{_fill(text, frame, {**arguments, **shown_arguments})} ({what_runs})"

    arguments = when.arguments if when is not None else ()
    return Permit(ask, reads=tuple(Name(name, span) for name, span in arguments)), when


def _placeholder(path: str) -> str | None:
    """``path`` if it surely names an argument or a field of the input; None: it may be text."""
    return (
        path
        if path.startswith("tool_args.") or (path.startswith("parent.") and input_field(path, None))
        else None
    )


def _fill(template: str, frame: Frame, arguments: Value) -> str:
    """Replace ``{{tool_args.amount}}``, an argument of the call, and ``{{parent.input.x}}``. The
    person sees other placeholders unchanged."""

    def fill(match: re.Match[str]) -> str:
        names = match[1].split(".")
        values = {"tool_args": arguments, **frame}
        value = descend(values, names if names[0] in values else ["tool_args", *names])
        if value is MISSING:
            return match[0]
        return word_or_json(value)

    return _PLACEHOLDER.sub(fill, template)


def _value_words(value: Value) -> str:
    return value_line(value, LONGEST)
