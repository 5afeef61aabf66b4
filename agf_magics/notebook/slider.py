"""The context of a plan: a slider over its messages, and for a saved notebook a table of them."""

from __future__ import annotations

from typing import Any

from ..languages.plan import Log
from ..pictures.plain import html, line
from .output import Bundle
from .timeline import messages, state


def bundle(name: str, log: Log, alive: bool) -> Bundle:
    """The display of the context ``name``. ``alive``: whether the front end shows widgets."""
    page = static(name, log)
    return {**slider(log)._repr_mimebundle_(), **page} if alive and len(log) else page


def static(name: str, log: Log) -> Bundle:
    title = f"context {line(name, 80)}"
    now, all_ = state(log), messages(log)
    folded = f"<details><summary>{html(all_.title)}</summary>{all_.html}</details>" if len(log) else ""
    page = f"<p><strong>{html(title)}</strong></p>{now.html}{folded}"
    return {"text/html": page, "text/plain": "\n\n".join([title, now.text, all_.text])}


def slider(log: Log) -> Any:
    """A slider from 0 messages to all of them, and the state after so many."""
    import ipywidgets  # type: ignore[import-untyped]

    page = ipywidgets.HTML(_at(log, len(log)))
    wide = ipywidgets.Layout(width="min(100%, 640px)")
    knob = ipywidgets.IntSlider(len(log), 0, len(log), description="messages", layout=wide)

    def moved(change: dict[str, Any]) -> None:
        page.value = _at(log, change["new"])

    knob.observe(moved, "value")
    return ipywidgets.VBox([knob, page])


def _at(log: Log, count: int) -> str:
    return f'<div style="line-height:1.4">{state(log.until(count)).html}</div>'
