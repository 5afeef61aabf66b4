"""The texts of a step: how it repeats and fails, and a condition."""

from __future__ import annotations

from collections.abc import Mapping

from ...flow.protocols import Expr
from ...flow.session_tools import session_calls
from ...flow.step import ElementLimit, Step
from ...flow.step_names import text_of
from ...flow.steps import WIDTH, Branches, Each, Fold, Invoke, Repeat
from ..plain import line

CONDITION = 52
"""The most characters of a condition that are shown."""


def how(step: Step) -> str:
    """How a step repeats and fails: ``4 at once · on error: retry(2)``, ``until score >= 0.8 · at
    most 5 times``."""
    bits = []
    match step:
        case Each():
            bits.append(f"{step.limit or WIDTH} at once")
            bits += [_bound(step.cut)] if step.cut is not None else []
        case Fold() if step.most is not None:
            bits.append(f"at most {step.most:,}")
        case Repeat():
            bits += [f"until {condition(step.until)}"] if step.until is not None else []
            noun = "requests" if step.session else "times"
            is_bound = step.until is not None or step.session
            bits.append(f"{'at most ' if is_bound else ''}{step.limit:,} {noun}")
    if isinstance(step, (Each, Branches)):
        failing = step.failing
        is_list = step.gather is None or isinstance(step, Branches)
        drops = failing.on_error == "continue" and is_list
        pause = f", wait: {failing.wait:g}s" if failing.wait else ""
        again = [f"retry({failing.retries}{pause})"] if failing.retries else []
        if again or drops:
            bits.append(f"on error: {', then '.join([*again, *(['continue'] if drops else [])])}")
    if isinstance(step, Invoke) and step.permit is not None:
        bits.append("asks before")
    if step.rescue is not None:
        bits.append("continues if it fails")
    return " · ".join(bits)


def answered(step: Step, text: str, answering: Mapping[str, str], before: str = "") -> str:
    """``text``; if it is the model that a step names, the model that answers in its place. ``answering``:
    `called_flows.Called.answering`. ``before``: the path of the calls that lead to the flow of the step."""
    asked = session_calls(step)[0] if isinstance(step, Repeat) and step.session else step
    who = answering.get(f"{before}{asked.id}")
    is_named = isinstance(asked, Invoke) and text == asked.name.text
    return who if who is not None and is_named else text


def _bound(cut: ElementLimit) -> str:
    """``at most 100`` where more elements are an error, ``the first 100`` where they are cut off."""
    refuses = cut.problem(1).severity == "error"
    return f"{'at most' if refuses else 'the first'} {cut.most:,}"


def condition(expr: Expr) -> str:
    """An expression as its language shows it (the ``text`` of the expression), else its source."""
    return line(text_of(expr), CONDITION)
