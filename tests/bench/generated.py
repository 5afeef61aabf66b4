"""Random expressions: the half of the expressions that nobody has seen while the code generator was written.

The same seed gives the same expressions. Each is made twice at once, as R1 and as the Python that a person would write.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from tests.bench.cases import Case, Evaluate

LISTS = {
    "reviews": ({"number": ("score",), "bool": ("passed",), "text": ()}, "r"),
    "rows": ({"number": ("a", "b"), "bool": (), "text": ()}, "x"),
    "people": ({"number": ("age",), "bool": ("active",), "text": ("name",)}, "p"),
    "orders": ({"number": ("price", "qty"), "bool": (), "text": ()}, "o"),
}
"""The lists of the frame: the fields of their elements by type, and the name of an element."""
STORES = {
    "number": ("n", "m", "limit", "total", "size"),
    "text": ("name", "status", "dir"),
    "bool": ("flag",),
}
WORDS = ("done", "Ada", "p3", "-", " by ", "/", "open")


class Pair(NamedTuple):
    """One expression in both languages."""

    r1: str
    python: str


class Element(NamedTuple):
    """The element of the loop around an expression."""

    name: str
    fields: dict[str, tuple[str, ...]]


class Writer:
    """Writes random expressions of a type: number, text, bool, or a list of one of them."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def write(self, kind: str, depth: int, element: Element | None = None) -> Pair:
        makers: dict[str, tuple[Callable[[int, Element | None], Pair], ...]] = {
            "number": (self.arithmetic, self.measure),
            "text": (self.concatenation, self.joined),
            "bool": (self.comparison, self.logic, self.quantifier),
            "list": (self.mapped, self.filtered),
            "object": (self.record,),
        }
        if depth <= 0 and kind in STORES:
            return self.atom(kind, element)
        return self.random.choice(makers[kind])(depth - 1, element)

    def body(self, kind: str, depth: int, element: Element) -> Pair:
        """The body of a loop: it reads the element."""
        while True:
            made = self.write(kind, depth, element)
            if f"{element.name}[" in made.python.replace("ctx[", ""):
                return made

    def atom(self, kind: str, element: Element | None) -> Pair:
        fields = element.fields[kind] if element is not None else ()
        if element is not None and fields and self.random.random() < 0.7:
            field = self.random.choice(fields)
            return Pair(f"{element.name}.{field}", f"{element.name}['{field}']")
        if self.random.random() < 0.3 and kind != "bool":
            literal = repr(self.random.choice(WORDS)) if kind == "text" else str(self.random.randrange(1, 60))
            return Pair(literal, literal)
        store = self.random.choice(STORES[kind])
        return Pair(f"ctx.{store}", f"ctx['{store}']")

    def arithmetic(self, depth: int, element: Element | None) -> Pair:
        left, right = self.write("number", depth, element), self.write("number", depth, element)
        sign = self.random.choice("+-*")
        return Pair(f"({left.r1} {sign} {right.r1})", f"({left.python} {sign} {right.python})")

    def measure(self, depth: int, element: Element | None) -> Pair:
        if element is not None:  # a loop in a loop is not what people write most
            return self.arithmetic(depth, element)
        many = self.write("list", depth)
        return Pair(f"count({many.r1})", f"len({many.python})")

    def concatenation(self, depth: int, element: Element | None) -> Pair:
        parts = [self.write("text", depth, element) for _ in range(self.random.randrange(2, 4))]
        return Pair(" + ".join(part.r1 for part in parts), " + ".join(part.python for part in parts))

    def joined(self, depth: int, element: Element | None) -> Pair:
        if element is not None:
            return self.concatenation(depth, element)
        inner, items = self.loop("text")
        text = self.body("text", depth, inner)
        return Pair(
            f"join(map({items.r1}, {inner.name} -> {text.r1}), ', ')",
            f"', '.join([{text.python} for {inner.name} in {items.python}])",
        )

    def comparison(self, depth: int, element: Element | None) -> Pair:
        kind, signs = self.random.choice([("number", ("<", "<=", ">", ">=", "==", "!=")), ("text", ("==", "!="))])
        left, right = self.write(kind, min(depth, 1), element), self.write(kind, 0, element)
        sign = self.random.choice(signs)
        return Pair(f"{left.r1} {sign} {right.r1}", f"{left.python} {sign} {right.python}")

    def logic(self, depth: int, element: Element | None) -> Pair:
        left, right = self.comparison(depth, element), self.write("bool", depth, element)
        word = self.random.choice(("and", "or"))
        no = self.random.choice(("", "", "not "))
        return Pair(f"({left.r1} {word} {no}({right.r1}))", f"({left.python} {word} {no}({right.python}))")

    def quantifier(self, depth: int, element: Element | None) -> Pair:
        if element is not None:
            return self.comparison(depth, element)
        inner, items = self.loop()
        test, word = self.body("bool", 1, inner), self.random.choice(("any", "all"))
        loop = f"{test.python} for {inner.name} in {items.python}"
        return Pair(f"{word}({items.r1}, {inner.name} -> {test.r1})", f"{word}({loop})")

    def mapped(self, depth: int, element: Element | None) -> Pair:
        inner, items = self.loop()
        made = self.body(self.random.choice((*_kinds(inner), "object")), min(depth, 2), inner)
        return Pair(
            f"map({items.r1}, {inner.name} -> {made.r1})", f"[{made.python} for {inner.name} in {items.python}]"
        )

    def filtered(self, depth: int, element: Element | None) -> Pair:
        inner, items = self.loop()
        test = self.body("bool", 1, inner)
        return Pair(
            f"filter({items.r1}, {inner.name} -> {test.r1})",
            f"[{inner.name} for {inner.name} in {items.python} if {test.python}]",
        )

    def record(self, depth: int, element: Element | None) -> Pair:
        names = self.random.sample(("id", "who", "is_late", "note"), self.random.randrange(2, 4))
        fields = [(name, self.write(self.random.choice(tuple(STORES)), depth, element)) for name in names]
        return Pair(
            "{" + ", ".join(f"{name}: {value.r1}" for name, value in fields) + "}",
            "{" + ", ".join(f"'{name}': {value.python}" for name, value in fields) + "}",
        )

    def loop(self, kind: str | None = None) -> tuple[Element, Pair]:
        """A list whose elements have a field of ``kind``."""
        name = self.random.choice([name for name, (fields, _) in LISTS.items() if kind is None or fields[kind]])
        fields, element = LISTS[name]
        return Element(element, fields), Pair(f"ctx.{name}", f"ctx['{name}']")


def _kinds(element: Element) -> tuple[str, ...]:
    return tuple(kind for kind, fields in element.fields.items() if fields)


def cases(seed: int, count: int, frame: dict[str, Any]) -> list[Case]:
    """``count`` different expressions whose value in ``frame`` exists."""
    random, found = Random(seed), dict[str, Case]()
    while len(found) < count:
        writer, kind = Writer(random), random.choice(("number", "text", "bool", "list", "object"))
        made = writer.write(kind, random.randrange(1, 4))
        python = made.python.replace("ctx[", "frame['ctx'][")
        native: Evaluate = eval(f"lambda frame: {python}")
        native(frame)
        found.setdefault(made.r1, Case(f"S{len(found) + 1}", made.r1, native, made.python))
    return list(found.values())
