"""The line of a person's cell in which the exception of a failed call was raised."""

from __future__ import annotations

from IPython import get_ipython

from ...text.raised import cause_of, trace_of


def raised_in(error: BaseException) -> str:
    """``In[1], line 8, in mean_prime``: the innermost frame in a cell. Empty if no frame is in a cell: the
    code is in a file, the error comes from a worker, or the run is only in the journal."""
    # IPython's compiler knows the cell of a code; other shells have no such compiler.
    name_of = getattr(getattr(get_ipython(), "compile", None), "format_code_name", None)
    cause = cause_of(error)
    if name_of is None or cause is None:
        return ""
    place, trace = "", trace_of(cause)
    while trace is not None:
        code = trace.tb_frame.f_code
        label, cell = name_of(code.co_filename) or ("", "")
        if label == "Cell":
            place = f"{cell}, line {trace.tb_lineno}, in {code.co_name}"
        trace = trace.tb_next
    return place
