"""Refuses to use what is registered while the page shows another text in its cell.

An edit of a cell is not there before the cell runs. Only JupyterLab's extension knows the present
texts of the cells. A page without it sends none, and nothing is refused there (decision D295).
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from IPython.core.inputtransformer2 import leading_empty_lines, leading_indent

from ...catalog import Registry
from ...engine.linking.linked import Linked, ModelBinding
from ...lifecycle.definitions.linking import link_flow
from ...pictures.plain import line
from ...text.giving_up import giving_up
from ..output.place import cell_id
from .request_types import AnyRun, Refused


class _Ran(NamedTuple):
    """The last run of a cell."""

    file: str
    """The name of the file in the code of the functions that the cell defined."""
    text: str


_CLEANUP: tuple[Any, ...] = (leading_empty_lines, leading_indent)
"""What IPython does to the lines of a cell before it reads the name of a magic."""

_ran: dict[str, _Ran] = {}
"""By the id of the cell."""


def note_cell(shell: Any, info: Any) -> None:
    """Note the text of the cell that now runs. ``info``: IPython's, of ``pre_run_cell``."""
    with giving_up(__name__, "the text of a cell is not known"):
        if id := cell_id(shell):
            text = info.raw_cell
            file_of = getattr(shell, "compile").get_code_name  # noqa: B009 - IPython's, compiles nothing
            _ran[id] = _Ran(file_of(text, text, shell.execution_count), text)


def refuse_edited(run: AnyRun, cells: object, registry: Registry) -> None:
    """Raise Refused if the page shows another text than the registered one for the cell of the run's
    flow, or of what the flow calls.

    ``cells``: the present texts of the page's cells, by id; anything else: the page knows none.
    """
    flow = registry.flows.get(run.name)
    if flow is None or not isinstance(cells, Mapping):
        return
    for name, is_edited in _compared(link_flow(flow, registry)[0], cells, registry):
        if is_edited:
            which = f"the cell of {line(name, 60)!r} was edited, and its new text is not registered"
            raise Refused(f"{which}: run that cell first")


def _compared(
    linked: Linked, cells: Mapping[str, object], registry: Registry
) -> Iterator[tuple[str, bool]]:
    """Each flow and function that a run uses, with whether its cell has another text now."""
    for inner in linked.reachable:
        name = inner.flow.name
        text = cells.get(registry.flows.origin(name) or "") if name else None
        if isinstance(text, str):
            yield name, _body(text) != inner.flow.source.text.rstrip()
    ids = {ran.file: id for id, ran in _ran.items()}
    for callee, _ in linked.every_callee:
        offered = callee.tools.values() if isinstance(callee, ModelBinding) else ()
        for thing in (callee, *offered):
            id = ids.get(_file_of(getattr(thing, "function", None)), "")
            if isinstance(text := cells.get(id), str):
                yield thing.name, text.rstrip() != _ran[id].text.rstrip()


def _body(cell: str) -> str:
    """What a cell magic gets of a cell: the lines below its own."""
    lines = cell.splitlines(keepends=True)
    for clean in _CLEANUP:
        lines = clean(lines)
    return "".join(lines[1:]).rstrip()


def _file_of(function: Any) -> str:
    """The name of the file in the code of a function; empty: it has no code."""
    code = getattr(inspect.unwrap(function), "__code__", None) if callable(function) else None
    return getattr(code, "co_filename", "")
