"""The output and the stores of a run that has ended, for a program or a model that gets them as its result.

A run of the journal shows values that are not JSON as previews, for which nothing is unpickled. As
a result, a preview would be another value: its lists and texts are cut. So the output is read from
its pickle, if this user has signed it, and what has only a preview is named. Secrets are masked, as
they are in the journal: whether the run is still in memory makes no difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from ...text.diagnostics import DefinitionError
from ...values.value import Value
from ..runs.run import Run
from .past_run import PastRun


class FinalValues(NamedTuple):
    """The output and the stores of a run."""

    output: Value
    stores: Mapping[str, Value]
    cut: tuple[str, ...] = ()
    """The names of the values that are only previews: ``output``, ``named_stores.rows``."""

    @property
    def about_cut(self) -> str:
        """The sentence about the values that are only previews; empty if there are none."""
        if not self.cut:
            return ""
        names = ", ".join(self.cut)
        why = "the journal has only a preview of a value that is not JSON or has a secret"
        return f"not whole: {names}; {why}"


def final_values(run: Run | PastRun) -> FinalValues:
    """The output and the stores of ``run``, which has ended."""
    if isinstance(run, Run):
        return FinalValues(run.secrets.shown(run.output), run.secrets.shown_values(run.stores))
    stores = run.stores
    cut = [f"named_stores.{name}" for name in run.previews if name in stores]
    output = run.shown_output
    if not run.has_whole_output:
        cut.insert(0, "output")
        with suppress(DefinitionError):
            output = run.load()
            cut.remove("output")
    return FinalValues(output, stores, tuple(cut))
