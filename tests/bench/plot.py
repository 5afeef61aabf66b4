"""The plot of docs/benchmarks.md: bars on a logarithmic scale, as SVG."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Iterator, Sequence

from tests.bench.rounds import Row

WIDTH, LABELS, LINE = 760, 270, 20
OURS, OTHERS, INK, GRID = "#2f6fb5", "#a7adb5", "#24292f", "#d9dde2"


def plot(panels: Sequence[tuple[str, Sequence[Row]]]) -> str:
    """Panels one below the other: a title and rows, of which those that begin with ``ours`` are coloured."""
    height = sum(60 + LINE * len(rows) for _, rows in panels)
    parts, top = list[str](), 0
    for title, rows in panels:
        parts += _panel(title, rows, top)
        top += 60 + LINE * len(rows)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
            f'height="{height}" role="img" font-family="sans-serif" font-size="12" fill="{INK}">',
            "<title>CPU time of a step and of an element, ours and other libraries</title>",
            f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
            *parts,
            "</svg>\n",
        ]
    )


def _panel(title: str, rows: Sequence[Row], top: int) -> Iterator[str]:
    ordered = sorted(rows, key=lambda row: row.micros)
    low, high = math.floor(math.log10(ordered[0].micros)), math.ceil(math.log10(ordered[-1].micros))
    unit = (WIDTH - LABELS - 70) / max(1, high - low)

    def place(micros: float) -> float:
        return LABELS + unit * (math.log10(micros) - low)

    bottom = top + 40 + LINE * len(ordered)
    yield f'<text x="12" y="{top + 22}" font-weight="bold">{html.escape(title)}</text>'
    yield from _grid((10.0**power for power in range(low, high + 1)), place, top + 36, bottom)
    for number, row in enumerate(ordered):
        y = top + 40 + LINE * number
        color = OURS if row.name.startswith("ours") else OTHERS
        end = place(row.micros)
        yield f'<text x="{LABELS - 8}" y="{y + 13}" text-anchor="end">{html.escape(row.name)}</text>'
        yield f'<rect x="{LABELS}" y="{y + 2}" width="{end - LABELS:.1f}" height="{LINE - 6}" fill="{color}"/>'
        yield f'<text x="{end + 5:.1f}" y="{y + 13}">{row.micros:,.3g} µs</text>'


def _grid(values: Iterable[float], place: object, top: int, bottom: int) -> Iterator[str]:
    assert callable(place)
    for value in values:
        x = place(value)
        yield f'<line x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{bottom}" stroke="{GRID}"/>'
        yield f'<text x="{x:.1f}" y="{bottom + 13}" text-anchor="middle" font-size="10">{value:g}</text>'
