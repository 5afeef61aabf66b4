"""The magics that define, run and show flows. Their lines are tables in `commands`; `pictures`
makes their output."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import Any

from IPython.core.magic import cell_magic, line_magic, magics_class, needs_local_scope

from ..languages import LANGUAGES
from ..pictures.diagram import Diagram
from ..pictures.layout import NoPicture
from ..text.diagnostics import DefinitionError, Diagnostic, suggest
from . import commands, registered
from .base import NotebookMagics, takes
from .given import near_file, unwritable, write_file
from .options import ParsedLine, line_error
from .output import show


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
            show(registered.flows(self.notebook.registry))

    @line_magic
    @takes(commands.TOOLS)
    def tools(self, parsed: ParsedLine) -> None:
        name = parsed.word("NAME")
        known = [*self.notebook.registry.tools, *self.notebook.registry.agents]
        if name is not None and name.text not in known:
            hint = suggest(name.text, known, "tools and agents")
            raise line_error(
                "unknown-tool", f"no tool or agent {name.text!r} is registered", name, hint
            )
        show(registered.tools(self.notebook.registry, name.text if name is not None else None))

    @line_magic
    @takes(commands.DRAW)
    def draw(self, parsed: ParsedLine) -> Any:
        picture, target = (
            Diagram(self.notebook.flow(parsed.words("NAME")[0])),
            parsed.word("--save"),
        )
        if target is None:
            return picture
        try:
            print(f"wrote {picture.save(target.text)}")
        except (ValueError, NoPicture) as error:
            raise line_error("file", str(error), target) from None
        except OSError as error:
            raise unwritable(target, error) from None
        return None

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
