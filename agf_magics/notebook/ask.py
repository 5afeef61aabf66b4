"""Questions in the notebook: typed where a cell waits for its run, clicked where the run goes on in the background.

`input` works in a cell that waits, on every kernel; a widget's clicks are heard there on some alone. Of a run in the
background it is the other way round: no cell is waiting that could be typed into.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from ..flow.values import Value
from ..lifecycle.answers import others, told, typed, understood
from ..pictures.plain import html, line
from ..progress.events import Question
from .output import Slot, heard

BUTTONS = 8
"""Choices that are buttons; more of them are a list."""


def here(question: Question) -> Value:
    """Ask in the cell that waits for the run."""
    return typed(question)


async def behind(question: Question) -> Value:
    """Ask beside the run, in the output of the cell that started it; what stays there is the question and its answer.

    A run that a cell awaits is on the kernel's own loop, which not every kernel lets hear a click meanwhile.
    """
    if threading.current_thread() is threading.main_thread():
        return typed(question)
    answer: asyncio.Future[Value] = asyncio.get_running_loop().create_future()
    slot, form = Slot(), Form(question, answer)
    slot.reserve({**form.box._repr_mimebundle_(), **frozen(question, "waiting for an answer")})
    said = "not answered"
    try:
        found = await answer
        said = {True: "yes", False: "no"}[found] if isinstance(found, bool) else str(found)
        return found
    finally:
        slot.put(frozen(question, said))
        form.close()


class Form:
    """The widgets of one question."""

    def __init__(self, question: Question, answer: asyncio.Future[Value]) -> None:
        self._answer, self._loop = answer, answer.get_loop()
        parts = self._buttons(question) if question.approval or 0 < len(question.choices) <= BUTTONS else None
        import ipywidgets  # type: ignore[import-untyped]

        head = ipywidgets.HTML(_page(question))
        more = self._instead(question) if question.approval and question.arguments is not None else []
        row = ipywidgets.HBox([*(parts or self._field(question)), *more])
        row.layout.flex_flow = "row wrap"
        self.box: Any = ipywidgets.VBox([head, row])
        self._all = [self.box, head, row, *row.children]
        for part in row.children:
            heard(part)

    def _buttons(self, question: Question) -> list[Any]:
        import ipywidgets

        if question.approval:
            yes = ipywidgets.Button(description="Yes", icon="check", button_style="success")
            no = ipywidgets.Button(description="No", icon="times")
            pairs: list[tuple[Any, bool | str]] = [(yes, True), (no, False)]
        else:
            pairs = [(ipywidgets.Button(description=line(one, 60)), one) for one in question.choices]
        for button, value in pairs:
            button.layout.width = "auto"
            button.on_click(lambda _, value=value: self._say(value))
        return [button for button, _ in pairs]

    def _field(self, question: Question) -> list[Any]:
        import ipywidgets

        if question.choices:
            field = ipywidgets.Dropdown(options=[(line(one, 100), one) for one in question.choices])
        else:
            field = ipywidgets.Text(placeholder="your answer")
        button = ipywidgets.Button(description="Answer", icon="check")
        button.on_click(lambda _: self._say(field.value))
        return [field, button]

    def _instead(self, question: Question) -> list[Any]:
        """Where something else is put in the place of the call."""
        import ipywidgets

        field = ipywidgets.Text(placeholder=" or ".join(others(question)))
        button = ipywidgets.Button(description="Instead", icon="pencil")

        def put(_: Any) -> None:
            found = understood(question, field.value)
            if isinstance(found, dict):
                self._say(found)
            else:
                field.value, field.placeholder = "", f"please answer {' or '.join(others(question))}"

        button.on_click(put)
        return [field, button]

    def _say(self, value: Value) -> None:
        """From the kernel's thread."""

        def set_once() -> None:
            if not self._answer.done():
                self._answer.set_result(value)

        self._loop.call_soon_threadsafe(set_once)

    def close(self) -> None:
        for widget in self._all:
            widget.close()


def _page(question: Question) -> str:
    text = html(told(question._replace(choices=())))
    where = f' <code style="opacity:0.6">{html(line(question.where, 100))}</code>' if question.where else ""
    return f'<div style="white-space:pre-wrap;line-height:1.4"><strong>?</strong> {text}{where}</div>'


def frozen(question: Question, said: str) -> dict[str, str]:
    """What stays in the notebook."""
    shown = line(said, 300)
    return {
        "text/html": f"{_page(question)}<div>→ <strong>{html(shown)}</strong></div>",
        "text/plain": f"? {told(question)}\n→ {shown}",
    }
