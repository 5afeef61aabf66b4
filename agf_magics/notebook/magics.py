"""What all magics share: their line is parsed before they are called, and they know the
notebook.

The magics that define, run and show flows. Their lines are tables in `commands`; `pictures`
makes their output.

The cells of the other languages, and the contexts of plans. `Notebook.definition` does what they
share.

``%workers``: the workers that runs of this process use.

``%explain CODE``: the page of an error, without a connection (decision D9).

The wheel contains the pages of ``docs/reference/errors``; a checkout has them only there.

``%lesson``: the exercises of the notebooks that teach the languages, and what is still wrong with
an answer.

``lessons.json`` is written from the notebooks (``python -m docs lessons``): the task as it stands
there, and what its solution gives. An answer counts by what it gives, not by its text: it is run with
the input of the exercise, and must use the steps that the lesson is about.
"""

from __future__ import annotations

import functools
import glob
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, cast

from IPython.core.magic import (
    Magics,
    cell_magic,
    line_magic,
    magics_class,
    needs_local_scope,
    no_var_expand,
)

from ..flow.steps import Flow, every
from ..languages import LANGUAGES
from ..lifecycle import launch
from ..pictures.diagram import Diagram
from ..pictures.difference import MISSING, find_differences
from ..pictures.dot import DIRECTIONS, Direction
from ..pictures.plain import counted, html, line
from ..pictures.values import list_rows
from ..text.diagnostics import AgfError, DefinitionError, Diagnostic, nearest
from ..workers.backend import BackendStatus, WorkerStatus
from ..workers.dask.tasks import describe_process
from ..workers.on import describe, started
from . import commands, output
from .given import inputs, near_file, with_run_ids, write_by, write_file
from .notebook import Notebook
from .options import Command, ParsedLine, check_known, line_error, read
from .output import Bundle, show

Magic = Callable[..., Any]


class NotebookMagics(Magics):
    """A group of magics. All groups of a shell share one `Notebook`."""

    def __init__(self, shell: Any, notebook: Notebook) -> None:
        super().__init__(shell)
        self.notebook = notebook


def takes(command: Command) -> Callable[[Magic], Magic]:
    """Make a method a magic: it gets the parsed line, its help is that of the command, its errors
    are short."""

    def wrap(magic: Magic) -> Magic:
        @functools.wraps(magic)
        def called(
            self: NotebookMagics, rest: str, *body: str, local_ns: Mapping[str, Any] | None = None
        ) -> Any:
            failure: BaseException
            try:
                self.notebook.local = local_ns or {}
                parsed = read(command, rest, self.notebook.cell)
                if parsed is None:
                    print(command.help)
                    return None
                return magic(self, with_run_ids(parsed, self.notebook.names), *body)
            except AgfError as error:
                failure = error
            except KeyboardInterrupt:
                failure = KeyboardInterrupt()
            # Outside of the except: IPython renders an error differently if its context is an
            # ExceptionGroup.
            failure.__context__ = None
            raise failure

        called.__doc__ = command.help
        return no_var_expand(called)

    return wrap


