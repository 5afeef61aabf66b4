"""What a hint says to do, as pieces that a person can paste, choose from, take out or run."""

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
"""Forms in which only a value is a person's own, and what is written for it here."""

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
    do: str
    """``write`` (in its place), ``fill`` (the same with a value that only a person has), ``remove``, ``close`` (what is
    open), ``rename`` (everywhere), ``before`` (a line to run first), ``show`` (a line that shows something), ``choose``
    (one of several, see `choices`), ``install``."""
    text: str

    @property
    def choices(self) -> list[str]:
        return self.text.split(", ")


def pieces(hint: str | None) -> list[Piece]:
    """What can be done with a hint as it is written."""
    return list(dict.fromkeys([*_written(hint or ""), *_done(hint or "")]))


def _written(hint: str) -> Iterator[Piece]:
    """What is to be pasted."""
    yield from (Piece("write", name) for name in meant_names(hint))
    for text in (*led_texts(hint), *(found["text"] for found in PYTHON.finditer(hint))):
        filled = text
        for form, value in FILLED:
            filled = form.sub(value, filled)
        if not is_form(filled):
            yield Piece("write" if filled == text else "fill", filled)


def _done(hint: str) -> Iterator[Piece]:
    """What is to be done in another way."""
    for found in REMOVE.finditer(hint):
        yield Piece("remove", found["this"] or found["that"] or "one of them")
    for kind, form in {"close": CLOSE, "rename": RENAME, "show": SHOWN, "choose": CHOICES}.items():
        yield from (
            Piece(kind, found["text"])
            for found in form.finditer(hint)
            if kind == "choose" or not is_form(found["text"])
        )
    for kind, form in {"before": BEFORE, "install": INSTALL}.items():
        if (found := form.match(hint)) and not is_form(found["text"]):
            yield Piece(kind, found["text"])
