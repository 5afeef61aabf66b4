"""Values for display: bounded before anything is formatted, the same in HTML and in text.

`shown` reduces a value of any size to a small tree (the first items of the outer levels, the
beginning of a text), and one writer each makes HTML and text of it. Objects are not asked for their
``repr`` or their own HTML, which may run any code and write any markup. The exceptions are classes
of a few libraries, recognized by the exact class: data frames, figures and images.

Values as JSON for a page that writes all of it as text: the same bounds as in `values`.

The exceptions are pictures, as PNG, and data frames, as the HTML of their library: the page shows
that only in a frame without scripts and without connections.
"""

from __future__ import annotations

import base64
import io
import re
import sys
from collections.abc import Callable, Sequence
from itertools import islice
from json import dumps
from typing import Any, NamedTuple

from ..flow.values import ATOMS, Value, describe_array, describe_scalar, fields_of
from ..text.diagnostics import cells
from .plain import counted, html, line, padded, plain

MOST_TEXT = 4_000
MOST_ITEMS = 20
MOST_COLUMNS = 12
_MOST_DEEP = 6
MOST_LEAVES = 300
MOST_PICTURE = 2_000_000
"""Bytes of a PNG that is embedded in a page; a larger picture is only named."""
MOST_PICTURES = 12
"""Pictures in one value; their PNG bytes together have at most MOST_PICTURE bytes."""
PNG = b"\x89PNG\r\n\x1a\n"
PIXELS = 640
"""The greatest width and height of a picture."""

Mask = Callable[[Value], Value]
"""Hides the secrets in a value."""


class Words(NamedTuple):
    text: str
    is_block: bool = False
    """Whether it has several lines."""


class Group(NamedTuple):
    """The first parts of an object (with their keys) or a list."""

    title: str
    parts: tuple[tuple[str | None, Shown], ...]
    more: int


