"""What to write instead: the habits of other languages, and what R1 has for each.

Only an author who got it wrong comes here, so it may be slow; it must be exact.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....text.diagnostics import suggest
from .nodes import COMBINATORS, EACH

Token = tuple[int, str, int]
"""Its kind, its text, its offset."""

FORMS = {
    **{name: f"{name}(list, x -> expression)" for name in EACH},
    "count": "count(list)",
    "sum": "sum(list)",
    "join": "join(list, separator)",
    "get": "get(base, 'a.b', default)",
}
"""How each combinator is written."""

CLOSING = {"(": ")", "[": "]", "{": "}"}

_CHOICE = "a choice is written: condition and 'yes' or 'no'"
_NO_INDEX = "write: find(list, x -> condition), or compute it in a tool"
_QUOTES = "texts are quoted with ' or \""
_OPERATORS = {
    "&&": "write: and",
    "||": "write: or",
    "&": "write: and",
    "|": "write: or; to join two texts or lists write: +",
    "!": "write: not x, or a != b",
    "=": "to compare write: ==",
    "===": "write: ==",
    "!==": "write: !=",
    "=>": "a lambda is written: x -> expression",
    "?": _CHOICE,
    "??": "write: get(base, 'a.b', default)",
    "?.": "write: get(base, 'a.b', default)",
    "%": "there is no remainder; compute it in a tool",
    "^": "there are no powers; compute it in a tool",
    ";": "an expression is one value; use one step for each",
    "#": "there are no comments; write them in the YAML around",
    "$": "a name is written as it is: ctx.name",
    "@": "a name is written as it is: ctx.name",
    "‘": _QUOTES,
    "’": _QUOTES,
    "“": _QUOTES,
    "”": _QUOTES,
    "`": _QUOTES,
}
"""Operators and marks of other languages."""

_WORDS = {
    "is": "to compare write: ==",
    "in": "write: any(list, x -> x == value)",
    "if": _CHOICE,
    "then": _CHOICE,
    "else": _CHOICE,
    "for": "write: map(list, x -> expression) or filter(list, x -> condition)",
    "lambda": "a lambda is written: map(list, x -> expression)",
    "mod": "there is no remainder; compute it in a tool",
    "div": "write: /",
    "xor": "write: a != b",
    "import": "expressions import nothing; compute it in a tool",
}

_FUNCTIONS = {
    "len": "count(list)",
    "length": "count(list)",
    "size": "count(list)",
    "reduce": "sum(list), join(list, separator), or a fold step",
    "some": "any(list, x -> condition)",
    "every": "all(list, x -> condition)",
    "concat": "a + b",
    "default": "get(base, 'a.b', default)",
    "if": "condition and 'yes' or 'no'",
    "not": "not x",
}
"""Functions of other languages; what they are here."""


def unknown_function(name: str) -> tuple[str, str | None]:
    """The message and the hint for ``name(``."""
    base, dot, method = name.rpartition(".")
    if dot:
        known = method.strip() if method.strip() in COMBINATORS else None
        form = f"write: {FORMS[known].replace('list', base).replace('base', base)}" if known else None
        return f"{name!r} is no function: values have no methods", form or f"functions are {', '.join(COMBINATORS)}"
    if name in _FUNCTIONS:
        return f"there is no function {name!r}", f"write: {_FUNCTIONS[name]}"
    return f"there is no function {name!r}", suggest(name, COMBINATORS, "functions")


def lambda_expected(name: str, found: str) -> tuple[str, str]:
    """The message and the hint where the second argument of ``name`` is no lambda."""
    what = f", not {found!r}" if found else ""
    return f"the second argument of {name}() is a lambda with one parameter{what}", f"write: {FORMS[name]}"


def blamed(tokens: Sequence[Token], index: int) -> int:
    """The token to point at where ``tokens[index]`` cannot stand: ``import os`` goes wrong at ``os``, NOT x at x."""
    before = tokens[index - 1][1] if index else ""
    return index - 1 if before in _WORDS or _shouted(before) else index


def _shouted(word: str) -> bool:
    return word.lower() in ("and", "or", "not") and word != word.lower()


def unexpected(tokens: Sequence[Token], index: int, source: str, wanted: str) -> tuple[str, str, str | None]:
    """The code, the message and the hint for a token that cannot stand where it does; ``wanted`` could."""
    _, text, at = tokens[index]
    before = tokens[index - 1][1] if index else ""
    found = f"expected {wanted}, found {text!r}"
    if text in ("'", '"'):
        hint = (
            "a backslash must be followed by a character"
            if "\\\n" in source[at:]
            else f"add {text} where the text ends"
        )
        return "r1.unclosed", f"the text that begins with {text} is never closed", hint
    if text in _OPERATORS:
        return "r1.operator", f"there is no {text!r}", _OPERATORS[text]
    if text == "[" and before in FORMS:
        return "r1.syntax", found, f"write: {FORMS[before]}"
    if text == "[":
        return "r1.index", "a list cannot be indexed", _NO_INDEX
    if text == "->":
        form = "fields are read with a dot: ctx.name" if before == "ctx" else f"write: {FORMS['map']}"
        return "r1.lambda", f"a lambda can only be the second argument of {', '.join(EACH)}", form
    if text == ".":
        return _dot(before, source[at + 1 : at + 2], found)
    if text in _WORDS:
        return "r1.operator", f"there is no {text!r}", _WORDS[text]
    if _shouted(text):
        return "r1.operator", f"there is no {text!r}", f"write: {text.lower()}"
    return "r1.syntax", found, _shape(text, before)


def _dot(before: str, after: str, found: str) -> tuple[str, str, str | None]:
    if before.replace(".", "").isdigit() or (after.isdigit() and not before):
        return "r1.syntax", "a number has digits on both sides of its point", "write: 1.0 or 0.5"
    if after.isdigit():
        return "r1.index", "a list cannot be indexed", _NO_INDEX
    if before[-1:] in (")", "]", "}", "'", '"'):
        return "r1.syntax", "only a path has fields", "write: get(base, 'a.b', default)"
    return "r1.syntax", found, "a name follows the point; other keys are read by: get(base, 'a key', default)"


def _shape(text: str, before: str) -> str | None:
    """What a token that stands wrong looks like."""
    if before[:1] in ("'", '"') and text[0].isalpha():
        return "a text with ' in it is quoted with \", or write \\'"
    if text in ("and", "or", "+", "*", "/"):
        return f"{text!r} stands between two values"
    if text in (")", "]", "}"):
        return "no comma after the last one" if before == "," else None
    if before.isdigit() and text[0] in "_eExX":
        return "numbers are written with digits only: 1000, 2.5"
    if not text.isascii():
        letters = "names are written with the letters a to z, digits and _"
        return letters if text.isalpha() else "blanks are space, tab and newline" if text.isspace() else None
    return None
