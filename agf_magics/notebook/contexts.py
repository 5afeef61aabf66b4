"""What ``%context`` does: the named contexts of plans, shown, read, loaded, saved and cleared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..catalog import Context
from ..definitions.define import source_of
from ..languages.plan import Log, Reading, as_log
from ..languages.plan.lines import lines, messages
from ..text.diagnostics import DefinitionError, Diagnostic, suggest
from ..text.source import UNUSABLE
from . import slider
from .given import count, near_file
from .magics import PipelineMagics, unwritable, wrong
from .options import ParsedLine, Token
from .output import show
from .view import is_watched


def context(notebook: PipelineMagics, said: ParsedLine) -> Any:
    """One line of ``%context``, in its notebook."""
    name, reference = _operands(said)
    source, target = said.word("--load"), said.word("--save")
    if source is not None:
        _load(notebook, _name(name, source), source)
    held = _context(notebook, name, said)
    if "--clear" in said:
        notebook.registry.contexts.renew(held.name)
        print(f"context {held.name}: empty")
        return None
    log, at = _log(held), said.word("--at")
    log = log.until(count(at)) if at is not None else log
    if target is not None:
        _save(log, target)
    elif reference is not None:
        return Reading(reference).evaluate({"messages": log})
    else:
        show(slider.bundle(held.name, log, alive=is_watched(notebook.ipython) and at is None))
    return None


def _context(notebook: PipelineMagics, name: Token | None, said: ParsedLine) -> Context:
    contexts = notebook.registry.contexts
    if name is None:
        last = notebook.last
        of_last = last.context if last is not None else None
        found = of_last or next(iter(contexts.values()), None)
        if found is None:
            span, hint = said.source.span(), "a plan that runs has one; %context NAME --load FILE makes one"
            raise DefinitionError(Diagnostic("magic.unknown-context", "there is no context yet", span, hint))
        return found
    if name.text not in contexts:
        hint = suggest(name.text, contexts, "contexts") or "a plan that runs has one of its name"
        raise wrong("unknown-context", f"there is no context {name.text!r}", name, hint)
    return contexts[name.text]


def _name(name: Token | None, source: Token) -> str:
    if name is None:
        raise wrong("missing", "--load needs the NAME of a context", source, "%context NAME --load FILE")
    return name.text


def _load(notebook: PipelineMagics, name: str, word: Token) -> None:
    try:
        source = source_of(Path(word.text))
    except DefinitionError as error:
        raise wrong("file", error.diagnostic.message, word, near_file(word.text)) from None
    log = Log(messages(source), loses=True)
    notebook.registry.contexts.renew(name, log)
    print(f"context {name}: {len(log)} messages")


def _operands(said: ParsedLine) -> tuple[Token | None, Token | None]:
    """The name and the reference, of which either may be left out."""
    name, reference = said.word("NAME"), said.word("REFERENCE")
    if name is not None and reference is None and name.text.lstrip("( ")[:1] in ("†", "$"):
        return None, name
    return name, reference


def _log(context: Context) -> Log:
    return as_log(context.log if context.log is not None else ())


def _save(log: Log, word: Token) -> None:
    path = Path(word.text)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines(log)), encoding="utf-8")
    except UNUSABLE as error:
        raise unwritable(word, error) from None
    print(f"wrote {path}")
