"""Refuses to use what is registered while the page shows another text in its cell.

An edit of a cell is not there before the cell runs. Only JupyterLab's extension knows the present
texts of the cells. A page without it sends none, and nothing is refused there (decision D295).
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from IPython import get_ipython
from IPython.core.inputtransformer2 import leading_empty_lines, leading_indent

from ...catalog import Registry
from ...catalog.digests.digesting import digest_function
from ...engine.linking.linked import Linked, ModelBinding
from ...lifecycle.definitions.linking import link_flow
from ...lifecycle.past.past_run import find_past_run
from ...lifecycle.storage.relink import link_as_it_was
from ...pictures.plain import line
from ...settings.settings import current
from ...text.giving_up import giving_up
from ..output.place import cell_id, cell_text
from .request_types import AnyRun, Refused

_CLEANUP: tuple[Any, ...] = (leading_empty_lines, leading_indent)
"""What IPython does to the lines of a cell before it reads the name of a magic."""

_INPUT = re.compile(r"In\[(\d+)\]")
"""The name of an input as IPython writes it."""

_CLASS = re.compile(r"^class[ \t]++(\w++)", re.MULTILINE)
"""The line that begins the definition of a class."""

_ran: dict[str, str] = {}
"""The texts of the last runs of cells, by the id of the cell."""


def note_cell(shell: Any, info: Any = None) -> None:
    """Note the text of the cell that now runs. ``info``: IPython's, of ``pre_run_cell``; None for the
    cell that loads the extension, about which IPython does not tell us."""
    with giving_up(__name__, "the text of a cell is not known"):
        text = cell_text(shell) if info is None else info.raw_cell
        if text is not None and (id := cell_id(shell)):
            _ran[id] = text


def refuse_edited(run: AnyRun, cells: object, registry: Registry) -> None:
    """Raise Refused if the page shows another text than the registered one for the cell of the run's
    flow, or of what the flow calls.

    ``cells``: the text and the number of the last run of each of the page's cells, by id; anything
    else: the page knows none.
    """
    flow = registry.flows.get(run.name)
    if flow is None or not isinstance(cells, Mapping):
        return
    linked, present = link_flow(flow, registry)[0], _present(cells)
    _refuse([*_edited_flows(linked, present, registry), *_edited_functions(linked, present)])


def refuse_edited_functions(run: AnyRun, cells: object, registry: Registry) -> None:
    """`refuse_edited` for a run that is resumed: its definitions are those of its start, so an edit of
    their cells does not matter."""
    if isinstance(cells, Mapping):
        linked = link_as_it_was(find_past_run(run.run_id).order, registry)[0]
        _refuse([*_edited_functions(linked, _present(cells))])


class _Present(NamedTuple):
    """A cell of the page."""

    text: str
    number: object
    """The number of its last run, as the page shows it."""


class _Edited(NamedTuple):
    """A flow or a function whose cell was edited and has not run since."""

    name: str
    is_its_text: bool
    """Whether its own text was edited; False: another part of the cell, or that is not known."""


def _refuse(edited: list[_Edited]) -> None:
    """Name what was edited: a cell may define several functions."""
    if edited:
        named = next((one for one in edited if one.is_its_text), edited[0])
        what = repr(line(named.name, 60))
        why = f"the cell of {what} was edited, and has not run since"
        if named.is_its_text:
            why = f"{what} was edited, and its cell has not run since"
        raise Refused(f"{why}: run that cell first")


def _present(cells: Mapping[Any, object]) -> dict[str, _Present]:
    return {
        id: _Present(*cell)
        for id, cell in cells.items()
        if isinstance(cell, list) and len(cell) == len(_Present._fields) and type(cell[0]) is str
    }


def _edited_flows(
    linked: Linked, present: Mapping[str, _Present], registry: Registry
) -> Iterator[_Edited]:
    for inner in linked.reachable:
        name = inner.flow.name
        cell = present.get(registry.flows.origin(name) or "") if name else None
        if cell is not None and _body(cell.text) != inner.flow.source.text.rstrip():
            yield _Edited(name, True)


def _edited_functions(linked: Linked, present: Mapping[str, _Present]) -> Iterator[_Edited]:
    """The functions that a flow calls, and the functions and classes that these name."""
    inputs = _Inputs(present)
    for callee, _ in linked.every_callee:
        offered = callee.tools.values() if isinstance(callee, ModelBinding) else ()
        for thing in (callee, *offered):
            function = getattr(thing, "function", None)
            if callable(function):
                yield from inputs.edited(thing.name, function)
                digest = digest_function(function, current.settings.journal_value)
                for place, value in digest.places.bindings if digest is not None else ():
                    yield from inputs.edited(place.name, value)


class _Inputs:
    """The texts that ran in the kernel, and the cells that show another text now."""

    def __init__(self, present: Mapping[str, _Present]) -> None:
        self._present = present
        shell: Any = get_ipython()
        self._transform = shell.transform_cell
        self._name_of = getattr(shell, "compile").format_code_name  # noqa: B009 - IPython's, compiles nothing
        self._texts = list(shell.history_manager.input_hist_raw)
        """By the number of the input."""

    def edited(self, name: str, thing: Any) -> Iterator[_Edited]:
        """A function or a class, if the cell that defines it has another text now."""
        number = self._number_of(thing)
        if number is None or number >= len(self._texts):
            return
        text = self._texts[number].rstrip()
        if any(cell.text.rstrip() == text for cell in self._present.values()):
            return
        ids = {id for id, ran in _ran.items() if ran.rstrip() == text}
        for id, cell in self._present.items():
            # A cell that ran before the extension was loaded is known by its number.
            if id in ids or (id not in _ran and cell.number == number):
                defined = getattr(inspect.unwrap(thing), "__name__", "")
                texts = (self._definition(each, defined) for each in (text, cell.text))
                yield _Edited(name, len({*texts}) > 1)
                return

    def _number_of(self, thing: Any) -> int | None:
        """The number of the input that defines a function or a class; None: none does."""
        if isinstance(thing, type) and thing.__module__ == "__main__":
            name = thing.__name__
            inputs = enumerate(self._texts)
            return max((n for n, text in inputs if name in _CLASS.findall(text)), default=None)
        code = getattr(inspect.unwrap(thing), "__code__", None) if callable(thing) else None
        place = _INPUT.fullmatch((self._name_of(getattr(code, "co_filename", "")) or ("", ""))[1])
        return int(place[1]) if place else None

    def _definition(self, text: str, name: str) -> str:
        """The definition of a function or a class in a cell; empty: there is none."""
        try:
            nodes = ast.walk(ast.parse(self._transform(text)))
        except (SyntaxError, ValueError):
            return ""
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        texts = (ast.dump(node) for node in nodes if isinstance(node, kinds) and node.name == name)
        return next(texts, "")


def _body(cell: str) -> str:
    """What a cell magic gets of a cell: the lines below its own."""
    lines = cell.splitlines(keepends=True)
    for clean in _CLEANUP:
        lines = clean(lines)
    return "".join(lines[1:]).rstrip()
