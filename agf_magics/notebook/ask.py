"""Questions in the notebook: typed while a cell waits for its run, clicked while a run is in the background.

`input` works in a cell that waits, in every kernel, where only some kernels receive the clicks of a widget. For a
background run no cell waits for input.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from ..flow.values import Value
from ..lifecycle.answers import ask_at_prompt, change_examples, format_question, parse_answer
from ..pictures.plain import html, line
from ..progress.events import Question
from .output import OutputSlot, receive_while_busy

BUTTONS = 8
"""The most choices that are buttons; more are a list."""


def ask_in_cell(question: Question) -> Value:
    """Ask in the cell that waits for the run."""
    return ask_at_prompt(question)


async def ask_with_widgets(question: Question) -> Value:
    """Ask in the output of the cell that started the run, which then keeps the question and its answer.

    A run that a cell awaits is on the kernel's own loop. Not every kernel receives a click then, so it asks as a cell
    that waits does.
    """
    if threading.current_thread() is threading.main_thread():
        return ask_at_prompt(question)
    answer: asyncio.Future[Value] = asyncio.get_running_loop().create_future()
    slot, form = OutputSlot(), Form(question, answer)
    slot.reserve({**form.box._repr_mimebundle_(), **frozen(question, "waiting for an answer")})
    shown = "not answered: the run has ended"
    try:
        found = await answer
        shown = {True: "yes", False: "no"}[found] if isinstance(found, bool) else str(found)
        return found
    finally:
        slot.put(frozen(question, shown))
        form.close()


class Form:
    """The widgets of one question. Each has the question as its tooltip, and a field also as its label for a screen
    reader, which has no width."""

    _open: ClassVar[list[Form]] = []
    """The questions that wait; an explorer can answer them too."""

    def __init__(self, question: Question, answer: asyncio.Future[Value]) -> None:
        self._question, self._answer, self._loop = question, answer, answer.get_loop()
        self._title = line(question.text, 200)
        self._label: Any = {
            "description": self._title, "tooltip": self._title, "style": {"description_width": "0px"}
        }  # fmt: skip
        parts = self._buttons(question) if question.approval or 0 < len(question.choices) <= BUTTONS else None
        import ipywidgets  # type: ignore[import-untyped]

        head = ipywidgets.HTML(_page(question))
        more = self._instead(question) if question.approval and question.arguments is not None else []
        row = ipywidgets.HBox([*(parts or self._field(question)), *more])
        row.layout.flex_flow = "row wrap"
        self.box: Any = ipywidgets.VBox([head, row])
        self._all = [self.box, head, row, *row.children]
        for part in row.children:
            receive_while_busy(part)
        Form._open.append(self)

    @classmethod
    def of(cls, question: Question) -> Form | None:
        """The form of this question; None if it does not wait, or waits in a cell."""
        return next((form for form in list(cls._open) if form._question is question), None)

    def answer(self, text: str) -> bool:
        """Answer as if ``text`` were typed; False if it is not an answer to the question. Any thread."""
        found = parse_answer(self._question, text)
        if found is not None:
            self._give(found)
        return found is not None

    def _button(self, text: str, click: Callable[[], None], **look: str) -> Any:
        import ipywidgets

        button = ipywidgets.Button(description=text, tooltip=f"{text}: {self._title}", **look)
        button.on_click(lambda _: click())
        return button

    def _buttons(self, question: Question) -> list[Any]:
        if question.approval:
            buttons = [
                self._button("Yes", lambda: self._give(True), icon="check", button_style="success"),
                self._button("No", lambda: self._give(False), icon="times"),
            ]
        else:
            buttons = [self._button(line(one, 60), partial(self._give, one)) for one in question.choices]
        for button in buttons:
            button.layout.width = "auto"
        return buttons

    def _field(self, question: Question) -> list[Any]:
        import ipywidgets

        if question.choices:
            choices = [(line(one, 100), one) for one in question.choices]
            field = ipywidgets.Dropdown(options=choices, **self._label)
        else:
            field = self._text("your answer", lambda: self._give(field.value))
        return [field, self._button("Answer", lambda: self._give(field.value), icon="check")]

    def _instead(self, question: Question) -> list[Any]:
        """A field for other arguments or a result in place of the call."""
        wanted = " or ".join(change_examples(question))

        def put() -> None:
            found = parse_answer(question, field.value)
            if isinstance(found, dict):
                self._give(found)
            else:
                field.value, field.placeholder = "", f"please answer {wanted}"

        field = self._text(wanted, put)
        return [field, self._button("Instead", put, icon="pencil")]

    def _text(self, placeholder: str, submit: Callable[[], None]) -> Any:
        """A text field in which the Enter key submits."""
        import ipywidgets

        field = ipywidgets.Text(placeholder=placeholder, **self._label)

        def received(widget: Any, content: dict[str, Any], buffers: Any) -> None:
            if content.get("event") == "submit":
                submit()

        field.on_msg(received)
        return field

    def _give(self, value: Value) -> None:
        """Called by a click, or by an explorer."""

        def set_once() -> None:
            if not self._answer.done():
                self._answer.set_result(value)

        self._loop.call_soon_threadsafe(set_once)

    def close(self) -> None:
        Form._open.remove(self)
        for widget in self._all:
            widget.close()


def _page(question: Question) -> str:
    text = html(format_question(question._replace(choices=())))
    where = f' <code style="opacity:0.75">{html(line(question.where, 100))}</code>' if question.where else ""
    return f'<div style="white-space:pre-wrap;line-height:1.4"><strong>?</strong> {text}{where}</div>'


def frozen(question: Question, answer: str) -> dict[str, str]:
    """The question and its answer for the saved notebook."""
    shown = line(answer, 300)
    return {
        "text/html": f"{_page(question)}<div>→ <strong>{html(shown)}</strong></div>",
        "text/plain": f"? {format_question(question)}\n→ {shown}",
    }
