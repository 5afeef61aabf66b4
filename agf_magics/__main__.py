"""The command line: ``python -m agf_magics run|resume|check|draw|mcp|lsp|quickstart``.

It has the core of the notebook without IPython. `ACTS` has the function of each command.
"""

from __future__ import annotations

import errno
import importlib
import json
import os
import runpy
import shlex
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import agf_magics as agf

from .catalog import default
from .commands.command_line import (
    CHECK_COMMAND,
    DRAW_COMMAND,
    FOR_SCORES,
    FORMATS,
    LSP_COMMAND,
    MCP_COMMAND,
    QUICKSTART_COMMAND,
    RESUME_COMMAND,
    RUN_COMMAND,
)
from .commands.line import ParsedLine, as_typed, read_words
from .commands.options import FOR_LIMITS
from .commands.output_files import unwritable, write_with
from .commands.quickstart import quickstart
from .commands.values import amount, count, inputs, limits_of, recording_of, rows_of, workers_of
from .commands.words import Token, line_error
from .compat.imports import for_the_person, installed_only
from .compat.installed import missing
from .compat.protocol_streams import claim
from .engine.host.hold_interrupts import hold_interrupts
from .engine.run_options import RunOptions
from .engine.runner import clock
from .flow.flow import Flow
from .flow.progress.question import Question
from .languages.ours import detect_language
from .languages.over import OVER
from .lifecycle.definitions.checking import check_definition
from .lifecycle.definitions.define import register
from .lifecycle.definitions.definition_source import source_of
from .lifecycle.definitions.file_sets import definition_files, places, registry_with
from .lifecycle.input.prompt import ask_at_prompt
from .lifecycle.launch.driving import wait_for
from .lifecycle.launch.launch import start_run
from .lifecycle.past.resume import resume_run
from .lifecycle.runs.run import RunInterrupted, state_of
from .lifecycle.scoring.checks import OK, CheckReport, compute_figures
from .lifecycle.scoring.scorers import name_scorers, score_over
from .lifecycle.table_runs.table import FIGURES, TABLE, RowTable, check_target
from .limits.limits import Limits
from .pictures.amounts import counted
from .pictures.pages.parts import LiveLine, progress_text
from .pictures.plain import plain
from .settings import settings
from .text.columns import wrap
from .text.diagnostics import AgfError, DefinitionError, Diagnostic, refused
from .text.folder import notebook_folder
from .text.raised import attribute, describe_exception, is_a, trace_of
from .text.source import UNUSABLE, Source, path_error_reason, unwritable_reason
from .text.suggestions import join_hints, suggest
from .text.visible import visible
from .values.as_json import as_json
from .values.value import Value

# `python -m` puts the working folder before everything else, and that may hold a stranger's json.py.
if __name__ == "__main__":
    sys.path[:] = [
        part for part in sys.path if part and os.path.realpath(part) != os.path.realpath(".")
    ]


PACKAGE = Path(__file__).parent

OPTIONS = {
    "flow.unknown-tool": "--tools FILE.py imports a file: the functions with @tool in it are registered",
    "flow.unknown-agent": "--tools FILE.py imports a file: the functions with @agent in it are registered",
    "flow.no-agent": "--tools FILE.py imports a file: the functions with @agent in it are registered",
    "flow.unknown-flow": "--define FILE registers a definition that this one calls",
}
"""By the code of an error: the option of the command line that may be missing."""


INTERRUPTED = 130
"""The exit code after Ctrl-C: 128 and the number of SIGINT, as shells have it."""

NOBODY_READS = 141
"""The exit code if the reader of stdout has gone, as in ``| head``: 128 and the number of SIGPIPE."""


class NoOutput(Exception):
    """Stdout cannot be written; the cause is the OSError."""


