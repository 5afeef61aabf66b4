"""The notebook: magics, the live view, completion, settings. The only place for IPython and ipywidgets.

    cursor -> by_schema, names -> body -> complete -> tab    Tab
    options -> given -> commands -> magics            lines and what they do
    config, rendering, view, watching, ask            settings, errors, runs as they are seen, questions
    moments -> slider                                 what a plan's context was at every moment

Whatever `load` puts into a shell is taken out by `unload`, in the opposite order.
"""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

NAME = "PipelineMagics"
"""Under which the shell keeps what was loaded: there is no other state of the extension."""

PATIENCE = 3.0
"""Seconds that unloading gives the runs in the background to stop."""


def load(shell: Any) -> None:
    """``%load_ext agf_magics``. Raises DefinitionError for a wrong pyproject.toml, and has then loaded nothing."""
    from ..catalog import default
    from . import rendering
    from .background import BackgroundMagics
    from .config import AgfMagics
    from .explain import ExplainMagics
    from .history import HistoryMagics, told_on_load
    from .languages import LanguageMagics
    from .magics import PipelineMagics
    from .tab import known, matcher
    from .view import Widget

    unload(shell)
    before = shell.config.get("AgfMagics")
    config = AgfMagics(shell, Path.cwd())
    magics = PipelineMagics(shell, default(), config)
    others = [kind(shell, magics) for kind in (LanguageMagics, BackgroundMagics, HistoryMagics, ExplainMagics)]
    with ExitStack() as undo:
        undo.callback(_forget, shell, config, before)
        undo.callback(Widget.forget)
        _put(undo, shell.configurables, config)
        undo.callback(_leave_none)
        _watch_end(undo, shell)
        for each in (magics, *others):
            undo.callback(shell.configurables.remove, each)  # where Magics puts every one of its kind
            _register(undo, shell, each)
        _put(undo, shell.Completer.custom_matchers, matcher(lambda: known(magics, shell)))
        _put(undo, shell.input_transformers_cleanup, magics.with_body, first=True)
        _ask(undo, shell)
        rendering.install(undo, shell, lambda: config.traceback == "full")
        rendering.formats(undo, shell, lambda run: magics.is_shown(run) or magics.show_again(run))
        magics.undo = undo.pop_all()
    if said := told_on_load():
        print(said)


def unload(shell: Any) -> None:
    """``%unload_ext agf_magics``. What was registered stays registered: loading again goes on with it."""
    magics = shell.magics_manager.registry.get(NAME)
    if magics is None:
        return
    magics.undo.close()
    from ..host.loop import EngineLoop

    if any(thread.name == "agf-engine" for thread in threading.enumerate()):
        EngineLoop.current().abandon()


def _ask(undo: ExitStack, shell: Any) -> None:
    """Let questions come to the notebook while the extension is loaded."""
    from ..settings import current
    from . import ask
    from .view import is_watched

    undo.callback(setattr, current, "ask", current.ask)
    undo.callback(setattr, current, "ask_behind", current.ask_behind)
    current.ask = ask.here
    current.ask_behind = ask.behind if is_watched(shell) else None


def _forget(shell: Any, config: Any, before: Any) -> None:
    """``%config`` tells every part of IPython, and the shell remembers it for the next who has our name."""
    config.forget()
    shell.config.pop("AgfMagics", None)
    if before is not None:
        shell.config["AgfMagics"] = before


def _put(undo: ExitStack, target: list[Any], thing: Any, first: bool = False) -> None:
    target.insert(0 if first else len(target), thing)
    undo.callback(lambda: target.remove(thing) if thing in target else None)


def _watch_end(undo: ExitStack, shell: Any) -> None:
    """Hear of it when the kernel is asked to end: it sets ``exit_now``, from the thread of its control channel."""
    from ..lifecycle.launch import live

    def ending(change: Any) -> None:
        if change["new"]:
            live.leave_open()

    if shell.has_trait("exit_now"):
        shell.observe(ending, "exit_now")
        undo.callback(shell.unobserve, ending, "exit_now")


def _leave_none() -> None:
    """Cancel what runs in the background and what was fired and forgotten; what does not stop in time is left."""
    from ..host.loop import cancel_outliving
    from ..lifecycle.launch import live

    cancel_outliving()
    behind = [run for run in live.running if run.behind]
    for run in behind:
        run.cancel("the extension was unloaded")
    until = time.monotonic() + PATIENCE
    for run in behind:
        run.wait(max(0.0, until - time.monotonic()))
    live.forget()


def _register(undo: ExitStack, shell: Any, magics: Any) -> None:
    """Register the magics; what had their names before is there again when they are gone."""
    manager = shell.magics_manager
    tables = {kind: dict(table) for kind, table in manager.magics.items()}
    shell.register_magics(magics)
    for kind, names in magics.magics.items():
        for name in names:
            undo.callback(_restore, manager.magics[kind], name, tables[kind].get(name))
    undo.callback(manager.registry.pop, type(magics).__name__, None)


def _restore(table: dict[str, Any], name: str, before: Any) -> None:
    if before is None:
        table.pop(name, None)
    else:
        table[name] = before
