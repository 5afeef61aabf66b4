"""The command line: ``python -m agf_magics run|check|draw FILE``. The same core as the notebook,
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
import importlib
import json
import runpy
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import agf_magics as agf

from .catalog import default
from .engine.interrupts import held_interrupts
from .engine.runner import clock
from .flow.events import Question
from .flow.values import Value
from .languages import detect_language
from .lifecycle import settings
from .lifecycle.define import check_definition, source_of
from .lifecycle.driving import wait_for
from .lifecycle.input import RunOptions, ask_at_prompt
from .lifecycle.launch import start_run
from .pictures.page import progress_text
from .pictures.plain import counted
from .text.diagnostics import AgfError, DefinitionError, Diagnostic, join_hints, wrapped
from .text.source import UNUSABLE, path_error_reason

PACKAGE = Path(__file__).parent


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
        hint = (
            ": the input is a JSON file, --input FILE.json"
            if unknown[0].startswith("--set")
            else ""
        )
        parser.error(f"unknown option {unknown[0]}{hint}")
    try:
        opened: dict[str, Any] = {
            name: True for name in ("allow_shell", "allow_import") if getattr(options, name, False)
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
    limits = settings.current.settings.limits
    given_limits = {name: getattr(options, name) for name in ("timeout", "max_tokens", "max_cost")}
    limits = replace(
        limits, **{name: most for name, most in given_limits.items() if most is not None}
    )
    given = _input(options)
    with held_interrupts() as held:
        run = wait_for(
            start_run(
                options.file, given, RunOptions(dry=options.dry, limits=limits, on=options.on)
            ),
            held,
        )
    if not options.quiet:
        print(progress_text(run.progress, now=clock()), file=sys.stderr)
    for found in run.progress.losses if options.quiet else ():
        print(f"{found.severity}: {found}", file=sys.stderr)
    if run.how_to_continue:
        print(f"to resume it, {run.how_to_continue}", file=sys.stderr)
    if run.error is not None and not options.quiet:
        return 1  # the progress shows the error
    run.result()
    if options.export is not None and not options.dry:
        for file in agf.export(run, options.export):
            print(f"wrote {file}", file=sys.stderr)
    print(run.note if options.dry else _json(run.output))
    return 0


def _json(value: Value) -> str:
    """JSON with escapes for characters that stdout cannot encode."""
    text = json.dumps(value, indent=2, ensure_ascii=False, default=repr)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, indent=2, default=repr)
    return text


def _check(options: argparse.Namespace) -> int:
    source = source_of(options.file)
    defined = check_definition(
        source, detect_language(source.text), strict=options.strict, registry=default()
    )
    found = defined.findings
    for diagnostic in found:
        print(wrapped(f"{diagnostic.severity}: {_with_option(diagnostic)}"), file=sys.stderr)
    print(f"{options.file}: ok" + (f", {counted(len(found), 'finding')}" if found else ""))
    # A misspelt name is an input that nobody meant.
    for ref in defined.flow.inputs if defined.flow else ():
        print(f"  input {ref.path[-1]}" + ("" if ref.certain else " (not always read)"))
    return 0


def _draw(options: argparse.Namespace) -> int:
    picture = agf.draw(options.file)
    if options.out:
        try:
            picture.save(options.out)
        except UNUSABLE as error:
            print(
                f"agf-magics: error: --out: {options.out}: {path_error_reason(error)}",
                file=sys.stderr,
            )
            return 2
    else:
        print(picture.to_dot())
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="agf-magics", description="Run, check or draw a definition's file."
    )
    acts = parser.add_subparsers(required=True, metavar="run|check|draw")
    for name, act, about in (
        ("run", _run, "run it and print its output as JSON"),
        ("check", _check, "print everything that is wrong with it"),
        ("draw", _draw, "print its graph, or save its picture"),
    ):
        one = acts.add_parser(name, help=about, description=about)
        one.set_defaults(act=act)
        one.add_argument(
            "file", type=Path, help="a definition in any of the languages (YAML or JSON)"
        )
        about = "a module or .py file that registers tools and agents"
        one.add_argument("--tools", action="append", default=[], metavar="MODULE", help=about)
        about = "import the Python files whose functions the definition names"
        one.add_argument("--allow-import", action="store_true", help=about)
        about = "the file of a definition that this one calls"
        one.add_argument(
            "--define", action="append", default=[], type=Path, metavar="FILE", help=about
        )
    chosen = acts.choices
    chosen["run"].add_argument(
        "--input", type=Path, metavar="FILE.json", help="the input, a JSON object"
    )
    about = "let shell steps start programs"
    chosen["run"].add_argument("--allow-shell", action="store_true", help=about)
    about = "the time limit of the run; it then fails with limit.timeout"
    chosen["run"].add_argument("--timeout", type=_seconds, metavar="SECONDS", help=about)
    about = "the largest number of tokens of all models; the run then fails with limit.tokens"
    chosen["run"].add_argument("--max-tokens", type=_count, metavar="N", help=about)
    about = "the largest cost of all models; the run then fails with limit.cost"
    chosen["run"].add_argument("--max-cost", type=_dollars, metavar="DOLLARS", help=about)
    about = (
        "make concurrent calls in other processes: processes, processes:4, dask, "
        "tcp://HOST:PORT; here: in this one"
    )
    chosen["run"].add_argument("--on", metavar="WHERE", help=about)
    about = "write the files that the graph exports into this folder"
    chosen["run"].add_argument("--export", type=Path, metavar="FOLDER", help=about)
    chosen["run"].add_argument("--dry", action="store_true", help="call no tool and no agent")
    chosen["run"].add_argument("--quiet", action="store_true", help="print the output alone")
    chosen["check"].add_argument("--strict", action="store_true", help="warnings are errors")
    chosen["draw"].add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="where to save it: .svg, .html, .png, .pdf, .dot, .mmd or .txt",
    )
    return parser


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
