"""Reads the key ``on_error`` of a node: retry of the call, or a skip with a note of the failure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ....flow.step import FailurePolicy
from ....flow.steps import Branches
from ....text.diagnostics import StepError
from ....values.value import Value
from ..state import State, Write
from .builder_contract import BuiltNode, FieldValues, NodeSite


class Failed:
    """The value of a node that failed, if its failure does not end the run."""

    __slots__ = ("error",)

    def __init__(self, error: StepError) -> None:
        self.error = error


def on_error(fields: FieldValues, site: NodeSite, built: BuiltNode) -> BuiltNode:
    """``built`` with the ``on_error`` of its node. ``fallback`` is not done here: it is part of the
    step of a session."""
    how = fields.get("on_error")
    if how == "retry":
        return repeat_failures(fields, built)
    if how != "skip" or site.inside:  # a map collects the failures of its items itself
        return built
    key = built.keys[0].name if built.keys else None
    write = write_or_note_failure(site.name, key, built.write)
    return built._replace(step=replace(built.step, rescue=Failed), write=write)


def repeat_failures(fields: FieldValues, built: BuiltNode) -> BuiltNode:
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
        failing=FailurePolicy(retries=fields.get("max_retries") or 3),
    )
    return built._replace(step=again)


def write_or_note_failure(name: str, key: str | None, write: Write) -> Write:
    """``on_error: skip``: a failure is added to ``errors``, and the key of the node is null."""

    def write_or_note(state: State, value: Value) -> Mapping[str, Value]:
        if not isinstance(value, Failed):
            return write(state, value)
        note = {
            "node": name,
            "error_type": value.error.kind,
            "message": value.error.text,
            "tolerated": True,
        }
        return {**({} if key is None else {key: None}), "errors": [note]}

    return write_or_note