@magics_class
class PipelineMagics(NotebookMagics):
    """The magics of pipelines, and those that every notebook uses."""

    @cell_magic
    @takes(commands.PIPELINE)
    def pipeline(self, parsed: ParsedLine, body: str) -> Any:
        return self.notebook.definition("pipeline", parsed, body)

    @line_magic
    @needs_local_scope
    @takes(commands.RUN_PIPELINE)
    def run_pipeline(self, parsed: ParsedLine) -> Any:
        return self.notebook.run(
            self.notebook.flow(parsed.words("NAME")[0]), self.notebook.request(parsed, runs=True)
        )

    @line_magic
    @takes(commands.FLOWS)
    def flows(self, parsed: ParsedLine) -> None:
        unwanted, name, target = (
            parsed.word("--delete"),
            parsed.word("NAME"),
            parsed.word("--export"),
        )
        if target is not None and name is None:
            hint = f"write %flows NAME --export {target.text}"
            raise line_error("missing", "--export needs the NAME of a flow", target, hint)
        if unwanted is not None:
            self.notebook.registry.flows.remove(self.notebook.flow(unwanted).name)
            print(f"deleted {unwanted.text}")
        if name is not None and target is not None:
            write_file(target, self.notebook.flow(name).source.text)
        elif name is not None:
            print(self.notebook.flow(name).source.text)
        elif unwanted is None:
            show(output.flows(self.notebook.registry))

    @line_magic
    @takes(commands.TOOLS)
    def tools(self, parsed: ParsedLine) -> None:
        name = parsed.word("NAME")
        known = [*self.notebook.registry.tools, *self.notebook.registry.agents]
        if name is not None:
            message = f"no tool or agent {name.text!r} is registered"
            check_known("unknown-tool", message, name, known, "tools and agents")
        show(output.tools(self.notebook.registry, name.text if name is not None else None))

    @line_magic
    @takes(commands.DRAW)
    def draw(self, parsed: ParsedLine) -> Any:
        wanted = parsed.word("--direction")
        if wanted is not None and wanted.text not in DIRECTIONS:
            hint = f"write {' or '.join(DIRECTIONS)}"
            raise line_error("direction", f"{wanted.text!r} is not a direction", wanted, hint)
        flow = self.notebook.flow(parsed.words("NAME")[0])
        picture = Diagram(flow, direction=cast(Direction, wanted.text) if wanted else "auto")
        target = parsed.word("--save")
        if target is None:
            return picture
        return write_by(target, picture.save)

    @line_magic
    @takes(commands.R1)
    def r1(self, parsed: ParsedLine) -> Any:
        expression = LANGUAGES["pipeline"].expressions["r1"](parsed.words("EXPRESSION")[0])
        return expression.evaluate(self.notebook.frame)

    @line_magic
    @takes(commands.DEFINE)
    def define(self, parsed: ParsedLine) -> None:
        problems: list[Diagnostic] = []
        for word in parsed.words("FILE"):
            paths = sorted(glob.glob(word.text, recursive=True))
            if not paths:
                message = f"no file {word.text!r}"
                problems.append(line_error("file", message, word, near_file(word.text)).diagnostic)
            for path in paths:
                try:
                    self.notebook.define(Path(path), parsed, language=None, name=None, origin=path)
                except DefinitionError as error:
                    problems.extend(error.diagnostics)
        if problems:
            raise DefinitionError(*problems)


@magics_class
class LanguageMagics(NotebookMagics):
    """``%%policy``, ``%%graph``, ``%%plan`` and ``%context``."""

    @cell_magic
    @takes(commands.POLICY)
    def policy(self, parsed: ParsedLine, body: str) -> Any:
        return self.notebook.definition("policy", parsed, body)

    @cell_magic
    @takes(commands.GRAPH)
    def graph(self, parsed: ParsedLine, body: str) -> Any:
        return self.notebook.definition("graph", parsed, body)

    @cell_magic
    @takes(commands.PLAN)
    def plan(self, parsed: ParsedLine, body: str) -> Any:
        context = parsed.word("--context")
        if context is not None and not context.text.strip():
            hint = "remove it: each run begins with an empty context"
            raise line_error("name", "the name of a context cannot be blank", context, hint)
        if "--planner" in parsed:
            from .planners import (
                run_planner_cell,  # imports planners, which most notebooks do not use
            )

            return run_planner_cell(self.notebook, parsed, body)
        for option in commands.FOR_PLANNERS:
            if option.flag in parsed:
                message, place = f"{option.flag} needs --planner", parsed.words(option.flag)[0]
                raise line_error("needs-planner", message, place, "add --planner MODEL")

        def change(flow: Flow) -> Flow:
            if context is not None:
                flow = replace(flow, dialect=replace(flow.dialect, context=context.text))
            for option in ("--ordered", "--keep-going"):
                if option in parsed:
                    flow = flow.dialect.with_option(flow, option) or flow
            return flow

        return self.notebook.definition("plan", parsed, body, change)

    @line_magic
    @takes(commands.CONTEXT)
    def context(self, parsed: ParsedLine) -> Any:
        from .contexts import (
            run_context,  # imports the plan language, which most notebooks do not use
        )

        return run_context(self.notebook, parsed)


COLUMNS = ("workers", "lanes", "working", "memory", "resources", "versions")
NONE = "this process has used no workers: run a flow with --on processes"


@magics_class
class WorkerMagics(NotebookMagics):
    """``%workers``."""

    @line_magic
    @takes(commands.WORKERS)
    def workers(self, parsed: ParsedLine) -> Any:
        known = list(started)
        if "--close" in parsed:
            started.close()
            print(f"closed {counted(len(known), 'worker backend')}")
            return
        if "--restart" in parsed:
            for backend in known:
                restart = getattr(backend, "restart", None)
                if restart is None:
                    print(f"{backend.name} cannot be restarted here")
                    continue
                print(f"restarted {backend.name}")
                restart()
            return
        show(list_workers([describe(backend) for backend in known]))


