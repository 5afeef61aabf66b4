"""Outputs of a cell that are shown once or can be replaced. IPython's functions for it have no
types.

The picture of a run, drawn in the background: a run does not wait for graphviz.

The thread ends by itself, because a layout has a limit of work. Nothing that happens on it is
printed into a cell.

Questions in the notebook: typed while a cell waits for its run, answered in the explorer while a
run is in the background.

`input` works in a cell that waits, in every kernel, where only some kernels receive the clicks of a
page. For a background run no cell waits for input: its explorer has a field for each open question,
and the document only the question and its answer as text.

The registered flows, tools and agents as one page.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar

from IPython import get_ipython
from IPython.display import DisplayHandle, display

from ..catalog import Agent, ModelAgent, Registry
from ..engine.host import NoUser
from ..flow.events import Question
from ..flow.progress import Progress
from ..flow.steps import Flow, outermost
from ..flow.values import Value
from ..lifecycle.input import format_question, parse_answer
from ..lifecycle.run import Run
from ..pictures.diagram import SMALLEST, Diagram
from ..pictures.plain import counted, html, line
from ..pictures.values import list_rows
from ..text.late_imports import IN_BROWSER

Bundle = dict[str, Any]
"""A text for each MIME type."""

VSCODE = "__vsc_ipynb_file__"
"""The name that VS Code sets in the namespace of each kernel that it uses, also of a remote one."""

EMPTY: Bundle = {"text/html": "", "text/plain": ""}
"""An output that keeps a place."""


def in_frames() -> bool:
    """Whether the front end shows each output in a frame of its own. The page's script cannot find
    an element there, so the output has the explorer as a widget during the run. `VSCODE_PID` does
    not tell: a JupyterLab that was started in a terminal of VS Code has it, a remote kernel of VS
    Code has not."""
    names = getattr(get_ipython(), "user_ns", {})
    return "COLAB_RELEASE_TAG" in os.environ or VSCODE in names


def hears_while_busy(shell: Any) -> bool:
    """Whether the kernel receives messages while a cell waits (ipykernel 7). Without it there is no
    button. JupyterLite hands its kernel one message at a time: `kernel_info` names no subshells."""
    kernel = getattr(shell, "kernel", None)
    return "kernel subshells" in getattr(kernel, "kernel_info", {}).get("supported_features", ())


def receive_while_busy(channel: Any) -> None:
    """Let the kernel receive the messages of a comm while a cell waits, if the kernel has
    subshells.

    ipykernel 7.4 sends them to the shell that opened the comm, which may be the one that waits.
    """
    if hasattr(channel, "_reply_subshell_for"):
        channel._reply_subshell_for = lambda data, default: default


def show(bundle: Bundle) -> None:
    display(bundle, raw=True)  # type: ignore[no-untyped-call]


class OutputSlot:
    """One output, which keeps its place among everything that is printed later."""

    def __init__(self) -> None:
        self._handle: DisplayHandle | None = None
        self._lock = threading.Lock()

    def reserve(self, first: Bundle) -> None:
        """Show ``first``; a second call does nothing."""
        with self._lock:
            if self._handle is None:
                self._handle = display(first, raw=True, display_id=True)  # type: ignore[no-untyped-call]

    def put(self, bundle: Bundle) -> None:
        """Replace the output."""
        self.reserve({})
        assert self._handle is not None
        self._handle.update(bundle, raw=True)  # type: ignore[no-untyped-call]


class Drawing:
    """The picture of one flow. `begin` may come from any thread, the others too."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._diagram: Diagram | None = None
        """Set when it is drawn."""
        self._thread: threading.Thread | None = None

    def begin(self, show: Callable[[Bundle], object]) -> None:
        """Draw the picture on a thread of its own, which then calls ``show`` with it."""
        if IN_BROWSER:
            return self._draw(show)
        # In the context of the cell, to which the output of the thread then belongs.
        context = contextvars.copy_context()
        self._thread = threading.Thread(
            target=context.run, args=(self._draw, show), name="agf-picture", daemon=True
        )
        return self._thread.start()

    def html(self, progress: Progress) -> str:
        """The picture in the colours of a run; empty as long as it is not ready."""
        drawn = self._diagram
        return drawn.of_run(progress).html(SMALLEST) if drawn is not None else ""

    def wait(self) -> None:
        """Wait until it is ready and shown; not at all without `begin`."""
        if self._thread is not None:
            self._thread.join()

    def _draw(self, show: Callable[[Bundle], object]) -> None:
        with suppress(Exception):  # a mistake of this package is no reason to print into the cell
            diagram = Diagram(self._flow)
            bundle: Bundle = dict(diagram._repr_mimebundle_())
            self._diagram = diagram
            show(bundle)


def accompany(
    run: Run,
    seconds: float,
    tick: Callable[[], object],
    close: Callable[[], object],
    name: str,
) -> None:
    """Call ``tick`` every ``seconds`` until the end of ``run``, then ``close``: on a thread of this
    ``name``, in a browser on the loop of the run."""
    if run.done:  # it may have ended before it had a loop
        close()
        return None
    if IN_BROWSER:
        assert run._job is not None
        return run._job.every(seconds, tick, close)

    def show() -> None:
        while not run.wait(seconds).done:
            tick()
        close()

    # In the context of the cell, to which the output of the thread then belongs.
    context = contextvars.copy_context()
    return threading.Thread(target=context.run, args=(show,), name=name, daemon=True).start()


