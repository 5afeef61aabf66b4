"""Values for display: bounded before anything is formatted, the same in HTML, in text and in the
explorer.

`value_json` reduces a value of any size to a small tree (the first items of the outer levels, the
beginning of a text), which the explorer gets as it is; `shown_html` and `_text` write it as HTML and text.
Objects are not asked for their ``repr`` or their own HTML, which may run any code and write any
markup. The exceptions are classes of a few libraries, recognized by the exact class: figures and
images, as PNG, and data frames, which are tables of their first rows, as in the previews of a journal.
"""

from __future__ import annotations

import base64
import io
import sys
from collections.abc import Callable
from itertools import islice
from json import dumps
from logging import DEBUG
from typing import Any

from ..journal.codec.encoding import OPAQUE, preview, without_mark
from ..text.giving_up import note_given_up
from ..text.length import ATOMS
from ..values.opaque import describe_array, describe_scalar, fields_of
from ..values.tables.first_rows import FrameSize, column_types, frame_size, is_frame
from ..values.unread import Unread
from ..values.value import Value
from .amounts import counted, number, size
from .markdown import markdown_html
from .plain import details, html, line, lines_html, plain
from .text_tables import INDEX, WRAP, look_of, table_html, table_text

MOST_BRIEF = 40
"""The most characters of a value beside its name."""
MOST_TEXT = 4_000
"""The most characters of a value that is a text."""
MOST_CHARACTERS = 50_000
"""The most characters of all texts inside a value together, beside the line of each."""
LONGEST_AMONG = 200
"""The most characters of a text that stands in a line among other values."""
MOST_ITEMS = 20
"""The most items of a list, fields of an object and rows of a table."""
MOST_COLUMNS = 12
"""The most columns of a table."""
_MOST_DEEP = 6
"""The most levels of lists and objects; deeper ones have only a title."""
MOST_LEAVES = 300
"""The most parts of a value, on all levels together."""
MOST_PICTURE = 2_000_000
"""Bytes of a PNG that is embedded in a page; a larger picture is only named."""
MOST_PICTURES = 12
"""Pictures in one value; their PNG bytes together have at most MOST_PICTURE bytes."""
PNG = b"\x89PNG\r\n\x1a\n"
PIXELS = 640
"""The greatest width and height of a picture in a value, in pixels."""

Mask = Callable[[Value], Value]
"""Hides the secrets in a value."""


IsReply = Callable[[Value], bool]
"""Whether a text is what a model answered."""


Shown = dict[str, Any]
"""A value as JSON: its ``kind`` and, by it, ``text`` (and ``block``: it has several lines; ``more``:
how many lines it has after these; ``all``: the text of which it is a line; ``whole``: the number that
was rounded; ``markdown``: a model wrote it); of a ``group`` or a ``grid``, a table, the title, the first
parts or rows and how many more there are, and of a ``grid`` the ``looks`` of its columns, their ``types``
as far as they are known, and whether it ``is_frame``, a data frame; of a ``png`` its data."""


def value_json(
    value: Value,
    mask: Mask = lambda value: value,
    draws: bool = True,
    is_exact: bool = False,
    is_reply: bool = False,
    replies: IsReply = lambda text: False,
) -> Shown:
    """What is shown of ``value``, in bounded time. ``mask`` hides the secrets in the fields of
    objects. ``draws``: False if pictures are only named. A number that is the whole value has all its
    digits; ``is_exact``: numbers inside the value have all their digits, too. ``is_reply``: the value is
    what a model answered, so a text is Markdown. ``replies``: the same of a text inside the value.

    >>> value_json([True])
    {'kind': 'group', 'title': '1 item', 'parts': [[None, {'kind': 'text', 'text': 'true'}]], 'more': 0}
    """
    if type(value) is Unread:
        value = in_memory(value)
    if type(value) is str:
        whole = value.rfind("\n", 0, MOST_TEXT) if len(value) > MOST_TEXT else -1
        text = plain(value[:whole] if whole > 0 else value, MOST_TEXT)
        # The line of `whole` is shown, and a newline at the end begins no line.
        left = value.count("\n", whole) - value.endswith("\n") if whole > 0 else 0
        more = {"more": left} if left else {}
        if not text.strip():  # nothing would be seen
            return {**_words(dumps(text, ensure_ascii=False)), **more}
        block = {"block": True} if "\n" in text or len(text) > 160 else {}
        markdown = {"markdown": True} if is_reply else {}
        return {**_words(text), **block, **more, **markdown}  # without quotes
    return _Builder(mask, draws, is_exact, replies).one(value, 0)


