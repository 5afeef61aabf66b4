"""The result of a call with an effect that ended after its time limit."""

from __future__ import annotations

from ...flow.steps import Invoke
from ...text.diagnostics import Diagnostic
from ..runner import CallSite
from ..threads.user_code import Result, TimedOut
from .failures import which_limit


def keep_late(site: CallSite[Invoke], name: str, result: Result) -> Result:
    """The ``result`` of a call with an effect. If the call exceeded its time limit and then ended by
    itself, that end is its outcome: as a failure it would be made again (decision D-EFFECTS-1)."""
    ok, error = result
    if ok or not isinstance(error, TimedOut) or error.late_result is None:
        return result
    message = f"tool {name!r} {error}, and its result is used: its call must not be repeated"
    hint = which_limit(site, "tool", error)
    warning = Diagnostic("tool.late-result", message, site.step.place, hint, "warning")
    site.run.warn_once(warning, ("late result", site.step.id))
    return error.late_result
