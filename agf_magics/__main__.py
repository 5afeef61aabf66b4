"""The command line: ``python -m agf_magics run|resume|check|draw``. The same core as the notebook,
without IPython."""

from __future__ import annotations

import os
import sys

# `python -m` puts the working folder before everything else, and that may hold a stranger's json.py.
if __name__ == "__main__":
    sys.path[:] = [
        part for part in sys.path if part and os.path.realpath(part) != os.path.realpath(".")
    ]

import argparse
import glob
import importlib
import json
import runpy
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import agf_magics as agf

from .catalog import default
from .engine.job import held_interrupts
from .engine.runner import clock
from .flow.events import Question
from .flow.steps import Flow
from .flow.values import Value
from .languages import detect_language, recognized_language
from .languages.over import OVER
from .lifecycle import settings
from .lifecycle.define import DEFINITIONS, check_definition, source_of
from .lifecycle.input import RunOptions, ask_at_prompt
from .lifecycle.judging import OK, CheckReport, figures, named_scorers, score_over
from .lifecycle.launch import start_run, wait_for
from .lifecycle.manifest import refused
from .lifecycle.past_runs import chosen_rows
from .lifecycle.replay import Replay
from .lifecycle.resume import resume_run
from .lifecycle.run import LiveLine
from .lifecycle.table import FIGURES, TABLE, RowTable, check_target
from .notebook.given import value
from .notebook.options import Token, options_hint
from .pictures.page import progress_text
from .pictures.plain import counted
from .text.diagnostics import AgfError, DefinitionError, Diagnostic, join_hints, suggest, wrapped
from .text.source import UNUSABLE, Source, path_error_reason, unwritable_reason

PACKAGE = Path(__file__).parent

MOST_READ = 100_000
"""Characters of a file that are looked at to see whether it is a definition."""


COMMANDS = ("run", "resume", "check", "draw")
OPTIONS = {
    "flow.unknown-tool": "--tools FILE.py imports a file that registers tools",
    "flow.unknown-agent": "--tools FILE.py imports a file that registers agents",
    "flow.no-agent": "--tools FILE.py imports a file that registers agents",
    "flow.unknown-flow": "--define FILE registers a definition that this one calls",
}
"""By the code of an error: the option of the command line that may be missing."""


def main(argv: Sequence[str] | None = None) -> int:
    """Return 0: success; 1: a wrong definition or a failed run, printed on stderr; 2: a wrong
    command line."""
    parser = _parser()
    options, unknown = parser.parse_known_args(argv)
    if unknown:
        word, names = unknown[0], sorted(vars(options).keys() - {"act", "file", "files", "run"})
        hint = options_hint(word, [f"--{name.replace('_', '-')}" for name in names])
        if word.partition("=")[0].isidentifier():
            hint = f"write --set {word}"
        parser.error(f"unknown option {word}: {hint}")
    try:
        opened: dict[str, Any] = {
            name: True
            for name in ("allow_shell", "allow_import", "tracing")
            if getattr(options, name, False)
        }
        settings.current.settings = replace(settings.read(Path.cwd()), **opened)
        settings.current.ask, settings.current.words = _ask, settings.COMMAND_LINE
        for module in options.tools:
            if problem := _import(module):
                parser.error(f"--tools: {problem}")
        for library in options.define:
            agf.define(library)
        return int(options.act(options))
    except DefinitionError as error:
        found = DefinitionError(*(_with_option(each) for each in error.diagnostics))
        print(wrapped(f"DefinitionError: {found}"), file=sys.stderr)
        return 1
    except AgfError as error:
        print(wrapped(f"{type(error).__name__}: {error}"), file=sys.stderr)
        return 1


def _with_option(found: Diagnostic) -> Diagnostic:
    """A finding with the option that may be missing."""
    option = OPTIONS.get(found.code)
    return replace(found, hint=join_hints(found.hint, option)) if option else found


def _run(options: argparse.Namespace) -> int:
    given = _given(options)
    over = _over(options)
    return _finish(options, lambda chosen: start_run(options.file, given, chosen, over))


def _over(options: argparse.Namespace) -> object:
    """The table of ``--over`` or ``--retry-failed``; None without these."""
    if options.over is None and options.retry_failed is None:
        return None
    renamed = {}
    for word in options.map:
        name, equals, column = word.partition("=")
        if not (name and equals and column):
            hint = "write --map text=body: the input text has the values of the column body"
            message = f"--map takes INPUT=COLUMN, not {word!r}"
            raise DefinitionError(Diagnostic("run.input", message, hint=hint))
        renamed[name] = column
    names = ("limit", "sample", "seed", "repeat", "width")
    counts = {name: count for name in names if (count := getattr(options, name)) is not None}
    return chosen_rows(options.over, options.retry_failed, map=renamed, yes=options.yes, **counts)