def list_workers(found: Iterable[BackendStatus]) -> Bundle:
    """The table by MIME type."""
    backends = list(found)
    rows = [row for one in backends for row in _rows(one)]
    bundle = list_rows(COLUMNS, rows, counted(len(backends), "worker backend"), NONE)
    for one in backends:
        if is_page(one.dashboard):
            link = html(one.dashboard)
            bundle["text/html"] += (
                f'<p>{html(one.name)}: <a href="{link}" target="_blank" '
                f'rel="noopener">dashboard</a></p>'
            )
            bundle["text/plain"] += f"\n{one.name}: {one.dashboard}"
    return bundle


def is_page(link: str) -> bool:
    """Whether ``link`` is a web address, or a path of the notebook's own server: a proxy of
    JupyterHub."""
    return link.startswith(("http://", "https://")) or (
        link[:1] == "/" and link[1:2] not in ("/", "\\")
    )


def _rows(one: BackendStatus) -> Iterable[tuple[str, ...]]:
    in_flight = "" if one.in_flight is None else f"{counted(one.in_flight, 'chunk')} in flight"
    if one.starting:
        in_flight = f"starting {counted(one.starting, 'worker')}"
    yield (line(one.name, 80), f"{one.lanes:,}", in_flight, "", "", "")
    for worker in one.workers:
        if worker.name != one.name:
            yield _row(worker)


def _row(worker: WorkerStatus) -> tuple[str, ...]:
    working = "" if worker.working is None else f"{worker.working:,}"
    memory = "" if worker.memory is None else _megabytes(worker.memory)
    if memory and worker.memory_limit:
        memory += f" of {_megabytes(worker.memory_limit)}"
    resources = ", ".join(f"{name} {amount:g}" for name, amount in worker.resources.items())
    versions = _versions(worker.versions)
    return (
        f"  {line(worker.name, 80)}",
        f"{worker.lanes:,}",
        working,
        memory,
        line(resources, 60),
        line(versions, 120),
    )


def _versions(versions: Mapping[str, str]) -> str:
    """The versions that differ from those of this process."""
    here = describe_process()
    other = [
        f"{name} {version}"
        for name, version in versions.items()
        if version and version != here.get(name)
    ]
    return ", ".join(other) or ("as here" if versions else "")


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"


FOLDERS = (
    Path(__file__).with_name("errors"),
    Path(__file__).parents[2] / "docs" / "reference" / "errors",
)

_ENTRY = re.compile(
    r"^## (?P<code>[a-z0-9]+\.[a-z0-9-]+)\n(?P<text>.*?)(?=^\([a-z0-9.-]+\)=$|^## |\Z)", re.M | re.S
)
_LINK = re.compile(r"(`[^`\n]*+`)|\[([^\[\]\n]++)\]\([^()\s]++\)")


@cache
def entries() -> Mapping[str, str]:
    """The Markdown of each entry of the error reference, by its code; without links, which lead to
    other pages."""
    folder = next(folder for folder in FOLDERS if folder.is_dir())
    return {
        found[
            "code"
        ]: f"### {found['code']}\n{_LINK.sub(lambda link: link[1] or link[2], found['text']).rstrip()}\n"
        for path in sorted(folder.glob("*.md"))
        for found in _ENTRY.finditer(path.read_text(encoding="utf-8"))
    }


@magics_class
class ExplainMagics(NotebookMagics):
    """``%explain``."""

    @line_magic
    @takes(commands.EXPLAIN)
    def explain(self, line: ParsedLine) -> None:
        word = line.word("CODE")
        for code in [word.text.strip("[]")] if word is not None else _last_codes():
            text = entries().get(code)
            if text is None:
                hint = _nearest(
                    code, entries(), "the code of an error is in brackets after its message"
                )
                span = word.span if word is not None else None
                raise DefinitionError(
                    Diagnostic("magic.unknown-code", f"no error has the code {code!r}", span, hint)
                )
            show({"text/markdown": text, "text/plain": text})


def _nearest(name: str, names: Iterable[str], otherwise: str) -> str:
    """The hint for an unknown code or lesson: it is less like a word of a message than a typo."""
    near = nearest(name, list(names), 0.6)
    return f"did you mean {near}?" if near else otherwise


