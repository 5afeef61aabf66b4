"""Pipelines of tools and agents in a notebook: define in a cell, see the picture, run it, watch it,
resume it.

In a notebook, use ``%load_ext agf_magics``. In Python, register functions with `tool` and `agent`;
`define`, `load`, `run`, `arun`, `start`, `resume`, `rerun`, `evaluate` and `draw` do what the
magics do. Functions use `registry`, the registry of this process, unless they get another one as
``registry=``.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from .compat.browser import IN_BROWSER
from .compat.collection import pause_collection
from .pictures.widget_hook import Widgets

with pause_collection():
    from .catalog import (
        Registry,
        Retry,
        ToolContext,
        agent,
        default,
        install,
        model_agent,
        policy,
        tool,
        transform,
    )
    from .engine.threads.call_threads import running
    from .flow.flow import Flow
    from .flow.progress.events import Event
    from .flow.progress.question import Question
    from .lifecycle.definitions.define import define, load
    from .lifecycle.definitions.evaluate import evaluate
    from .lifecycle.launch.find_flow import find_flow
    from .lifecycle.launch.launch import arun, run, start
    from .lifecycle.past.export import export
    from .lifecycle.past.import_run import import_run
    from .lifecycle.past.past_run import PastRun
    from .lifecycle.past.past_runs import runs
    from .lifecycle.past.rerun import rerun
    from .lifecycle.past.resume import resume
    from .lifecycle.runs.run import Run, RunCancelled, RunInterrupted
    from .lifecycle.runs.states import States
    from .limits.limits import Limits
    from .settings.folders import own_files
    from .settings.settings import current
    from .text.diagnostics import AgfError, DefinitionError, Diagnostic, StepError
    from .text.folder import notebook_folder
    from .version import __version__ as __version__

if TYPE_CHECKING:
    from . import mcp, planning
    from .lifecycle import agent_tools
    from .lifecycle.forecasts.stale import stale
    from .lifecycle.launch.tracing import trace_to
    from .lifecycle.planning.contexts import NamedContext, context
    from .lifecycle.recordings.recording import record
    from .lifecycle.recordings.replay import replay
    from .lifecycle.recordings.replayed_model import replay_model
    from .lifecycle.scoring.checks import CheckFailed, check_over
    from .lifecycle.scoring.scorers import score_over
    from .lifecycle.scoring.table_comparison import compare_over
    from .lifecycle.table_runs.over import Over
    from .notebook.report import report
    from .pictures.diagram import Diagram
    from .workers.on import Workers
else:
    _LATE = {
        "CheckFailed": ".lifecycle.scoring.checks",
        "NamedContext": ".lifecycle.planning.contexts",
        "Over": ".lifecycle.table_runs.over",
        "Workers": ".workers.on",
        "agent_tools": ".lifecycle.agent_tools",
        "compare_over": ".lifecycle.scoring.table_comparison",
        "score_over": ".lifecycle.scoring.scorers",
        "check_over": ".lifecycle.scoring.checks",
        "context": ".lifecycle.planning.contexts",
        "mcp": ".mcp",
        "planning": ".planning",
        "stale": ".lifecycle.forecasts.stale",
        "report": ".notebook.report",
        "trace_to": ".lifecycle.launch.tracing",
        "record": ".lifecycle.recordings.recording",
        "replay": ".lifecycle.recordings.replay",
        "replay_model": ".lifecycle.recordings.replayed_model",
    }
    """The module that defines a name, or that the name is."""
    _LAUNCHES = (
        "launch_tools",
        "run_pipeline",
        "run_pipeline_async",
        "run_pipeline_inline",
        "run_pipeline_inline_async",
        "run_result",
    )
    _MOVED = {
        **{name: f"agent_tools.{name}" for name in _LAUNCHES},
        "Message": "planning.Message",
        "Runs": "runs() for the list of runs",
        "branch": "planning.branch",
        "ticks": "planning.run_planner",
    }
    """Former names of this module."""

    def __getattr__(name: str) -> Any:
        """Import contexts, planners and the tools for agents on first use: most notebooks need none
        of them."""
        if name not in _LATE:
            moved = f": use agf_magics.{_MOVED[name]}" if name in _MOVED else ""
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}{moved}")
        module = import_module(_LATE[name], __name__)
        globals()[name] = getattr(module, name, module)
        return globals()[name]

    def __dir__() -> list[str]:
        return sorted({*globals(), *_LATE})


registry: Registry = default()
# file__read, file__write, shell and sql are there from the start (decision A14); a fresh Registry() is
# empty
install(
    registry,
    folder=lambda: notebook_folder.path,
    allow_shell=lambda: current.settings.allow_shell,
    switch=lambda: current.words.switch("allow_shell"),
    stopped=lambda: running.call is not None and running.call.must_stop(),
    protected=own_files,
)


def _widget_of(shown: Any) -> Any:
    from .notebook.explorer.widget import widget_of

    return widget_of(shown)


def _states_of(run: Any) -> States:
    from .lifecycle.forecasts.moments import find_moments

    moments = find_moments(run)
    states = States(
        {
            "number": number,
            "after": moments[number].label,
            "seconds": moments[number].seconds,
            "state": moments.state(number),
        }
        for number in range(len(moments))
    )
    states.note = moments.note
    return states


Widgets.of = _widget_of
States.of = _states_of
if IN_BROWSER:
    from .compat.json_depth import bound_json

    bound_json()
registry.configured = lambda: (current.settings.model, current.settings.model_base_url)


def draw(
    flow: Flow | str | Path | Run | PastRun,
    *,
    direction: Literal["auto", "LR", "TB"] = "auto",
    registry: Registry | None = None,
) -> Diagram:
    """Return the picture of a flow, or of a run with the states of its steps.

    Parameters:

    - ``flow``: a `Flow`, the name of a registered flow, the `Path` of a file, the text of a
      definition, a `Run` or a `PastRun`. Required.
    - ``direction``: ``"LR"``: from left to right; ``"TB"``: from top to bottom. Default ``"auto"``:
      the one that is lower and can be read.
    - ``registry``: the `Registry` to look names up in. Default None: the registry of this process.
    """
    from .lifecycle.definitions.linking import link_flow
    from .lifecycle.run_internals import linked_flow
    from .pictures.diagram import Diagram

    if isinstance(flow, Run | PastRun):
        return Diagram(flow.flow, flow.progress, direction, linked_flow(flow).callees)
    names = default(registry)
    definition = find_flow(flow, names)
    return Diagram(definition, None, direction, link_flow(definition, names)[0].callees)


def load_ipython_extension(shell: Any) -> None:
    """``%load_ext agf_magics``"""
    with pause_collection():
        from .notebook import load

        load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """``%unload_ext agf_magics``"""
    from .notebook import unload

    unload(shell)


__all__ = [
    "AgfError",
    "CheckFailed",
    "DefinitionError",
    "Diagnostic",
    "Event",
    "Flow",
    "Limits",
    "NamedContext",
    "Over",
    "PastRun",
    "Question",
    "Registry",
    "Retry",
    "Run",
    "RunCancelled",
    "RunInterrupted",
    "StepError",
    "ToolContext",
    "Workers",
    "agent",
    "agent_tools",
    "arun",
    "check_over",
    "compare_over",
    "context",
    "define",
    "draw",
    "evaluate",
    "export",
    "import_run",
    "load",
    "mcp",
    "model_agent",
    "planning",
    "policy",
    "record",
    "registry",
    "replay",
    "replay_model",
    "report",
    "rerun",
    "resume",
    "run",
    "runs",
    "score_over",
    "stale",
    "start",
    "tool",
    "trace_to",
    "transform",
]