def value_html(
    value: Value,
    mask: Mask = lambda value: value,
    *,
    is_reply: bool = False,
    replies: IsReply = lambda text: False,
) -> str:
    """``value`` as HTML, its outermost level open. ``is_reply``, ``replies``: see `value_json`.

    >>> value_html(True)
    '<code ...>true</code>'
    >>> value_html("**seven** euros", is_reply=True)
    '<p style="margin:4px 0"><strong>seven</strong> euros</p>'
    """
    return shown_html(value_json(value, mask, is_reply=is_reply, replies=replies), is_open=True)


def value_text(value: Value, mask: Mask = lambda value: value, *, is_exact: bool = False) -> str:
    """``value`` as lines. ``is_exact``: no number in it is rounded, so that the text can be compared.

    >>> print(value_text({"passed": True, "notes": ["a", "b"]}))
    passed: true
    notes: 2 items
      - "a"
      - "b"
    """
    return "\n".join(_text(value_json(value, mask, draws=False, is_exact=is_exact)))


def value_among(value: Value) -> str:
    """`value_text` of a value among others, as in a table: a number is rounded, too.

    >>> value_text(0.1 + 0.2), value_among(0.1 + 0.2), value_among([0.1 + 0.2])
    ('0.30000000000000004', '0.3', '- 0.3')
    """
    return number(value) if type(value) is float else value_text(value)


def value_brief(value: Value, mask: Mask = lambda value: value) -> str:
    """A value beside its name: how large it is, or a short value itself.

    >>> value_brief([{"a": 1}, {"a": 2}]), value_brief({"a": 1}), value_brief([1]), value_brief(None)
    ('2 rows', '1 field', '1 item', 'null')
    >>> value_brief("pear"), value_brief("pear " * 40)
    ('"pear"', '200 characters')
    """
    value = in_memory(value) if type(value) is Unread else value
    kind = type(value)
    if kind is list and value:
        items, count = without_mark(value)
        return counted(count, "row" if _grid(items, count, frame=frame_size(value)) else "item")
    if kind is dict and value:
        return counted(without_mark(value)[1], "field")
    if kind is str and (len(value) > MOST_BRIEF or "\n" in value):
        return size(len(value))
    if is_frame(value):
        return counted(len(value), "row")
    return line(_scalar(mask(value), is_exact=False), MOST_BRIEF)


def in_memory(value: Unread) -> Value:
    """A value, or its preview if the value is not in memory: a display reads nothing from a file."""
    value_known = value.known
    return value.shown if value_known is value else value_known


def _words(text: str) -> Shown:
    return {"kind": "text", "text": text}


