"""The key ``on_error`` of a node: its call is retried, or skipped with a note of the failure."""

from __future__ import annotations

from dataclasses import replace

from ....flow.step import FailurePolicy
from ....flow.steps import Branches
from ..state import Failed
from .builder_contract import Built, Given, Here
from .writes import write_or_note_failure


def on_error(given: Given, here: Here, built: Built) -> Built:
    how = given.get("on_error")
    if how == "retry":
        return repeated(given, built)
    if how != "skip" or here.inside:  # a map collects the failures of its items itself
        return built
    key = built.keys[0].name if built.keys else None
    write = write_or_note_failure(here.name, key, built.write)
    return built._replace(step=replace(built.step, rescue=Failed), write=write)


def repeated(given: Given, built: Built) -> Built:
    """``on_error: retry``: the call is the only branch of a step that retries its branches."""
    step = built.step
    inner = replace(step, id=f"{step.id}.call")
    again = Branches(
        id=step.id,
        word=step.word,
        label=step.label,
        span=step.span,
        branches={"call": inner},
        gather=lambda ran: ran.values[0],
        failing=FailurePolicy(retries=given.get("max_retries") or 3),
    )
    return built._replace(step=again)
