"""The notebook: magics, the live view, completion, settings.

Only this room imports IPython and ipywidgets. `unload` removes everything that `load` put into a
shell, in the opposite order.
"""

from __future__ import annotations

import functools
import re
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

NAME = "PipelineMagics"
"""The name under which the shell has the magics; by this name `unload` gets them back."""

PATIENCE = 3.0
"""Seconds that unloading waits for the ends of cancelled background runs."""


def load(shell: Any) -> None:
    """``%load_ext agf_magics``. Raises DefinitionError for an error in pyproject.toml, and then
    loads nothing."""
    from ..catalog import default
    from ..text.folder import notebook_folder
    from .config import AgfMagics
    from .explorer.open_views import close_explorers
    from .magics.history import describe_on_load
    from .notebook import Notebook
    from .output.input_in_turn import ask_in_turn
    from .output.place import watch_clears

    unload(shell)
    config_before = shell.config.get("AgfMagics")
    folder_before = notebook_folder.fixed
    config = AgfMagics(shell, Path.cwd())
    notebook = Notebook(shell, default(), config)
    with ExitStack() as undo:
        undo.callback(notebook_folder.change, folder_before)
        undo.callback(_forget, shell, config_before)
        undo.callback(close_explorers)
        _put(undo, shell.configurables, config)
        undo.callback(_close_workers)
        undo.callback(_close_servers)
        undo.callback(_cancel_background_runs)
        _watch_end(undo, shell)
        _add_magics(undo, shell, notebook)
        _complete(undo, shell, notebook)
        _watch_cells(undo, shell, notebook)
        cell = _watch_running_cell(undo, shell)
        _install_askers(undo, shell, config, cell)
        _show_runs_of_cells(undo, shell, notebook, cell)
        watch_clears(undo, shell)
        ask_in_turn(undo, shell)
        _share_streams(undo, shell)
        _help_to_write(undo, shell, notebook)
        _show_errors(undo, shell, config)
        _show_results(undo, shell, notebook)
        notebook.undo = undo.pop_all()
    if text := describe_on_load():
        print(text)


def unload(shell: Any) -> None:
    """``%unload_ext agf_magics``. The registry stays as it is."""
    magics = shell.magics_manager.registry.get(NAME)
    if magics is None:
        return
    magics.notebook.undo.close()
    from ..engine.host.loop import EngineLoop

    if any(thread.name == "agf-engine" for thread in threading.enumerate()):
        EngineLoop.current().abandon()
    from ..languages.graph.prompts.jinja_process import RENDERER

    RENDERER.close()


def _add_magics(undo: ExitStack, shell: Any, notebook: Any) -> None:
    """Put the magics of all groups into the shell."""
    from .magics.definitions import DefinitionMagics
    from .magics.explain import ExplainMagics
    from .magics.history import HistoryMagics
    from .magics.inline import InlineMagics
    from .magics.languages import LanguageMagics
    from .magics.lessons import LessonMagics
    from .magics.mcp import McpMagics
    from .magics.pipeline import PipelineMagics
    from .magics.workers import WorkerMagics

    kinds = (
        PipelineMagics,
        DefinitionMagics,
        LanguageMagics,
        InlineMagics,
        HistoryMagics,
        ExplainMagics,
        LessonMagics,
        WorkerMagics,
        McpMagics,
    )
    # All groups are made before the first is registered: if one raises here, no magic has changed.
    groups = [kind(shell, notebook) for kind in kinds]
    for magics in groups:
        # `Magics.__init__` of IPython has added the group to the shell's configurables.
        undo.callback(shell.configurables.remove, magics)
        _register(undo, shell, magics)


def _watch_cells(undo: ExitStack, shell: Any, notebook: Any) -> None:
    """Read the text of each cell before it runs, and tell open explorers of an edit after it. The cell
    that loads the extension runs already."""
    from .explorer.edited_cells import note_cell
    from .explorer.open_views import note_replaced, tell_edited

    _put(undo, shell.input_transformers_cleanup, notebook.add_body, first=True)
    note_cell(shell)
    _on_event(undo, shell, "pre_run_cell", functools.partial(note_cell, shell))
    _on_event(undo, shell, "pre_run_cell", note_replaced)
    _on_event(undo, shell, "post_run_cell", tell_edited)


def _share_streams(undo: ExitStack, shell: Any) -> None:
    """Let runs take stdout and stderr when they print, and give them back around each cell."""
    from ..engine.threads.prints import Streams

    undo.callback(setattr, Streams, "deferred", Streams.deferred)
    Streams.deferred = True
    for event in ("pre_run_cell", "post_run_cell"):
        _on_event(undo, shell, event, _put_back)


def _help_to_write(undo: ExitStack, shell: Any, notebook: Any) -> None:
    """Answer Shift-Tab, and report problems and completions to the editor of a cell."""
    from .completion import editor, shift_tab

    shift_tab.install_inspector(undo, shell, notebook.registry)
    editor.install_problems(undo, shell, notebook.registry)


def _show_errors(undo: ExitStack, shell: Any, config: Any) -> None:
    """Show our errors with the text of the cell, and advise on errors of Python."""
    from .display import error_advice, error_display

    def is_full() -> bool:
        return bool(config.traceback == "full")

    error_display.install_rendering(undo, shell, is_full)
    error_advice.install_advice(undo, shell, is_full)


def _show_results(undo: ExitStack, shell: Any, notebook: Any) -> None:
    """Show a run that is the value of a cell, unless the cell shows it already."""
    from .display.result_formats import install_formats

    install_formats(undo, shell, lambda run: notebook.is_shown(run) or notebook.show_again(run))


