"""Arabic and Hebrew in the order and with the forms in which they are seen: Cairo draws letter by letter.

A browser joins Arabic letters and turns texts that go to the left. For a .png or a .pdf this is done here,
with the forms that Unicode has for each letter at the begin, in the middle and at the end of a word. A line
goes to the right, as in the picture of a browser, and each part in such a script to the left.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

FORMS = range(0xFE70, 0xFF00)
"""The presentation forms of Arabic letters."""
_TO_THE_LEFT = "\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff"
"""Letters that are written from right to left, as a class of a regular expression."""
_PART = re.compile(f"[{_TO_THE_LEFT}](?:[^A-Za-z]*[{_TO_THE_LEFT}])?")
_DIGITS = re.compile(r"\d+(?:[.,:/]\d+)*")


def as_seen(text: str) -> str:
    """``text`` in the order and with the forms in which Cairo has to draw it.

    >>> as_seen("\u0628\u0628 v1") == "\ufe90\ufe91 v1"
    True
    """
    return _PART.sub(lambda part: _turned(_joined(part[0])), text)


def _turned(text: str) -> str:
    """A part from its end to its begin, with its numbers as they are."""
    return _DIGITS.sub(lambda digits: digits[0][::-1], text[::-1])


def _joined(text: str) -> str:
    """Letters in the form that their neighbours ask for; a mark between them stays where it is."""
    forms = _forms()
    letters: list[str] = []
    for letter in text:  # lam and alef are one sign
        if letters and f"{letters[-1]}{letter}" in forms["isolated"]:
            letters[-1] += letter
        else:
            letters.append(letter)
    plain = [place for place, letter in enumerate(letters) if not unicodedata.combining(letter[0])]
    joins = [letters[place] in forms["initial"] for place in plain]
    """For each letter: whether it joins the next letter, if that one can be joined."""
    for number, place in enumerate(plain):
        letter = letters[place]
        before = number > 0 and joins[number - 1] and letter in forms["final"]
        following = letters[plain[number + 1]] if number + 1 < len(plain) else ""
        after = joins[number] and following in forms["final"]
        form = {(False, False): "isolated", (False, True): "initial", (True, True): "medial"}
        letters[place] = forms[form.get((before, after), "final")].get(letter, letter)
    return "".join(letters)


@cache
def _forms() -> dict[str, dict[str, str]]:
    """For each form the signs of the letters that have it."""
    found: dict[str, dict[str, str]] = {
        "isolated": {},
        "initial": {},
        "medial": {},
        "final": {},
    }
    for code in FORMS:
        form, *letters = unicodedata.decomposition(chr(code)).split() or [""]
        if form.strip("<>") in found:
            text = "".join(chr(int(letter, 16)) for letter in letters)
            found[form.strip("<>")].setdefault(text, chr(code))
    return found
