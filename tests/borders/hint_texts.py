"""What a hint says to do, as pieces that a person can paste, choose from, take out or run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

PLACEHOLDER = re.compile(
    r"…|\.\.\.|\$variable|\$model\b|\bindent\b|\b[A-Z]{3,}\b(?!T?:|_|\")|"
    r"(?<![\w.{\[])(?<!\{ )(?:list|condition|expression|separator|base|default|value|text)\b(?!\(|:)"
)
"""Words that stand for something in a form: such a text is no text to paste."""

FILLED = (
    (re.compile(r"(--set \w+=)…"), r"\1pear"),
    (re.compile(r"(input=\{'\w+': )…"), r"\1'pear'"),
    (re.compile(r"(\{'\w+': )…"), r"\1'pear'"),
    (re.compile(r"(\w\((?:[\w.]+|\[[^\]]*\]), (\w+) -> )expression\)"), r"\1\2)"),
)
"""Forms in which only a value is a person's own, and what is written for it here."""

LEADS = (
    "(?:to compare )?write(?: it| the value)?:?",
    "add(?: a default:)?",
    "use",
    "give it:",
    "(?:declare|quote|close|name|set|put|wrap) [a-z ]*?(?: if it is text)?:",
    "If it is text, write",
    "(?:build|compute) [a-z ]*: ",
)
"""Words at the beginning of a clause after which a text stands."""

WITHIN = ("is written:", "compares:", "has only this:", "without a matcher:")
"""The same at its end."""

TAILS = (
    r"\?",
    r"\.$",
    r"; ",
    r" \(for the text",
    r" \(in Python: ",
    " when ",
    r" alone\b",
    ",? without ",
    ", or the name of ",
    " in user_prompt",
    ", or remove",
    r" to (?!\w+:)[a-z]+\b",
    ": (?:the|its|this) ",
    r"\. ",
    "$",
)
"""What ends it."""

MEANT = re.compile(r"did you mean (?P<text>.+?)\?")
WRITE = re.compile(
    rf"(?:(?:^|[;,:] |so |else |, or )(?:{'|'.join(LEADS)})|\b(?:{'|'.join(WITHIN)})) (?!the |it |one |a |another )"
    rf"(?P<text>.+?)(?={'|'.join(TAILS)})"
)
PYTHON = re.compile(r"in Python: (?P<text>input=\{'\w+': …\})")
BARE = re.compile(r"(?P<text>(?!searched|write)(?:\w+: (?!of the |from )\S.*?|\{\w+: .*?\}))(?=; |$)")
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
    yield from (Piece("write", found["text"]) for found in MEANT.finditer(hint))
    bare = BARE.match(hint)
    for found in (*WRITE.finditer(hint), *PYTHON.finditer(hint), *((bare,) if bare else ())):
        whole = found["text"].strip()
        for text in () if _is_prose(whole) else _alternatives(whole):
            filled = text
            for form, value in FILLED:
                filled = form.sub(value, filled)
            if not _is_form(filled):
                yield Piece("write" if filled == text else "fill", filled)


def _done(hint: str) -> Iterator[Piece]:
    """What is to be done in another way."""
    for found in REMOVE.finditer(hint):
        yield Piece("remove", found["this"] or found["that"] or "one of them")
    for kind, form in {"close": CLOSE, "rename": RENAME, "show": SHOWN, "choose": CHOICES}.items():
        yield from (
            Piece(kind, found["text"])
            for found in form.finditer(hint)
            if kind == "choose" or not _is_form(found["text"])
        )
    for kind, form in {"before": BEFORE, "install": INSTALL}.items():
        if (found := form.match(hint)) and not _is_form(found["text"]):
            yield Piece(kind, found["text"])


def _is_prose(text: str) -> bool:
    """Whether these are words and not a text: ``another model``, ``a case or a default``."""
    return bool(re.match(r"[a-z]+(?:,? [a-z]+\b(?!\())+(?: |,|$)", text)) and not re.match(r"\w+ (?:or|and) \w+$", text)


def _alternatives(text: str) -> list[str]:
    """``a, or b`` and ``a, b or c`` are several texts."""
    several = re.split(r", or (?:(?:write|add)(?: a default)?:? )?(?=[-\w]+[:( ])", text)
    if len(several) > 1:
        return several
    one = r"(?:--\S+ )?(?:'[^']*'|[^\s,]+)"
    words = re.fullmatch(rf"({one})((?:, {one})*),? or ({one})", text)
    return (
        [word for word in re.split(rf"({one})", text) if re.fullmatch(one, word) and word != "or"] if words else [text]
    )


def _is_form(text: str) -> bool:
    """Whether words of a text stand for something: ``%run_pipeline NAME``."""
    if re.fullmatch(r"'[\])}]+'", text):  # a sign, see CLOSE
        return True
    text = text.replace("START", "").replace("END", "")
    if text.startswith("--"):
        text = re.sub(r"=text\b|'[^']*'", "", text)
    return bool(PLACEHOLDER.search(text)) or (text.startswith("%config") and "=" not in text)