def main(argv: Sequence[str] | None = None) -> int:
    """Return 0: success; 1: a wrong definition or a failed run, printed on stderr; 2: a wrong
    command line; 130: interrupted; 141: nobody reads the output."""
    if sys.stderr is None:  # closed; `print` would write messages to stdout
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    source, words = as_typed("agf-magics", sys.argv[1:] if argv is None else argv)
    try:
        return _act(source, words)
    except DefinitionError as error:
        place = error.diagnostic.span
        is_typed = place is not None and place.source is source
        head = "agf-magics: error" if is_typed else "DefinitionError"
        problems = DefinitionError(*map(_with_option, error.diagnostics))
        _tell(wrap(f"{head}: {problems}"))
        return 2 if is_typed else 1
    except AgfError as error:
        _tell(wrap(f"{type(error).__name__}: {error}"))
        return 1
    except NoOutput as error:
        return _without_output(error)
    except KeyboardInterrupt:
        return INTERRUPTED


def _without_output(error: NoOutput) -> int:
    """Say why stdout cannot be written; nothing if its reader has gone. What is in its buffer must
    not be tried again at the end of the process."""
    if sys.stdout is not None:
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    cause = error.__cause__
    if isinstance(cause, BrokenPipeError):
        return NOBODY_READS
    why = path_error_reason(cause) if isinstance(cause, OSError) else cause
    _tell(f"agf-magics: error: the output cannot be written: {why}")
    return 1


def _act(source: Source, words: Sequence[Token]) -> int:
    """Do what the line says."""
    if not words:
        message = f"agf-magics needs a command: {_one_of(ACTS)}"
        raise line_error("missing", message, source.span(), "agf-magics --help says what they do")
    name = words[0].text
    if name in ("-h", "--help"):
        about = "\n\n".join(command.help for command, _ in ACTS.values())
        _say(f"Run, resume, check or draw definitions; --version says which version.\n\n{about}")
        return 0
    if name == "--version":
        _write(f"agf-magics {agf.__version__}")
        return 0
    if name not in ACTS:
        message = f"unexpected word {name!r}: agf-magics takes {_one_of(ACTS)}"
        raise line_error("extra-word", message, words[0], suggest(name, ACTS, "commands"))
    command, act = ACTS[name]
    parsed = read_words(command, source, words[1:])
    if parsed is None:
        _say(command.help)
        return 0
    if name in PROTOCOLS:
        claim()  # before a file of tools is imported, which may print
    _set_up(parsed)
    return act(parsed)


def _set_up(parsed: ParsedLine) -> None:
    """Set the folder and the settings of this process, and import, register and connect what the
    line names. Raises DefinitionError."""
    notebook_folder.change(_folder(parsed))
    turned_on: dict[str, Any] = {field: True for flag, field in SETTINGS.items() if flag in parsed}
    current = settings.current
    current.settings = replace(settings.read(notebook_folder.path), **turned_on)
    current.ask = _ask
    current.words = settings.COMMAND_LINE
    for word in parsed.words("--tools"):
        _import_tools(word)
    for word in parsed.words("--define"):
        files = definition_files(word.text)
        if not files:
            raise line_error("file", f"no definition matches {word.text!r}", word)
        for file in files:
            for note in register(file, origin=str(file.resolve())).replacements:
                _tell(wrap(f"note: {note}"))
    for word in parsed.words("--mcp"):
        _connect(word, "--allow-mcp" in parsed)


def _connect(file: Token, is_allowed: bool) -> None:
    """Connect the MCP servers that a file lists. Raises DefinitionError."""
    from .mcp.sdk import require_sdk

    require_sdk()
    from .mcp.client.servers import connect_file

    for server in connect_file(Path(file.text), is_allowed):
        for problem in server.problems:
            _tell(wrap(f"{problem.severity}: {problem}"))