def _last_codes() -> list[str]:
    """The codes of the last error that a cell ended with."""
    last = getattr(sys, "last_value", None)
    if not isinstance(last, AgfError):
        message = "CODE is missing: the last cell with an error did not end with one of agf-magics"
        raise DefinitionError(Diagnostic("magic.missing", message, hint="%explain CODE"))
    return list(dict.fromkeys(found.code for found in last.diagnostics))


MOST_TOLD = 5
"""Differences of an answer that are told."""


class Lesson(NamedTuple):
    """An exercise."""

    title: str
    task: str
    """Markdown: the text of the notebook, without the solution."""
    language: str
    flow: str
    """The flow that the answer defines; empty: the answer is an expression of R1, whose value the
    last cell displayed."""
    line: str
    """The input of its run, as the options of a magic: ``--set earth=$earth``."""
    uses: tuple[str, ...]
    """The step kinds that it is about."""
    gives: Any
    """The output of the solution, a JSON value."""


@cache
def lessons() -> Mapping[str, Lesson]:
    """All lessons by their names: ``pipeline.1``."""
    text = Path(__file__).with_name("lessons.json").read_text(encoding="utf-8")
    return {name: Lesson(**fields) for name, fields in json.loads(text).items()}


@magics_class
class LessonMagics(NotebookMagics):
    """``%lesson``."""

    @line_magic
    @takes(commands.LESSON)
    def lesson(self, parsed: ParsedLine) -> None:
        word = parsed.word("NAME")
        if word is None:
            return show({"text/markdown": _table(), "text/plain": _table()})
        lesson = lessons().get(word.text)
        if lesson is None:
            hint = _nearest(word.text, lessons(), "%lesson lists them")
            message = f"there is no lesson {word.text!r}"
            raise DefinitionError(Diagnostic("magic.unknown-lesson", message, word.span, hint))
        if "--check" not in parsed:
            text = f"### {lesson.title}\n\n{lesson.task}\n\nThen: `%lesson {word.text} --check`"
            return show({"text/markdown": text, "text/plain": text})
        wrong = list(self._wrong(lesson))
        print("\n".join(wrong or [f"✓ {word.text}: right"]))

    def _wrong(self, lesson: Lesson) -> Iterator[str]:
        """What is still wrong with the answer, a line each."""
        if not lesson.flow:
            # Not `_`: IPython leaves it alone where a module has put a `_` into builtins (gettext).
            value = next(reversed(self.notebook.ipython.user_ns["_oh"].values()), "")
            return _differences(lesson, value, "the value of the last cell")
        flow = self.notebook.registry.flows.get(lesson.flow)
        if flow is None:
            message = (
                f"✗ there is no {lesson.language} {lesson.flow!r} yet: write %%{lesson.language}"
            )
            return iter([message])
        line = read(commands.RUN_PIPELINE, f"{lesson.flow} {lesson.line}", self.notebook.cell)
        assert line is not None
        given = inputs(line, self.notebook.names)
        try:
            run = launch.run(flow, given, registry=self.notebook.registry)
        except AgfError as error:
            return iter([f"✗ {lesson.flow} fails: {error}"])
        words = {step.word for step in every(flow.body)}
        lacking = [word for word in lesson.uses if word not in words]
        if lacking:
            return iter(
                [f"✗ {lesson.flow} has no {' and no '.join(lacking)}: the lesson is about it"]
            )
        return _differences(lesson, run.output, "the output")


def _differences(lesson: Lesson, value: Any, what: str) -> Iterator[str]:
    parts = list(find_differences(lesson.gives, value))
    for path, wanted, got in parts[:MOST_TOLD]:
        place = f"{what}{' at ' + path.lstrip('.') if path else ''}"
        if got is MISSING:
            yield f"✗ {place} is missing; it must be {wanted!r}"
        elif wanted is MISSING:
            yield f"✗ {place} is {got!r:.200}, and nothing must be there"
        else:
            yield f"✗ {place} is {got!r:.200}, and must be {wanted!r:.200}"
    if len(parts) > MOST_TOLD:
        yield f"✗ and {counted(len(parts) - MOST_TOLD, 'more difference')}"


def _table() -> str:
    rows = [f"| `{name}` | {lesson.title} |" for name, lesson in lessons().items()]
    return "\n".join(["| lesson | |", "| --- | --- |", *rows])
