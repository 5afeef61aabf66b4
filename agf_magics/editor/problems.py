"""Finds the problems of a cell while a person writes it, for the editor to underline.

JupyterLab's extension sends the text of a cell shortly after the last key. The kernel loads it, on
a separate thread if it has subshells, and answers with places and messages. Nothing is registered,
no file is read and no user code is called. The language server asks the same of its texts.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from itertools import islice
from typing import Any, NamedTuple

from ..catalog import Registry
from ..commands.line import ParsedLine, read
from ..commands.magics import COMMANDS
from ..commands.options import refuse_without_run
from ..languages.ours import OURS
from ..lifecycle.definitions.checking import WrittenText, problems_in, read_written
from ..pictures.plain import line, plain
from ..settings.settings import current
from ..text.diagnostics import AgfError, Diagnostic, Diagnostics
from ..text.source import Source

LONGEST_CELL = 50_000
"""Characters of a cell that is checked while it is written."""
MOST_PROBLEMS = 50
"""The most problems of a text that are shown: the first ones."""
MOST_MESSAGE = 2_000
"""Characters of a message and of a hint."""

_MAGIC = re.compile(rf"\s*%%(?P<name>{'|'.join(OURS)}|run_pipeline_inline(?:_async)?)(?=\s|$)")

Problem = dict[str, Any]
"""``start`` and ``end`` in UTF-16 units of the cell, as JavaScript counts; ``severity``,
``message``, ``hint``, ``code``."""


class PlacedProblem(NamedTuple):
    """A problem at its place, in characters of the cell or the file."""

    start: int
    end: int
    diagnostic: Diagnostic

    @property
    def message(self) -> str:
        return plain(self.diagnostic.message, MOST_MESSAGE)

    @property
    def hint(self) -> str:
        return plain(self.diagnostic.hint or "", MOST_MESSAGE)

    @property
    def code(self) -> str:
        return line(self.diagnostic.code, 80)


class ReadText(NamedTuple):
    """A parsed cell with one of our magics, or a parsed file, without anything that needs the
    registry."""

    text: str
    """The whole cell or file; all offsets here are offsets in it."""
    language: str
    magic_start: int
    """The begin and the end of the magic's line; for a file both are the begin of the text."""
    magic_end: int
    definition_start: int
    """The offset where the definition begins: below the magic's line; 0 for a file."""
    written: WrittenText
    """The definition and its problems; empty for a cell without a body, or with a wrong line."""
    places: Mapping[int, int]
    """The offset where each source begins, by its identity. The sources live as long as their
    problems."""
    sources: tuple[Source, ...]
    name: str | None
    """The name on the line of the magic, or of the file."""
    is_run: bool = False
    """Whether the cell is run at once and registers nothing."""
    input_names: Collection[str] | None = ()
    """The names of the input that the line gives; None if only the kernel knows them."""
    runs: bool = False
    """Whether the cell runs its flow."""


def problems_of(cell: str, registry: Registry) -> list[Problem]:
    """The errors and warnings of a cell with one of our cell magics; empty for any other cell.

    >>> first, *_ = problems_of("%%pipeline p\\nstps: []", Registry())
    >>> first["code"], first["start"], first["end"]
    ('pipeline.document-kind', 13, 17)
    """
    read = read_cell(cell)
    return [_shown(cell, place) for place in places_of(read, registry)] if read is not None else []


