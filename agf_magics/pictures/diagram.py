"""The picture of a flow, and of a run of it, for every place where a notebook is read."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Any

from ..compat.imports import installed_only
from ..flow.flow import Flow
from ..flow.progress.progress import Progress
from ..text.diagnostics import refused
from ..text.replaced_file import NOT_WRITTEN, replaced_file
from .corners import corner_of, numbers_of, taken_edges, tool_corners
from .layout.arrange import MOST_BOXES, Arranged, Direction, arrange
from .layout.dot import graph_text
from .layout.export import export
from .layout.graphviz import NoPicture, needs
from .layout.svg import States, described, margin, paint, tooltip
from .mermaid import mermaid
from .outline import outline, outline_html
from .plain import html, lines_html, not_saved, untypeset
from .row_words import tallies
from .scene.builder import scene
from .scene.called_flows import called_flows
from .scene.scene import Frame, Scene, way
from .widget_hook import Widgets

MOST_SAVED_BOXES = 60
"""Boxes of a picture above which a cell saves the outline: the texts would be too small to read."""
MOST_OPENED = 25
"""Boxes up to which a picture shows the steps of the flows that it calls."""
SAVED_PICTURE = 280_000
"""Characters of what a cell saves of a picture (decision D58)."""
DARK_PAGES = (
    "[data-jp-theme-light=false]",
    ".vscode-dark",
    "[data-theme=dark]",
    "html[theme=dark]",
    ".quarto-dark",
)
"""CSS selectors of dark pages in which notebooks are shown: JupyterLab, VS Code, Sphinx, Quarto."""
STYLE = (
    "<style>.agf-figure{color-scheme:light}"
    f"{','.join(f'{page} .agf-figure' for page in DARK_PAGES)}{{color-scheme:dark}}"
    "@media print{.agf-figure{color-scheme:light!important}}</style>"
)
"""A picture has the colours of its page, not of the reader's system: dark on a page of `DARK_PAGES`,
else light. On paper it is light."""
TITLE_HEIGHT = 36.0
"""Pixels at the top of a frame that its title takes."""


class Diagram:
    """The picture of a flow; with ``progress`` in the colours of the run, on the same layout.

    Without graphviz, or for a large flow, it is displayed as an outline with a line that says how
    to get the picture.
    """

    def __init__(
        self,
        flow: Flow,
        progress: Progress | None = None,
        direction: Direction = "auto",
        callees: Mapping[str, Any] | None = None,
    ) -> None:
        """``callees``: `Linked.callees`; the flows that it calls are shown as far as there is room."""
        self.flow = flow
        self.progress = progress
        self._direction = direction
        called = called_flows(flow, callees or {}, MOST_OPENED)
        self._answering = called.answering
        self._scene = scene(
            flow, (), called.closed, called.opened, called.offered, called.answering
        )

    def to_dot(self) -> str:
        """The picture as graphviz text, for any graphviz tool."""
        return graph_text(self._scene, self._states())

    def to_graphviz(self) -> Any:
        """The same text as a ``graphviz.Source`` of the package graphviz. Raises `NoPicture`
        without that package."""
        with installed_only(), needs("graphviz"):
            from graphviz import Source  # type: ignore[import-untyped]
        return Source(self.to_dot())

    def to_mermaid(self) -> str:
        """The picture as Mermaid text, for a block ``mermaid`` of a Markdown page."""
        return mermaid(self._scene)

    def svg(self) -> str:
        """The picture as SVG. Raises `NoPicture` if there is no graphviz."""
        return paint(self._scene, self._placed, self._states())

    def of_run(self, progress: Progress) -> Diagram:
        """The same picture in the colours of a run; its boxes are not placed again."""
        other = copy(self)
        other.progress = progress
        return other

    def outline(self) -> str:
        """The flow as indented text."""
        return outline(self.flow, self.progress, self._answering)

    def html(self) -> str:
        """A figure that a saved and an untrusted notebook keep: the SVG in an <img>, with tooltips
        over its boxes. Its width is at most that of its place; it has no scroll bar.
        """
        return self._shown()["text/html"]

    @property
    def is_large(self) -> bool:
        """Whether a cell saves its outline instead of the picture."""
        return self._count > MOST_SAVED_BOXES

    @property
    def _count(self) -> int:
        return sum(1 for _ in self._scene.boxes)

    def widget(self) -> Any:
        """The picture as an ipywidget: it can be moved, zoomed and folded, and placed in a box."""
        return Widgets.of(self)

    def save(self, path: str | Path) -> Path:
        """Save as .svg, .html, .png, .pdf, .dot, .mmd (Mermaid) or .txt. Returns the path.

        Raises `NoPicture` if a package is missing, and DefinitionError for another suffix, or if the
        file cannot be written."""
        path = Path(path)
        match path.suffix.lower():
            case ".svg":
                data = self.svg().encode()
            case ".html":
                head = (
                    f"<!doctype html>\n<meta charset=utf-8>\n<title>{html(self.flow.name)}</title>"
                )
                data = f"{head}\n{self.html()}\n".encode()
            case ".png" | ".pdf" as suffix:
                data = export(self.svg(), suffix[1:])
            case ".dot" | ".gv":
                data = self.to_dot().encode()
            case ".mmd":
                data = self.to_mermaid().encode()
            case ".txt":
                data = f"{self.outline()}\n".encode()
            case suffix:
                message = f"no picture can be saved as {suffix or path.name!r}"
                hint = "use .svg, .html, .png, .pdf, .dot, .mmd or .txt"
                raise refused(NOT_WRITTEN, message, hint)
        with replaced_file(path) as file:
            file.buffer.write(data)
        return path

    def __repr__(self) -> str:
        return self.outline()

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        shown = self._shown()
        if (size := _size(shown)) > SAVED_PICTURE:
            code = f"agf.draw({self.flow.name!r}).save('picture.svg')"
            text = shown["text/plain"]
            # A quarter of the room: the text is saved twice, and escapes make it longer in HTML.
            cut = f"{text[: SAVED_PICTURE // 4]}…" if len(text) > SAVED_PICTURE // 4 else text
            page = lines_html(html(cut)) + not_saved("the picture", size, code)
            shown = {"text/html": untypeset(page), "text/plain": cut}
        return shown

    def _states(self) -> States:
        return states(self.progress) if self.progress else {}

    @cached_property
    def _placed(self) -> Arranged:
        """The places of the boxes. They are computed once: one layout serves the whole run."""
        return arrange(self._scene, self._direction)

    def _shown(self) -> dict[str, str]:
        # No image/svg+xml: a conversion to LaTeX would need Inkscape for it, and fail without Inkscape.
        outlined = self.outline()
        try:
            if MOST_SAVED_BOXES < self._count <= MOST_BOXES:
                code = f"agf.draw({self.flow.name!r}).save('picture.svg')"
                raise NoPicture(f"a picture of {self._count} boxes has no room here: {code}")
            placed = self._placed
        except NoPicture as error:
            reason = error.diagnostic.message
            inside = outline_html(self.flow, self.progress, self._answering)
            page = f"{inside}<p><em>{html(reason)}</em></p>"
            return {"text/html": untypeset(page), "text/plain": f"{outlined}\n({reason})"}
        states_now = self._states()
        picture = paint(self._scene, placed, states_now)
        figure = _figure(self._scene, picture, placed, states_now)
        return {"text/html": untypeset(figure), "text/plain": outlined}


def _size(bundle: dict[str, str]) -> int:
    return sum(map(len, bundle.values()))


def states(progress: Progress) -> States:
    """The states of the boxes of a run, and the numbers of its edges."""
    counted = tallies(progress)
    corners = {
        row.id: corner_of(row, counted.get(key))
        for key, row in progress.rows.items()
        if row.state != "pending"
    }
    edges = {
        way(*edge): numbers_of(numbers)
        for edge, numbers in taken_edges(progress.taken_edges).items()
    }
    return {**corners, **tool_corners(progress), **edges}


def _figure(drawn: Scene, picture: str, placed: Arranged, shown: States) -> str:
    """The picture in an <img>, where nothing in it can act on the page, under transparent areas
    with tooltips."""
    data = base64.b64encode(picture.encode()).decode()
    width = placed.layout.width + 2 * margin(placed.layout)
    return (
        f'<figure class="agf-figure" style="margin:0">{STYLE}'
        f'<div style="position:relative;max-width:{width:.0f}px">'
        f'<img alt="{html(described(drawn))}" style="display:block;width:100%;height:auto" '
        f'src="data:image/svg+xml;base64,{data}">{"".join(_tooltips(drawn, placed, shown))}</div></figure>'
    )


def _tooltips(drawn: Scene, placed: Arranged, shown: States) -> Iterator[str]:
    edge = margin(placed.layout)
    width, height = placed.layout.width + 2 * edge, placed.layout.height + 2 * edge
    for box in drawn.every:
        place = placed.layout.boxes.get(box.id)
        if place is None:
            continue
        left, top = (place.left + edge) / width, (place.top + edge) / height
        where = f"left:{100 * left:.2f}%;top:{100 * top:.2f}%"
        tall = TITLE_HEIGHT if isinstance(box, Frame) else place.height
        size = f"width:{100 * place.width / width:.2f}%;height:{100 * tall / height:.2f}%"
        yield (
            f'<span title="{html(tooltip(box, shown.get(box.id)))}" '
            f'style="position:absolute;{where};{size}"></span>'
        )