def _on_event(undo: ExitStack, shell: Any, event: str, callback: Any) -> None:
    """Call a function at an event of the shell until the extension is unloaded."""
    shell.events.register(event, callback)
    undo.callback(shell.events.unregister, event, callback)


def _watch_running_cell(undo: ExitStack, shell: Any) -> Any:
    """Know which cell runs."""
    from .display.background_failures import RunningCell

    cell = RunningCell()
    _on_event(undo, shell, "pre_run_cell", cell.begin)
    _on_event(undo, shell, "post_run_cell", cell.end)
    return cell


def _show_runs_of_cells(undo: ExitStack, shell: Any, notebook: Any, cell: Any) -> None:
    """Show the runs that cells start with functions of Python."""
    from ..settings.settings import current
    from .display.cell_runs import CellRuns

    undo.callback(setattr, current, "viewer", current.viewer)
    runs = CellRuns(notebook, cell)
    current.viewer = runs.find
    _on_event(undo, shell, "post_run_cell", runs.finish)


def _install_askers(undo: ExitStack, shell: Any, config: Any, cell: Any) -> None:
    """Let runs ask their questions and tell their failures in the notebook while the extension is
    loaded."""
    from ..lifecycle.runs.live import live
    from ..settings.settings import current
    from .display.background_failures import failure_watcher
    from .display.background_questions import asker, cell_asker
    from .display.view import is_watched, view_mode

    undo.callback(setattr, current, "ask", current.ask)
    undo.callback(setattr, current, "ask_in_background", current.ask_in_background)

    def has_views() -> bool:
        return view_mode(config.progress, shell) == "widget"

    if is_watched(shell):
        undo.callback(setattr, live, "watch", live.watch)
        live.watch = failure_watcher(has_views, cell, config)
    current.ask = cell_asker(has_views)
    current.ask_in_background = asker(has_views) if is_watched(shell) else None
    from .output.message_queue import message_taker

    take_messages = message_taker(getattr(shell, "kernel", None))
    if take_messages is not None:
        undo.callback(setattr, current, "meanwhile", current.meanwhile)
        current.meanwhile = take_messages


def _put_back(_: object = None) -> None:
    """Give stdout and stderr back to the cell, if a run has taken them."""
    from ..engine.threads.prints import Streams

    Streams.put_back()


def _complete(undo: ExitStack, shell: Any, notebook: Any) -> None:
    """Answer Tab. IPython before 8.6, which Colab has, does not ask about a whole cell."""
    from IPython.core import completer

    if not hasattr(completer, "context_matcher"):
        return
    from .completion.tab import known, matcher

    _put(undo, shell.Completer.custom_matchers, matcher(lambda: known(notebook, shell)))


def _forget(shell: Any, before: Any) -> None:
    """Restore the settings of a process without a notebook, and undo ``%config``: the shell would keep
    the values for the next object that is named AgfMagics."""
    from ..settings import settings

    settings.current.settings = settings.without_files()
    shell.config.pop("AgfMagics", None)
    if before is not None:
        shell.config["AgfMagics"] = before


def _put(undo: ExitStack, target: list[Any], item: Any, first: bool = False) -> None:
    """Put an item into a list of the shell until the extension is unloaded."""
    target.insert(0 if first else len(target), item)
    undo.callback(lambda: target.remove(item) if item in target else None)


def _watch_end(undo: ExitStack, shell: Any) -> None:
    """Notice the request to end the kernel. The request sets ``exit_now`` of the shell, on the thread of
    the kernel's control channel."""
    from ..lifecycle.runs.live import live

    def ending(change: Any) -> None:
        if change["new"]:
            live.leave_open()

    if shell.has_trait("exit_now"):
        shell.observe(ending, "exit_now")
        undo.callback(shell.unobserve, ending, "exit_now")


def _close_workers() -> None:
    from ..workers.started_backends import started

    started.close()


def _close_servers() -> None:
    from .magics.mcp import connected

    if (servers := connected()) is not None:
        servers.close_all()


def _cancel_background_runs() -> None:
    """Cancel background runs and fire-and-forget calls, and wait a little for their ends."""
    from ..engine.host.background_calls import cancel_background_calls
    from ..lifecycle.runs.live import live

    cancel_background_calls()
    background = [run for run in live.running if run.background]
    for run in background:
        run.cancel("the extension was unloaded")
    until = time.monotonic() + PATIENCE
    for run in background:
        run.wait(max(0.0, until - time.monotonic()))
    live.forget()


def _register(undo: ExitStack, shell: Any, magics: Any) -> None:
    """Register the magics; unloading restores the magics that had the same names before."""
    manager = shell.magics_manager
    # IPython 9 imports a magic when it is looked for, and a later import would replace ours.
    older = {name: shell.find_line_magic(name) for name in magics.replaced}
    tables = {kind: dict(table) for kind, table in manager.magics.items()}
    shell.register_magics(magics)
    for kind, names in magics.magics.items():
        for name in names:
            undo.callback(_restore, manager.magics[kind], name, tables[kind].get(name))
            if kind == "line" and (before := older.get(name)) is not None:
                ours = manager.magics[kind][name]
                manager.magics[kind][name] = _either(ours, before, magics.replaced[name])
    undo.callback(manager.registry.pop, type(magics).__name__, None)


def _either(ours: Any, before: Any, lines: re.Pattern[str]) -> Any:
    """Our line magic, except for lines that match ``lines``: the magic ``before`` it gets these."""

    @functools.wraps(ours)
    def magic(line: str, **named: Any) -> Any:
        return before(line) if lines.fullmatch(line.strip()) else ours(line, **named)

    return magic


def _restore(table: dict[str, Any], name: str, before: Any) -> None:
    if before is None:
        table.pop(name, None)
    else:
        table[name] = before