def _folder(parsed: ParsedLine) -> Path:
    """The notebook's folder of a command: that of its file, of several the folder that has all of
    them; without a file the current one (decision A16′)."""
    chosen = parsed.word("--folder")
    if chosen is not None:
        if not Path(chosen.text).is_dir():
            raise line_error("file", f"there is no folder {chosen.text!r}", chosen)
        return Path(chosen.text)
    paths = [path for word in parsed.words("FILE") for path in places(word.text)]
    try:
        folders = [str((path if path.is_dir() else path.parent).resolve()) for path in paths]
        return Path(os.path.commonpath(folders)) if folders else Path.cwd()
    except UNUSABLE:  # among them: the files are on two drives
        return Path.cwd()


def _one_of(names: Iterable[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} or {last}"


def _with_option(problem: Diagnostic) -> Diagnostic:
    """A problem with the option that may be missing."""
    option = OPTIONS.get(problem.code)
    return replace(problem, hint=join_hints(problem.hint, option)) if option else problem


def _run(parsed: ParsedLine) -> int:
    file = Path(parsed.words("FILE")[0].text)
    values = inputs(parsed, None) or None
    over = rows_of(parsed, None, FOR_SCORES)
    limits = limits_of(parsed, settings.current.settings.limits)
    return _run_to_end(parsed, limits, lambda options: start_run(file, values, options, over))


def _resume(parsed: ParsedLine) -> int:
    name = parsed.words("RUN")[0].text
    values = inputs(parsed, None) or None
    limits = None  # those that the run began with
    if any(option.flag in parsed for option in FOR_LIMITS):
        limits = limits_of(parsed, settings.current.settings.limits)
    return _run_to_end(parsed, limits, lambda options: resume_run(name, values, options))


def _run_to_end(
    parsed: ParsedLine, limits: Limits | None, start: Callable[[RunOptions], agf.Run]
) -> int:
    """Start a run with the options of the line, wait for it, and write what it made. Returns the
    exit code, or raises the error of the run where the progress does not show it."""
    quiet = "--quiet" in parsed
    scores = [_score(word) for word in parsed.words("--score")]
    name_scorers(scores, default())  # a wrong one is an error before anything is paid for
    _check_targets(parsed)
    options = RunOptions(
        dry="--dry" in parsed,
        limits=limits,
        on=workers_of(parsed.word("--on"), None, "--dry" in parsed),
        recording=recording_of(parsed.word("--replay")),
    )
    run = _wait(lambda: start(options), quiet)
    _tell_how_it_went(parsed, run)
    for word in parsed.words("--report"):  # also of a failed run
        _save(word, partial(agf.report, run))
    if state_of(run).is_interrupted:
        return INTERRUPTED
    if run.error is not None and not quiet:
        return 1  # the progress shows the error
    run.result()
    if options.dry:
        _say(run.note)
        return 0
    return _write_output(parsed, run, scores)


def _check_targets(parsed: ParsedLine) -> None:
    """Refuse a file that could not be written, before anything is paid for."""
    for flag, kind in (("--save", TABLE), ("--figures", FIGURES)):
        for word in parsed.words(flag):
            check_target(Path(word.text), kind)
    for word in (*parsed.words("--report"), *parsed.words("--record")):
        if (why := unwritable_reason(Path(word.text))) is not None:
            raise unwritable(word, OSError(why))


def _wait(start: Callable[[], agf.Run], quiet: bool) -> agf.Run:
    """Start a run, wait until it has ended or is interrupted, and show a line of progress, which
    disappears at the end."""
    with hold_interrupts() as held:
        run = start()
        line = LiveLine(sys.stderr)
        if not quiet and (job := state_of(run).job) is not None:
            job.every(LiveLine.SECONDS, lambda: line.show(run.progress, clock()), lambda: None)
        with suppress(RunInterrupted):  # its progress, and how to resume it, are printed first
            wait_for(run, held)
    line.clear()
    return run


def _tell_how_it_went(parsed: ParsedLine, run: agf.Run) -> None:
    """The progress of a run that has ended, under ``--quiet`` only what is lost, and the line that
    resumes it."""
    if "--quiet" in parsed:
        for loss in run.progress.losses:
            _tell(f"{loss.severity}: {loss}")
    else:
        _tell(progress_text(run.progress, now=clock()))
    if run.how_to_continue:
        _tell(f"to resume it: {_to_resume(parsed, run)}")


def _write_output(parsed: ParsedLine, run: agf.Run, scores: Sequence[Any]) -> int:
    """Write the output of a run, and the files that the line asks for. Returns the exit code."""
    # The files are written also where the output cannot be: models have been paid for it.
    try:
        if run.flow.language == OVER:
            return _write_rows(parsed, run.table, scores)
        _write(_json(run.output))
        return 0
    finally:
        for word in parsed.words("--record"):
            _save(word, partial(agf.record, run))
        for word in parsed.words("--export"):
            for file in agf.export(run, word.text):
                _tell(f"wrote {file}")


def _to_resume(parsed: ParsedLine, run: agf.Run) -> str:
    """The line that resumes ``run``, with what its tools need."""
    words = [
        f"{flag} {shlex.quote(word.text)}"
        for flag in ("--tools", "--define", "--mcp")
        for word in parsed.words(flag)
    ]
    words += [flag for flag in (*SETTINGS, "--allow-mcp") if flag in parsed]
    folder = notebook_folder.path
    current = Path.cwd().resolve()
    if folder != current:
        shown = folder.relative_to(current) if folder.is_relative_to(current) else folder
        words += ["--folder", shlex.quote(str(shown))]
    return " ".join([f"agf-magics resume {run.run_id}", *words])


def _write_rows(parsed: ParsedLine, table: RowTable, scores: Sequence[Any]) -> int:
    """Score the rows of a run, save the files that the line names, and print the figures. Returns
    1 if a figure is below ``--fail-below``, or, without that option, if a row failed."""
    if scores:
        comparison = score_over(
            table,
            *scores,
            against=parsed.text("--against"),
            seed=count(parsed, "--seed", None),
            yes="--yes" in parsed,
        )
        _tell(str(comparison))
    least = amount(parsed, "--fail-below", None)
    names = list(table.scores) or [OK]
    figures = compute_figures(table)
    floors = {OK: 1.0} if least is None else {n: least for n in names if n in figures}
    report = CheckReport(table, floors, parsed.text("--against"))
    for flag, save in (("--save", table.save_noted), ("--figures", report.save)):
        for word in parsed.words(flag):
            _save(word, save)
    _write(_json({**table.counts, "figures": report.figures}))
    for name, figure in report.missed.items():
        _tell(f"{name} is {figure:.3g}, below {floors[name]:.3g}")
    return int(not report.passed)


def _score(word: Token) -> Any:
    """The score that a word names: MODULE:FUNCTION, FILE.py:FUNCTION, or a flow."""
    module, colon, name = word.text.rpartition(":")
    if not colon:
        return word.text
    names = _import_tools(word.part(0, len(module)))
    if name not in names:
        functions = [function for function, value in names.items() if callable(value)]
        near = suggest(name, functions, f"the functions of {module}")
        message = f"--score {word.text}: {module} has no {name!r}"
        raise DefinitionError(Diagnostic("score.kind", message, hint=near))
    return names[name]


def _json(value: Value) -> str:
    """JSON with escapes for characters that stdout cannot encode."""
    written = as_json(value)
    text = _json_lines(written)
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return json.dumps(written, indent=2)
    return text


def _json_lines(value: Value) -> str:
    """JSON in which a terminal obeys no character."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return "\n".join(map(visible, text.split("\n")))


def _say(text: str) -> None:
    """Print a text that may have parts of a definition or a result: a terminal obeys none of them."""
    _write(plain(text, len(text)))


def _tell(text: str) -> None:
    """The same on stderr. Where nobody reads it, the output is still printed."""
    with suppress(OSError):
        print(plain(text, len(text)), file=sys.stderr)


def _save(word: Token, save: Callable[[Path], object]) -> None:
    """Let ``save`` write the file that a word names, and say so on stderr, if somebody reads it."""
    with suppress(BrokenPipeError):
        write_with(word, save, sys.stderr)


def _write(text: str) -> None:
    """Write to stdout, now: at the end of the process nobody would say that it failed. Raises
    NoOutput."""
    try:
        if sys.stdout is None:
            raise OSError(errno.EBADF, "stdout is closed")
        print(text)
        sys.stdout.flush()
    except OSError as error:
        raise NoOutput from error


def _check(parsed: ParsedLine) -> int:
    """Print the problems of all files that the line names; 1 if one of them is an error."""
    words = parsed.words("FILE")
    format = parsed.text("--format") or "text"
    if format not in FORMATS:
        message = f"unexpected word {format!r}: --format takes {_one_of(FORMATS)}"
        raise line_error("extra-word", message, parsed.words("--format")[0])
    files = list(dict.fromkeys(file for word in words for file in definition_files(word.text)))
    if not files:
        names = " ".join(word.text for word in words)
        raise refused("define.file", f"no definition matches {names}")
    registry, notes = registry_with(files, default()) if len(files) > 1 else (default(), {})
    checked = [
        _check_file(file, "--strict" in parsed, registry, notes.get(file, ())) for file in files
    ]
    problems = [problem for _, of_file, _ in checked for problem in of_file]
    if format == "json":
        _write(_json_lines(list(map(_row, problems))))
    elif format == "github":
        _say("\n".join(_annotation(row) for row in map(_row, problems)))
    else:
        for file, of_file, flow in checked:
            _print_problems(file, of_file, flow)
    return int(any(problem.severity == "error" for problem in problems))


Checked = tuple[Path, tuple[Diagnostic, ...], Flow | None]


def _check_file(
    file: Path, strict: bool, registry: agf.Registry, notes: Sequence[Diagnostic]
) -> Checked:
    """What is wrong in a file. Under ``strict`` a warning is an error."""
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
        return file, tuple(map(_with_option, problems)), None
    return file, tuple(map(_with_option, (*defined.problems, *notes))), defined.flow


def _print_problems(file: Path, problems: tuple[Diagnostic, ...], flow: Flow | None) -> None:
    errors = sum(problem.severity == "error" for problem in problems)
    if errors:
        _tell(wrap(f"DefinitionError: {DefinitionError(*problems)}"))
        _say(f"{file}: {counted(errors, 'error')}")
        return
    for problem in problems:
        _tell(wrap(f"{problem.severity}: {problem}"))
    _say(f"{file}: ok" + (f", {counted(len(problems), 'problem')}" if problems else ""))
    # A misspelt name is an input that nobody meant.
    for ref in flow.inputs if flow else ():
        _say(f"  input {ref.path[-1]}" + ("" if ref.certain else " (not always read)"))


def _row(problem: Diagnostic) -> dict[str, Any]:
    """A problem for a program."""
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
    """The file of a source by its path from the current folder, where a program and GitHub look
    for it: errors name it by that from the notebook's folder."""
    file, here = (notebook_folder.path / name).resolve(), Path.cwd().resolve()
    known = file.is_file() and file.is_relative_to(here)
    return file.relative_to(here).as_posix() if known else name


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


def _draw(parsed: ParsedLine) -> int:
    picture = agf.draw(Path(parsed.words("FILE")[0].text))
    target = parsed.word("--save")
    if target is None:
        _say(picture.to_dot())
    else:
        _save(target, picture.save)
    return 0


def _ask(question: Question) -> Value:
    """Ask on stderr: only the output goes to stdout."""
    return ask_at_prompt(question, say=_tell, read=_read)


def _read(prompt: str) -> str:
    print(prompt, end="", file=sys.stderr, flush=True)
    return input()


def _import_tools(word: Token) -> Mapping[str, Any]:
    """The names of a module or a .py file that the command line names, which no definition can
    (decision A20)."""
    module = word.text
    if not module.endswith(".py") and not all(map(str.isidentifier, module.split("."))):
        what = "a folder" if Path(module).is_dir() else "neither a module nor a .py file"
        raise line_error("file", f"{module!r} is {what}: {_NAME_A_FILE}", word)
    try:
        if not module.endswith(".py"):
            sys.path.insert(0, "")
            with for_the_person():
                imported = importlib.import_module(module)
            if getattr(imported, "__file__", "") is not None:
                return vars(imported)
            why = f"{module!r} is a folder without an __init__.py: {_NAME_A_FILE}"
        elif Path(module).is_file():
            return runpy.run_path(module)
        else:
            why = f"there is no file {module!r}"
    except Exception as error:  # code of the user
        why = _why_not_imported(module, error)
    raise line_error("file", why, word)


def _why_not_imported(module: str, error: Exception) -> str:
    """The line of the user that failed while ``module`` was imported, and how; or that there is no
    such module."""
    lacks = attribute(error, "name") if is_a(error, ModuleNotFoundError) else None
    if lacks is not None and f"{module}.".startswith(f"{lacks}."):
        return f"there is no module {module!r}"
    if is_a(error, SyntaxError) and (file := attribute(error, "filename")):
        # No frame is in such a file.
        return f"{file}, line {attribute(error, 'lineno')}: SyntaxError: {attribute(error, 'msg')}"
    frames = traceback.extract_tb(trace_of(error))
    theirs = [frame for frame in frames if not Path(frame.filename).is_relative_to(PACKAGE)]
    return f"{theirs[-1].filename}, line {theirs[-1].lineno}: {describe_exception(error)}"


_NAME_A_FILE = "name a file, as --tools tools.py, or a module, as --tools package.tools"


def _mcp(parsed: ParsedLine) -> int:
    from .mcp.server.command import serve_command

    # Nobody is at the terminal: a client asks its person.
    current = settings.current
    current.ask, current.words = None, settings.MCP_CLIENT
    return serve_command(parsed, default(), lambda text: _tell(wrap(text)))


def _lsp(parsed: ParsedLine) -> int:
    if missing(["pygls"]):
        message = "the language server needs pygls, which is not installed"
        raise refused("define.not-installed", message, "pip install 'agf-magics[lsp]'")
    with installed_only():
        from .editor.server import serve
    return serve()


def _quickstart(parsed: ParsedLine) -> int:
    """Write the notebook, but never over another file: a person may have worked in it."""
    target = Path("quickstart.ipynb")
    span = parsed.source.span()
    text = quickstart()
    try:
        if target.exists() and target.read_text(encoding="utf-8") != text:
            message = f"{str(target)!r} is already in this folder and differs from the one to write"
            raise line_error("file", message, span, "rename it, or use another folder")
        target.write_text(text, encoding="utf-8")
    except UNUSABLE as error:
        why = path_error_reason(error)
        raise line_error("file", f"{str(target)!r} cannot be written: {why}", span) from None
    _say(f"wrote {target}")
    _say(f"open it with: jupyter lab {target} (pip install jupyterlab), or as any notebook")
    return 0


ACTS = {
    "run": (RUN_COMMAND, _run),
    "resume": (RESUME_COMMAND, _resume),
    "check": (CHECK_COMMAND, _check),
    "draw": (DRAW_COMMAND, _draw),
    "mcp": (MCP_COMMAND, _mcp),
    "lsp": (LSP_COMMAND, _lsp),
    "quickstart": (QUICKSTART_COMMAND, _quickstart),
}
"""The commands, by the first word of the line."""

PROTOCOLS = ("mcp",)
"""The commands that speak a protocol over stdin and stdout and run code of the person."""

SETTINGS = {"--allow-shell": "allow_shell", "--allow-import": "allow_import", "--trace": "tracing"}
"""The options that turn on a setting."""


if __name__ == "__main__":
    sys.exit(main())