class _Builder:
    """Builds the `Shown` of one value. It counts down how many leaves, pictures and bytes are left."""

    def __init__(self, mask: Mask, draws: bool, is_exact: bool, replies: IsReply) -> None:
        self.left = MOST_LEAVES
        self.pictures = MOST_PICTURES
        self.bytes = MOST_PICTURE
        self.characters = MOST_CHARACTERS
        self.mask, self.draws = mask, draws
        self.is_exact = is_exact
        self.replies = replies

    def one(self, value: Value, depth: int) -> Shown:
        self.left -= 1
        value = in_memory(value) if type(value) is Unread else value
        kind = type(value)
        if kind is dict and value and all(type(key) is str for key in islice(value, MOST_ITEMS)):
            fields, count = without_mark(value)
            return self.group(counted(count, "field"), fields.items(), count, depth)
        if kind is list and value:
            items, count = without_mark(value)
            frame = frame_size(value)
            return _grid(items, count, self.is_exact, frame) or self.group(
                counted(count, "item"), ((None, item) for item in items), count, depth
            )
        if (own := None if kind in ATOMS else fields_of(value)) is not None:
            title = f"{line(kind.__name__, 60)} · {counted(len(own), 'field')}"
            return self.group(title, self.mask(own).items(), len(own), depth)
        if kind is str:
            return self.text(value)
        if kind is float:
            return _number(value, self.is_exact or depth == 0)
        if is_frame(value):
            shown = self.one(self.mask(preview(value)), depth)
            return {**shown, "types": column_types(value)} if shown["kind"] == "grid" else shown
        return self.picture(value) or _words(_scalar(value))

    def text(self, value: str) -> Shown:
        """A text among other values: its beginning in one line, and ``all`` of it if it has more."""
        shown = _words(text_among(value))
        is_long = len(value) > LONGEST_AMONG or "\n" in value
        if not is_long or self.characters <= 0:
            return shown
        whole = plain(value, min(self.characters, MOST_TEXT))
        self.characters -= len(whole)
        markdown = {"markdown": True} if self.replies(value) else {}
        return {**shown, "all": whole, **markdown}

    def picture(self, value: Value) -> Shown | None:
        """``value`` as a picture, if it is one and there is room for it."""
        if self.pictures <= 0:
            return None
        if type(value) is bytes and value.startswith(PNG) and len(value) <= self.bytes:
            self.bytes -= len(value)
            title, draw = "PNG", lambda: value
        elif (drawn := _picture(value)) is not None:
            title, draw = drawn
        else:
            return None
        self.pictures -= 1
        return _png(title, draw) if self.draws else _words(f"<{title}>")

    def group(self, title: str, parts: Any, count: int, depth: int) -> Shown:
        if depth >= _MOST_DEEP or self.left <= 0:
            return _words(f"… {title}")
        first: list[list[Any]] = []
        for key, value in islice(parts, MOST_ITEMS):
            if self.left <= 0:
                break
            first.append([None if key is None else line(key, 80), self.one(value, depth + 1)])
        return {"kind": "group", "title": title, "parts": first, "more": count - len(first)}


def _number(value: float, is_exact: bool) -> Shown:
    shown, whole = _scalar(value, is_exact), repr(value)
    return _words(shown) if shown == whole else {**_words(shown), "whole": whole}


def _scalar(value: Value, is_exact: bool = True) -> str:
    kind = type(value)
    if value is None or kind is bool:
        return {None: "null", True: "true", False: "false"}[value]
    if kind is int:
        bits = value.bit_length()  # writing a number down takes the square of its length
        return str(value) if bits < 4_000 else f"a number of about {int(bits * 0.30103):,} digits"
    if kind is float:
        return repr(value) if is_exact else number(value)
    if kind is str:
        return text_among(value)
    if kind is dict:
        return "{…}" if value else "{}"
    if kind is list:
        return "[]"
    text = describe_scalar(value) or describe_array(value)
    if text is not None:
        return line(text, 200)
    module, name = (
        type.__getattribute__(kind, "__module__"),
        type.__getattribute__(kind, "__qualname__"),
    )
    return line(f"<{name}>" if module == "builtins" else f"<{module}.{name}>", 120)


def text_among(text: str) -> str:
    """A text among other values, in one line. The preview of an object is no text, so it has no
    quotes.

    >>> text_among("two\\nlines"), text_among("⟨DataFrame 55 × 3⟩")
    ('"two lines"', '⟨DataFrame 55 × 3⟩')
    """
    return text if OPAQUE.fullmatch(text) else f'"{line(text, LONGEST_AMONG)}"'


