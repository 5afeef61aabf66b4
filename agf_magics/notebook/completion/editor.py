"""The questions of the front end through a comm: problems, help, and to open the run of a saved page.

Problems and help are for the editor in which a person writes a cell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from importlib.util import find_spec
from logging import DEBUG
from typing import Any

from ...catalog import Registry
from ...editor.problems import LONGEST_CELL, problems_of
from ...editor.word_help import MOST_TOOLTIP, describe
from ...pictures.plain import plain
from ...text.giving_up import giving_up
from ..explorer.run_channel import open_again
from ..output.front_end import page
from ..output.receiving import receive_while_busy

TARGET = "agf-magics.problems"
"""The target of the comm: the page's script listens under this name."""


def install_problems(undo: ExitStack, shell: Any, registry: Registry) -> None:
    """Answer the questions in a kernel. Does nothing in a shell without a kernel, and in a kernel without
    the package comm (ipykernel before 6.19)."""
    if getattr(shell, "kernel", None) is None or find_spec("comm") is None:
        return
    import comm

    # Not announced (`primary`): a front end opens the comm by its target, also after a reload.
    channel = comm.create_comm(target_name=TARGET, primary=False)
    channel.on_msg(_answerer(channel.send, registry))
    receive_while_busy(channel)
    manager = comm.get_comm_manager()
    manager.register_comm(channel)
    undo.callback(channel.close)


def _described(code: str, at: object, registry: Registry) -> str:
    """The help of `describe` as a text for a page; empty if there is no help."""
    if type(at) is not int or not 0 <= at <= len(code) <= LONGEST_CELL:
        return ""
    return plain(describe(code, at, registry) or "", MOST_TOOLTIP)


def _answerer(
    send: Callable[[dict[str, Any]], object], registry: Registry
) -> Callable[[dict[str, Any]], None]:
    """A function that answers the messages of a page: ``{id, text}`` by ``{id, problems}``, ``{id, open,
    mark}`` (see `open_again`) by ``{id, why}``, and ``{id, help, at}`` (see `describe`) by ``{id,
    text}``."""

    answers: Mapping[str, Callable[[str, dict[str, Any]], dict[str, Any]]] = {
        "open": lambda run, data: {"why": open_again(run, str(data.get("mark")))},
        "help": lambda cell, data: {"text": _described(cell, data.get("at"), registry)},
        "text": lambda cell, data: {"problems": problems_of(cell, registry)},
    }

    def answer(message: dict[str, Any]) -> None:
        data = message.get("content", {}).get("data")
        for asked, reply in answers.items() if isinstance(data, dict) else ():
            if isinstance(data.get(asked), str):
                told: dict[str, Any] = {"why": "this cannot be shown", "text": "", "problems": []}
                # Another thread may change the registry; help is never worth an error.
                with giving_up(__name__, "the editor's question has no answer", DEBUG):
                    told = reply(data[asked], data)
                send({"id": data.get("id"), **told})
                break
        page.note_answer()

    return answer
