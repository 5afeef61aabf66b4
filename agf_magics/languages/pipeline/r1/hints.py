"""Hints what to write in R1 in place of the idioms of other languages.

Only an expression with an error needs a hint, so this code may be slow, but it must be exact and
use the author's own words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple

from ....text.suggestions import suggest
from .choices import choice_hint
from .functions import EACH_NAMES, FUNCTIONS
from .row import Function
from .tokens import Token
from .written import HOLES, concatenation

_GET = f"write: {FUNCTIONS['get'].form}"
_QUOTES = "texts are quoted with ' or \""
_NAME = "a name is written as it is: ctx.name"
_LAMBDA = "a lambda is written: x -> expression"
USE_A_TOOL = "compute it in a tool"
_OPERATORS = {
    "&&": "write: and",
    "||": "write: or",
    "&": "write: and",
    "|": "write: or; to join two texts or lists write: +",
    "!": "write: not x, or a != b",
    "=": "to compare write: ==",
    "===": "write: ==",
    "!==": "write: !=",
    "=>": f"{_LAMBDA}; to compare write: >=",
    "=<": "to compare write: <=",
    "<>": "write: !=",
    "??": _GET,
    "?.": _GET,
    "%": f"there is no remainder; {USE_A_TOOL}",
    "^": f"there are no powers; {USE_A_TOOL}",
    "//": f"a / b divides; to round down, {USE_A_TOOL}",
    ";": "an expression is one value; use one step for each",
    "#": "there are no comments; write them in the YAML around",
    "$": _NAME,
    "@": _NAME,
    "`": _QUOTES,
    **dict.fromkeys("‘’“”", _QUOTES),
    "is": "to compare write: ==",
    "is not": "to compare write: !=",
    "lambda": f"a lambda is written: {FUNCTIONS['map'].form}",
    "mod": f"there is no remainder; {USE_A_TOOL}",
    "div": "write: /",
    "xor": "write: a != b",
    "import": f"expressions import nothing; {USE_A_TOOL}",
}
"""Operators, marks and words of other languages."""

_CHOICES = {
    "?": "there is no '?'",
    "if": "there is no 'if'",
    "then": "there is no 'then'",
    "else": "there is no 'else'",
}
_CAPITALS = ("AND", "And", "OR", "Or", "NOT", "Not")
"""The words of the language in other letters."""
_WORDS = {*filter(str.isalpha, _OPERATORS), "if", "then", "else", "for", "in", *_CAPITALS}

ELSEWHERE = {
    **{name: f"write: {row.form}" for row in FUNCTIONS.values() for name in row.foreign},
    "reduce": "write: sum(list), join(list, separator), or a fold step",
    "some": "write: any(list, x -> condition)",
    "every": "write: all(list, x -> condition)",
    "concat": "write: a + b",
    "if": "write: condition and 'yes' or 'no'",
    "not": "write: not x",
    "print": "write the expression alone: its value is the step's result, and the run shows it",
    **{
        name: f"write: find(list, x -> all(list, y -> x {sign} y)); for a long list, {USE_A_TOOL}"
        for name, sign in (("max", ">="), ("min", "<="))
    },
    **dict.fromkeys(
        ("int", "float", "number"),
        "write parse_json(text) for the number in a text; better, let the tool return a number, or "
        "give the agent's step a schema with one",
    ),
    "range": "write the list: [0, 1, 2]; of a length that varies, let a tool return it",
    "json": "write: parse_json(text), or text(value)",
}
"""Functions of other languages; what to write here."""


class Finding(NamedTuple):
    """An error in an expression, with offsets for its place."""

    code: str
    message: str
    hint: str | None
    offset: int
    end: int


def unknown_function(name: str, functions: Mapping[str, Function]) -> tuple[str, str]:
    """The message and the hint for ``name(``, which none of ``functions`` has."""
    base, dot, method = (part.strip() for part in name.rpartition("."))
    choices = f"functions are {', '.join(functions)}"
    if dot:
        message = f"values have no methods: there is no {name!r}"
        return message, method_hint(base, method) or f"{USE_A_TOOL}; {choices}"
    message = f"there is no function {name!r}"
    if name in ELSEWHERE:
        return message, ELSEWHERE[name]
    near = suggest(name, functions) or ""
    step = f"a tool is a step of its own: tool: {{name: {name}, args: {{…}}}}"
    return message, f"{near} {choices}; {step}".strip()


def method_hint(base: str, method: str) -> str | None:
    """The hint for a function that is written as a method or a field."""
    names = (row for row in FUNCTIONS.values() if method in (row.name, *row.foreign))
    return next((f"write: {row.form_of(base)}" for row in names), None)


def lambda_expected(function: Function, first: str, second: str, after: str) -> tuple[str, str]:
    """The message and the hint where the second argument of ``function`` must be a lambda. ``first``:
    the text of its first argument; ``second``, ``after``: the tokens at the second."""
    message = f"the second argument of {function.name}() is a lambda with one parameter"
    if second:
        message += f", not {second!r}"
    hint = f"write: {function.form_of(first)}"
    if after == ")":
        step = f"for_each with do: {{tool: {{name: {second}, args: {{…}}}}}}"
        hint += f"; a tool is called by a step: {step}"
    return message, hint


def explain_unexpected(tokens: Sequence[Token], index: int, source: str, wanted: str) -> Finding:
    """The error for the token ``tokens[index]``, where ``wanted`` belongs."""
    word = tokens[index - 1].text
    if word in _WORDS:
        index -= 1  # ``import os`` fails at ``os``, NOT x at x
    before = tokens[index - 1]
    (_, text, offset) = tokens[index]
    glued = before.text + text if before.offset + len(before.text) == offset else ""
    if glued in ("**", "//", "<>"):
        power = _power(tokens, index, glued)
        return Finding("r1.operator", f"there is no {glued!r}", power, before.offset, offset + 1)
    if before.text in ("f", "F", "r", "b") and len(glued) > 2 and text[0] in "'\"":
        whole = concatenation(text[1:-1], of_python=True)
        written = f"write: {whole}" if whole else HOLES
        end = offset + len(text)
        return Finding("r1.syntax", "there are no f-strings", written, before.offset, end)
    if braced := _braced_name(tokens, index):
        return braced
    code, message, hint = _explain_token(tokens, index, source) or (
        "r1.syntax",
        f"expected {wanted}, found {text!r}",
        _number(glued) or _shape(text, before.text),
    )
    return Finding(code, message, hint, offset, offset + len(text))


_PATH = re.compile(r"[A-Za-z_][\w.]*")


def _braced_name(tokens: Sequence[Token], index: int) -> Finding | None:
    """For ``{name}``, as in a prompt."""
    # In {ctx.name} the name is unexpected, in {name} the brace behind it.
    first = index - 1 if tokens[index - 1].text == "{" else index - 2
    if first < 0 or first + 2 >= len(tokens):
        return None
    opening, name, closing = tokens[first : first + 3]
    if (opening.text, closing.text) != ("{", "}") or not _PATH.fullmatch(name.text):
        return None
    message = "a name has no { } around it: an object has keys and values"
    return Finding("r1.syntax", message, f"write: {name.text}", opening.offset, closing.offset + 1)


def _assignment_hint(operator: str, name: str) -> str | None:
    """The hint for ``name = value``."""
    if operator != "=" or not name.isidentifier():
        return None
    return f"the result gets its name beside it: output: {name}; to compare write: =="


def _unclosed_text(sign: str, before: str, source: str) -> tuple[str, str, str | None] | None:
    """A text that is never closed, or the second brace of ``{{ name }}``."""
    if sign != "{":
        hint = f"add {sign} where the text ends"
        return "r1.unclosed", f"the text that begins with {sign} is never closed", hint
    if before != "{":
        return None
    whole = concatenation(source.strip())
    hint = f"write: {whole}" if whole else HOLES
    return "r1.syntax", "an expression has no {{ }}: a name stands in it alone", hint


def _explain_token(
    tokens: Sequence[Token], index: int, source: str
) -> tuple[str, str, str | None] | None:
    """The code, the message and the hint for a token that no expression has here; None: only what
    was expected can be said."""
    _, text, offset = tokens[index]
    before = tokens[index - 1].text
    absent = f"there is no {text!r}"
    if text in ("'", '"', "{"):
        return _unclosed_text(text, before, source)
    if text in _CHOICES:
        return "r1.operator", absent, choice_hint(tokens, index, source)
    if text == "for":
        return "r1.operator", absent, _comprehension(tokens, index, source)
    if text == "in":
        return "r1.operator", absent, _membership_hint(tokens, index, index, source)
    if text == "not" and tokens[index + 1].text == "in":
        hint = _membership_hint(tokens, index, index + 1, source)
        return "r1.syntax", "'not' stands before what it negates", hint
    if text == "is" and tokens[index + 1].text == "not":
        return "r1.operator", "there is no 'is not'", _OPERATORS["is not"]
    if text == "not":
        hint = "not a == b, or of a list: all(list, x -> x != value)"
        return "r1.syntax", "'not' stands before what it negates", f"write: {hint}"
    if text in _OPERATORS:
        return (
            "r1.operator",
            absent,
            _assignment_hint(text, source[:offset].strip()) or _OPERATORS[text],
        )
    if text == "[":
        return _bracket(before, tokens[index + 1].text)
    if text == "->":
        return _arrow(tokens, index, source)
    if text == ".":
        name = re.match(r"\w*\(?", source[offset + 1 : offset + 97])
        return _dot(before, name[0] if name else "")
    if text in _CAPITALS:
        return "r1.operator", absent, f"write: {text.lower()}"
    return None


def _bracket(before: str, after: str) -> tuple[str, str, str | None]:
    """The hint for a bracket after a name: there are no indexes, and a function is no list."""
    if before not in FUNCTIONS:
        return "r1.index", *_index(before, after)
    store = f"a store of that name is ctx.{before}, its first element find(ctx.{before}, x -> true)"
    return "r1.syntax", f"{before!r} is a function", f"write: {FUNCTIONS[before].form}; {store}"


def _arrow(tokens: Sequence[Token], index: int, source: str) -> tuple[str, str, str]:
    """The hint for a lambda where none is allowed."""
    if items := _items_before(tokens, index, source):
        hint = f"write: [{items}], {tokens[index - 1].text} -> expression"
        return "r1.unclosed", "the list before this lambda is never closed", hint
    message = f"a lambda can only be the second argument of {', '.join(EACH_NAMES)}"
    return "r1.lambda", message, f"write: {FUNCTIONS['map'].form}"


def _power(tokens: Sequence[Token], index: int, operator: str) -> str:
    if operator in _OPERATORS:
        return _OPERATORS[operator]
    base = tokens[index - 2].text
    exponent = tokens[index + 1].text
    if exponent == "2" and base[-1].isalnum():
        return f"write: {base} * {base}"
    return f"there are no powers; {USE_A_TOOL}"


_ENDS = {"and", "or", "not", ",", "?", ":", "->", "if", "else", "then", ""}
"""The end of an operand of ``in``, beside a bracket."""


def _membership_hint(tokens: Sequence[Token], first: int, last: int, source: str) -> str:
    """The hint for ``item in list``. ``first``, ``last``: the tokens of ``in`` or ``not in``."""
    negation = "not " if last > first else ""
    item = source[_operand_end(tokens, first, -1, source) : tokens[first].offset].strip()
    end = _operand_end(tokens, last, 1, source)
    items = source[tokens[last].offset + len(tokens[last].text) : end].strip()
    if items[:1] in ("'", '"'):
        return f"no function looks for a part of a text; {USE_A_TOOL}"
    if items.startswith("(") and items.endswith(")") and "," in items:
        items = f"[{items[1:-1]}]"
    names = {text.partition(".")[0].strip() for _, text, _ in tokens}
    parameters = ("x", "each", "element", "n")
    name = next((name for name in parameters if name not in names), "n")
    return f"write: {negation}any({items or 'list'}, {name} -> {name} == {item or 'value'})"


def _operand_end(tokens: Sequence[Token], index: int, step: int, source: str) -> int:
    """The offset where the operand beside the token ends: at a word of `_ENDS`, or at the bracket
    around it."""
    depth = 0
    opening = "([{"
    closing = ")]}"
    if step < 0:
        opening, closing = closing, opening
    index += step
    while 0 <= index < len(tokens):
        _, text, offset = tokens[index]
        depth += (text != "" and text in opening) - (text != "" and text in closing)
        if depth < 0 or (depth == 0 and text in _ENDS):
            return offset if step > 0 else offset + len(text)
        index += step
    return len(source) if step > 0 else 0


_NUMBERS = re.compile(r"[0-9]+(?:\.[0-9]+)?[eE][0-9]{1,2}|0[xX][0-9a-fA-F]+|[0-9]+(?:_[0-9]+)+")
"""Numbers of other languages that are written without an operator."""


def _number(glued: str) -> str | None:
    """The hint for a number of another language."""
    if _NUMBERS.fullmatch(glued) is None:
        return None
    if glued[:2].lower() == "0x":
        return f"the number is written: {int(glued, 16)}"
    return f"the number is written: {Decimal(glued.replace('_', '')):f}"


def _comprehension(tokens: Sequence[Token], index: int, source: str) -> str:
    """The hint for ``[a for x in list if c]``."""
    start, end = _brackets_around(tokens, index, len(source))
    value, _, rest = source[start:end].partition(" for ")
    name, _, rest = rest.partition(" in ")
    base, _, condition = rest.partition(" if ")
    if not (name.strip().isidentifier() and base.strip()):
        return f"write: {FUNCTIONS['map'].form} or filter(list, x -> condition)"
    value, name, items, condition = (part.strip() for part in (value, name, base, condition))
    if condition:
        items = f"filter({items}, {name} -> {condition})"
    if condition and value == name:
        return f"write: {items}"
    called = source[:start].removesuffix("[").rstrip().removesuffix("(")
    function = re.split(r"\W", called)[-1]
    if function in ("any", "all"):  # they take the lambda themselves
        return f"write: {function}({items}, {name} -> {value})"
    return f"write: map({items}, {name} -> {value})"


def _brackets_around(tokens: Sequence[Token], index: int, end: int) -> tuple[int, int]:
    """The offsets of what is inside the innermost brackets around the token."""
    start = 0
    depth = 0
    for _, text, offset in reversed(tokens[:index]):
        depth += (text in (")", "]")) - (text in ("(", "["))
        if depth < 0:
            start = offset + 1
            break
    depth = 0
    for _, text, offset in tokens[index:]:
        depth += (text in ("(", "[")) - (text in (")", "]"))
        if depth < 0:
            return start, offset
    return start, end


def _items_before(tokens: Sequence[Token], index: int, source: str) -> str | None:
    """The items of a list that is still open at the arrow, as in ``map([1, 2, x -> x)``."""
    start, _ = _brackets_around(tokens, index, len(source))
    items, comma, _ = source[start : tokens[index].offset].rpartition(",")
    return items if comma and source[start - 1 : start] == "[" else None


def _index(base: str, key: str) -> tuple[str, str]:
    """The message and the hint for ``base[key]``."""
    name = key.strip("'\"")
    if base == "steps":
        return "steps cannot be indexed", "name the step's result with output: NAME, and write NAME"
    if base == "ctx" or key[:1] in ("'", '"'):
        plain = name.isascii() and name.isidentifier()
        return (
            "fields are not read with brackets",
            f"write: {base}.{name}" if plain else f"write: get({base}, {key})",
        )
    hint = f"find(list, x -> condition) is the first element with it; for another {USE_A_TOOL}"
    if key == "0" and base[-1:].isalnum():
        hint = f"the first element is written: find({base}, x -> true)"
    return "a list cannot be indexed", hint


def _dot(before: str, after: str) -> tuple[str, str, str]:
    """The code, the message and the hint for a point between ``before`` and ``after``."""
    if before.replace(".", "").isdigit() or (after.isdigit() and not before):
        return "r1.syntax", "a number has digits on both sides of its point", "write: 1.0 or 0.5"
    if after[:1].isdigit() and (before == "ctx" or not after.isdigit()):
        message = "a name after a point begins with a letter or _"
        return "r1.index", message, f"write: get({before}, '{after}')"
    if after.isdigit():
        return "r1.index", *_index(before, after)
    if before[-1:] in (")", "]", "}", "'", '"'):
        if after.endswith("("):
            hint = method_hint("list", after[:-1]) or USE_A_TOOL
            return "r1.syntax", "values have no methods", hint
        return "r1.syntax", "only a path has fields", _GET
    message = "a name must follow the point"
    return "r1.syntax", message, "other keys are read by: get(base, 'a key', default)"


def _shape(text: str, before: str) -> str | None:
    """The hint for a token that is known by its look, after the token ``before``."""
    if before[:1] in ("'", '"') and text[0].isalpha():
        sign = before[0]
        other = '"' if sign == "'" else "'"
        return f"a text with {sign} in it is quoted with {other}, or write \\{sign}"
    if text in ("and", "or", "+", "*", "/"):
        return f"write a value on each side of {text!r}"
    if text.isalpha() and not text.isascii():
        return "names and numbers are written with the letters a to z, digits and _"
    return None
