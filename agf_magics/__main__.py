"""The command line: ``python -m agf_magics run|check|draw FILE``. The same core as the notebook, without IPython."""

from __future__ import annotations

import argparse
import importlib
import json
import runpy
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import agf_magics as agf

from . import settings
from .catalog import default
from .definitions.define import read, source_of
from .engine.runner import clock
from .flow.values import Value
from .languages import told
from .lifecycle.answers import typed
from .lifecycle.launch import begin
from .lifecycle.run import driven
from .pictures.page import progress_text
from .progress.events import Question
from .text.diagnostics import AgfError, DefinitionError, Diagnostic
from .text.excerpt import wrapped
from .text.source import UNUSABLE


def main(argv: Sequence[str] | None = None) -> int:
    """0: done; 1: the definition is wrong or the run failed (told on stderr); 2: the command line is wrong."""
    parser = _parser()
    options = parser.parse_args(argv)
    try:
        opened: dict[str, Any] = {
            name: True for name in ("allow_shell", "allow_import") if getattr(options, name, False)
        }
        settings.current.settings = replace(settings.read(Path.cwd()), **opened)
        settings.current.ask = _ask
        for module in options.tools:
            if not _import(module):
                parser.error(f"--tools: there is no module {module!r}")
        for library in options.define:
            agf.define(library)
        return int(options.act(options))
    except AgfError as error:
        print(wrapped(f"{type(error).__name__}: {error}"), file=sys.stderr)
        return 1


def _run(options: argparse.Namespace) -> int:
    limits = settings.current.settings.limits
    limits = limits if options.timeout is None else replace(limits, timeout=options.timeout)
    given = _input(options)
    run = driven(lambda: begin(options.file, given, dry=options.dry, limits=limits))
    if not options.quiet:
        print(progress_text(run.progress, now=clock()), file=sys.stderr)
    for found in run.progress.losses if options.quiet else ():
        print(f"{found.severity}: {found}", file=sys.stderr)
    run.result()
    if options.dry:
        print(run.note)
        return 0
    print(_json(run.output))
    return 0


def _json(value: Value) -> str:
    """In letters that stdout has; half a character stays an escape."""
    text = json.dumps(value, indent=2, ensure_ascii=False, default=repr)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, indent=2, default=repr)
    return text


def _check(options: argparse.Namespace) -> int:
    source = source_of(options.file)
    found = read(source, told(source.text), strict=options.strict, registry=default()).findings
    for diagnostic in found:
        print(wrapped(f"{diagnostic.severity}: {diagnostic}"), file=sys.stderr)
    print(f"{options.file}: ok" + (f", {len(found)} findings" if found else ""))
    return 0


def _draw(options: argparse.Namespace) -> int:
    picture = agf.draw(options.file)
    if options.out:
        try:
            picture.save(options.out)
        except (OSError, ValueError) as error:
            print(f"agf-magics: error: --out: {error}", file=sys.stderr)
            return 2
    else:
        print(picture.to_dot())
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="agf-magics", description="Run, check or draw a definition's file.")
    acts = parser.add_subparsers(required=True, metavar="run|check|draw")
    for name, act, about in (
        ("run", _run, "run it and print its output as JSON"),
        ("check", _check, "tell everything that is wrong with it"),
        ("draw", _draw, "print its graph, or save its picture"),
    ):
        one = acts.add_parser(name, help=about, description=about)
        one.set_defaults(act=act)
        one.add_argument("file", type=Path, help="a definition in any of the languages (YAML or JSON)")
        about = "a module or .py file that registers tools and agents"
        one.add_argument("--tools", action="append", default=[], metavar="MODULE", help=about)
        about = "let the definition name functions of Python files, which are then imported"
        one.add_argument("--allow-import", action="store_true", help=about)
        about = "another definition, one that is called"
        one.add_argument("--define", action="append", default=[], type=Path, metavar="FILE", help=about)
    chosen = acts.choices
    chosen["run"].add_argument("--input", type=Path, metavar="FILE.json", help="the input, a JSON object")
    about = "let shell steps start programs"
    chosen["run"].add_argument("--allow-shell", action="store_true", help=about)
    about = "how long the run may take; it then fails with limit.timeout"
    chosen["run"].add_argument("--timeout", type=_seconds, metavar="SECONDS", help=about)
    chosen["run"].add_argument("--dry", action="store_true", help="call no tool and no agent")
    chosen["run"].add_argument("--quiet", action="store_true", help="print the output alone")
    chosen["check"].add_argument("--strict", action="store_true", help="warnings refuse too")
    chosen["draw"].add_argument("--out", type=Path, metavar="FILE", help="where to save it: .svg, .dot or .txt")
    return parser


def _seconds(text: str) -> float:
    """Raises ValueError, which argparse turns into its own error."""
    seconds = float(text)
    if not 0 < seconds < float("inf"):
        raise ValueError
    return seconds


def _ask(question: Question) -> Value:
    """On stderr: what is printed is the output alone."""
    return typed(question, say=lambda text: print(text, file=sys.stderr), read=_read)


def _read(prompt: str) -> str:
    print(prompt, end="", file=sys.stderr, flush=True)
    return input()


def _import(module: str) -> bool:
    """Whether it is there. The person names the module on the command line; a definition never can (decision A20)."""
    if module.endswith(".py"):
        try:
            if not Path(module).is_file():
                return False
        except UNUSABLE:
            return False
        runpy.run_path(module)
        return True
    sys.path.insert(0, "")
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # it is there, and imports something that is not
        return False
    return True


def _input(options: argparse.Namespace) -> dict[str, Value] | None:
    if options.input is None:
        return None
    try:
        value: Any = json.loads(options.input.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DefinitionError(Diagnostic("run.input", f"{options.input} is no JSON file: {error}")) from None
    if not isinstance(value, dict):
        raise DefinitionError(Diagnostic("run.input", f"{options.input} holds no JSON object"))
    return value


if __name__ == "__main__":
    sys.exit(main())
