"""The Markdown of a model as plain HTML, for pages that no front end writes: saved cells and reports.

It knows what replies have: headings, paragraphs, lists, tables, quotes, code, emphasis and links to web
pages. A text is never markup: each piece is escaped before it gets its element. There are no pictures:
the page would ask another computer for them. Headings are bold text, since JupyterLab lists each heading
of an output in its table of contents.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from .plain import html

_MOST_DEEP = 4
"""Levels of lists and quotes in each other; deeper ones stay text."""

_INLINE = re.compile(
    r"(?P<code>`[^`\n]+`)|\*\*(?P<strong>[^*\n]+)\*\*|\*(?P<em>[^*\s][^*\n]*)\*"
    r"|!?\[(?P<name>[^\[\]\n]+)\]\((?P<url>https?://[^()\s\[\]]+)\)"
)
_HEADING = re.compile(r"#{1,6} +(.*)")
_ITEM = re.compile(r"( {0,12})(?:[-*+]|(\d{1,9})[.)]) +(.*)")
_CELL = "text-align:left;padding:2px 8px;border:1px solid #8888"
_LIST = "margin:4px 0;padding-left:1.6em"


def markdown_html(text: str) -> str:
    """``text``, which went through `plain`, as HTML.

    >>> markdown_html("**seven** <b>euros</b>")
    '<p style="margin:4px 0"><strong>seven</strong> &lt;b&gt;euros&lt;/b&gt;</p>'
    """
    return "".join(_blocks(text.split("\n"), 0))


def _blocks(lines: Sequence[str], depth: int) -> Iterator[str]:
    """The blocks of ``lines`` as HTML. ``depth``: the number of lists and quotes around them."""
    at = 0
    while at < len(lines):
        end = _end(lines, at, depth)
        part = lines[at:end]
        first = part[0].strip()
        if not first:
            pass
        elif len(first) > 2 and not first.strip("-*_ "):
            yield "<hr>"
        elif _is_fence(first):
            is_closed = len(part) > 1 and _is_fence(part[-1].strip())
            code = html("\n".join(part[1:-1] if is_closed else part[1:]))
            yield f'<pre style="margin:4px 0;white-space:pre-wrap">{code}</pre>'
        elif heading := _HEADING.match(first):
            yield f'<p style="margin:8px 0 3px"><strong>{_inline(heading[1])}</strong></p>'
        elif _is_table(lines, at):
            yield _table(part)
        elif depth < _MOST_DEEP and first.startswith(">"):
            inside = [line.strip().removeprefix(">").removeprefix(" ") for line in part]
            quoted = "".join(_blocks(inside, depth + 1))
            yield f'<blockquote style="margin:4px 1.6em">{quoted}</blockquote>'
        elif depth < _MOST_DEEP and _ITEM.match(part[0]):
            yield _list(part, depth)
        else:
            written = _inline("\n".join(map(str.strip, part)))
            yield f'<p style="margin:4px 0">{written}</p>'
        at = end


def _end(lines: Sequence[str], at: int, depth: int) -> int:
    """Where the block ends that begins with the line ``at``."""
    first, end = lines[at].strip(), at + 1
    if _is_fence(first):
        closed = (n for n in range(end, len(lines)) if _is_fence(lines[n].strip()))
        return next(closed, len(lines) - 1) + 1
    if not first or _HEADING.match(first) or not first.strip("-*_ "):
        return end
    is_table, is_list = _is_table(lines, at), depth < _MOST_DEEP and _ITEM.match(lines[at])
    while end < len(lines) and lines[end].strip():
        line = lines[end]
        if is_table and "|" not in line:
            break
        is_inner = is_list and (line[0] == " " or _ITEM.match(line))
        is_inner = is_inner or (first[0] == line.strip()[0] == ">")
        if not is_table and not is_inner and _begins(lines, end):
            break
        end += 1
    return end


def _begins(lines: Sequence[str], at: int) -> bool:
    """Whether a line begins a block also without an empty line before it."""
    line = lines[at].strip()
    return bool(_is_fence(line) or _HEADING.match(line) or _ITEM.match(line) or line[0] == ">") or (
        _is_table(lines, at)
    )


def _is_fence(line: str) -> bool:
    return line.startswith(("```", "~~~"))


def _is_table(lines: Sequence[str], at: int) -> bool:
    rule = lines[at + 1] if at + 1 < len(lines) else ""
    return "|" in lines[at] and "|" in rule and "-" in rule and not rule.strip(" |:-")


def _table(lines: Sequence[str]) -> str:
    head, _, *rows = ([_inline(cell.strip()) for cell in _cells(line)] for line in lines)
    titles = _row("th", head)
    body = "".join(_row("td", row[: len(head)]) for row in rows)
    return (
        '<table style="border-collapse:collapse;margin:4px 0;color:inherit">'
        f"<thead>{titles}</thead><tbody>{body}</tbody></table>"
    )


def _row(name: str, cells: Sequence[str]) -> str:
    inside = "".join(f'<{name} style="{_CELL}">{cell}</{name}>' for cell in cells)
    return f"<tr>{inside}</tr>"


def _cells(line: str) -> list[str]:
    return line.strip().removeprefix("|").removesuffix("|").split("|")


def _list(lines: Sequence[str], depth: int) -> str:
    """A list; the lines of an item that stand deeper than its mark are inside it."""
    first = _ITEM.match(lines[0])
    assert first is not None
    items = list[list[str]]()
    indent = len(first[1])
    for line in lines:
        item = _ITEM.match(line)
        if item is not None and (len(item[1]) <= indent or not items):
            items.append([item[3]])
        else:
            items[-1].append(line)
    inside = "".join(f"<li>{_item(item, depth)}</li>" for item in items)
    name = "ul" if first[2] is None else "ol"
    start = f' start="{int(first[2])}"' if first[2] not in (None, "1") else ""
    return f'<{name}{start} style="{_LIST}">{inside}</{name}>'


def _item(lines: Sequence[str], depth: int) -> str:
    """The text of an item, then the blocks that begin in its later lines."""
    text = 1
    while text < len(lines) and not _begins(lines, text):
        text += 1
    own = _inline("\n".join(map(str.strip, lines[:text])))
    return own + "".join(_blocks(lines[text:], depth + 1))


def _inline(text: str) -> str:
    """Text with its emphasis, code and links."""
    parts, at = list[str](), 0
    for found in _INLINE.finditer(text):
        parts += [html(text[at : found.start()]), _marked(found)]
        at = found.end()
    return "".join([*parts, html(text[at:])])


def _marked(found: re.Match[str]) -> str:
    """The HTML of one code, link, strong or emphasized text."""
    if code := found["code"]:
        return f"<code>{html(code[1:-1])}</code>"
    if url := found["url"]:
        # A page of a reply is opened by a person, and learns nothing of the notebook.
        link = f'href="{html(url)}" rel="noopener noreferrer" target="_blank"'
        return f"<a {link}>{_inline(found['name'])}</a>"
    name = "strong" if found["strong"] else "em"
    return f"<{name}>{_inline(found[name])}</{name}>"
