"""A picture as PNG or PDF, in a font that is there, with each text as wide as its box expects.

Cairo knows one font for a text and takes a wider one where it is missing; a browser takes the next of
the list. So the first font of the list that this machine has is named, and a text that is wider than in
the fonts for which the boxes are made is written smaller.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from html import unescape
from typing import Any

from ...compat.imports import installed_only
from .. import theme as look
from ..scene.boxes import SMALL
from .graphviz import needs

MOST_PIXELS = 32_000
"""Pixels of a side of a PNG: Cairo has no larger image."""
_HALO = re.compile(r' paint-order="stroke" stroke="[^"]*+" stroke-width="[^"]*+"')
"""The border of a text that lies on a line. Cairo draws it over the text."""
_TEXT = re.compile(r"<text ([^<>]*+)>([^<]*+)</text>")
_SIZE = re.compile(r' font-size="([\d.]+)"')
_SIDES = re.compile(r'viewBox="[^" ]*+ [^" ]*+ (\d++) (\d++)"')


def export(svg: str, format: str) -> bytes:
    """A picture as png (with two pixels for each of the picture's, or fewer if it is very large) or
    pdf."""
    with installed_only(), needs("cairosvg"):
        import cairosvg  # type: ignore[import-untyped]

        svg = _in_a_font_that_is_there(_HALO.sub("", svg))
    draw = cairosvg.svg2png if format == "png" else cairosvg.svg2pdf
    scale = _scale(svg) if format == "png" else 1
    data: bytes = draw(bytestring=svg.encode(), scale=scale)
    return data


def _scale(svg: str) -> float:
    sides = _SIDES.search(svg)
    longest = max(map(int, sides.groups())) if sides else 1
    scale = min(2.0, MOST_PIXELS / longest)
    if scale < 1:
        warnings.warn(
            f"the picture is {longest:,} pixels long and a .png has at most {MOST_PIXELS:,}: it is "
            "smaller than drawn; .svg and .pdf have the whole size",
            stacklevel=4,
        )
    return scale


def _in_a_font_that_is_there(svg: str) -> str:
    measure = _measure()
    names = [name.strip(" '") for name in look.SANS.split(",")]
    sample, missing = "Wide mills 0123", measure("No such font", "Wide mills 0123", 20.0, False)
    # A font that is missing is replaced by the same one as a name that nobody has.
    there = (name for name in names if measure(name, sample, 20.0, False) != missing)
    font = next(there, "sans-serif")

    def fitted(text: re.Match[str]) -> str:
        attributes, says = text.groups()
        size = _SIZE.search(f" {attributes}")
        points = float(size[1]) if size else SMALL
        is_bold = 'font-weight="bold"' in attributes
        room = look.width(unescape(says), points, bold=is_bold)
        wide = measure(font, unescape(says), points, is_bold)
        if wide <= room:
            return text[0]
        return f'<text {_SIZE.sub("", attributes)} font-size="{points * room / wide:.2f}">{says}</text>'

    return _TEXT.sub(fitted, svg.replace(f'font-family="{look.SANS}"', f'font-family="{font}"', 1))


def _measure() -> Callable[[str, str, float, bool], float]:
    """The width of a text in a font, as Cairo draws it: of the font's name, the text, its size and
    whether it is bold."""
    import cairocffi  # type: ignore[import-untyped]

    context: Any = cairocffi.Context(cairocffi.ImageSurface(cairocffi.FORMAT_A8, 1, 1))
    # The widths of a large picture and of a .pdf: those of a small one are rounded to pixels.
    context.set_font_options(cairocffi.FontOptions(hint_metrics=cairocffi.HINT_METRICS_OFF))

    def width(font: str, text: str, points: float, is_bold: bool) -> float:
        weight = cairocffi.FONT_WEIGHT_BOLD if is_bold else cairocffi.FONT_WEIGHT_NORMAL
        context.select_font_face(font, cairocffi.FONT_SLANT_NORMAL, weight)
        context.set_font_size(points)
        advance: float = context.text_extents(text)[4]
        return advance

    return width
