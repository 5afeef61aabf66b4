"""Finds in the sentence of a hint the texts that it tells a person to write.

Such a text stands after the words that introduce it, and ends before the words that go on. A hint
carries no edit as data, because most hints contain one as text that a person pastes (decision
D182). `repairs` tries each text before it is offered.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_MEANT = "did you mean "
_NAME_BEFORE_MARK = re.compile(r"(?P<name>[^\n]+?)\?(?=[ ?\"]|$)", re.M)

_LEAD = re.compile(
    r"(?:(?:^|[;,:] |so |else |, or )(?:"
    # "write 1", "to compare write: ==", "add a: any to state", "use gte", "give it: --set n=3"
    r"(?:to compare )?write(?: it| the value)?:?|add(?: a default:)?|use|give it:|"
    # "quote it: "5"", "close the list: ]", "name it if it is text: 'a'"
    r"(?:declare|quote|close|name|set|put|wrap) [a-z ]{0,60}?(?: if it is text)?:|"
    # "If it is text, write "'word'"", "build the list: [1, 2]"
    r"If it is text, write|(?:build|compute) [a-z ]{0,60}: )|"
    # "the first element is written: find(…)", "a condition compares: n == true"
    r"\b(?:is written:|compares:|has only this:|without a matcher:))"
    # not "write the value of a call", "use another name"
    r" (?!the |it |one |a |another )"
)
"""The words before a text, at the beginning of a clause or at its end."""

_TAIL = re.compile(
    r"\?|\.$|; | \(for the text| \(in Python: | when | alone\b|, or the name of |, or remove|\. |$|"
    # "write 1, without quotes", "write {{topic}} in user_prompt_template"
    r",? without | in user_prompt|"
    # "write == to compare", but not "write to: END"; "write $input.n: this is the text 'n'"
    r" to (?!\w{1,60}:)[a-z]{1,60}\b|: (?:the|its|this) "
)
"""The words after a text, where it ends."""

_BARE = re.compile(
    r"(?P<text>(?!searched|write)(?:\w+: (?!of the |from )\S.*?|\{\w+: .*?\}))(?=; |$)"
)
"""A hint that is a text and no sentence: ``on_error: abort``."""

_PROSE = re.compile(r"[a-z]+(?:,? [a-z]+\b(?!\())+(?: |,|$)")
"""Several words in small letters, none of them with a bracket behind it."""
_TWO_WORDS = re.compile(r"\w+ (?:or|and) \w+$")
"""An expression that looks like prose: ``ready or done``."""
_OR_CLAUSE = re.compile(r", or (?:(?:write|add)(?: a default)?:? )?(?=[-\w]+[:( ])")
"""The words between two texts: ``x: 1, or write y: 2``."""
_STANDS_FOR = re.compile(
    r"…|\.\.\.|\$variable|\$model\b|\bindent\b|\b[A-Z]{3,}\b(?!T?:|_|\")|"
    r"(?<![\w.{\[])(?<!\{ )(?:list|condition|expression|separator|base|default|value|text)\b(?!\(|:)"
)
"""Placeholders, which stand for something else: a text with one is a form, not a text to write."""
_SIGN = re.compile(r"'[\])}]+'")
"""Closing brackets in quotes: they name a sign, and are no text to write."""
_GIVEN = re.compile(r"=text\b|'[^']*'")
"""The parts of an option that may have a word of `_STANDS_FOR` and are no placeholders."""


def texts_of(hint: str) -> Iterator[str]:
    """The texts of a hint that can be written as they are.

    >>> list(texts_of("did you mean fetch?"))
    ['fetch']
    >>> list(texts_of("write transform: {value: pipe}; or give it: steps: …"))
    ['transform: {value: pipe}']
    """
    yield from meant_names(hint)
    yield from (text for text in led_texts(hint) if not is_form(text))


def led_texts(hint: str) -> Iterator[str]:
    """The texts after ``write`` and similar words, those with placeholders included."""
    bare = _BARE.match(hint)
    for text in (*_led_to(hint), *([bare["text"]] if bare else ())):
        if not _is_prose(text.strip()):
            yield from _alternatives(text.strip())


def is_form(text: str) -> bool:
    """Whether a text has placeholders: ``%run_pipeline NAME``."""
    if _SIGN.fullmatch(text):
        return True
    # The words for the ends of a graph are written as they are.
    text = text.replace("START", "").replace("END", "")
    if text.startswith("--"):
        text = _GIVEN.sub("", text)
    return bool(_STANDS_FOR.search(text)) or (text.startswith("%config") and "=" not in text)


def meant_names(hint: str) -> Iterator[str]:
    """Each name between ``did you mean`` and its question mark; a name may have one, too."""
    start = hint.find(_MEANT)
    while start >= 0:
        start += len(_MEANT)
        name = _NAME_BEFORE_MARK.match(hint, start)
        if name is not None:
            yield name["name"]
            start = name.end("name")
        start = hint.find(_MEANT, start)


def _led_to(hint: str) -> Iterator[str]:
    """The texts between words that introduce a text and words that go on after it."""
    end = 0
    while (lead := _LEAD.search(hint, end)) and lead.end() < len(hint):
        tail = _TAIL.search(hint, lead.end() + 1)
        end = tail.start() if tail else len(hint)
        yield hint[lead.end() : end]


def _is_prose(text: str) -> bool:
    """Whether these words are a description, not a text to write: ``another model``, ``a case or a
    default``."""
    return bool(_PROSE.match(text)) and not _TWO_WORDS.match(text)


def _alternatives(text: str) -> list[str]:
    """The texts in an enumeration: ``a, or b`` and ``a, b or c``."""
    several = _OR_CLAUSE.split(text)
    if len(several) > 1:
        return several
    before, _, last = text.rpartition(" or ")
    words = [*before.removesuffix(",").split(", "), last]
    return words if before and all(map(_is_single, words)) else [text]


def _is_single(text: str) -> bool:
    """Whether the text is one word or one quoted text, perhaps behind an option."""
    option, _, value = text.partition(" ")
    word = value if option.startswith("--") and value else text
    is_quoted = len(word) > 1 and word[0] == word[-1] == "'" and word.count("'") == 2
    return is_quoted or (bool(word) and not any(sign.isspace() or sign == "," for sign in word))
