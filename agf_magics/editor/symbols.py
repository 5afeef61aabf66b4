"""Lists the steps of a text as a tree, and its names with their places."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from ..flow import steps
from ..flow.graph_steps import Dag, Walk
from ..flow.step import Step
from ..pictures.plain import line as one_line
from ..text.source import Span
from .problems import ReadText
from .text_group import WrittenFile

MOST_SYMBOLS = 5_000
"""The most lines of a file that become symbols."""

MOST_NAME = 60
"""Characters of the name of a symbol that is a line."""

GROUPS = (steps.Sequence, Dag, Walk)
"""Steps that the text does not name: their parts stand in their place."""


class Symbol(NamedTuple):
    """A flow or a step, in characters of its text."""

    name: str
    detail: str
    start: int
    end: int
    word_end: int
    """The end of the word that stands for the symbol; the word begins at ``start``."""
    inner: tuple[Symbol, ...] = ()


class Token(NamedTuple):
    """A name, by its place in characters."""

    start: int
    end: int
    kind: str


def symbols_of(file: WrittenFile) -> list[Symbol]:
    """The flow of a text with its steps. If an error hides the steps, the lines of the text, nested
    by their indentation."""
    read = file.read
    if read is None:
        return []
    if read.written.flow is None:
        return _of_lines(read)
    flow = read.written.flow
    end = len(file.text)
    inner = tuple(_steps([flow.body], end, read))
    name = flow.name or read.name or ""
    start = min(read.magic_start, end)
    return [Symbol(f"{flow.language} {name}".strip(), "", start, end, read.magic_end, inner)]


_LINE = re.compile(
    r"^(?P<indent> *+(?>(?:- ++)*))(?P<word>[^\s#:{}\[\]-][^\n:]*+):(?=\s|$) *+(?P<rest>[^\n]*+)",
    re.M,
)
"""The pattern of a line that begins with a key, with or without a dash before it."""

MOST_DEEP = 20
"""Levels of nested lines that are shown; deeper lines are left out."""


def _of_lines(read: ReadText) -> list[Symbol]:
    """A symbol for each line that begins with a key, nested in the line above that is indented
    less."""
    lines = list(islice(_LINE.finditer(read.text, read.definition_start), MOST_SYMBOLS))
    end = len(read.text.rstrip())

    def below(first: int, last: int, deep: int) -> Iterator[Symbol]:
        """The symbols of the lines from ``first`` to before ``last``, which are beside each other."""
        while first < last:
            match = lines[first]
            indent = len(match["indent"])
            after = next(
                (n for n in range(first + 1, last) if len(lines[n]["indent"]) <= indent), last
            )
            stop = lines[after].start() if after < len(lines) else end
            inner = tuple(below(first + 1, after, deep + 1)) if deep < MOST_DEEP else ()
            start = match.start("word")
            while stop > match.end("word") and read.text[stop - 1].isspace():
                stop -= 1
            name = one_line(f"{match['word']} {match['rest']}".strip(), MOST_NAME)
            yield Symbol(name, "", start, max(stop, match.end("word")), match.end("word"), inner)
            first = after

    return list(below(0, len(lines), 0))


def _steps(among: Sequence[Step], end: int, read: ReadText) -> Iterator[Symbol]:
    """The symbols of steps beside each other, up to ``end``."""
    starts = [_first(step, read) for step in among]
    for index, step in enumerate(among):
        after = min((s for s in starts[index + 1 :] if s is not None), default=end)
        start = _start(step.span, read)
        if isinstance(step, GROUPS) or start is None or step.span is None:
            yield from _steps(steps.children(step), after, read)
            continue
        word_end = start + step.span.end - step.span.start
        # On one line the next step may begin before the end of this step's word.
        inner = tuple(_steps(steps.children(step), max(after, word_end), read))
        last = max([word_end, len(read.text[:after].rstrip()), *(symbol.end for symbol in inner)])
        name = f"{step.word} {step.title or step.label}".strip()
        yield Symbol(name, step.id, start, last, word_end, inner)


def _first(step: Step, read: ReadText) -> int | None:
    places = (_start(inner.span, read) for inner in steps.every(step))
    return next((place for place in places if place is not None), None)


def _start(span: Span | None, read: ReadText) -> int | None:
    """The offset in the text where a place begins; None for a place in another text."""
    if span is None or span.source is not read.sources[0]:
        return None
    return span.start + read.definition_start


def tokens_of(file: WrittenFile) -> list[Token]:
    """The words of steps, the names that they call and what their expressions read, in order; none
    overlaps another one."""
    read = file.read
    if read is None or read.written.flow is None:
        return []
    kinds = dict[tuple[int, int], str]()
    for step in steps.every(read.written.flow.body):
        names = list[tuple[Span | None, str]]()
        if isinstance(step, steps.Invoke):
            kind = "class" if step.kind in ("flow", "policy") else "function"
            names += [(name.span, kind) for name in (step.name, *(step.tools or ()))]
        names += [(ref.span, "variable") for ref in steps.own_reads(step)]
        names.append((step.span, "keyword"))
        for span, kind in names:
            start = _start(span, read)
            if span is not None and start is not None:
                kinds.setdefault((start, start + span.end - span.start), kind)
    return list(_without_overlaps(kinds, file.text))


def _without_overlaps(kinds: dict[tuple[int, int], str], text: str) -> Iterator[Token]:
    """The tokens in order. A token that begins inside another one, or has several lines, is left
    out."""
    free_from = 0
    for (start, end), kind in sorted(kinds.items()):
        if free_from <= start < end and "\n" not in text[start:end]:
            free_from = end
            yield Token(start, end, kind)