def _grid(
    rows: list[Value], count: int, is_exact: bool = False, frame: FrameSize | None = None
) -> Shown | None:
    """A table, if ``rows`` are flat objects with mostly the same keys, as far as the first ones
    tell; else None. ``count``: the number of all rows, of which ``rows`` may be the first ones.
    ``frame``: the size of the frame whose rows they are; default None: they are of a list."""
    first = rows[:MOST_ITEMS]
    if (len(rows) < 2 and frame is None) or not all(
        type(row) is dict and row and len(row) <= 40 for row in first
    ):
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
    cells_of = tuple(
        tuple(_cell(row[key], is_exact) if key in row else "" for key in kept) for row in first
    )
    return {
        "kind": "grid",
        "title": counted(count, "row") if frame is None else _frame_title(frame),
        "columns": tuple(line(key, 60) for key in kept),
        "rows": cells_of,
        "looks": _looks(first, columns, frame)[: len(kept)],
        "is_frame": frame is not None,
        "more": _left_out(
            count - len(first), len(columns) - len(kept) + (frame.columns_left if frame else 0)
        ),
    }


def _looks(rows: list[Value], columns: list[str], frame: FrameSize | None) -> tuple[str, ...]:
    """The looks of the columns of a table. The first columns of a frame may be its index."""
    index = 0
    if frame is not None:
        width = 1 if frame.columns is None else frame.columns
        index = len(columns) + frame.columns_left - width
    looks = ((INDEX * (place < index), _look(rows, name)) for place, name in enumerate(columns))
    return tuple(" ".join(filter(None, words)) for words in looks)


def _look(rows: list[Value], column: str) -> str:
    return look_of(row.get(column) for row in rows)


def _frame_title(size: FrameSize) -> str:
    width = "" if size.columns is None else f" × {counted(size.columns, 'column')}"
    return f"{size.kind} · {counted(size.rows, 'row')}{width}"


def _left_out(rows: int, columns: int) -> str:
    """The rows and columns of a table that are not shown: ``5 more rows and 1 more column``."""
    counts = ((rows, "more row"), (columns, "more column"))
    return " and ".join(counted(count, noun) for count, noun in counts if count > 0)


def _cell(value: Value, is_exact: bool) -> str:
    return line(value, 80) if type(value) is str else _scalar(value, is_exact)


def _picture(value: Value) -> tuple[str, Callable[[], bytes]] | None:
    """The title of a figure of matplotlib or an image of Pillow, and the function that draws it."""
    kind = type(value)
    module = type.__getattribute__(kind, "__module__")
    if getattr(sys.modules.get(module), kind.__name__, None) is not kind:
        return None
    if (module, kind.__name__) == ("matplotlib.figure", "Figure"):
        return "figure", lambda: _figure_png(value)
    if (
        module.startswith("PIL.")
        and getattr(sys.modules.get("PIL.Image"), "Image", None) in kind.__mro__
    ):
        width, height = value.size
        title = f"image · {width:,} × {height:,} pixels · {line(value.mode, 10)}"
        return title, lambda: _image_png(value)
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


def _png(title: str, draw: Callable[[], bytes]) -> Shown:
    try:
        data = draw()
    except Exception as error:  # a figure draws what its artists want
        note_given_up(__name__, "a figure is shown by its name", error, DEBUG)
        return _words(f"<{title}>")
    if not 0 < len(data) <= MOST_PICTURE:
        return _words(plain(f"<{title}: {len(data):,} bytes>"))
    return {"kind": "png", "title": title, "data": base64.b64encode(data).decode()}


BLOCK = f"{WRAP};white-space:pre-wrap;margin:0"
"""The style of a text of several lines."""
_LINES, _FEW, _ROOM = 16, 4, 100
"""Lines of a long text before its fold, further lines up to which there is no fold, and the characters
of a line in a page."""
INDENT = "list-style:none;margin:0;padding-left:1.2em"
"""The style of the list of a group's parts."""


