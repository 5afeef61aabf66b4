"""What the kernel and the page share about explorers: one widget model for all explorers of a
kernel.

A model costs the kernel a millisecond and two messages, so runs are entries of one model, and a new
explorer is one message. Where the front end shows each output in a frame of its own, each explorer
has its own model. The page gets the script with the model.

Imported with the first explorer: the widgets take half of the time of ``%load_ext``.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
import threading
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Protocol

import anywidget
import ipywidgets  # type: ignore[import-untyped]
import traitlets

from ...pictures.pages.wire import wire_script
from ..output.front_end import in_frames, page
from ..output.receiving import receive_while_busy

FOLDER = Path(__file__).parents[1] / "browser"
SCRIPTS = (
    "elements",
    "state",
    "values",
    "picture",
    "steps",
    "panel",
    "notices",
    "extras",
    "explorer",
    "fixed",
    "mount",
)
"""The parts of the script, in the order in which they need each other."""
LATER_SCRIPTS = (
    "table",
    "evaluations",
    "conversation",
    "lanes",
    "overview",
    "tips",
    "calls",
    "runs",
    "later",
)
"""The parts of the script that the page requests when a person opens one of their views."""


@cache
def script() -> str:
    """The script of the page as one module: the style as a text, the names of the fields in messages
    (wire.py), and the parts one after the other, without comments and indents."""
    parts = [(FOLDER / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS]
    return "\n".join([_style("STYLE", "explorer.css"), wire_script(), *map(_shortened, parts)])


@cache
def later_script() -> str:
    """The script of the views that a person opens."""
    parts = [(FOLDER / f"{name}.js").read_text(encoding="utf-8") for name in LATER_SCRIPTS]
    return "\n".join([_style("RUNS_STYLE", "runs.css"), *map(_shortened, parts)])


def _style(name: str, file: str) -> str:
    """A style sheet as a text of the script, without comments and the spaces that mean nothing. Those
    around ``+`` and ``-`` mean something."""
    text = _shortened(_STYLE_COMMENT.sub("", (FOLDER / file).read_text(encoding="utf-8")))
    return f"const {name} = {json.dumps(_STYLE_SPACES.sub(_sign, text))};"


def _sign(found: re.Match[str]) -> str:
    return found[1] or found[2]


@cache
def loader() -> str:
    """The module that each model gets: it unpacks the script, which a page then loads only once."""
    name = f"agf-{hashlib.sha256(script().encode()).hexdigest()[:16]}"
    code = f"{script()}\nglobalThis[{json.dumps(name)}] = ours;"
    packed = base64.b64encode(gzip.compress(code.encode(), mtime=0)).decode()
    text = _shortened((FOLDER / "loader.js").read_text(encoding="utf-8"))
    return text.replace("$NAME", name).replace("$PACKED", packed)


def _shortened(text: str) -> str:
    """``text`` without comments, indents and blank lines. This is safe because no string in our scripts
    goes over several lines."""
    lines = (_COMMENT.sub("", line.strip()) for line in text.splitlines())
    return "\n".join(line for line in lines if line)


_COMMENT = re.compile(r"^//.*|(?<=[;,{}\[\]()]) // .*")
_STYLE_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_STYLE_SPACES = re.compile(r"(?<!\s)\s*+([{};,>])\s*+|(?<=[\w-])(:) ")


class Explored(Protocol):
    """What a model needs of an explorer. `open_views.Answers` fits; it imports this file, so this file
    cannot import it."""

    mark: str
    model: Model
    """Set before the page knows the explorer: the page may answer at once, on another thread."""

    def start(self) -> dict[str, Any]: ...

    def receive(self, message: dict[str, Any]) -> None: ...


class Model(anywidget.AnyWidget):
    """The explorers of a kernel, by their marks. The page reads their state when it is loaded, so
    ``runs`` is computed then. `Model.add` and `leave` may be called by any thread."""

    _shared: ClassVar[Model | None] = None
    """The model to which new explorers are added; None before the first explorer."""
    _lock = threading.Lock()
    runs = traitlets.Any().tag(sync=True, to_json=lambda _, model: model.starts())
    _esm = traitlets.Unicode().tag(sync=True)

    def __init__(self, first: Explored) -> None:
        self._explored = {first.mark: first}
        first.model = self
        self._gone: list[str] = []
        """Marks of closed explorers that the page still has."""
        self.on_msg(self._receive)  # first: a message may come as soon as the page knows the model
        super().__init__(_esm=loader(), layout=ipywidgets.Layout())
        receive_while_busy(self.comm)
        self.comm.on_close(self._forget)

    @classmethod
    def add(cls, explored: Explored, alone: bool = False) -> None:
        """Give ``explored`` a model. ``alone``: make a model only for this explorer, which a person
        displays."""
        if alone:
            cls(explored)
            return
        with cls._lock:
            shared = cls._shared
            if shared is None or shared.comm is None or in_frames():
                cls._shared = cls(explored)
                return
            explored.model = shared
            shared._explored[explored.mark] = explored
            gone = shared._take_gone()
            shared.send({"type": "run", "mark": explored.mark, "gone": gone, **explored.start()})

    def leave(self, explored: Explored, tell: bool = True) -> None:
        """Remove ``explored``, which is closed. ``tell``: False if another explorer is opened next, whose
        message says it to the page."""
        with self._lock:
            self._explored.pop(explored.mark, None)
            self._gone.append(explored.mark)
            if not self._explored:
                self._forget()
                self.close()
            elif tell:
                self.send({"type": "gone", "gone": self._take_gone()})

    def starts(self) -> dict[str, Any]:
        """Everything that a page needs to show each explorer, by the explorer's mark."""
        return {mark: explored.start() for mark, explored in self._explored.copy().items()}

    def _take_gone(self) -> list[str]:
        """The marks of closed explorers that the page does not know of yet."""
        gone = self._gone
        self._gone = []
        return gone

    def _forget(self, _: Any = None) -> None:
        """Add no more explorers to this model: it is closed, by the kernel or by the front end."""
        if Model._shared is self:
            Model._shared = None

    def _receive(self, _: Any, message: Any, __: Any) -> None:
        """Hand a message of the page to its explorer."""
        if not isinstance(message, dict):
            return
        page.report()
        try:
            self._answer(message)
        finally:
            page.note_answer()

    def _answer(self, message: dict[str, Any]) -> None:
        if message.get("do") == "runs":
            self.send({"type": "runs", "runs": self.starts()})
        elif (explored := self._explored.get(str(message.get("mark")))) is not None:
            explored.receive(message)
        else:
            reply = {"type": "reply", "mark": message.get("mark"), "id": message.get("id")}
            why = "this explorer is closed: show the run again with %runs"
            self.send({**reply, "ok": False, "why": why})
