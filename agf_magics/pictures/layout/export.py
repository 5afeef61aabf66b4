"""A picture as PNG or PDF, in a font that this machine has, with each text as wide as its box expects.

A browser tries a list of fonts for a text. Cairo knows one font, and takes a wider one where it is
missing. So this file names the first font of the list that the machine has, names a font for a text with
other letters, and writes a text smaller if it is wider than in the fonts for which boxes are measured.
"""

from __future__ import annotations

import re
import warnings
from html import unescape
from typing import Any

from ...compat.imports import installed_only
from .. import theme as look
from ..plain import html, line
from ..scene.boxes import SMALL
from .graphviz import needs
from .right_to_left import as_seen

OTHER_FONTS = (
    "DejaVu Sans",
    "Noto Sans",
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Noto Sans CJK KR",
    "Noto Sans SC",
    "Source Han Sans SC",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "Droid Sans Fallback",
    "Microsoft YaHei",
    "Malgun Gothic",
    "Yu Gothic",
    "PingFang SC",
    "Hiragino Sans",
    "Apple SD Gothic Neo",
    "Noto Sans Arabic",
    "Noto Sans Hebrew",
    "Noto Sans Thai",
    "Noto Sans Devanagari",
    "Segoe UI",
    "Tahoma",
    "Arial Unicode MS",
    "Noto Sans Symbols",
    "Noto Sans Symbols2",
    "Segoe UI Symbol",
    "Apple Symbols",
    "Unifont",
)
"""Fonts that are tried in this order for a text with letters that the first font does not have."""
MOST_PIXELS = 32_000
"""Pixels of a side of a PNG: Cairo has no larger image."""
_HALO = re.compile(r' paint-order="stroke" stroke="[^"]*+" stroke-width="[^"]*+"')
"""The border of a text that lies on a line. Cairo draws it over the text."""
_TEXT = re.compile(r"<text (?P<attributes>[^<>]*+)>(?P<text>[^<]*+)</text>")
_SIZE = re.compile(r' font-size="(?P<points>[\d.]+)"')
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
    """Each text in the first font that has all its letters, at most as wide as its box expects."""
    fonts = _Fonts()
    missing = list[str]()

    def fitted(element: re.Match[str]) -> str:
        attributes = element["attributes"]
        written = unescape(element["text"])
        seen = as_seen(written)
        size = _SIZE.search(f" {attributes}")
        points = float(size["points"]) if size else SMALL
        is_bold = 'font-weight="bold"' in attributes
        font = fonts.of(seen)
        if font is None:
            font = fonts.first
            missing.extend(letter for letter in fonts.missing(seen) if letter not in missing)
        if font != fonts.first:
            attributes += f' font-family="{font}"'
        room = look.width(written, points, bold=is_bold)
        width = fonts.width(font, seen, points, is_bold)
        if width > room:
            attributes = f'{_SIZE.sub("", attributes)} font-size="{points * room / width:.2f}"'
        return f"<text {attributes}>{html(seen)}</text>"

    drawn = _TEXT.sub(
        fitted, svg.replace(f'font-family="{look.SANS}"', f'font-family="{fonts.first}"', 1)
    )
    if missing:
        warnings.warn(
            f"no font here has {line(''.join(missing), 12)}, which are empty squares in the picture: install one "
            "that has them, for instance Noto Sans CJK, or save it as .svg, which is drawn by who reads it",
            stacklevel=4,
        )
    return drawn


class _Fonts:
    """The fonts of this machine, as Cairo finds and measures them. Cairo takes one font for a text, and
    looks in no other for a letter that it lacks."""

    def __init__(self) -> None:
        import cairocffi  # type: ignore[import-untyped]

        self._cairo: Any = cairocffi
        self._context: Any = cairocffi.Context(cairocffi.ImageSurface(cairocffi.FORMAT_A8, 1, 1))
        # Cairo rounds widths to pixels only in a small picture, not in a large one or in a .pdf.
        self._context.set_font_options(
            cairocffi.FontOptions(hint_metrics=cairocffi.HINT_METRICS_OFF)
        )
        names = [name.strip(" '") for name in look.SANS.split(",")]
        self.first = next(filter(self.is_there, names), "sans-serif")

    def width(self, font: str, text: str, points: float, is_bold: bool) -> float:
        """The width of a text as Cairo draws it."""
        weight = self._cairo.FONT_WEIGHT_BOLD if is_bold else self._cairo.FONT_WEIGHT_NORMAL
        self._context.select_font_face(font, self._cairo.FONT_SLANT_NORMAL, weight)
        self._context.set_font_size(points)
        advance: float = self._context.text_extents(text)[4]
        return advance

    def is_there(self, font: str) -> bool:
        # Cairo replaces a missing font as it replaces a name that no font has: with the same widths.
        sample = "Wide mills 0123"
        replaced = self.width("No such font", sample, 20.0, False)
        return self.width(font, sample, 20.0, False) != replaced

    def of(self, text: str) -> str | None:
        """The first font that has all letters of a text; None if no font has them."""
        if text.isascii() or not self.missing(text):
            return self.first
        return next((font for font in OTHER_FONTS if not self.missing(text, font)), None)

    def missing(self, text: str, font: str | None = None) -> list[str]:
        """The letters of a text that a font does not have."""
        self.width(font or self.first, text, 20.0, False)
        scaled = self._context.get_scaled_font()
        return [c for c in text if not scaled.text_to_glyphs(0, 0, c, with_clusters=False)[0][0]]