class PendingQuestion:
    """A question of a background run that waits for an answer of a page. Its methods may be called
    by any thread."""

    _open: ClassVar[list[PendingQuestion]] = []

    def __init__(self, question: Question, answer: asyncio.Future[Value]) -> None:
        self.question, self._answer, self._loop = question, answer, answer.get_loop()
        PendingQuestion._open.append(self)

    @classmethod
    def of(cls, question: Question) -> PendingQuestion | None:
        """The pending answer to this question; None if it does not wait, or waits in a cell."""
        return next((pending for pending in list(cls._open) if pending.question is question), None)

    async def wait(self) -> Value:
        """The answer. Raises NoUser after `give_up`."""
        return await self._answer

    def answer(self, text: str) -> bool:
        """Answer as if ``text`` were typed; False if it is not an answer to the question."""
        found = parse_answer(self.question, text)
        if found is not None:
            self._settle(found)
        return found is not None

    def choose(self, number: int) -> bool:
        """Answer with the choice of this number, which counts from 0; False if there is no such
        choice."""
        known = 0 <= number < len(self.question.choices)
        if known:
            self._settle(self.question.choices[number])
        return known

    def give_up(self) -> None:
        """End the question without an answer: no page shows it."""
        self._settle(NoUser())

    def _settle(self, found: Value | NoUser) -> None:
        """The first answer counts."""

        def set_once() -> None:
            if self._answer.done():
                return
            if isinstance(found, NoUser):
                self._answer.set_exception(found)
            else:
                self._answer.set_result(found)

        self._loop.call_soon_threadsafe(set_once)

    def close(self) -> None:
        PendingQuestion._open.remove(self)


def describe_answer(question: Question, answer: Value) -> str:
    """An answer for the document, which must not have secrets: a typed text may be one."""
    if isinstance(answer, bool):
        return "yes" if answer else "no"
    if isinstance(answer, dict):
        return "changed"
    return str(answer) if question.choices else "answered"


def frozen(question: Question, answer: str) -> dict[str, str]:
    """The question and its answer for the saved notebook."""
    shown = line(answer, 300)
    return {
        "text/html": f"{_page(question)}<div>→ <strong>{html(shown)}</strong></div>",
        "text/plain": f"? {format_question(question)}\n→ {shown}",
    }


def _page(question: Question) -> str:
    text = html(format_question(question._replace(choices=())))
    where = (
        f' <code style="opacity:0.75">{html(line(question.where, 100))}</code>'
        if question.where
        else ""
    )
    return (
        f'<div style="white-space:pre-wrap;line-height:1.4"><strong>?</strong> {text}{where}</div>'
    )


_COLUMNS = ("name", "arguments", "description", "tools", "answers")


def flows(registry: Registry) -> Bundle:
    rows = [
        (
            line(flow.name, 60),
            flow.language,
            f"{len(outermost(flow)):,}",
            line(", ".join(dict.fromkeys(str(ref.path[-1]) for ref in flow.inputs)), 80),
            line(flow.declared.description, 100),
        )
        for flow in registry.flows.values()
    ]
    columns = ("name", "language", "steps", "inputs", "description")
    return list_rows(
        columns,
        rows,
        counted(len(rows), "flow"),
        "no flows are registered: define one with %%pipeline",
    )


def tools(registry: Registry, name: str | None = None) -> Bundle:
    """Tools and agents; ``name``: only the tool and the agent of this name."""
    rows = [
        (
            line(tool.name, 60),
            line(tool.takes, 100),
            line(tool.description, 100),
            tool.where or "",
            line(", ".join(sorted(tool.secret)), 60),
        )
        for tool in registry.tools.values()
        if name in (None, tool.name)
    ]
    agents = [
        _agent(agent, agent is registry.agents.default)
        for agent in registry.agents.values()
        if name in (None, agent.name)
    ]
    columns = ("name", "arguments", "description", "runs", "secret")
    none = "no tools are registered: put @tool above a function"
    tables = (
        [list_rows(columns, rows, counted(len(rows), "tool"), none)] if rows or not agents else []
    )
    return _joined(
        *tables,
        *([list_rows(_COLUMNS, agents, counted(len(agents), "agent"), "")] if agents else []),
    )


def everything(registry: Registry) -> Bundle:
    return _joined(flows(registry), tools(registry))


def _joined(*tables: Bundle) -> Bundle:
    return {
        "text/html": "".join(one["text/html"] for one in tables),
        "text/plain": "\n\n".join(one["text/plain"] for one in tables),
    }


def _agent(agent: Agent | ModelAgent, is_default: bool) -> tuple[str, ...]:
    tools = "all" if agent.tools is None else ", ".join(agent.tools) or "none"
    answers = "if no identity is named" if is_default else "by its name"
    return (
        line(agent.name, 60),
        line(_takes(agent), 100),
        line(agent.description, 100),
        line(tools, 80),
        answers,
    )


def _takes(agent: Agent | ModelAgent) -> str:
    if isinstance(agent, ModelAgent):
        return (
            f"prompt, for {agent.model.name if agent.model is not None else 'the configured model'}"
        )
    return ", ".join(agent.takes.parameters)