class Grid(NamedTuple):
    """The first rows of a list of flat objects."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    more: str


class Foreign(NamedTuple):
    """A data frame in its own HTML."""

    title: str
    html: str
    text: str


class Picture(NamedTuple):
    """A figure, an image or the bytes of a PNG."""

    title: str
    png: Callable[[], bytes]


Shown = Words | Group | Grid | Foreign | Picture


def shown(value: Value, mask: Mask = lambda value: value) -> Shown:
    """What a page shows of ``value``, in bounded time. ``mask`` hides the secrets in the fields of
    objects."""
    if type(value) is str:
        text = plain(value, MOST_TEXT)
        if not text.strip():  # nothing would be seen
            return Words(dumps(text, ensure_ascii=False))
        return Words(text, "\n" in text or len(text) > 160)  # without quotes
    return _Builder(mask).one(value, 0)


def value_html(value: Value, mask: Mask = lambda value: value) -> str:
    """``value`` as HTML, its outermost level open.

    >>> value_html(True)
    '<code ...>true</code>'
    """
    return _html(shown(value, mask), opened=True)


def value_text(value: Value, mask: Mask = lambda value: value) -> str:
    """
    >>> print(value_text({"passed": True, "notes": ["a", "b"]}))
    passed: true
    notes: 2 items
      - "a"
      - "b"
    """
    return "\n".join(_text(shown(value, mask)))


class _Builder:
    def __init__(self, mask: Mask) -> None:
        self.left, self.pictures, self.bytes = MOST_LEAVES, MOST_PICTURES, MOST_PICTURE
        self.mask = mask

    def one(self, value: Value, depth: int) -> Shown:
        self.left -= 1
        kind = type(value)
        if kind is dict and value and all(type(key) is str for key in islice(value, MOST_ITEMS)):
            return self.group(counted(len(value), "field"), value.items(), len(value), depth)
        if kind is list and value:
            return _grid(value) or self.group(
                counted(len(value), "item"), ((None, v) for v in value), len(value), depth
            )
        fields = None if kind in ATOMS else fields_of(value)
        if fields is not None:
            title = f"{line(kind.__name__, 60)} · {counted(len(fields), 'field')}"
            return self.group(title, self.mask(fields).items(), len(fields), depth)
        return _frame(value) or self.picture(value) or Words(_scalar(value))

    def picture(self, value: Value) -> Shown | None:
        """The picture that ``value`` is, as long as there is room for it."""
        if self.pictures <= 0:
            return None
        if type(value) is bytes and value.startswith(PNG) and len(value) <= self.bytes:
            self.bytes -= len(value)
            found: Picture | None = Picture("PNG", lambda: value)
        else:
            found = _picture(value)
        self.pictures -= found is not None
        return found

    def group(self, title: str, parts: Any, count: int, depth: int) -> Shown:
        if depth >= _MOST_DEEP or self.left <= 0:
            return Words(f"… {title}")
        found = []
        for key, value in islice(parts, MOST_ITEMS):
            if self.left <= 0:
                break
            found.append((None if key is None else line(key, 80), self.one(value, depth + 1)))
        return Group(title, tuple(found), count - len(found))


def _scalar(value: Value) -> str:
    kind = type(value)
    if value is None or kind is bool:
        return {None: "null", True: "true", False: "false"}[value]
    if kind is int:
        bits = value.bit_length()  # writing a number down takes the square of its length
        return str(value) if bits < 4_000 else f"a number of about {int(bits * 0.30103):,} digits"
    if kind is float:
        return repr(value)
    if kind is str:
        return f'"{line(value, 200)}"'
    if kind is dict or kind is list:
        return ("{…}" if value else "{}") if kind is dict else "[]"
    text = describe_scalar(value) or describe_array(value)
    if text is not None:
        return line(text, 200)
    module, name = (
        type.__getattribute__(kind, "__module__"),
        type.__getattribute__(kind, "__qualname__"),
    )
    return line(f"<{name}>" if module == "builtins" else f"<{module}.{name}>", 120)


def _grid(rows: list[Value]) -> Grid | None:
    """A table, if ``rows`` are flat objects with mostly the same keys."""
    first = rows[:MOST_ITEMS]
    if len(rows) < 2 or not all(type(row) is dict and row and len(row) <= 40 for row in first):
        return None
    if any(
        type(key) is not str or type(cell) in (dict, list)
        for row in first
        for key, cell in row.items()
    ):
        return None
    columns = list(dict.fromkeys(key for row in first for key in row))
    if len(columns) > 2 * max(len(row) for row in first):
        return None
    kept = columns[:MOST_COLUMNS]
    cells_of = tuple(tuple(_cell(row[key]) if key in row else "" for key in kept) for row in first)
    more = [
        counted(count, noun)
        for count, noun in (
            (len(rows) - len(first), "more row"),
            (len(columns) - len(kept), "more column"),
        )
        if count
    ]
    return Grid(
        counted(len(rows), "row"),
        tuple(line(key, 60) for key in kept),
        cells_of,
        " and ".join(more),
    )


def _cell(value: Value) -> str:
    return line(value, 80) if type(value) is str else _scalar(value)


def _frame(value: Value) -> Foreign | None:
    kind = type(value)
    for library in ("pandas", "polars"):
        # The exact class: a subclass may write any HTML.
        if kind is not getattr(sys.modules.get(library), "DataFrame", None):
            continue
        count, columns = value.shape
        title = f"DataFrame · {counted(count, 'row')} × {counted(columns, 'column')}"
        try:
            few = value.head(10)
            few = few.iloc[:, :MOST_COLUMNS] if library == "pandas" else few[:, :MOST_COLUMNS]
            page = re.sub(r"<style(?>(?:[^<]|<(?!/?style))*)</style>", "", few._repr_html_() or "")
            return Foreign(title, plain(page, 100_000), plain(str(few), MOST_TEXT))
        except Exception:  # a cell may be any object, with any repr
            return Foreign(title, "", "")
    return None


def _picture(value: Value) -> Picture | None:
    """A figure of matplotlib or an image of Pillow, drawn only when the HTML is written."""
    kind = type(value)
    module = type.__getattribute__(kind, "__module__")
    if getattr(sys.modules.get(module), kind.__name__, None) is not kind:
        return None
    if (module, kind.__name__) == ("matplotlib.figure", "Figure"):
        return Picture("figure", lambda: _figure_png(value))
    if (
        module.startswith("PIL.")
        and getattr(sys.modules.get("PIL.Image"), "Image", None) in kind.__mro__
    ):
        width, height = value.size
        return Picture(
            f"image · {width:,} × {height:,} pixels · {line(value.mode, 10)}",
            lambda: _image_png(value),
        )
    return None


def _figure_png(figure: Any) -> bytes:
    file = io.BytesIO()
    dpi = min(100.0, PIXELS / max(figure.get_size_inches()))
    figure.savefig(file, format="png", dpi=dpi, bbox_inches="tight")
    return file.getvalue()


def _image_png(image: Any) -> bytes:
    file, small = io.BytesIO(), image.copy()
    small.thumbnail((PIXELS, PIXELS))
    (small if small.mode in ("1", "L", "LA", "P", "RGB", "RGBA") else small.convert("RGB")).save(
        file, format="PNG"
    )
    return file.getvalue()


def _picture_html(title: str, draw: Callable[[], bytes]) -> str:
    try:
        png = draw()
    except Exception:  # a figure draws what its artists want
        png = b""
    if not 0 < len(png) <= MOST_PICTURE:
        return f"<code>{html(title)}</code>"
    data = base64.b64encode(png).decode()
    return (
        f'<div><img alt="{html(title)}" style="max-width:100%;height:auto" '
        f'src="data:image/png;base64,{data}"></div>'
    )


BLOCK = "white-space:pre-wrap;overflow-wrap:break-word;word-break:normal;max-height:320px;overflow:auto;margin:0"
WRAP = "overflow-wrap:break-word;word-break:normal"
"""Lines break between words, and only a word longer than a line breaks inside; JupyterLab's own
rule is break-all."""
INDENT = "list-style:none;margin:0;padding-left:1.2em"
LEFT = "text-align:left;vertical-align:top;padding:2px 12px 2px 0"


def _html(what: Shown, key: str = "", opened: bool = False) -> str:
    match what:
        case Words(text, is_block):
            inside = (
                f'<pre style="{BLOCK}">'
                if is_block
                else f'<code style="white-space:pre-wrap;{WRAP}">'
            )
            return f"{key}{inside}{html(text)}</{'pre' if is_block else 'code'}>"
        case Group(title, parts, more):
            items = "".join(
                f"<li>{_html(part, _key(name), len(parts) == 1)}</li>" for name, part in parts
            )
            items += f"<li>… {more:,} more</li>" if more else ""
            return _folded(key, title, f'<ul style="{INDENT}">{items}</ul>', opened)
        case Grid(title, columns, rows, more):
            return _folded(
                key, title, table_html(columns, rows) + (f"… {html(more)}" if more else ""), opened
            )
        case Foreign(title, page, text):
            return _folded(key, title, page, opened) if page else f"{key}<code>{html(title)}</code>"
        case Picture(title, draw):
            return f"{key}{_picture_html(title, draw)}"


def _folded(key: str, title: str, inside: str, opened: bool) -> str:
    return f"<details{' open' if opened else ''}><summary>{key}{html(title)}</summary>{inside}</details>"


def _key(name: str | None) -> str:
    return "" if name is None else f'<span style="opacity:0.7">{html(name)}:</span> '


_SHORT = 24
"""A cell of at most so many characters stays on one line."""
MAX_VALUE_HEIGHT = 420
"""Pixels of a table or a tree; a taller one scrolls."""


Table = tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]
"""The names of the columns, and the rows."""


def table_html(
    columns: tuple[str, ...], rows: tuple[tuple[str, ...], ...], caption: str = ""
) -> str:
    """A table of plain texts, which scrolls if it is tall."""
    head = "".join(f'<th scope="col" style="{LEFT}">{html(column)}</th>' for column in columns)
    body = "".join(f"<tr>{''.join(_td(cell) for cell in row)}</tr>" for row in rows)
    title = (
        f'<caption style="text-align:left;caption-side:top">{caption}</caption>' if caption else ""
    )
    inside = f"{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    return bounded(f'<table style="border:none;margin:0;color:inherit">{inside}</table>')


def bounded(inside: str) -> str:
    """``inside`` in a box of at most MAX_VALUE_HEIGHT pixels."""
    return f'<div style="max-height:{MAX_VALUE_HEIGHT}px;overflow:auto">{inside}</div>'


def _td(cell: str) -> str:
    flow = (
        "white-space:nowrap" if len(cell) <= _SHORT else f"min-width:12em;{WRAP}"
    )  # not "480" and "ms" on two lines
    return f'<td style="{LEFT};{flow}">{html(cell)}</td>'


def _text(what: Shown) -> list[str]:
    match what:
        case Words(text):
            return text.split("\n")
        case Group(_, parts, more):
            lines = [each for key, part in parts for each in _part(key, part)]
            return [*lines, *([f"… {more:,} more"] if more else [])]
        case Grid(_, columns, rows, more):
            return [*table_text(columns, rows), *([f"… {more}"] if more else [])]
        case Foreign(title, _, text):
            return [title, *(text.split("\n") if text else [])]
        case Picture(title):
            return [f"<{title}>"]


def _part(key: str | None, part: Shown) -> list[str]:
    lead = "- " if key is None else f"{key}: "
    match part:
        case Words(_, False) | Picture():
            return [lead + _text(part)[0]]
        case Group(title) | Grid(title) | Foreign(title):
            lines = _text(part)
            return [
                lead + title,
                *(f"  {each}" for each in (lines[1:] if isinstance(part, Foreign) else lines)),
            ]
    return [lead, *(f"  {each}" for each in _text(part))]


def table_text(columns: tuple[str, ...], rows: tuple[tuple[str, ...], ...]) -> list[str]:
    """Columns of text, each as wide as its widest cell."""
    both = (columns, *rows)
    widths = [max(map(cells, column)) for column in zip(*both, strict=True)]
    return ["  ".join(map(padded, row, widths)).rstrip() for row in both]


def drop_empty_columns(columns: tuple[str, ...], rows: tuple[tuple[str, ...], ...]) -> Table:
    kept = [place for place in range(len(columns)) if any(row[place] for row in rows)]
    return tuple(columns[place] for place in kept), tuple(
        tuple(row[place] for place in kept) for row in rows
    )


def list_rows(
    columns: tuple[str, ...], rows: Sequence[tuple[str, ...]], title: str, none: str
) -> dict[str, str]:
    """The rows as a table by MIME type, without empty columns. ``none``: the text of an empty
    table."""
    if not rows:
        return {"text/html": f"<p>{none}</p>", "text/plain": none}
    table = drop_empty_columns(columns, tuple(rows))
    return {
        "text/html": table_html(*table, title),
        "text/plain": "\n".join(table_text(*table)),
    }


MOST_FRAME = 100_000
"""Characters of the HTML of a data frame."""


def value_json(value: Value, mask: Mask = lambda value: value) -> dict[str, Any]:
    """``value`` as JSON, in bounded time. ``mask`` hides the secrets in the fields of objects.

    >>> value_json([True])
    {'kind': 'group', 'title': '1 item', 'parts': [[None, {'kind': 'text', 'text': 'true'}]], 'more': 0}
    """
    return _json(shown(value, mask))


def _json(what: Shown) -> dict[str, Any]:
    match what:
        case Words(text, is_block):
            return {"kind": "text", "text": text, **({"block": True} if is_block else {})}
        case Group(title, parts, more):
            return {
                "kind": "group",
                "title": title,
                "parts": [[key, _json(part)] for key, part in parts],
                "more": more,
            }
        case Grid(title, columns, rows, more):
            return {"kind": "grid", "title": title, "columns": columns, "rows": rows, "more": more}
        case Foreign(title, page, text):
            return {"kind": "frame", "title": title, "html": page[:MOST_FRAME], "text": text}
        case Picture(title, draw):
            try:
                return _png(title, draw())
            except Exception:  # a figure draws what its artists want
                return {"kind": "text", "text": f"<{title}>"}


def _png(title: str, data: bytes) -> dict[str, Any]:
    if not 0 < len(data) <= MOST_PICTURE:
        return {"kind": "text", "text": plain(f"<{title}: {len(data):,} bytes>")}
    return {"kind": "png", "title": title, "data": base64.b64encode(data).decode()}
