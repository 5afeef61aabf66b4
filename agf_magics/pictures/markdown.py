"""The Markdown of a model as plain HTML, for pages that no front end writes: saved cells and reports.

It knows what replies have: headings, paragraphs, lists, tables, quotes, code, emphasis and links to web
pages. A text is never markup: each piece is escaped before it gets its element. There are no pictures:
the page would ask another computer for them. Headings are bold text, since JupyterLab lists each heading
of an output in its table of contents.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from .plain import html, lines_html

_MOST_DEEP = 4
"""Levels of lists and quotes in each other; deeper ones stay text."""

_INLINE = re.compile(
    r"(?P<code>`[^`\n]+`)|\*\*(?P<strong>[^*\n]+)\*\*|\*(?P<em>[^*\s][^*\n]*)\*"
    r"|!?\[(?P<name>[^\[\]\n]+)\]\((?P<url>https?://[^()\s\[\]]+)\)"
)
_FENCE = re.compile(r"(`{3,}|~{3,})(.*)")
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
        elif fence := _fence(first):
            yield _code(part, fence)
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
    if fence := _fence(first):
        return _end_of_code(lines, end, fence)
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
        inside = _ITEM.sub(r"\3", line).strip()
        if (
            is_list and is_inner and (fence := _fence(inside))
        ):  # empty lines of the code are in the list
            end = _end_of_code(lines, end, fence)
    return end


def _end_of_code(lines: Sequence[str], at: int, fence: re.Match[str]) -> int:
    """Where the block of code ends whose lines begin at ``at``."""
    return next((n + 1 for n in range(at, len(lines)) if _closes(lines[n], fence)), len(lines))


def _begins(lines: Sequence[str], at: int) -> bool:
    """Whether a line is empty, or begins a block also without an empty line before it."""
    line = lines[at].strip()
    return bool(
        not line or _fence(line) or _HEADING.match(line) or _ITEM.match(line) or line[0] == ">"
    ) or (_is_table(lines, at))


def _fence(line: str) -> re.Match[str] | None:
    """The fence that begins a block of code, and the text behind it. Text with backticks behind backticks
    is code in a line."""
    fence = _FENCE.match(line)
    return None if fence is None or (line[0] == "`" and "`" in fence[2]) else fence


def _closes(line: str, fence: re.Match[str]) -> bool:
    """Whether a line ends the block of code. With a text behind its fence it belongs to the code."""
    mark = line.strip()
    return mark.startswith(fence[1]) and not mark.strip(mark[0])


def _code(lines: Sequence[str], fence: re.Match[str]) -> str:
    """A block of code. One word behind its fence names the language; more are a text that is shown."""
    is_closed = len(lines) > 1 and _closes(lines[-1], fence)
    behind = fence[2].strip()
    code = [*([behind] if " " in behind else []), *(lines[1:-1] if is_closed else lines[1:])]
    shown = html("\n".join(code))
    return lines_html(shown, "margin:8px 0;white-space:pre-wrap")


def _is_table(lines: Sequence[str], at: int) -> bool:
    rule = lines[at + 1] if at + 1 < len(lines) else ""
    return "|" in lines[at] and "|" in rule and "-" in rule and not rule.strip(" |:-")


def _table(lines: Sequence[str]) -> str:
    head, _, *rows = ([_inline(cell.strip()) for cell in _cells(line)] for line in lines)
    titles = _row("th", head)
    body = "".join(_row("td", row) for row in rows)
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
    text = 0 if _fence(lines[0]) else 1
    while 0 < text < len(lines) and not _begins(lines, text):
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
