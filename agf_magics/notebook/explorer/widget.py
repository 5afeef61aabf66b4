"""A run or a picture as an ordinary widget, which a person places in a box, an app or a Voilà page.

Such a widget has a model of its own. A saved document has the widget and no static page, so it needs its
kernel, as every widget does. The explorers of cells have a static page instead (decision D57).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ...engine.linking.linked import Linked
from ...flow.progress.progress import Progress
from ...lifecycle.past.past_run import PastRun
from ...lifecycle.runs.run import Run
from ...pictures.diagram import Diagram
from ...pictures.pages.updates import Updates, describe_tree
from ...pictures.plain import line
from ...pictures.row_words import does
from .open_views import Answers
from .request_types import Json, Refused
from .requests import describe_definition, picture_json
from .run_channel import Channel

if TYPE_CHECKING:
    from .widget_model import Model


def widget_of(shown: Run | PastRun | Diagram) -> Model:
    """The explorer of a run, or a picture that can be moved and folded, as an ipywidget."""
    if isinstance(shown, Diagram):
        return _picture(shown)
    channel = Channel(shown, waits=False, show=lambda _: None, alone=True)
    channel.keep_up()
    return channel.model


def _picture(diagram: Diagram) -> Model:
    linked, progress = Linked(diagram.flow, {}), diagram.progress or Progress(diagram.flow)
    begin = {
        "tree": describe_tree(progress),
        "update": {"n": 0, **Updates(progress).complete(time.monotonic()), "live": False},
        "hears": True,
        "draw": True,
        "alone": True,
        "notices": False,
    }

    def step(arguments: Json) -> Json:
        row = next((row for row in progress.rows.values() if row.id == arguments.get("step")), None)
        if row is None or row.step.span is None:
            raise Refused("the picture has no such step")
        return {
            "id": line(row.id, 200),
            "word": line(row.word, 24),
            "name": line(row.name, 400),
            "does": line(does(row), 400),
            "state": row.state,
            "words": "not run",
            "definition": describe_definition(row.step.span),
        }

    name = line(diagram.flow.name, 80)
    requests = {
        "start": lambda _: {**begin, "id": ""},
        "run": lambda _: {"name": name, "id": "", "stores": [], "dropped": [], "warnings": []},
        "picture": lambda arguments: picture_json(linked, arguments),
        "step": step,
    }
    return Answers({**begin, "id": ""}, requests, alone=True).model