def read_cell(cell: str) -> ReadText | None:
    """A cell with one of our cell magics; None for any other cell, and for a very long one."""
    magic = _MAGIC.match(cell)
    if magic is None or len(cell) > LONGEST_CELL:
        return None
    start = magic.start("name") - len("%%")
    newline = cell.find("\n", magic.end())
    end = newline if newline >= 0 else len(cell)
    source = Source("this cell", cell[end + 1 :], first_line=cell.count("\n", 0, end) + 2)
    sources = [source]
    places = {id(source): end + 1}
    is_run = magic["name"] not in OURS
    language = "pipeline" if is_run else magic["name"]
    name = None
    input_names = None
    runs = False
    written = WrittenText()
    try:
        parsed = read(COMMANDS[magic["name"]], cell[magic.end() + 1 : end])
        # None is `--help`; without a body it is a cell that a person begins.
        if parsed is not None and source.text.strip():
            places[id(parsed.source)] = start
            sources.append(parsed.source)
            written = _written(parsed, source, language, is_run)
            on_line = None if is_run or "--planner" in parsed else parsed.word("NAME")
            name = on_line.text if on_line is not None else None
            input_names = _input_names(parsed)
            runs = is_run or "--run" in parsed
            if not runs:
                refuse_without_run(parsed)
    except AgfError as error:
        for problem in error.diagnostics:
            if problem.span and problem.span.source is not source:
                places[id(problem.span.source)] = start
                sources.append(problem.span.source)
        written = written._replace(
            problems=(*error.diagnostics, *written.problems), is_refused=True
        )
    body = (written, places, tuple(sources))
    return ReadText(cell, language, start, end, end + 1, *body, name, is_run, input_names, runs)


def read_file_text(text: str, language: str, name: str) -> ReadText:
    """Read the text of a definition file. ``name``: the name of the file."""
    source = Source(name, text)
    written = read_written(source, language, name=None)
    return ReadText(text, language, 0, 0, 0, written, {id(source): 0}, (source,), name)


def places_of(read: ReadText, registry: Registry) -> list[PlacedProblem]:
    """The errors and warnings of a read text, at their places."""
    problems = problems_in(
        read.written, registry, name=read.name, given=read.input_names, runs=read.runs
    )
    placed = (_place(problem, read) for problem in problems if problem.severity != "note")
    return list(islice(filter(None, placed), MOST_PROBLEMS))


def problems_at(cell: str, position: int, registry: Registry) -> list[str]:
    """The problems at a place of a cell, in characters, as texts."""
    read = read_cell(cell)
    return [
        f"{problem.diagnostic.severity}: {problem.message} [{problem.code}]"
        + f"\n  = {problem.hint}" * bool(problem.hint)
        for problem in (places_of(read, registry) if read is not None else ())
        if problem.start <= position <= problem.end
    ]


def _written(parsed: ParsedLine, source: Source, language: str, is_run: bool) -> WrittenText:
    """The definition in the body of a cell, with its problems; of a planner's text only the
    header."""
    if "--planner" in parsed:
        from ..languages.plan.header import load_header

        problems = Diagnostics()
        load_header(source, problems, current.settings.bounds)
        return WrittenText(problems=tuple(problems), is_refused=True)
    name = None if is_run else parsed.word("NAME")
    latent = [word.text for word in parsed.words("--latent")]
    return read_written(source, language, name=name, latent=latent)


def _input_names(parsed: ParsedLine) -> list[str] | None:
    """The value of `ReadText.input_names`."""
    if "--input" in parsed or "--over" in parsed:
        return None
    return [word.text.partition("=")[0] for word in parsed.words("--set")]


def _place(problem: Diagnostic, read: ReadText) -> PlacedProblem | None:
    """A problem at its place, which ends with its line and has at least one character. A problem
    without a place gets the line of the magic. None for a place in another text."""
    text = read.text
    if problem.span is None:
        start, end = read.magic_start, read.magic_end
    elif id(problem.span.source) not in read.places:
        return None
    else:
        begin = read.places[id(problem.span.source)]
        start = min(begin + problem.span.start, len(text))
        end = min(begin + problem.span.end, len(text))
        length = len(text[start:end].partition("\n")[0])
        end = min(start + max(length, 1), len(text))
        start = min(start, max(0, end - 1))
    return PlacedProblem(start, end, problem)


def _shown(cell: str, place: PlacedProblem) -> Problem:
    return {
        "start": _units(cell, place.start),
        "end": _units(cell, place.end),
        "severity": place.diagnostic.severity,
        "message": place.message,
        "hint": place.hint,
        "code": place.code,
    }


def _units(text: str, offset: int) -> int:
    """An offset in UTF-16 units."""
    return offset if text.isascii() else offset + sum(char > "\uffff" for char in text[:offset])
