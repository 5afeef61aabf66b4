"""Pipelines of tools and agents in a notebook: define in a cell, see the picture, run it, watch it, be told what is
wrong.

In a notebook: ``%load_ext agf_magics``. In Python: `define`, `load`, `run`, `arun`, `evaluate`, `draw`, with `tool` and
`agent` to register functions. Everything the sugar here does without a ``registry=`` uses the one of this process.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import pictures as _draw  # noqa: F401  # now: imported later, the package would hide the function of its name
from .catalog import Registry, agent, default, install, model_agent, policy, tool, transform
from .definitions.define import define, evaluate, load
from .flow.steps import Flow
from .host.limits import Limits
from .host.threads import here
from .lifecycle.agent_tools import (
    launch_tools,
    run_pipeline,
    run_pipeline_async,
    run_pipeline_inline,
    run_pipeline_inline_async,
    run_result,
)
from .lifecycle.launch import Run, RunCancelled, arun, find, run, start
from .lifecycle.past_run import PastRun
from .lifecycle.past_runs import Runs, runs
from .lifecycle.persistence import own_files
from .lifecycle.resume import resume
from .planning.planner import ticks
from .settings import current
from .text.diagnostics import AgfError, DefinitionError, Diagnostic, StepError

if TYPE_CHECKING:
    from .languages.plan import Message, branch
    from .pictures.diagram import Diagram
    from .planning.context import NamedContext, context
else:
    _LATE = {
        **dict.fromkeys(("NamedContext", "context"), ".contexts"),
        **dict.fromkeys(("Message", "branch"), ".languages.plan"),
    }

    def __getattr__(name: str) -> Any:
        """What is about plans is imported when it is first asked for: most notebooks have none."""
        if name not in _LATE:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(_LATE[name], __name__), name)
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *_LATE})


__version__ = "0.1.0"

registry: Registry = default()
install(  # file__read, file__write and shell are there from the start (decision A14); a fresh Registry() is empty
    registry,
    folder=Path.cwd,
    allow_shell=lambda: current.settings.allow_shell,
    stopped=lambda: here.call is not None and here.call.stopped,
    protected=own_files,
)
registry.configured = lambda: (current.settings.model, current.settings.model_base_url)


def draw(flow: Flow | str | Path | Run | PastRun, *, registry: Registry | None = None) -> Diagram:
    """Return the picture of a flow, or of a run with the states of its steps.

    Parameters:

    - ``flow``: a `Flow`, the name of a registered flow, the `Path` of a file, the text of a definition, a `Run` or a
      `PastRun`. Required.
    - ``registry``: the `Registry` to look names up in. Default None: the registry of this process.
    """
    from .pictures.diagram import Diagram

    if isinstance(flow, Run | PastRun):
        return Diagram(flow.flow, flow.progress)
    return Diagram(find(flow, registry or default()))


def load_ipython_extension(shell: Any) -> None:
    """``%load_ext agf_magics``"""
    from .notebook import load

    load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """``%unload_ext agf_magics``"""
    from .notebook import unload

    unload(shell)


__all__ = [
    "AgfError",
    "DefinitionError",
    "Diagnostic",
    "Flow",
    "Limits",
    "Message",
    "NamedContext",
    "PastRun",
    "Registry",
    "Run",
    "RunCancelled",
    "Runs",
    "StepError",
    "agent",
    "arun",
    "branch",
    "context",
    "define",
    "draw",
    "evaluate",
    "launch_tools",
    "load",
    "model_agent",
    "policy",
    "registry",
    "resume",
    "run",
    "run_pipeline",
    "run_pipeline_async",
    "run_pipeline_inline",
    "run_pipeline_inline_async",
    "run_result",
    "runs",
    "start",
    "ticks",
    "tool",
    "transform",
]
