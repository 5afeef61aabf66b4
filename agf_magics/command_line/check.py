"""The command ``check``: the problems of files, for a person, a program or a pull request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..catalog import Registry, default
from ..commands.command_line import FORMATS
from ..commands.line import ParsedLine
from ..commands.named_definitions import all_definitions
from ..commands.words import line_error
from ..flow.flow import Flow
from ..languages.ours import detect_language
from ..lifecycle.definitions.checking import check_definition
from ..lifecycle.definitions.definition_source import source_of
from ..lifecycle.definitions.file_sets import registry_with
from ..pictures.amounts import counted
from ..text.columns import wrap
from ..text.diagnostics import DefinitionError, Diagnostic
from ..text.folder import notebook_folder
from .hints import one_of, with_option
from .streams import printable_json, say, tell, write


def check(parsed: ParsedLine) -> int:
    """Print the problems of all files that the line names; 1 if one of them is an error."""
    format = parsed.text("--format") or "text"
    if format not in FORMATS:
        message = f"unexpected word {format!r}: --format takes {one_of(FORMATS)}"
        raise line_error("extra-word", message, parsed.words("--format")[0])
    files = all_definitions(parsed.words("FILE"))
    registry, notes = registry_with(files, default()) if len(files) > 1 else (default(), {})
    checked = [
        _check_file(file, "--strict" in parsed, registry, notes.get(file, ())) for file in files
    ]
    problems = [problem for _, of_file, _ in checked for problem in of_file]
    if format == "json":
        write(printable_json(list(map(_row, problems))))
    elif format == "github":
        say("\n".join(_annotation(row) for row in map(_row, problems)))
    else:
        for file, of_file, flow in checked:
            _print_problems(file, of_file, flow)
    return int(any(problem.severity == "error" for problem in problems))


Checked = tuple[Path, tuple[Diagnostic, ...], Flow | None]
"""A file, its problems, and its flow if the file has one without errors."""


def _check_file(
    file: Path, strict: bool, registry: Registry, notes: Sequence[Diagnostic]
) -> Checked:
    """The problems of a file, and its flow. With ``strict`` a warning is an error. ``notes``: further
    problems, which were seen when the files were registered together."""
    try:
        source = source_of(file)
        language = detect_language(source.text)
        defined = check_definition(source, language, strict=strict, registry=registry)
    except DefinitionError as error:
        problems = [
            replace(problem, severity="error")
            if strict and problem.severity == "warning"
            else problem
            for problem in error.diagnostics
        ]
        return file, tuple(map(with_option, problems)), None
    return file, tuple(map(with_option, (*defined.problems, *notes))), defined.flow


def _print_problems(file: Path, problems: tuple[Diagnostic, ...], flow: Flow | None) -> None:
    errors = sum(problem.severity == "error" for problem in problems)
    if errors:
        tell(wrap(f"DefinitionError: {DefinitionError(*problems)}"))
        say(f"{file}: {counted(errors, 'error')}")
        return
    for problem in problems:
        tell(wrap(f"{problem.severity}: {problem}"))
    say(f"{file}: ok" + (f", {counted(len(problems), 'problem')}" if problems else ""))
    # The inputs are listed, because a misspelt name becomes an input that nobody meant.
    for ref in flow.inputs if flow else ():
        say(f"  input {ref.path[-1]}" + ("" if ref.certain else " (not always read)"))


def _row(problem: Diagnostic) -> dict[str, Any]:
    """A problem as data for a program."""
    span = problem.span
    line, column = span.place if span is not None else (1, 1)
    return {
        "file": _from_here(span.source.name) if span is not None else None,
        "line": line,
        "column": column,
        "severity": problem.severity,
        "code": problem.code,
        "message": problem.message,
        "hint": problem.hint,
    }


def _from_here(name: str) -> str:
    """The path of a source's file from the current folder, where a program and GitHub look for it. The
    name in errors is the path from the notebook's folder."""
    file = (notebook_folder.path / name).resolve()
    current_folder = Path.cwd().resolve()
    is_below = file.is_file() and file.is_relative_to(current_folder)
    return file.relative_to(current_folder).as_posix() if is_below else name


def _annotation(row: Mapping[str, Any]) -> str:
    """A problem as GitHub's workflow command, which shows it at its line of a pull request."""
    kind = "error" if row["severity"] == "error" else "warning"
    text = row["message"] + (f" ({row['hint']})" if row["hint"] else "")
    place = f"file={_escape(row['file'] or '')},line={row['line']},col={row['column']}"
    return f"::{kind} {place},title={_escape(row['code'])}::{_escape(text, '')}"


def _escape(text: str, also: str = ":,") -> str:
    for letter in f"%\r\n{also}":
        text = text.replace(letter, f"%{ord(letter):02X}")
    return text
