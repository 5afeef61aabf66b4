"""``%context``: the named contexts of plans are shown, read, loaded, saved and cleared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...catalog import Context
from ...commands.line import ParsedLine, check_known
from ...commands.output_files import write_file
from ...commands.values import count, near_file
from ...commands.words import Token, line_error
from ...languages.plan import Log, Reading, as_log
from ...languages.plan.log.lines import format_lines, parse_lines
from ...lifecycle.definitions.definition_source import source_of
from ...lifecycle.runs.run import state_of
from ...pictures.plain import line
from ...text.diagnostics import DefinitionError
from ..display.context_slider import moment_json, static
from ..display.view import show_over
from ..explorer.arguments import natural
from ..notebook import Notebook
from ..output.output import show


def show_context(name: str, log: Log, shell: Any) -> None:
    """Show the context ``name``. A front end with scripts adds a slider, unless ``shell`` is None."""
    page = static(name, log)
    if not len(log):
        return show(page)
    requests = {
        "moments": lambda _: {"total": len(log) + 1, "note": ""},
        "moment": lambda arguments: moment_json(
            log, natural(arguments.get("at")), natural(arguments.get("since"))
        ),
    }
    return show_over(page, shell, {"context": line(name, 80)}, requests)


def run_context(notebook: Notebook, parsed: ParsedLine) -> Any:
    """Do what a line of ``%context`` says; returns the value of a reference."""
    name, reference = _operands(parsed)
    source = parsed.word("--load")
    if source is not None:
        _load(notebook, name, source)
    context = _context(notebook, name, parsed)
    if "--clear" in parsed:
        notebook.registry.contexts.renew(context.name)
        print(f"context {context.name}: empty")
        return None
    log = as_log(context.log if context.log is not None else ())
    moment = count(parsed, "--at", None)
    if moment is not None:
        log = log.until(moment)
    target = parsed.word("--save")
    if target is not None:
        write_file(target, "".join(f"{line}\n" for line in format_lines(log)))
    elif reference is not None:
        return Reading(reference).evaluate({"messages": log})
    else:
        show_context(context.name, log, notebook.ipython if moment is None else None)
    return None


def _context(notebook: Notebook, name: Token | None, parsed: ParsedLine) -> Context:
    """The context of this name; without a name, the context of the last run, else the first context."""
    contexts = notebook.registry.contexts
    if name is None:
        last = notebook.last
        context = state_of(last).flow_input.context if last is not None else None
        context = context or next(iter(contexts.values()), None)
        if context is None:
            message = "there is no context yet"
            hint = "run a plan, or write %context NAME --load FILE"
            raise line_error("unknown-context", message, parsed.source.span(), hint)
        return context
    message = f"there is no context {name.text!r}"
    otherwise = "a plan creates the context of its name when it runs"
    check_known("unknown-context", message, name, contexts, "contexts", otherwise)
    return contexts[name.text]


def _load(notebook: Notebook, name: Token | None, word: Token) -> None:
    if name is None:
        hint = f"write %context NAME --load {word.text}"
        raise line_error("missing", "--load needs the NAME of a context", word, hint)
    try:
        source = source_of(Path(word.text))
    except DefinitionError as error:
        raise line_error("file", error.diagnostic.message, word, near_file(word.text)) from None
    log = Log(parse_lines(source), loses=True)
    notebook.registry.contexts.renew(name.text, log)
    print(f"context {name.text}: {len(log)} messages")


def _operands(parsed: ParsedLine) -> tuple[Token | None, Token | None]:
    """The name and the reference of the line, both optional. A single word that begins with † or $ is a
    reference."""
    name = parsed.word("NAME")
    reference = parsed.word("REFERENCE")
    if name is not None and reference is None and name.text.lstrip("( ")[:1] in ("†", "$"):
        return None, name
    return name, reference
