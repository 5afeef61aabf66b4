"""The magics for definitions of every language.

They register the definitions in files, and list, export, delete and draw what is registered.
"""

from __future__ import annotations

from typing import Any, cast

from IPython.core.magic import line_magic, magics_class

from ...commands import magics
from ...commands.line import ParsedLine, check_known
from ...commands.named_definitions import named_definitions
from ...commands.output_files import write_file, write_with
from ...commands.words import line_error
from ...lifecycle.definitions.file_sets import registry_with
from ...lifecycle.definitions.linking import link_flow
from ...text.diagnostics import DefinitionError
from ..display import registry_page
from ..notebook import definition_text
from ..output.output import show
from .base import NotebookMagics, takes


@magics_class
class DefinitionMagics(NotebookMagics):
    """``%define``, ``%flows``, ``%tools`` and ``%draw``."""

    @line_magic
    @takes(magics.DEFINE)
    def define(self, parsed: ParsedLine) -> None:
        files, problems = named_definitions(parsed.words("FILE"))
        registry = self.notebook.registry
        names_from = registry
        if len(files) > 1:  # a file may call what a later one defines
            names_from, _ = registry_with(files, registry)
        for file in files:
            try:
                self.notebook.define(
                    file, parsed, language=None, name=None, origin=str(file), names_from=names_from
                )
            except DefinitionError as error:
                problems.extend(error.diagnostics)
        if problems:
            raise DefinitionError(*problems)

    @line_magic
    @takes(magics.FLOWS)
    def flows(self, parsed: ParsedLine) -> None:
        deleted = parsed.word("--delete")
        name = parsed.word("NAME")
        target = parsed.word("--export")
        if target is not None and name is None:
            hint = f"write %flows NAME --export {target.text}"
            raise line_error("missing", "--export needs the NAME of a flow", target, hint)
        if deleted is not None and name is not None:
            message = f"--delete deletes a flow, and {name.text!r} is one to show"
            raise line_error("unwanted-option", message, name, f"remove {name.text}")
        if deleted is not None:
            self.notebook.registry.flows.remove(self.notebook.flow(deleted).name)
            print(f"deleted {deleted.text}")
        if name is not None and target is not None:
            write_file(target, definition_text(self.notebook.flow(name)))
        elif name is not None:
            print(definition_text(self.notebook.flow(name)))
        elif deleted is None:
            show(registry_page.flows(self.notebook.registry))

    @line_magic
    @takes(magics.TOOLS)
    def tools(self, parsed: ParsedLine) -> None:
        name = parsed.word("NAME")
        names = [*self.notebook.registry.tools, *self.notebook.registry.agents]
        if name is not None:
            message = f"no tool or agent {name.text!r} is registered"
            check_known("unknown-tool", message, name, names, "tools and agents")
        show(registry_page.tools(self.notebook.registry, name.text if name is not None else None))

    @line_magic
    @takes(magics.DRAW)
    def draw(self, parsed: ParsedLine) -> Any:
        from ...pictures.diagram import Diagram
        from ...pictures.layout.arrange import DIRECTIONS, Direction

        word = parsed.word("--direction")
        if word is not None and word.text not in DIRECTIONS:
            hint = f"write {' or '.join(DIRECTIONS)}"
            raise line_error("direction", f"{word.text!r} is not a direction", word, hint)
        direction = cast(Direction, word.text) if word is not None else "auto"
        (name,) = parsed.words("NAME")
        flow = self.notebook.flow(name)
        linked, _ = link_flow(flow, self.notebook.registry)
        picture = Diagram(flow, direction=direction, callees=linked.callees)
        target = parsed.word("--save")
        if target is None:
            return picture
        return write_with(target, picture.save)