def _finish_rows(options: argparse.Namespace, table: RowTable, scores: Sequence[Any]) -> int:
    """Score the rows of a run, save what is wanted, print the figures; 1 if one is too low, or if
    no least one is given and a row failed."""
    if scores:
        shown = {"against": options.against, "seed": options.seed, "yes": options.yes}
        print(score_over(table, *scores, **shown), file=sys.stderr)
    least = options.fail_below
    names = list(table.scores) or [OK]
    wanted = {OK: 1.0} if least is None else {n: least for n in names if n in figures(table)}
    report = CheckReport(table, wanted)
    for path, save in ((options.save, table.save), (options.figures, report.save)):
        if path is not None:
            print(f"wrote {save(path)}", file=sys.stderr)
    print(_json({**table.counts, "figures": report.figures}))
    for name, figure in report.missed.items():
        print(f"{name} is {figure:.3g}, below {wanted[name]:.3g}", file=sys.stderr)
    return int(not report.passed)


def _score(text: str) -> Any:
    """The score that a word names: MODULE:FUNCTION, FILE.py:FUNCTION, or a flow."""
    module, colon, name = text.rpartition(":")
    if not colon:
        return text
    try:
        if module.endswith(".py"):
            names = runpy.run_path(module)
        else:
            sys.path.insert(0, "")
            names = vars(importlib.import_module(module))
    except Exception as error:  # code of the user
        message = f"--score {text}: {type(error).__name__}: {error}"
        hint = "write --score MODULE:FUNCTION, --score FILE.py:FUNCTION or --score FLOW"
        raise DefinitionError(Diagnostic("score.kind", message, hint=hint)) from None
    if name not in names:
        functions = [each for each, value in names.items() if callable(value)]
        near = suggest(name, functions, f"the functions of {module}")
        message = f"--score {text}: {module} has no {name!r}"
        raise DefinitionError(Diagnostic("score.kind", message, hint=near))
    return names[name]


def _resume(options: argparse.Namespace) -> int:
    given = _given(options)
    return _finish(options, lambda chosen: resume_run(options.run, given, chosen))


def _finish(options: argparse.Namespace, start: Callable[[RunOptions], agf.Run]) -> int:
    given = {name: getattr(options, name) for name in ("timeout", "max_tokens", "max_cost")}
    given = {name: most for name, most in given.items() if most is not None}
    # A resumed run keeps the limits that it began with.
    limits = replace(settings.current.settings.limits, **given)
    is_new = options.act is _run
    scores = [_score(text) for text in options.score]
    named_scorers(scores, default())  # a wrong one is told before anything is paid for
    for target, kind in ((options.save, TABLE), (options.figures, FIGURES)):
        if target is not None:
            check_target(target, kind)
    if options.report is not None and (why := unwritable_reason(options.report)) is not None:
        return _no_report(options.report, why)
    chosen = RunOptions(
        dry=options.dry,
        limits=limits if is_new or given else None,
        on=options.on,
        recording=Replay(options.replay, of_run=True) if options.replay is not None else None,
    )
    with held_interrupts() as held:
        run, line = start(chosen), LiveLine(sys.stderr)
        if not options.quiet and run._job is not None:
            run._job.every(LiveLine.SECONDS, lambda: line.show(run), lambda: None)
        wait_for(run, held)
    line.clear()
    if not options.quiet:
        print(progress_text(run.progress, now=clock()), file=sys.stderr)
    for found in run.progress.losses if options.quiet else ():
        print(f"{found.severity}: {found}", file=sys.stderr)
    if run.how_to_continue:
        print(f"to resume it: agf-magics resume {run.run_id}", file=sys.stderr)
    reported = options.report is None or _report(run, options.report)
    if run.error is not None and not options.quiet:
        return 1  # the progress shows the error
    run.result()
    if options.record is not None and not options.dry:
        print(f"wrote {agf.record(run, options.record)}", file=sys.stderr)
    if options.export is not None and not options.dry:
        for file in agf.export(run, options.export):
            print(f"wrote {file}", file=sys.stderr)
    if run.flow.language == OVER and not options.dry:
        return _finish_rows(options, run.table, scores)
    print(run.note if options.dry else _json(run.output))
    return 0 if reported else 2


