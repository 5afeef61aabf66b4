"""The magics. Each says what it does in a few lines: what it takes stands in `commands`, what it shows in `draw`."""

from __future__ import annotations

import functools
import glob
import re
from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from IPython.core.magic import Magics, cell_magic, line_magic, magics_class, needs_local_scope, no_var_expand

from .. import settings
from ..catalog import Registry
from ..definitions.define import Defined, before_a_run, register
from ..flow.steps import Flow
from ..host.limits import Limits
from ..languages import LANGUAGES
from ..lifecycle import launch
from ..pictures.diagram import Diagram
from ..pictures.layout import NoPicture
from ..pictures.outline import size
from ..pictures.plain import line
from ..text.diagnostics import AgfError, DefinitionError, Diagnostic, suggest
from ..text.nodes import shorten
from ..text.source import UNUSABLE, Source, why
from . import commands, registered, view, watching
from .config import AgfMagics
from .given import inputs, misread, near_file, new_name, reused, seconds
from .options import Command, ParsedLine, Token, read
from .output import show
from .rendering import told

Magic = Callable[..., Any]


def takes(command: Command) -> Callable[[Magic], Magic]:
    """A magic that is given its line as understood; its help is the command's, its errors are short."""

    def wrap(magic: Magic) -> Magic:
        @functools.wraps(magic)
        def called(self: PipelineMagics, rest: str, *body: str, local_ns: Mapping[str, Any] | None = None) -> Any:
            failure: BaseException
            try:
                self.local = local_ns or {}
                said = read(command, rest, self.cell)
                if said is None:
                    print(command.help)
                    return None
                return magic(self, said, *body)
            except AgfError as error:
                failure = error
            except KeyboardInterrupt:
                failure = KeyboardInterrupt()
            # Outside the except: IPython takes another way where an ExceptionGroup is the context of an error.
            failure.__context__ = None
            raise failure

        called.__doc__ = command.help
        return no_var_expand(called)

    return wrap


NOT_QUIET = ("pipeline.hidden-name",)
"""Codes of warnings that ``--quiet`` does not hide: the step fails in nearly every run."""


class Asked(NamedTuple):
    """What a line says about a run."""

    given: dict[str, Any]
    limits: Limits
    out: str | None
    dry: bool
    draw: bool
    quiet: bool
    reuse: bool | str = False


