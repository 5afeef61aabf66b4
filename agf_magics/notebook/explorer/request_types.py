"""The types of what a page asks of a run: a request, its answer as JSON, and its refusal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...lifecycle.past.past_run import PastRun
from ...lifecycle.runs.run import Run

Json = dict[str, Any]
AnyRun = Run | PastRun


NO_JOURNAL = "the run is not journaled: its inputs and calls are not known"


class Refused(Exception):
    """A request of the page cannot be answered; the page shows the message."""


Requests = Mapping[str, Callable[[Json], Any]]
"""The requests that a page may make, by name. The function of a request takes the arguments and returns
JSON; it raises Refused, or an AgfError with the reason."""
