"""Problems of a cell while a person writes it: the problems of loading, for the editor to
underline.

The extension of JupyterLab sends the text of a cell some time after the last key. The kernel reads
it, on a thread of its own where the kernel has subshells, and answers with places and messages.
Nothing is registered, no file is read and no code of a user is called. The comm is only registered,
not announced: a front end that wants it asks for it by its target, also after it loads its page
again.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import Any

from ...catalog import Registry
from ...commands.line import ParsedLine, read
from ...commands.magics import COMMANDS
from ...languages.ours import OURS
from ...lifecycle.definitions.checking import find_problems
from ...pictures.plain import line, plain
from ...settings.settings import current
from ...text.diagnostics import AgfError, Diagnostic, Diagnostics
from ...text.source import Source

LONGEST_CELL = 50_000
"""Characters of a cell that is checked while it is written."""
MOST_PROBLEMS = 50
MOST_MESSAGE = 2_000
"""Characters of a message and of a hint."""

_MAGIC = re.compile(rf"\s*%%(?P<name>{'|'.join(OURS)}|run_pipeline_inline(?:_async)?)(?=\s|$)")

Problem = dict[str, Any]
"""``start`` and ``end`` in UTF-16 units of the cell, as JavaScript counts; ``severity``,
``message``, ``hint``, ``code``."""


def problems_of(cell: str, registry: Registry) -> list[Problem]:
    """The errors and warnings of a cell with one of our cell magics; none for any other cell.

    >>> [(one["code"], one["start"], one["end"]) for one in problems_of("%%pipeline p\\nstps: []", Registry())][:1]
    [('pipeline.document-kind', 13, 17)]
    """
    magic = _MAGIC.match(cell)
    if magic is None or len(cell) > LONGEST_CELL:
        return []
    start, newline = magic.start("name") - 2, cell.find("\n", magic.end())
    end = newline if newline >= 0 else len(cell)
    head, body = cell[start:end], cell[end + 1 :]
    source = Source("this cell", body, first_line=cell.count("\n", 0, end) + 2)
    places = {id(source): end + 1}
    try:
        parsed = read(COMMANDS[magic["name"]], cell[magic.end() + 1 : end])
        if parsed is None or not body.strip():  # `--help`, or a cell that a person begins
            return []
        places[id(parsed.source)] = start
        found = _findings(magic["name"], parsed, source, registry)
    except AgfError as error:
        places |= {
            id(one.span.source): start
            for one in error.diagnostics
            if one.span and one.span.source is not source
        }
        found = list(error.diagnostics)
    shown = (
        _problem(one, cell, places, (start, start + len(head)))
        for one in found
        if one.severity != "note"
    )
    return list(islice(filter(None, shown), MOST_PROBLEMS))


def problems_at(cell: str, position: int, registry: Registry) -> list[str]:
    """The problems at a place of a cell, in characters, as texts."""
    place = _units(cell, position)
    here = [one for one in problems_of(cell, registry) if one["start"] <= place <= one["end"]]
    return [
        f"{one['severity']}: {one['message']} [{one['code']}]"
        + f"\n  = {one['hint']}" * bool(one["hint"])
        for one in here
    ]


def _findings(
    magic: str, parsed: ParsedLine, source: Source, registry: Registry
) -> list[Diagnostic]:
    if "--planner" in parsed:
        from ...languages.plan.header import load_header

        found = Diagnostics()
        load_header(source, found, current.settings.bounds)
        return list(found)
    given = (
        None
        if "--input" in parsed
        else [word.text.partition("=")[0] for word in parsed.words("--set")]
    )
    is_definition = magic in OURS
    return find_problems(
        source,
        magic if is_definition else "pipeline",
        registry=registry,
        given=given,
        name=parsed.word("NAME") if is_definition else None,
        latent=[word.text for word in parsed.words("--latent")],
    )


def _problem(
    found: Diagnostic, cell: str, places: dict[int, int], head: tuple[int, int]
) -> Problem | None:
    """A problem at its place in the cell: to the end of the line, at least a character. None for
    the place of another cell; the line of the magic for a problem without a place."""
    if found.span is None:
        start, end = head
    elif id(found.span.source) not in places:
        return None
    else:
        begin = places[id(found.span.source)]
        start, end = (min(begin + place, len(cell)) for place in (found.span.start, found.span.end))
        newline = cell.find("\n", start, end)
        end = max(newline if newline >= 0 else end, min(start + 1, len(cell)))
        start = min(start, max(0, end - 1))
    return {
        "start": _units(cell, start),
        "end": _units(cell, end),
        "severity": found.severity,
        "message": plain(found.message, MOST_MESSAGE),
        "hint": plain(found.hint or "", MOST_MESSAGE),
        "code": line(found.code, 80),
    }


def _units(text: str, offset: int) -> int:
    """An offset in UTF-16 units."""
    return offset if text.isascii() else offset + sum(char > "\uffff" for char in text[:offset])