def shown_html(shown: Shown, key: str = "", is_open: bool = False, is_whole: bool = False) -> str:
    """A shown value as HTML. ``key``: HTML before it. ``is_whole``: all folds are open."""
    opened, title = is_open or is_whole, shown.get("title", "")
    match shown["kind"]:
        case "text" if "all" in shown:
            return _all_html(shown, key, is_whole)
        case "text" if shown.get("markdown"):
            more = shown.get("more", 0)
            left = f"<em>… {counted(more, 'more line')} not saved here</em>" if more else ""
            return f"{key}{markdown_html(shown['text'])}{left}"
        case "text" if shown.get("block"):
            return key + _block_html(shown["text"], shown.get("more", 0), is_whole)
        case "text":
            title = f' title="{html(shown["whole"])}"' if "whole" in shown else ""
            style = f"white-space:pre-wrap;{WRAP}"
            return f'{key}<code style="{style}"{title}>{html(shown["text"])}</code>'
        case "group":
            alone = len(shown["parts"]) == 1
            items = [shown_html(part, _key(name), alone, is_whole) for name, part in shown["parts"]]
            items += [f"… {shown['more']:,} more"] if shown["more"] else []
            inside = "".join(f"<li>{item}</li>" for item in items)
            return details(key + html(title), f'<ul style="{INDENT}">{inside}</ul>', opened)
        case "grid":
            more = f"… {html(shown['more'])}" if shown["more"] else ""
            table = table_html(
                shown["columns"],
                shown["rows"],
                is_whole=is_whole,
                looks=shown["looks"],
                types=shown.get("types", ()),
            )
            return details(key + html(title), table + more, opened)
    return (
        f'{key}<div><img alt="{html(title)}" style="max-width:100%;height:auto" '
        f'src="data:image/png;base64,{shown["data"]}"></div>'
    )


def _all_html(shown: Shown, key: str, is_whole: bool) -> str:
    """A text among other values: its line, which opens all of it. A reply of a model is written."""
    if shown.get("markdown"):
        return key + markdown_html(shown["all"])
    whole = lines_html(html(shown["all"]), BLOCK)
    return (
        key + whole
        if is_whole
        else details(f'{key}<code style="{WRAP}">{html(shown["text"])}</code>', whole, False)
    )


def _block_html(text: str, more: int, is_whole: bool) -> str:
    """A text of several lines: its first lines, and the others in a fold. No line is cut."""
    lines, rest, rows = text.split("\n"), 0, 0
    while rest < len(lines) and (not rest or is_whole or rows < _LINES):
        rows += 1 + len(lines[rest]) // _ROOM
        rest += 1
    if len(lines) - rest <= _FEW and not more:
        return lines_html(html(text), BLOCK)
    first, others = (html("\n".join(part)) for part in (lines[:rest], lines[rest:]))
    left = f"<em>… {counted(more, 'more line')} not saved here</em>" if more else ""
    folded = lines_html(others, BLOCK) + left
    title = f"… and {counted(len(lines) - rest + more, 'more line')}"
    return lines_html(first, BLOCK) + (
        details(title, folded) if others else f"<em>{title}, not saved here</em>"
    )


def _key(name: str | None) -> str:
    return "" if name is None else f'<span style="opacity:0.7">{html(name)}:</span> '


def _text(shown: Shown) -> list[str]:
    match shown["kind"]:
        case "group":
            lines = [each for key, part in shown["parts"] for each in _part(key, part)]
            return [*lines, *([f"… {shown['more']:,} more"] if shown["more"] else [])]
        case "grid":
            more = [f"… {shown['more']}"] if shown["more"] else []
            title = [shown["title"]] if shown["is_frame"] else []
            return [*title, *table_text(shown["columns"], shown["rows"], shown["looks"]), *more]
    more = [f"… and {counted(shown['more'], 'more line')}"] if shown.get("more") else []
    return [*str(shown["text"]).split("\n"), *more]


def _part(key: str | None, part: Shown) -> list[str]:
    lead, lines = "- " if key is None else f"{key}: ", _text(part)
    if part["kind"] == "text" and not part.get("block"):
        return [lead + lines[0]]
    inside = lines[1:] if part.get("is_frame") else lines
    return [lead + part.get("title", ""), *(f"  {each}" for each in inside)]
