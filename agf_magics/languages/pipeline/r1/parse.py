"""Parses R1 text into nodes, by precedence climbing over a list of tokens.

The first error is reported at its token, with the text to write. A dotted path is one token,
because most tokens are paths. Text that R1 does not know (``&&``, a ternary) is a token, too, so
that errors are found in the order of the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import NoReturn, TypeVar

from ....flow.protocols import Frame, Ref
from ....text.source import Span, Text
from ....values.value import Value
from ...scan import Refusal, parse_at
from . import hints, nodes
from .closures import evaluator
from .functions import FUNCTIONS
from .nodes import (
    Arithmetic,
    Call,
    Compare,
    Each,
    Fields,
    Get,
    Items,
    Lit,
    Logic,
    Minus,
    Node,
    Not,
    Path,
)
from .row import Function
from .tokens import CLOSING, Token

LONGEST_SOURCE = 10_000
"""The maximum length of an expression, in characters."""
DEEPEST = 100
"""The maximum depth of brackets and of operations inside each other; recursion is safe up to it."""
MOST_DIGITS = 1_000
"""The maximum number of digits of a number."""

POWER = {
    "or": 1,
    "and": 2,
    "==": 4,
    "!=": 4,
    "<": 4,
    ">": 4,
    "<=": 4,
    ">=": 4,
    "+": 5,
    "-": 5,
    "*": 6,
    "/": 6,
}
"""The precedence of each infix operator. ``not`` binds between ``and`` and the comparisons, a sign
most tightly."""
NOT = 3
COMPARING = 4
"""The precedence of the comparisons, which do not chain."""
SIGN = 7

T = TypeVar("T")
END, NAME, SYMBOL, NUMBER, STRING, FOREIGN = range(6)
_B = r"[ \t\r\n]*+"
_TOKEN = re.compile(
    rf"""{_B}(?:
      ([A-Za-z_][A-Za-z0-9_]*(?:{_B}\.{_B}[A-Za-z_][A-Za-z0-9_]*)*)
    | (->|[=!<>]=(?!=)|[-+*/<>()\[\]{{}},:])
    | ([0-9]+(?:\.[0-9]+)?)
    | ('[^'\\]*(?:\\[^\n][^'\\]*)*'|"[^"\\]*(?:\\[^\n][^"\\]*)*")
    | (===|!==|&&|\|\||=>|=<|<>|\?\?|\?\.|[^\ \t\r\n])
    | \Z  # else the blanks at the end would be searched once for each of them
    )""",
    re.DOTALL | re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_LITERALS = {"true": True, "false": False, "null": None}


class R1:
    """A parsed expression."""

    def __init__(self, text: Text, node: Node) -> None:
        self._text = text
        self.node = node
        self.span: Span = text.locate(0, len(text.text))

    @cached_property
    def evaluate(self) -> Callable[[Frame], Value]:
        """The function that computes the value in a frame. It raises only StepError, at the exact
        token."""
        # Compiled at the first evaluation, because many expressions are only checked.
        return evaluator(self.node, self._text)

    @property
    def text(self) -> str:
        return self._text.text

    def reads(self) -> tuple[Ref, ...]:
        """The resolved paths that it reads from its frame, in the order of the text."""
        return self._reads

    @cached_property
    def _reads(self) -> tuple[Ref, ...]:
        return tuple(
            Ref(read.path, self.locate(read.offset, read.end), read.certain, optional=read.optional)
            for read in nodes.reads(self.node)
        )

    def locate(self, start: int, end: int) -> Span:
        """The place of the characters from ``start`` to ``end``."""
        return self._text.locate(start, end)

    def __repr__(self) -> str:
        return f"R1({self.text!r})"


def parse(
    text: Text,
    names: nodes.Names = nodes.NO_NAMES,
    functions: Mapping[str, Function] = FUNCTIONS,
) -> R1:
    """The expression in ``text``, with the meaning of its names (default: the names of the frame),
    and the functions that it may call.

    Raises a DefinitionError with one Diagnostic, at its token, if it is malformed.

    >>> from agf_magics.text.source import Source
    >>> parse(Source("example", "ctx.n + 1").span()).evaluate({"ctx": {"n": 41}})
    42
    """
    return R1(text, parse_at(text, lambda source: _Parser(source, names, functions).whole()))


def _tokens(source: str) -> list[Token]:
    """The tokens of ``source`` between two that mark its ends."""
    tokens = [Token(END, "", 0)]
    for match in _TOKEN.finditer(source):
        if not (kind := match.lastindex):
            break
        tokens.append(Token(kind, match[kind], match.start(kind)))
    tokens.append(Token(END, "", len(source)))
    return tokens


def unquoted(token: str) -> str:
    """The value of a text literal: ``\\n`` and ``\\t`` are a newline and a tab, any other ``\\x``
    is ``x``."""
    inner = token[1:-1]
    if "\\" not in inner:
        return inner
    return _ESCAPE.sub(lambda m: {"n": "\n", "t": "\t"}.get(m[1], m[1]), inner)


class _Parser:
    """The reading of one expression."""

    def __init__(self, source: str, names: nodes.Names, functions: Mapping[str, Function]) -> None:
        self.source = source
        self.names = names
        self.functions = functions
        length = len(self.source)
        if length > LONGEST_SOURCE:
            message = f"an expression of {length:,} characters; {LONGEST_SOURCE:,} are allowed"
            raise Refusal(
                "r1.too-long", message, 0, length, "compute it in several steps, or in a tool"
            )
        self.tokens = _tokens(self.source)
        self.index = 1
        self.token = self.tokens[1]
        self.opened: list[Token] = []
        """The brackets that are open here, the innermost last."""
        self.depth = 0
        self.params: dict[str, int] = {}
        """The parameters of the lambdas around, each with its lambda's level (`Each.level`)."""

    def whole(self) -> Node:
        """The node of the whole source."""
        if self.token.kind == END:
            raise Refusal(
                "r1.empty", "the expression is empty", 0, len(self.source), "the empty text is ''"
            )
        node = self.expression(0)
        if self.token.kind != END:
            self.unexpected("the end of the expression")
        self.refuse_tall(node)
        return node

    def expression(self, power: int) -> Node:
        self.depth += 1
        if self.depth > DEEPEST:
            self.too_deep(self.token.offset, len(self.token.text))
        node = self.operand(power)
        while (binds := self.binding()) > power:
            node = self.chain(node, binds)
        self.depth -= 1
        return node

    def binding(self) -> int:
        """The precedence of the current token as an infix operator; 0 if it is none."""
        return POWER.get(self.token.text, 0)

    def chain(self, first: Node, binds: int) -> Node:
        """Operators that bind equally tightly, with ``first`` as the left operand of the first
        one."""
        rest: list[nodes.Operation] = []
        while self.binding() == binds:
            _, op, offset = self.token
            if rest and binds == COMPARING:
                self.fail_here("r1.chain", "comparisons do not chain", "write: a < b and b < c")
            self.next()
            rest.append(nodes.Operation(offset, op, self.expression(binds)))
        offset, op, second = rest[0]
        if binds > COMPARING:
            return Arithmetic(offset, first, tuple(rest))
        if binds == COMPARING:
            return Compare(offset, op, first, second)
        return Logic(offset, op, (first, *(operation.operand for operation in rest)))

    def operand(self, power: int) -> Node:
        """An operand of an operator that binds as tightly as ``power``."""
        kind, text, offset = self.token
        if kind == NAME:
            return self.named(power)
        if kind == STRING:
            self.next()
            return Lit(offset, unquoted(text))
        if kind == NUMBER:
            self.next()
            return Lit(offset, self.number(text, offset))
        if self.sees("("):
            self.open()
            node = self.expression(0)
            self.close(")")
            return node
        if self.sees("-"):
            self.next()
            return Minus(offset, self.expression(SIGN))
        if self.sees("["):
            self.open()
            return Items(offset, tuple(self.listed("]", lambda: self.expression(0))))
        if self.sees("{"):
            self.open()
            seen = set[str]()
            return Fields(offset, tuple(self.listed("}", lambda: self.field(seen))))
        self.unexpected("a value")

    def named(self, power: int) -> Node:
        """Parse a part that begins with a name: a path, a call, a literal, ``not``."""
        _, text, offset = self.token
        if text in nodes.KEYWORDS:
            if text in _LITERALS:
                self.next()
                return Lit(offset, _LITERALS[text])
            if text != "not":
                self.unexpected("a value")
            if power > NOT:
                self.fail_here(
                    "r1.syntax", "'not' cannot follow an operator", "put it in parentheses: (not …)"
                )
            self.next()
            return Not(offset, self.expression(NOT))
        self.next()
        if self.sees("("):
            return self.call(text, offset)
        parts = tuple("".join(text.split()).split("."))
        if parts[0] in nodes.KEYWORDS:
            message = f"{parts[0]!r} is a word of the language and has no fields"
            raise Refusal("r1.syntax", message, offset, offset + len(parts[0]))
        end = offset + len(text)
        level = self.params.get(parts[0])
        if level is not None:
            return Path(offset, end, parts, (level, *parts[1:]))
        return Path(offset, end, parts, self.names.read(parts), self.names.hidden.get(parts[0]))

    def call(self, name: str, offset: int) -> Node:
        """The call of a function; the token is its bracket."""
        function = self.functions.get(name)
        if function is None:
            message, hint = hints.unknown_function(name, self.functions)
            raise Refusal("r1.unknown-function", message, offset, offset + len(name), hint)
        self.open()
        if self.sees(")"):
            self.arguments(function)
        first = self.expression(0)
        node: Node
        if function.second == "lambda":
            self.comma(function)
            node = self.each(function, offset, first)
        elif function.second == "path":
            self.comma(function)
            node = self.get(function, offset, first)
        else:
            args = [first]
            for _ in function.arguments[1:]:
                self.comma(function)
                args.append(self.expression(0))
            node = Call(offset, function, tuple(args))
        if self.sees(","):
            self.arguments(function)
        self.close(")")
        return node

    def each(self, function: Function, offset: int, base: Node) -> Each:
        """A function with a lambda, which the token begins."""
        kind, param, _ = self.token
        if kind == NAME and self.tokens[self.index + 1].kind == FOREIGN:  # x => x
            self.next()
            self.unexpected("'->'")
        if (
            kind != NAME
            or self.tokens[self.index + 1].text != "->"
            or "." in param
            or param in nodes.KEYWORDS
        ):
            # The text of the first argument, for the hint.
            comma = self.tokens[self.index - 1].offset
            first = self.source[offset:comma].partition("(")[2].strip()
            after = self.tokens[self.index + 1]
            self.fail_here("r1.lambda", *hints.lambda_expected(function, first, param, after.text))
        self.next()
        self.next()
        outer = self.params
        start = self.index
        level = max(outer.values(), default=-1) + 1
        self.params = {**outer, param: level}
        body = self.expression(0)
        self.params = outer
        return Each(offset, function, base, param, body, level, self.index - start)

    def get(self, function: Function, offset: int, base: Node) -> Get:
        """``get``: its path, which the token is, and its default."""
        kind, text, start = self.token
        if kind == STRING:
            self.next()
        if kind != STRING or not (self.sees(",") or self.sees(")")):
            self.fail_here(
                "r1.arguments",
                f"the path of {function.name}() is a text literal",
                f"write: {function.form}",
            )
        default = None
        if self.sees(","):
            self.next()
            default = self.expression(0)
        return Get(offset, function, base, unquoted(text), (start, start + len(text)), default)

    def field(self, seen: set[str]) -> tuple[str, Node]:
        """A key and its value. ``seen``: the keys before it: of two with one name a value is lost."""
        kind, key, _ = self.token
        if kind not in (NAME, STRING) or (kind == NAME and "." in key):
            self.unexpected("a key: a name or a text")
        name = unquoted(key) if kind == STRING else key
        if name in seen:
            self.fail_here("r1.duplicate-key", f"the object has {name!r} twice", "keep one of them")
        seen.add(name)
        self.next()
        if not self.sees(":"):
            self.unexpected("':' after the key")
        self.next()
        return name, self.expression(0)

    def listed(self, closing: str, part: Callable[[], T]) -> list[T]:
        """The parts between commas up to the bracket ``closing``. ``part``: parses one."""
        parts: list[T] = []
        if not self.sees(closing):
            parts.append(part())
            while self.sees(","):
                self.next()
                parts.append(part())
        self.close(closing)
        return parts

    def number(self, text: str, offset: int) -> int | float:
        if len(text) > MOST_DIGITS:
            raise Refusal(
                "r1.too-long",
                f"a number of {len(text):,} characters; {MOST_DIGITS:,} are allowed",
                offset,
                offset + 20,  # the error points at its first 20 characters
            )
        value = float(text) if "." in text else int(text)
        if value == float("inf"):
            raise Refusal(
                "r1.too-large",
                "the number is larger than a float can be",
                offset,
                offset + len(text),
            )
        return value

    def sees(self, symbol: str) -> bool:
        """Whether the current token is this symbol; a text has its quotes."""
        return self.token.text == symbol

    def next(self) -> None:
        self.index += 1
        self.token = self.tokens[self.index]

    def open(self) -> None:
        self.opened.append(self.token)
        self.next()

    def close(self, closing: str) -> None:
        if not self.sees(closing):
            self.unexpected(f"',' or {closing!r}" if closing in "]}" else repr(closing))
        self.opened.pop()
        self.next()

    def comma(self, function: Function) -> None:
        """Skip the comma before an argument; the call is refused if it has no more arguments."""
        if self.sees(","):
            self.next()
        elif not self.sees(")"):
            self.unexpected("','")
        if self.sees(")"):
            self.arguments(function)

    def arguments(self, function: Function) -> NoReturn:
        message = f"{function.name}() has too many or too few arguments"
        self.fail_here("r1.arguments", message, f"write: {function.form}")

    def unexpected(self, wanted: str) -> NoReturn:
        """Fail at the current token, where ``wanted`` belongs."""
        if self.token.kind == END and self.opened:
            _, bracket, start = self.opened[-1]
            hint = f"add {CLOSING[bracket]!r}"
            raise Refusal("r1.unclosed", f"{bracket!r} is never closed", start, start + 1, hint)
        # An operator without its right side: there is nothing else to point at.
        if self.token.kind == END:
            _, text, offset = self.tokens[self.index - 1]
            message = f"expected {wanted} after {text!r}, found the end of the expression"
            raise Refusal("r1.syntax", message, offset, offset + len(text))
        problem = hints.explain_unexpected(self.tokens, self.index, self.source, wanted)
        raise Refusal(problem.code, problem.message, problem.offset, problem.end, problem.hint)

    def too_deep(self, offset: int, width: int) -> NoReturn:
        hint = "compute it in several steps, or in a tool"
        raise Refusal(
            "r1.too-deep",
            f"more than {DEEPEST} levels inside each other",
            offset,
            offset + width,
            hint,
        )

    def refuse_tall(self, node: Node) -> None:
        """Refuse a tree that is too deep: operators of different precedence make it deeper than its
        brackets."""
        level: tuple[Node, ...] = (node,)
        for _ in range(DEEPEST):
            level = tuple(
                child for node_of_level in level for child in nodes.children(node_of_level)
            )
        if level:
            self.too_deep(level[0].offset, 1)

    def fail_here(self, code: str, message: str, hint: str | None = None) -> NoReturn:
        raise Refusal(
            code, message, self.token.offset, self.token.offset + len(self.token.text), hint
        )