def _report(run: agf.Run, path: Path) -> bool:
    """Write the report of a run, also of a failed one; whether it could be written."""
    try:
        print(f"wrote {agf.report(run, path)}", file=sys.stderr)
    except UNUSABLE as error:
        return not _no_report(path, path_error_reason(error))
    return True


def _no_report(path: Path, why: str) -> int:
    print(f"agf-magics: error: --report: {path}: {why}", file=sys.stderr)
    return 2


def _json(value: Value) -> str:
    """JSON with escapes for characters that stdout cannot encode."""
    text = json.dumps(value, indent=2, ensure_ascii=False, default=repr)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, indent=2, default=repr)
    return text


def _check(options: argparse.Namespace) -> int:
    files = list(dict.fromkeys(file for given in options.files for file in _files(given)))
    if not files:
        raise refused("define.file", f"no definition matches {' '.join(map(str, options.files))}")
    # They may call each other, in any order. What is wrong with one is reported below.
    for file in files if len(files) > 1 else ():
        with suppress(AgfError):
            agf.define(file)
    checked = [_checked(file, options.strict) for file in files]
    if options.format == "json":
        rows = [row for _, found, _ in checked for row in map(_row, found)]
        print(json.dumps(rows, indent=2, ensure_ascii=False))
    elif options.format == "github":
        print("\n".join(_annotation(row) for _, found, _ in checked for row in map(_row, found)))
    else:
        for file, found, flow in checked:
            _print_findings(file, found, flow)
    return int(any(one.severity == "error" for _, found, _ in checked for one in found))


Checked = tuple[Path, tuple[Diagnostic, ...], Flow | None]


def _checked(file: Path, strict: bool) -> Checked:
    try:
        source = source_of(file)
        language = detect_language(source.text)
        defined = check_definition(source, language, strict=strict, registry=default())
    except DefinitionError as error:
        return file, tuple(map(_with_option, error.diagnostics)), None
    return file, tuple(map(_with_option, defined.findings)), defined.flow


def _files(given: Path) -> list[Path]:
    """A file; of a folder, all definitions in it and below; the matches of a pattern."""
    if given.is_dir():
        return [
            file
            for file in sorted(given.rglob("*"))
            if file.suffix in DEFINITIONS
            and not any(part.startswith(".") for part in file.relative_to(given).parts)
            and _is_definition(file)
        ]
    if glob.has_magic(str(given)) and not given.exists():
        return [Path(file) for file in sorted(glob.glob(str(given), recursive=True))]
    return [given]


def _is_definition(file: Path) -> bool:
    """Whether a file of a folder is one, and not the settings of another program."""
    try:
        with file.open(encoding="utf-8", errors="replace") as opened:
            return recognized_language(opened.read(MOST_READ)) is not None
    except UNUSABLE:
        return False


def _print_findings(file: Path, found: tuple[Diagnostic, ...], flow: Flow | None) -> None:
    errors = sum(one.severity == "error" for one in found)
    if errors:
        print(wrapped(f"DefinitionError: {DefinitionError(*found)}"), file=sys.stderr)
        print(f"{file}: {counted(errors, 'error')}")
        return
    for one in found:
        print(wrapped(f"{one.severity}: {one}"), file=sys.stderr)
    print(f"{file}: ok" + (f", {counted(len(found), 'finding')}" if found else ""))
    # A misspelt name is an input that nobody meant.
    for ref in flow.inputs if flow else ():
        print(f"  input {ref.path[-1]}" + ("" if ref.certain else " (not always read)"))


def _row(found: Diagnostic) -> dict[str, Any]:
    """A finding for a program."""
    span = found.span
    line, column = span.place if span is not None else (1, 1)
    return {
        "file": span.source.name if span is not None else None,
        "line": line,
        "column": column,
        "severity": found.severity,
        "code": found.code,
        "message": found.message,
        "hint": found.hint,
    }


def _annotation(row: Mapping[str, Any]) -> str:
    """A finding as GitHub's workflow command, which shows it at its line of a pull request."""
    kind = "error" if row["severity"] == "error" else "warning"
    text = row["message"] + (f" ({row['hint']})" if row["hint"] else "")
    place = f"file={_escaped(row['file'] or '')},line={row['line']},col={row['column']}"
    return f"::{kind} {place},title={_escaped(row['code'])}::{_escaped(text, '')}"


def _escaped(text: str, also: str = ":,") -> str:
    for letter in f"%\r\n{also}":
        text = text.replace(letter, f"%{ord(letter):02X}")
    return text


