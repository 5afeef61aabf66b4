"""Finds the parts of a run's input that the journal lacks, so that a person must pass them
again."""

from __future__ import annotations

from ...settings.settings import current
from ...text.diagnostics import refused
from ...values.value import Value
from ..input.fields import fields_of
from .manifest import Manifest


def check_given(order: Manifest, input: Value, run_id: str) -> None:
    """Raises DefinitionError if ``input`` lacks a part of the run's input that is not in the
    journal."""
    fields = fields_of(input)
    if order.unkept and not input:
        hint = "give it again: --input VAR (in Python: input=…)"
        message = f"the input of run {run_id!r} is not in the journal: {order.unkept}"
        raise refused("journal.input", message, hint)
    missing = [name for name in order.secret if name not in fields]
    if missing:
        is_one = len(missing) == 1
        again = "give it again" if is_one else "give them again"
        hint = f"{again}: {current.words.input_of(*missing)}"
        verb = "is secret" if is_one else "are secret"
        names = ", ".join(missing)
        message = f"run {run_id!r} needs {names}, which {verb} and not in the journal"
        raise refused("journal.secret", message, hint)
