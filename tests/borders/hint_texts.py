"""Splits a hint into pieces that a user can paste, choose from, remove or run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from agf_magics.editor.hint_texts import is_form, led_texts, meant_names

FILLED = (
    (re.compile(r"(--set \w+=)…"), r"\1pear"),
    (re.compile(r"(input=\{'\w+': )…"), r"\1'pear'"),
    (re.compile(r"(\{'\w+': )…"), r"\1'pear'"),
    (re.compile(r"(\w\((?:[\w.]+|\[[^\]]*\]), (\w+) -> )expression\)"), r"\1\2)"),
)
"""Forms with a value that only the user knows, and what these tests write for it."""

PYTHON = re.compile(r"in Python: (?P<text>input=\{'\w+': …\})")
REMOVE = re.compile(
    r"(?:^|; |: |, )(?:(?:remove|delete) (?P<this>one of them|it|them|the [a-z]+|!?[\w-]+)(?= to | or |,|;|:|$| \()|"
    r"leave (?P<that>it|them|condition: else) out|(?P<one>keep one\b|remove one\b))"
)
BEFORE = re.compile(
    r"(?P<text>(?:%config AgfMagics\.\w+ = \S+?|os\.environ\[.+?\] = \S+?|del os\.environ\[\S+\]))(?=$|, | [a-z])"
)
SHOWN = re.compile(r"(?:^|; )(?P<text>%\w+(?: \S+)*?) (?:lists|shows|says)\b")
INSTALL = re.compile(r"(?P<text>pip install \S+)")
CLOSE = re.compile(r"(?:^|; |, )(?:close (?:it|the '.') with|add) '(?P<text>[\])}]+)'")
RENAME = re.compile(r"(?:^|; )call the store (?P<text>\w+)")
CHOICES = re.compile(r"(?:^|; |\? )(?!a parameter)[\w' ]+? are (?P<text>\S+?(?:, \S+?)*)(?: and \d+ more)?(?=; |$)")


class Piece(NamedTuple):
    """A part of a hint that a user can use."""

    do: str
    """What to do with the text: ``write`` it in its place, ``fill`` it in with a value of the user's, ``remove`` it,
    ``close`` what is open, ``rename`` it everywhere, run it ``before`` as a line, run it as a line to ``show``
    something, ``choose`` one of several (see `choices`), or ``install`` it."""
    text: str

    @property
    def choices(self) -> list[str]:
        return self.text.split(", ")


def pieces(hint: str | None) -> list[Piece]:
    """The pieces of a hint, as it is written."""
    return list(dict.fromkeys([*_written(hint or ""), *_done(hint or "")]))


def _written(hint: str) -> Iterator[Piece]:
    """The pieces that are pasted."""
    yield from (Piece("write", name) for name in meant_names(hint))
    for text in (*led_texts(hint), *(match["text"] for match in PYTHON.finditer(hint))):
        filled = text
        for form, value in FILLED:
            filled = form.sub(value, filled)
        if not is_form(filled):
            yield Piece("write" if filled == text else "fill", filled)


def _done(hint: str) -> Iterator[Piece]:
    """The pieces that are used in another way."""
    for form_match in REMOVE.finditer(hint):
        yield Piece("remove", form_match["this"] or form_match["that"] or "one of them")
    for kind, form in {"close": CLOSE, "rename": RENAME, "show": SHOWN, "choose": CHOICES}.items():
        yield from (
            Piece(kind, match["text"])
            for match in form.finditer(hint)
            if kind == "choose" or not is_form(match["text"])
        )
    for kind, form in {"before": BEFORE, "install": INSTALL}.items():
        if (form_match := form.match(hint)) and not is_form(form_match["text"]):
            yield Piece(kind, form_match["text"])
