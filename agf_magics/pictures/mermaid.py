"""A scene as Mermaid text, which GitHub, GitLab and JupyterLab draw in a Markdown page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from .plain import line
from .scene.boxes import measured
from .scene.scene import Box, Frame, Scene, Tags
from .scene.value_lines import wired

_ESCAPES = {ord(sign): f"#{ord(sign)};" for sign in '#"<>&`|\\'}
"""Escapes for a text in quotes: Mermaid reads it as Markdown and HTML, and ``#`` begins an escape."""


def mermaid(scene: Scene) -> str:
    """``scene`` as a Mermaid flowchart: the same boxes, frames and lines as the picture."""
    links, tags = wired(scene, [scene.parts])
    # An id of a step may be any text, and `end` is a word of Mermaid.
    names = {box.id: f"n{number}" for number, box in enumerate(scene.every)}
    lines = ["flowchart TD", *_subgraphs(scene.parts, names, tags, "  ")]
    for link in links:
        if link.kind == "hold":
            continue
        arrow = "-.->" if link.kind in ("back", "limit") else "-->"
        label = f'|"{_quoted(link.label)}"|' if link.label else ""
        lines.append(f"  {names[link.tail]} {arrow}{label} {names[link.head]}")
    return "\n".join(lines) + "\n"


def _subgraphs(
    parts: Sequence[Box], names: Mapping[str, str], tags: Mapping[str, Tags], indent: str
) -> Iterator[str]:
    for box in parts:
        texts = measured(box, tags.get(box.id, {}))
        shown = (box.case, *texts.names, *texts.does, *map(" ".join, texts.rows))
        label = "<br/>".join(_quoted(text) for text in shown if text)
        if isinstance(box, Frame):
            yield f'{indent}subgraph {names[box.id]}["{label}"]'
            yield from _subgraphs(box.parts, names, tags, f"{indent}  ")
            yield f"{indent}end"
        else:
            yield f'{indent}{names[box.id]}["{label}"]'


def _quoted(text: str) -> str:
    return line(text, 200).translate(_ESCAPES)
