"""A flow (and a run of it) as a picture that is there wherever a notebook is read."""

from __future__ import annotations

import base64
from pathlib import Path

from ..flow.steps import Flow
from ..progress.progress import Progress
from .dot import scene_dot, states
from .layout import NoPicture, export, layout
from .outline import outline
from .plain import html
from .scene import scene
from .svg import described, paint

SMALLEST = 0.65
"""Of its own size: smaller, its words cannot be read."""
MOST_BOXES = 1_000
"""Two seconds to place them; nobody sees anything in more."""


class Diagram:
    """The picture of a flow; with ``progress`` in the colours of the run as it stands, on the same layout.

    Without graphviz it is the outline, and a line that says how to get the picture.
    """

    def __init__(self, flow: Flow, progress: Progress | None = None) -> None:
        self._flow = flow
        self._progress = progress
        self._scene = scene(flow)
        self._boxes = tuple(self._scene.boxes)

    def to_dot(self) -> str:
        """Graphviz text, for any graphviz tool."""
        return scene_dot(self._scene, states(self._progress) if self._progress else {})

    def svg(self) -> str:
        """NoPicture if there is no graphviz."""
        return self._painted()[0]

    def _painted(self) -> tuple[str, float]:
        """The picture, and how wide it is."""
        if len(self._boxes) > MOST_BOXES:
            raise NoPicture(f"no picture: {len(self._boxes):,} steps are too many for one")
        # Placed without its states: a run that goes on is painted anew and never placed anew.
        placed = layout(scene_dot(self._scene, {}))
        return paint(self._scene, placed, states(self._progress) if self._progress else {}), placed.width

    def outline(self) -> str:
        return outline(self._flow, self._progress)

    def html(self, smallest: float = 0.0) -> str:
        """A figure that survives a saved and an untrusted notebook: the SVG in an <img>; without one the outline.

        It is as wide as its place at most, and ``smallest`` of its own width at least: there it is scrolled."""
        return self._shown(smallest)["text/html"]

    def save(self, path: str | Path) -> Path:
        """As .svg, .dot or .txt; as .png or .pdf where graphviz itself is installed."""
        path = Path(path)
        match path.suffix.lower():
            case ".svg":
                path.write_text(self.svg(), encoding="utf-8")
            case ".dot" | ".gv":
                path.write_text(self.to_dot(), encoding="utf-8")
            case ".txt":
                path.write_text(self.outline() + "\n", encoding="utf-8")
            case ".png" | ".pdf" as suffix:
                path.write_bytes(export(self.to_dot(), suffix[1:]))
            case suffix:
                raise ValueError(
                    f"cannot save a picture as {suffix or path.name!r}: use .svg, .dot, .txt, .png or .pdf"
                )
        return path

    def __repr__(self) -> str:
        return self.outline()

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return self._shown(SMALLEST)

    def _shown(self, smallest: float) -> dict[str, str]:
        try:
            picture, width = self._painted()
        except NoPicture as why:
            said = self.outline()
            page = f"<pre>{html(said)}</pre><p><em>{html(why.diagnostic.message)}</em></p>"
            return {"text/html": page, "text/plain": f"{said}\n({why.diagnostic.message})"}
        figure = _figure(picture, described(self._scene), smallest * width)
        return {"text/html": figure, "image/svg+xml": picture, "text/plain": self.outline()}


def _figure(picture: str, told: str, least: float) -> str:
    data = base64.b64encode(picture.encode()).decode()
    style = f"max-width:100%;min-width:{least:.0f}px;height:auto"
    return (
        f'<figure style="margin:0;overflow:auto"><img alt="{html(told)}" style="{style}" '
        f'src="data:image/svg+xml;base64,{data}"></figure>'
    )