def _draw(options: argparse.Namespace) -> int:
    picture = agf.draw(options.file)
    if options.save:
        try:
            picture.save(options.save)
        except UNUSABLE as error:
            print(
                f"agf-magics: error: --save: {options.save}: {path_error_reason(error)}",
                file=sys.stderr,
            )
            return 2
    else:
        print(picture.to_dot())
    return 0


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Say also which command a misspelt one may be."""
        word = message.partition("invalid choice: '")[2].partition("'")[0]
        super().error("; ".join(filter(None, (message, suggest(word, COMMANDS)))))


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="agf-magics", description="Run, resume, check or draw definitions.")
    acts = parser.add_subparsers(required=True, metavar="run|resume|check|draw")
    for name, act, about in (
        ("run", _run, "run a definition and print its output as JSON"),
        ("resume", _resume, "resume a run of the project's journal and print its output as JSON"),
        ("check", _check, "print everything that is wrong with definitions"),
        ("draw", _draw, "print the graph of a definition, or save its picture"),
    ):
        one = acts.add_parser(name, help=about, description=about)
        one.set_defaults(act=act)
        if name == "resume":
            about = "the id of the run, its beginning, or the name of a flow: its last run"
            one.add_argument("run", metavar="RUN", help=about)
        elif name == "check":
            about = "definitions, folders of them, or patterns such as 'flows/*.yaml'"
            one.add_argument("files", type=Path, nargs="+", metavar="FILE", help=about)
        else:
            about = "a definition in any of the languages (YAML or JSON)"
            one.add_argument("file", type=Path, metavar="FILE", help=about)
        about = "a module or .py file that registers tools and agents"
        one.add_argument("--tools", action="append", default=[], metavar="MODULE", help=about)
        about = "import the Python files whose functions the definition names"
        one.add_argument("--allow-import", action="store_true", help=about)
        about = "the file of a definition that this one calls"
        one.add_argument(
            "--define", action="append", default=[], type=Path, metavar="FILE", help=about
        )
        if name in ("run", "resume"):
            _add_run_options(one)
            _add_row_options(one, name == "run")
    chosen = acts.choices
    chosen["run"].add_argument("--dry", action="store_true", help="call no tool and no agent")
    about = "take the results of calls from a recording instead of making them"
    chosen["run"].add_argument("--replay", type=Path, metavar="FILE", help=about)
    chosen["resume"].set_defaults(dry=False, replay=None)
    chosen["check"].add_argument("--strict", action="store_true", help="warnings are errors")
    about = "text; json: a list of findings; github: annotations of a pull request"
    chosen["check"].add_argument(
        "--format", choices=("text", "json", "github"), default="text", help=about
    )
    about = "where to save it: .svg, .html, .png, .pdf, .dot, .mmd or .txt"
    chosen["draw"].add_argument("--save", type=Path, metavar="FILE", help=about)
    return parser


def _add_run_options(one: argparse.ArgumentParser) -> None:
    about = "one input, as --set 'words=[pear, fig]': a text, a number, YAML in brackets or quotes"
    one.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help=about)
    one.add_argument("--input", type=Path, metavar="FILE.json", help="the input, a JSON object")
    about = "let shell steps start programs"
    one.add_argument("--allow-shell", action="store_true", help=about)
    about = "the time limit of the run; it then fails with limit.timeout"
    one.add_argument("--timeout", type=_seconds, metavar="SECONDS", help=about)
    about = "the largest number of tokens of all models; the run then fails with limit.tokens"
    one.add_argument("--max-tokens", type=_count, metavar="N", help=about)
    about = "the largest cost of all models; the run then fails with limit.cost"
    one.add_argument("--max-cost", type=_dollars, metavar="DOLLARS", help=about)
    about = (
        "make concurrent calls in other processes: processes, processes:4, dask, "
        "tcp://HOST:PORT; here: in this one"
    )
    one.add_argument("--on", metavar="WHERE", help=about)
    about = "write the calls of the run to a file from which --replay takes them"
    one.add_argument("--record", type=Path, metavar="FILE", help=about)
    about = "write the files that the graph exports into this folder"
    one.add_argument("--export", type=Path, metavar="FOLDER", help=about)
    about = "report the run to OpenTelemetry as spans, with the provider of the process"
    one.add_argument("--trace", action="store_true", dest="tracing", help=about)
    about = "write the run to an .html file that opens without a kernel"
    one.add_argument("--report", type=Path, metavar="FILE", help=about)
    one.add_argument("--quiet", action="store_true", help="print the output alone")


def _add_row_options(one: argparse.ArgumentParser, is_new: bool) -> None:
    """The options of a run over data; ``is_new``: also those that choose its rows."""
    about = "a score of each row: MODULE:FUNCTION, FILE.py:FUNCTION, or a flow that judges"
    one.add_argument("--score", action="append", default=[], metavar="SCORE", help=about)
    one.add_argument("--against", metavar="COLUMN", help="the column with the right labels")
    about = "return 1 if a score over all rows is lower; without --score, the share of good rows"
    one.add_argument("--fail-below", type=float, metavar="LEAST", help=about)
    about = "write the scores and the low rows to a file: .html or .json"
    one.add_argument("--figures", type=Path, metavar="FILE", help=about)
    about = "write the table to a file: .csv, .jsonl or .parquet"
    one.add_argument("--save", type=Path, metavar="FILE", help=about)
    about = "go on after the first 20 rows without asking, whatever it costs"
    one.add_argument("--yes", action="store_true", help=about)
    if not is_new:
        return
    about = "run once for each row of a file: .csv, .jsonl, .parquet, or a data set"
    one.add_argument("--over", type=Path, metavar="TABLE", help=about)
    about = "bind an input to a column of another name"
    one.add_argument("--map", action="append", default=[], metavar="INPUT=COLUMN", help=about)
    one.add_argument("--limit", type=_count, metavar="N", help="run only the first N rows")
    one.add_argument("--sample", type=_count, metavar="N", help="run only N rows, chosen at random")
    one.add_argument("--seed", type=int, metavar="N", help="the seed of --sample and of intervals")
    one.add_argument("--repeat", type=_count, metavar="N", help="run each row N times")
    one.add_argument("--width", type=_count, metavar="N", help="run N rows at the same time")
    about = "run only the rows that failed in RUN"
    one.add_argument("--retry-failed", metavar="RUN", help=about)


def _seconds(text: str) -> float:
    with suppress(ValueError):
        seconds = float(text)
        if 0 < seconds < float("inf"):
            return seconds
    raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")


def _dollars(text: str) -> float:
    with suppress(ValueError):
        dollars = float(text)
        if 0 < dollars < float("inf"):
            return dollars
    raise argparse.ArgumentTypeError(f"{text!r} is not a number of US dollars above 0")


def _count(text: str) -> int:
    if text.isascii() and text.isdigit() and int(text[:12]) > 0 and len(text) <= 12:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")


def _ask(question: Question) -> Value:
    """Ask on stderr: only the output goes to stdout."""
    return ask_at_prompt(question, say=lambda text: print(text, file=sys.stderr), read=_read)


def _read(prompt: str) -> str:
    print(prompt, end="", file=sys.stderr, flush=True)
    return input()


def _import(module: str) -> str:
    """Import a module that the command line names, which no definition can (decision A20). Return
    why it failed."""
    try:
        if module.endswith(".py"):
            if not Path(module).is_file():
                return f"there is no file {module!r}"
            runpy.run_path(module)
        else:
            sys.path.insert(0, "")
            importlib.import_module(module)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            return f"there is no module {module!r}"
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if not Path(frame.filename).is_relative_to(PACKAGE)]
        place = f"{own[-1].filename}, line {own[-1].lineno}"
        return f"{place}: {type(error).__name__}: {error}"
    return ""


def _given(options: argparse.Namespace) -> dict[str, Value] | None:
    """The input of ``--input``, updated by each ``--set``, as in a magic."""
    found = _input(options)
    for word in options.set:
        name, equals, text = word.partition("=")
        token = Token(word, Source("--set", word).span(), tuple(range(len(word) + 1)))
        if not equals or not name.isidentifier():
            hint = "write --set name=text, or --set 'name=[a, b]'"
            message = f"--set takes NAME=VALUE, not {word!r}"
            raise DefinitionError(Diagnostic("run.input", message, hint=hint))
        # A text that begins with $ is a variable in a notebook only.
        is_text = text.startswith("$")
        part = text if is_text else value(token.part(len(name) + 1, len(word)), {})
        found = {**(found or {}), name: part}
    return found


def _input(options: argparse.Namespace) -> dict[str, Value] | None:
    path = options.input
    if path is None:
        return None
    try:
        value: Any = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        problem = f"{path}, {place}: this is not valid JSON: {error.msg[:1].lower()}{error.msg[1:]}"
        raise DefinitionError(Diagnostic("run.input", problem)) from None
    except UNUSABLE as error:
        raise DefinitionError(
            Diagnostic("run.input", f"{path} cannot be read: {path_error_reason(error)}")
        ) from None
    if not isinstance(value, dict):
        hint = 'names and values: {"word": "pear"}'
        raise DefinitionError(
            Diagnostic("run.input", f"{path} must contain a JSON object", hint=hint)
        )
    return value


if __name__ == "__main__":
    sys.exit(main())