@magics_class
class PipelineMagics(Magics):
    """What ``%load_ext agf_magics`` adds to a shell."""

    def __init__(self, shell: Any, registry: Registry, config: AgfMagics) -> None:
        super().__init__(shell)
        self.ipython: Any = shell
        self.registry = registry
        self.settings = config
        self.last: launch.Run | None = None
        self.shown: tuple[launch.Run, int] | None = None
        """The run that a view shows, and the number of its cell."""
        self.followed: deque[tuple[launch.Run, view.View]] = deque(maxlen=launch.live.KEPT)
        """The last views of runs in the background."""
        self.undo = ExitStack()
        """Takes out of the shell what `load` put in."""
        self.local: Mapping[str, Any] = {}

    # ------------------------------------------------------------------------------------------------------------------

    @cell_magic
    @takes(commands.PIPELINE)
    def pipeline(self, said: ParsedLine, body: str) -> Any:
        return self.definition("pipeline", said, body)

    @line_magic
    @needs_local_scope
    @takes(commands.RUN_PIPELINE)
    def run_pipeline(self, said: ParsedLine) -> Any:
        return self.run(self.flow(said.words("NAME")[0]), self.asked(said, runs=True))

    @line_magic
    @takes(commands.FLOWS)
    def flows(self, said: ParsedLine) -> None:
        unwanted, name, target = said.word("--delete"), said.word("NAME"), said.word("--export")
        if target is not None and name is None:
            raise wrong("missing", "--export needs the NAME of a flow", target, "%flows NAME --export FILE")
        if unwanted is not None:
            self.registry.flows.remove(self.flow(unwanted).name)
            print(f"deleted {unwanted.text}")
        if name is not None and target is not None:
            self._write(target, self.flow(name).source.text)
        elif name is not None:
            print(self.flow(name).source.text)
        elif unwanted is None:
            show(registered.flows(self.registry))

    @line_magic
    @takes(commands.TOOLS)
    def tools(self, said: ParsedLine) -> None:
        show(registered.tools(self.registry))

    @line_magic
    @takes(commands.DRAW)
    def draw(self, said: ParsedLine) -> Any:
        picture, target = Diagram(self.flow(said.words("NAME")[0])), said.word("--save")
        if target is None:
            return picture
        try:
            print(f"wrote {picture.save(target.text)}")
        except (ValueError, NoPicture) as error:
            raise wrong("file", str(error), target) from None
        except OSError as error:
            raise unwritable(target, error) from None
        return None

    @line_magic
    @takes(commands.R1)
    def r1(self, said: ParsedLine) -> Any:
        expression = LANGUAGES["pipeline"].expressions["r1"](said.words("EXPRESSION")[0])
        return expression.evaluate(self.frame)

    @line_magic
    @takes(commands.DEFINE)
    def define(self, said: ParsedLine) -> None:
        problems: list[Diagnostic] = []
        for word in said.words("FILE"):
            paths = sorted(glob.glob(word.text, recursive=True))
            if not paths:
                hint = near_file(word.text)
                problems.append(wrong("file", f"there is no file {word.text!r}", word, hint).diagnostic)
            for path in paths:
                try:
                    self._define(Path(path), said, language=None, name=None, origin=path)
                except DefinitionError as error:
                    problems.extend(error.diagnostics)
        if problems:
            raise DefinitionError(*problems)

    # ------------------------------------------------------------------------------------------------------------------

    @property
    def cell(self) -> str:
        """What an error calls the cell."""
        return f"In[{self.number}]"

    @property
    def number(self) -> int:
        """The number of the cell that is running; `execution_count` is already the next one's, in some versions."""
        return int(self.ipython.displayhook.prompt_count)

    @property
    def names(self) -> Mapping[str, Any]:
        """The notebook's variables, those of the function that a line magic stands in before them."""
        return {**self.ipython.user_ns, **self.local}

    @property
    def frame(self) -> dict[str, Any]:
        """What the last run left, as an expression sees it."""
        last = self.last
        if last is None:
            return {"ctx": {}, "pipe": None}
        stores = {**(last.input if isinstance(last.input, dict) else {}), **last.stores}
        return {**stores, "ctx": stores, "pipe": last.output}

    def is_shown(self, run: launch.Run) -> bool:
        """Whether the cell that is running shows ``run`` already."""
        return self.shown is not None and self.shown[0] is run and self.shown[1] == self.number

    def with_body(self, lines: list[str]) -> list[str]:
        """A cell that is only the line of one of our cell magics gets an empty body: IPython refuses none, with a
        UsageError that looks like success to whoever runs the notebook, and ``%%pipeline --help`` needs none."""
        found = re.match(r"%%(\w+)(?:\s|$)", lines[0]) if len(lines) == 1 else None
        command = commands.COMMANDS.get(found[1]) if found else None
        return [lines[0].rstrip("\n") + "\n", "\n"] if command and command.name.startswith("%%") else lines

    def definition(
        self, language: str, said: ParsedLine, body: str, change: Callable[[Flow], Flow] | None = None
    ) -> Any:
        """A cell that is a definition: registered, and written, drawn and run as its line says. ``change``: what the
        language's own options make of it."""
        asked = self.asked(said)  # first: a cell whose line is wrong defines nothing
        source = Source(f"{self.cell} %%{language}", body, first_line=2)
        given = asked.given if "--run" in said else {}
        flow = self._define(source, said, language=language, name=self._name(said), origin=self._cell_id(), given=given)
        if flow is not None and change is not None:
            flow = change(flow)
            self.registry.flows.define(flow, self._cell_id())
        target = said.word("--write")
        if target is not None:
            self._write(target, body)
        wanted = said.word("--run") or said.word("--draw")
        if flow is None and wanted is not None:
            raise wrong("no-flow", f"this cell has schemas alone: {wanted.text} needs a {language}", wanted)
        if flow is None or "--run" not in said:
            return Diagram(flow) if flow and "--draw" in said else None
        return self.run(flow, asked)

    def _define(
        self,
        source: Source | Path,
        said: ParsedLine,
        *,
        language: str | None,
        name: str | None,
        origin: str | None,
        given: Collection[str] = (),
    ) -> Flow | None:
        """``language``: None is what the text itself says. ``given``: the names of the input of a run that follows."""
        strict, quiet = "--strict" in said, "--quiet" in said
        defined = register(source, language, name=name, strict=strict, registry=self.registry, origin=origin,
                           latent=[word.text for word in said.words("--latent")], given=given)  # fmt: skip
        findings = before_a_run(defined, self.registry) if "--run" in said else defined.findings
        if quiet:
            findings = tuple(found for found in findings if found.code in NOT_QUIET)
        else:
            print(_summary(defined))
        if findings:
            print(told(findings))
        return defined.flow

    def asked(self, said: ParsedLine, runs: bool = False) -> Asked:
        """What the line says about a run. ``runs``: the magic runs without being told to."""
        idle = next((option.flag for option in commands.FOR_RUNS if option.flag in said), None)
        if idle is not None and not runs and "--run" not in said:
            raise wrong(
                "needs-run", f"{idle} is for a run, and this cell runs nothing", said.words(idle)[0], "add --run"
            )
        if "--quiet" not in said and (doubts := misread(said, self.names)):
            print(told(doubts))
        limits, limit, out = settings.current.settings.limits, said.word("--timeout"), said.word("--out")
        return Asked(
            given=inputs(said, self.names),
            limits=replace(limits, timeout=seconds(limit)) if limit else limits,
            out=new_name(out) if out else None,
            dry="--dry" in said,
            draw="--draw" in said,
            quiet="--quiet" in said,
            reuse=reused(said),
        )

    def run(self, flow: Flow, asked: Asked, *, behind: bool = False, inline: bool = False) -> launch.Run | None:
        """Run ``flow`` and show it in this cell. ``behind``: in the background, for which nobody waits. ``inline``:
        it is not registered and must pass the static gate."""
        drawn = flow if asked.draw else None
        seen = view.view(self.settings, self.ipython, quiet=asked.quiet, drawn=drawn, behind=behind)

        def begin(enter: Callable[[], None]) -> launch.Run:
            run = launch.begin(
                flow, asked.given, registry=self.registry, limits=asked.limits, dry=asked.dry, enter=enter,
                behind=behind, inline=inline, reuse=asked.reuse,
            )  # fmt: skip
            run.origin = self.cell
            # At once: a run that is interrupted is of interest too.
            self.last = self.last if behind else run
            if asked.out:
                self.ipython.user_ns[asked.out] = run
            if seen.shows_page:
                self.shown = run, self.number
            return run

        hz = self.settings.refresh_hz
        run = watching.follow(begin, seen, hz) if behind else watching.watch(begin, seen, hz).result()
        if behind:
            self.followed.append((run, seen))
        if asked.quiet and asked.out and not behind and run.progress.losses:
            print(told(run.progress.losses))
        return None if asked.out else run

    def show_again(self, run: launch.Run) -> bool:
        """Show a run of the background that goes on, alive, in this cell too; whether it could be."""
        if not run.behind or run.done:
            return False
        seen = view.view(self.settings, self.ipython, quiet=False, drawn=None, behind=True, apart=True)
        watching.follow(lambda _: run, seen, self.settings.refresh_hz)
        self.followed.append((run, seen))
        return True

    def wait(self, run: launch.Run) -> None:
        """Wait for a run in the background, until every cell shows its end. That is sent once more from this cell: who
        executes a notebook hears of a cell that has ended by another one alone."""
        watching.settled(run.wait())
        for followed, seen in self.followed:
            if followed is run and seen.shows_page:
                seen.close(run)

    def flow(self, word: Token) -> Flow:
        if word.text not in self.registry.flows:
            hint = (
                suggest(word.text, self.registry.flows, "registered flows")
                or "define one first, in a cell or with %define"
            )
            raise wrong("unknown-flow", f"no flow {word.text!r} is registered", word, hint)
        return self.registry.flows[word.text]

    def _name(self, said: ParsedLine) -> str | None:
        word = said.word("NAME")
        if word is not None and not word.text.strip():
            raise wrong("name", "a flow's name cannot be blank", word, "leave it out: the document names the flow")
        return word.text if word else None

    def _write(self, word: Token, text: str) -> None:
        path = Path(word.text)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except UNUSABLE as error:
            raise unwritable(word, error) from None
        print(f"wrote {path}")

    def _cell_id(self) -> str | None:
        """The notebook's own name of the cell, where the front end tells it."""
        parent: Callable[[], dict[str, Any]] = getattr(self.ipython, "get_parent", dict)
        cell: str | None = parent().get("metadata", {}).get("cellId")
        return cell


def _summary(defined: Defined) -> str:
    """``pipeline review: 3 steps``, ``schemas Review, Verdict``."""
    flow = defined.flow
    if flow is None:
        return f"schema{'s' * (len(defined.schemas) != 1)} {', '.join(line(name, 60) for name in defined.schemas)}"
    return f"{flow.language} {line(flow.name, 80)}: {size(flow)}"


def wrong(what: str, message: str, word: Token, hint: str | None = None) -> DefinitionError:
    return DefinitionError(Diagnostic(f"magic.{what}", message, word.span, hint))


def unwritable(word: Token, error: Exception) -> DefinitionError:
    return wrong("file", f"{shorten(word.text)!r} cannot be written: {why(error)}", word)
