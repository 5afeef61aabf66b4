"""Text -> nodes, by precedence climbing over a list of tokens; one error, at the very token, that says what to write.

A dotted path is one token, because most tokens are paths. What R1 does not know (``&&``, a ternary) is a token too,
so that errors are told in the order of the text and each with its own hint.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NoReturn, TypeVar

from ....text.diagnostics import DefinitionError, Diagnostic
from ....text.source import Text
from . import hints
from .hints import Token
from .nodes import (
    COMBINATORS,
    COMPARING,
    EACH,
    KEYWORDS,
    NO_NAMES,
    NOT,
    POWER,
    SIGN,
    And,
    Arithmetic,
    Call,
    Compare,
    Each,
    Fields,
    Get,
    Items,
    Lit,
    Minus,
    Names,
    Node,
    Not,
    Or,
    Path,
    children,
)  # fmt: skip

LONGEST_SOURCE = 10_000
"""Characters of an expression."""
DEEPEST = 100
"""Levels of brackets, and of operations inside each other: what recursion is safe with."""
MOST_DIGITS = 1_000
"""Digits of a number."""

T = TypeVar("T")
END, NAME, SYMBOL, NUMBER, STRING, FOREIGN = range(6)
_B = r"[ \t\r\n]*+"
_TOKEN = re.compile(
    rf"""{_B}(?:
      ([A-Za-z_][A-Za-z0-9_]*(?:{_B}\.{_B}[A-Za-z_][A-Za-z0-9_]*)*)
    | (->|[=!<>]=(?!=)|[-+*/<>()\[\]{{}},:])
    | ([0-9]+(?:\.[0-9]+)?)
    | ('[^'\\]*(?:\\[^\n][^'\\]*)*'|"[^"\\]*(?:\\[^\n][^"\\]*)*")
    | (===|!==|&&|\|\||=>|\?\?|\?\.|[^\ \t\r\n])
    | \Z  # else the blanks at the end would be searched through once for each of them
    )""",
    re.DOTALL | re.VERBOSE,
)
_ALONE = re.compile(rf"{_B}([A-Za-z_][A-Za-z0-9_]*(?:{_B}\.{_B}[A-Za-z_][A-Za-z0-9_]*)*){_B}")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_LITERALS = {"true": True, "false": False, "null": None}


def parse(text: Text, names: Names = NO_NAMES) -> Node:
    """The expression that ``text`` is; a DefinitionError with one Diagnostic if it is none."""
    source = text.text
    if len(source) <= LONGEST_SOURCE and (alone := _ALONE.fullmatch(source)):  # most expressions are one path
        parts = _parts(alone[1])
        if parts[0] not in KEYWORDS:
            return _path(alone[1], alone.start(1), parts, names)
    return _Parser(text, names).whole()


def _parts(path: str) -> tuple[str, ...]:
    return tuple("".join(path.split()).split(".")) if "." in path else (path,)


def _path(text: str, at: int, parts: tuple[str, ...], names: Names) -> Path:
    return Path(at, at + len(text), parts, names.read(parts), names.hidden.get(parts[0]))


def _tokens(source: str) -> list[Token]:
    found: list[Token] = []
    for match in _TOKEN.finditer(source):
        if not (kind := match.lastindex):
            break
        found.append((kind, match[kind], match.start(kind)))
        if kind == FOREIGN:
            break
    found.append((END, "", len(source)))
    return found


def unquoted(token: str) -> str:
    """What a text literal means: ``\\n`` and ``\\t`` are a newline and a tab, any other ``\\x`` is ``x``."""
    inner = token[1:-1]
    if "\\" not in inner:
        return inner
    return _ESCAPE.sub(lambda m: {"n": "\n", "t": "\t"}.get(m[1], m[1]), inner)


class _Parser:
    def __init__(self, text: Text, names: Names) -> None:
        self.text, self.source, self.names = text, text.text, names
        length = len(self.source)
        if length > LONGEST_SOURCE:
            message = f"an expression of {length:,} characters; {LONGEST_SOURCE:,} are allowed"
            self.fail("r1.too-long", message, 0, length, "compute it in several steps, or in a tool")
        self.tokens = _tokens(self.source)
        self.index = 0
        self.token = self.tokens[0]
        self.opened: list[Token] = []
        self.depth = 0
        self.params: dict[str, int] = {}

    def whole(self) -> Node:
        if self.token[0] == END:
            self.fail("r1.empty", "the expression is empty", 0, len(self.source), "a text is quoted: ''")
        node = self.expression(0)
        if self.token[0] != END:
            self.unexpected("the end of the expression")
        if len(self.tokens) > DEEPEST:  # fewer tokens cannot nest deeper
            self.refuse_tall(node)
        return node

    def expression(self, power: int) -> Node:
        self.depth += 1
        if self.depth > DEEPEST:
            self.too_deep(self.token[2], len(self.token[1]))
        left = self.operand(power)
        while True:
            kind, op, at = self.token
            binds = POWER.get(op, 0) if kind <= SYMBOL else 0
            if binds <= power:
                self.depth -= 1
                return left
            self.next()
            right = self.expression(binds)
            if binds > COMPARING:
                left = Arithmetic(at, op, left, right)
            elif binds < COMPARING:
                left = And(at, left, right) if op == "and" else Or(at, left, right)
            else:
                left = Compare(at, op, left, right)
                if self.token[0] == SYMBOL and POWER.get(self.token[1]) == COMPARING:
                    self.fail_here("r1.chain", "comparisons do not chain", "write: a < b and b < c")

    def operand(self, power: int) -> Node:
        kind, text, at = self.token
        if kind == NAME:
            return self.named(power)
        if kind == STRING:
            self.next()
            return Lit(at, unquoted(text))
        if kind == NUMBER:
            self.next()
            return Lit(at, self.number(text, at))
        if text == "(" and kind == SYMBOL:
            self.open()
            node = self.expression(0)
            self.close(")")
            return node
        if text == "-" and kind == SYMBOL:
            self.next()
            return Minus(at, self.expression(SIGN))
        if text == "[" and kind == SYMBOL:
            self.open()
            return Items(at, tuple(self.listed("]", lambda: self.expression(0))))
        if text == "{" and kind == SYMBOL:
            self.open()
            return Fields(at, tuple(self.listed("}", self.field)))
        self.unexpected("a value")

    def named(self, power: int) -> Node:
        _, text, at = self.token
        if text in KEYWORDS:
            if text in _LITERALS:
                self.next()
                return Lit(at, _LITERALS[text])
            if text != "not":
                self.unexpected("a value")
            if power > NOT:
                self.fail_here("r1.syntax", "'not' cannot follow an operator", "put it in parentheses: (not …)")
            self.next()
            return Not(at, self.expression(NOT))
        self.next()
        if self.token[1] == "(" and self.token[0] == SYMBOL:
            return self.call(text, at)
        parts = _parts(text)
        if parts[0] in KEYWORDS:
            self.fail("r1.syntax", f"{parts[0]!r} is a word of the language and has no fields", at, at + len(parts[0]))
        level = self.params.get(parts[0])
        if level is not None:
            return Path(at, at + len(text), parts, (level, *parts[1:]))
        return _path(text, at, parts, self.names)

    def call(self, name: str, at: int) -> Node:
        if name not in COMBINATORS:
            message, hint = hints.unknown_function(name)
            self.fail("r1.unknown-function", message, at, at + len(name), hint)
        self.opened.append(self.token)
        self.next()
        if self.token[1] == ")" and self.token[0] == SYMBOL:
            self.arguments(name)
        first = self.expression(0)
        node: Node
        if name in EACH:
            self.comma(name)
            node = self.each(name, at, first)
        elif name == "get":
            self.comma(name)
            node = self.get(at, first)
        elif name == "join":
            self.comma(name)
            node = Call(at, name, (first, self.expression(0)))
        else:
            node = Call(at, name, (first,))
        if self.token[1] == "," and self.token[0] == SYMBOL:
            self.arguments(name)
        self.close(")")
        return node

    def each(self, name: str, at: int, base: Node) -> Each:
        kind, param, _ = self.token
        if kind == NAME and self.tokens[self.index + 1][0] == FOREIGN:  # x => x
            self.next()
            self.unexpected("'->'")
        if kind != NAME or self.tokens[self.index + 1][1] != "->" or "." in param or param in KEYWORDS:
            self.fail_here("r1.lambda", *hints.lambda_expected(name, param))
        self.next()
        self.next()
        outer, level, start = self.params, self.depth_of_lambdas(), self.index
        self.params = {**outer, param: level}
        body = self.expression(0)
        self.params = outer
        return Each(at, name, base, param, body, level, self.index - start)

    def depth_of_lambdas(self) -> int:
        return max(self.params.values(), default=-1) + 1

    def get(self, at: int, base: Node) -> Get:
        kind, text, start = self.token
        if kind != STRING:
            self.fail_here("r1.arguments", "the path of get() is a text literal", "write: get(base, 'a.b', default)")
        self.next()
        default = None
        if self.token[1] == "," and self.token[0] == SYMBOL:
            self.next()
            default = self.expression(0)
        elif self.token[1] != ")":
            self.fail_here("r1.arguments", "the path of get() is a text literal", "write: get(base, 'a.b', default)")
        return Get(at, base, unquoted(text), (start, start + len(text)), default)

    def field(self) -> tuple[str, Node]:
        kind, key, _ = self.token
        if kind not in (NAME, STRING) or (kind == NAME and "." in key):
            self.unexpected("a key: a name or a text")
        self.next()
        if self.token[1] != ":":
            self.unexpected("':' after the key")
        self.next()
        return unquoted(key) if kind == STRING else key, self.expression(0)

    def listed(self, closing: str, part: Callable[[], T]) -> list[T]:
        parts: list[T] = []
        if self.token[1] != closing or self.token[0] != SYMBOL:
            parts.append(part())
            while self.token[1] == "," and self.token[0] == SYMBOL:
                self.next()
                parts.append(part())
        self.close(closing)
        return parts

    def number(self, text: str, at: int) -> int | float:
        if len(text) > MOST_DIGITS:
            self.fail("r1.too-long", f"a number of {len(text):,} characters; {MOST_DIGITS:,} are allowed", at, at + 20)
        value = float(text) if "." in text else int(text)
        if value == float("inf"):
            self.fail("r1.too-large", "the number is larger than a float can be", at, at + len(text))
        return value

    def next(self) -> None:
        self.index += 1
        self.token = self.tokens[self.index]

    def open(self) -> None:
        self.opened.append(self.token)
        self.next()

    def close(self, closing: str) -> None:
        if self.token[1] != closing or self.token[0] != SYMBOL:
            self.unexpected(f"',' or {closing!r}" if closing in "]}" else repr(closing))
        self.opened.pop()
        self.next()

    def comma(self, name: str) -> None:
        if self.token[1] == ")" and self.token[0] == SYMBOL:
            self.arguments(name)
        if self.token[1] != "," or self.token[0] != SYMBOL:
            self.unexpected("','")
        self.next()
        if self.token[1] == ")" and self.token[0] == SYMBOL:
            self.arguments(name)

    def arguments(self, name: str) -> NoReturn:
        self.fail_here(
            "r1.arguments", f"{name}() is given too many or too few arguments", f"write: {hints.FORMS[name]}"
        )

    def unexpected(self, wanted: str) -> NoReturn:
        """Whatever is wrong where the current token stands: what it looks like decides what is said."""
        kind, text, at = self.token
        if kind == END and self.opened:
            _, bracket, start = self.opened[-1]
            self.fail(
                "r1.unclosed", f"{bracket!r} is never closed", start, start + 1, f"add {hints.CLOSING[bracket]!r}"
            )
        if kind == END:  # an operator without its right side: there is nothing else to point at
            _, text, at = self.tokens[self.index - 1]
            self.fail(
                "r1.syntax", f"expected {wanted} after {text!r}, found the end of the expression", at, at + len(text)
            )
        blamed = hints.blamed(self.tokens, self.index)
        _, text, at = self.tokens[blamed]
        code, message, hint = hints.unexpected(self.tokens, blamed, self.source, wanted)
        self.fail(code, message, at, at + len(text), hint)

    def too_deep(self, at: int, width: int) -> NoReturn:
        self.fail("r1.too-deep", f"more than {DEEPEST} levels inside each other", at, at + width,
                  "join([...], '') joins many texts; otherwise compute it in several steps")  # fmt: skip

    def refuse_tall(self, node: Node) -> None:
        """A chain of operators is a tree as deep as it is long, though no bracket is opened."""
        level: tuple[Node, ...] = (node,)
        for _ in range(DEEPEST):
            level = tuple(child for one in level for child in children(one))
        if level:
            self.too_deep(level[0].at, 1)

    def fail_here(self, code: str, message: str, hint: str | None = None) -> NoReturn:
        self.fail(code, message, self.token[2], self.token[2] + len(self.token[1]), hint)

    def fail(self, code: str, message: str, at: int, end: int, hint: str | None = None) -> NoReturn:
        raise DefinitionError(Diagnostic(code, message, self.text.locate(at, end), hint))
