"""Counts what a regular expression costs on a hostile text, with a small backtracking matcher.

The matcher walks the tree of Python's own regex compiler and counts every character that it reads. The growth of this
count with the length of the text shows quadratic patterns without a clock.
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

PACKAGE = Path(__file__).parents[1] / "agf_magics"
ANCHORED = {"match", "fullmatch"}
SEARCHING = {"search", "finditer", "findall", "sub", "subn", "split"}
CATEGORIES: dict[Any, Callable[[str], bool]] = {
    sre.CATEGORY_DIGIT: str.isdigit, sre.CATEGORY_SPACE: str.isspace,
    sre.CATEGORY_WORD: lambda char: char.isalnum() or char == "_",
    sre.CATEGORY_NOT_DIGIT: lambda char: not char.isdigit(), sre.CATEGORY_NOT_SPACE: lambda char: not char.isspace(),
    sre.CATEGORY_NOT_WORD: lambda char: not (char.isalnum() or char == "_"),
}  # fmt: skip
SINGLE = {sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN}

MOST = 16
"""How many beginnings of a text are tried, and how many repetitions after each. For a long pattern this is only a part
of all."""

Nodes = Sequence[tuple[Any, Any]]
Next = Callable[[int], bool]


class Use(NamedTuple):
    """A pattern and how it is used."""

    where: str
    """The module and the name of the constant, or the module and the line of the call."""
    pattern: str
    flags: int
    anchored: bool
    """Whether the pattern is matched at one place only. Otherwise it is searched from every character."""


ENOUGH = 20_000
"""The number of steps that is certainly too much for a short text."""


class Endless(Exception):
    """The matcher took more than `ENOUGH` steps."""


class Matcher:
    """A backtracking matcher; ``steps`` counts the characters that it read."""

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self.tree = _parser.parse(pattern, flags)
        flags = self.tree.state.flags
        self.is_any_newline, self.is_any_case = bool(flags & re.DOTALL), bool(flags & re.IGNORECASE)
        self.in_set: dict[tuple[int, str], bool] = {}
        """Whether a character is in a set, which is told apart by its identity: the tree holds it."""
        self.steps = 0
        self.text = ""

    def cost(self, text: str, anchored: bool) -> int:
        """The steps of one `match`, or of one pass of `finditer`."""
        self.text, self.steps = text, 0
        start, nodes = 0, list(self.tree)
        while start <= len(text):
            end: list[int] = []
            self.steps += 1
            try:
                is_match = self._sequence(nodes, 0, start, lambda stop: not end.append(stop))  # type: ignore[func-returns-value]  # noqa: B023
            except Endless:
                return self.steps
            if anchored:
                break
            start = end[0] if is_match and end[0] > start else start + 1
        return self.steps

    def _is(self, op: Any, value: Any, char: str) -> bool:
        if op is sre.ANY:
            return char != "\n" or self.is_any_newline
        if op is sre.IN:
            key = id(value), char
            if key not in self.in_set:
                negated, items = (True, value[1:]) if value[0][0] is sre.NEGATE else (False, value)
                self.in_set[key] = any(self._in(kind, item, char) for kind, item in items) is not negated
            return self.in_set[key]
        same = char == chr(value) or (self.is_any_case and char.lower() == chr(value).lower())
        return same is (op is sre.LITERAL)

    def _in(self, kind: Any, item: Any, char: str) -> bool:
        if kind is sre.RANGE:
            return bool(item[0] <= ord(char) <= item[1])
        if kind is sre.CATEGORY:
            return CATEGORIES[item](char)
        return char == chr(item)

    def _sequence(self, nodes: Nodes, index: int, position: int, next_part: Next) -> bool:
        if self.steps > ENOUGH:
            raise Endless
        nodes = getattr(nodes, "data", nodes)  # its list, which is read faster than the tree
        while index < len(nodes) and nodes[index][0] in SINGLE:
            self.steps += 1
            if position >= len(self.text) or not self._is(*nodes[index], self.text[position]):  # type: ignore[call-arg]
                return False
            index, position = index + 1, position + 1
        if index == len(nodes):
            return next_part(position)
        op, value = nodes[index]
        rest: Next = lambda stop: self._sequence(nodes, index + 1, stop, next_part)  # noqa: E731
        if op is sre.SUBPATTERN:
            return self._sequence(value[3], 0, position, rest)
        if op is sre.BRANCH:
            return any(self._sequence(branch, 0, position, rest) for branch in value[1])
        if op is sre.AT:
            self.steps += 1
            return self._stands(value, position) and rest(position)
        if op in (sre.ASSERT, sre.ASSERT_NOT):
            return self._looks(value, position) is (op is sre.ASSERT) and rest(position)
        if op is sre.ATOMIC_GROUP:
            return self._once(value, position, rest)
        assert op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT), op
        return self._repeat(op, *value, position, rest)  # type: ignore[call-arg]

    def _once(self, nodes: Nodes, start: int, next_part: Next) -> bool:
        end: list[int] = []
        is_match = self._sequence(nodes, 0, start, lambda stop: not end.append(stop))  # type: ignore[func-returns-value]
        return is_match and next_part(end[0])

    def _repeat(self, op: Any, least: int, most: Any, nodes: Nodes, begin: int, next_part: Next) -> bool:
        if len(nodes) == 1 and nodes[0][0] in SINGLE:
            return self._run(op, least, most, nodes[0], begin, next_part)
        if op is sre.POSSESSIVE_REPEAT:
            count, ends = 0, [begin]
            while count < most and self._once(nodes, ends[-1], lambda stop: stop > ends[-1] and not ends.append(stop)):  # type: ignore[func-returns-value]
                count += 1
            return count >= least and next_part(ends[-1])

        def again(count: int, start: int) -> bool:
            def next_one() -> bool:
                return count < most and self._sequence(
                    nodes, 0, start, lambda stop: (stop > start or count < least) and again(count + 1, stop)
                )

            if op is sre.MIN_REPEAT:
                return (count >= least and next_part(start)) or next_one()
            return next_one() or (count >= least and next_part(start))

        return again(0, begin)

    def _run(self, op: Any, least: int, most: Any, single: tuple[Any, Any], start: int, next_part: Next) -> bool:
        """Match a repeated single character, without recursion."""
        end = start
        lazy = op is sre.MIN_REPEAT
        while end < len(self.text) and end - start < most:
            if lazy and end - start >= least and next_part(end):
                return True
            self.steps += 1
            if not self._is(*single, self.text[end]):
                break
            end += 1
        if op is sre.POSSESSIVE_REPEAT or lazy:
            return end - start >= least and next_part(end)
        for stop in range(end, start + least - 1, -1):
            self.steps += 1
            if next_part(stop):
                return True
        return False

    def _stands(self, where: Any, position: int) -> bool:
        word = [
            0 <= index < len(self.text) and (self.text[index].isalnum() or self.text[index] == "_")
            for index in (position - 1, position)
        ]
        last = position == len(self.text)
        return {
            sre.AT_BEGINNING: position == 0, sre.AT_BEGINNING_STRING: position == 0, sre.AT_END_STRING: last,
            sre.AT_END: last or (position == len(self.text) - 1 and self.text[position] == "\n"),
            sre.AT_BOUNDARY: word[0] is not word[1], sre.AT_NON_BOUNDARY: word[0] is word[1],
        }[where]  # fmt: skip

    def _looks(self, value: Any, start: int) -> bool:
        direction, nodes = value
        if direction > 0:
            return self._sequence(nodes, 0, start, lambda stop: True)
        width = nodes.getwidth()[0]
        return start >= width and self._sequence(nodes, 0, start - width, lambda stop: stop == start)


# --- texts ---


def hostile(pattern: str, flags: int) -> Iterator[tuple[str, str, str]]:
    """Hostile texts for a pattern: a beginning that matches for a while, a part that is repeated, and an end that does
    not match."""
    tree = _parser.parse(pattern, flags)
    begins = sorted(set(_begins(tree)), key=lambda text: (len(text), text))
    repeated = {_example(nodes) for nodes in _repeated(tree)}
    ends = ["\x00", *sorted(_refused(tree))[:1]]
    for begin in begins[:MOST]:
        for pump in sorted({*_letters(tree), *repeated, begin} - {""})[:MOST]:
            yield from ((begin, pump, end) for end in ends)


def _example(nodes: Nodes) -> str:
    """A short text that the pattern matches, or nearly matches."""
    return "".join(map(_shown, nodes))


def _shown(node: tuple[Any, Any]) -> str:
    op, value = node
    if op is sre.LITERAL:
        return chr(value)
    if op in (sre.ANY, sre.NOT_LITERAL):
        return "x"
    if op is sre.IN:
        return next((char for char in "a0. -_x" if Matcher("")._is(op, value, char)), _first(value))
    if op is sre.SUBPATTERN:
        return _example(value[3])
    if op is sre.BRANCH:
        return _example(value[1][0])
    if op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
        return _example(value[2]) * max(1, value[0])
    return _example(value) if op is sre.ATOMIC_GROUP else ""


def _first(items: Any) -> str:
    kind, item = next((item for item in items if item[0] in (sre.LITERAL, sre.RANGE)), (sre.LITERAL, 120))
    return chr(item if kind is sre.LITERAL else item[0])  # type: ignore[index]


def _begins(nodes: Nodes) -> Iterator[str]:
    for index, (op, value) in enumerate(nodes):
        before = _example(nodes[:index])
        yield before
        inner: Sequence[Nodes] = ()
        if op is sre.SUBPATTERN:
            inner = [value[3]]
        elif op is sre.BRANCH:
            inner = value[1]
        elif op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            inner = [value[2]]
        elif op is sre.ATOMIC_GROUP:
            inner = [value]
        for part in inner:
            yield from (before + begin for begin in _begins(part))
    yield _example(nodes)


_SINGLE = (sre.IN, sre.LITERAL, sre.NOT_LITERAL, sre.ANY)


def repeats_groups_possessively(pattern: str, flags: int) -> bool:
    """Whether a pattern repeats more than one character possessively, as in ``(?:ab?)*+``. Before CPython 3.11.5 that
    misses matches. The equivalent ``(?>(?:ab?)*)`` does not."""
    return _has_possessive_group(_parser.parse(pattern, flags))


def _has_possessive_group(nodes: Any) -> bool:
    for op, value in nodes:
        if op is sre.POSSESSIVE_REPEAT and (
            len(value[2]) != 1 or value[2][0][0] not in (sre.IN, sre.LITERAL, sre.NOT_LITERAL, sre.ANY)
        ):
            return True
        if isinstance(value, _parser.SubPattern):
            value = [value]
        inner = value if isinstance(value, (list, tuple)) else ()
        parts = [part for item in inner for part in (item if isinstance(item, list) else [item])]
        if any(isinstance(part, _parser.SubPattern) and _has_possessive_group(part) for part in parts):
            return True
    return False


def _repeated(nodes: Nodes) -> Iterator[Nodes]:
    for op, value in nodes:
        if op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            yield value[2]
            yield from _repeated(value[2])
        elif op is sre.SUBPATTERN:
            yield from _repeated(value[3])
        elif op is sre.ATOMIC_GROUP:
            yield from _repeated(value)
        elif op is sre.BRANCH:
            for branch in value[1]:
                yield from _repeated(branch)


def _refused(nodes: Nodes) -> set[str]:
    """The characters that a set such as ``[^"]`` excludes. At the end of a text, none of them can continue the
    match."""
    sets = [
        sequence[0][1] for sequence in (*_repeated(nodes), nodes) if len(sequence) == 1 and sequence[0][0] is sre.IN
    ]
    return {
        chr(item)
        for sequence in sets
        if sequence[0][0] is sre.NEGATE
        for kind, item in sequence[1:]
        if kind is sre.LITERAL
    }


def _letters(nodes: Nodes) -> set[str]:
    """One character of each class that the pattern distinguishes."""
    written = str(nodes)
    return {char for char in " \t\n\"'\\{}[]().,:;!&|=<>+-*/#$%@†`_a0é\xa0" if str(ord(char)) in written} | {
        " ", "a", "0", ".",
    }  # fmt: skip


# --- where patterns stand ---


def uses() -> list[Use]:
    """Every constant pattern of the package, with how it is used."""
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}
    methods: dict[tuple[str, str], set[str]] = {}
    for path, tree in trees.items():
        imported = {
            (alias.asname or alias.name): _module(path, node)
            for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names
        }  # fmt: skip
        direct: set[int] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                home = imported.get(node.value.id, _name(path))
                methods.setdefault((home, node.value.id), set()).add(node.attr)
                direct.add(id(node.value))
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and id(node) not in direct:
                home = imported.get(node.id, _name(path))
                methods.setdefault((home, node.id), set()).add("passed on")
    uses_found = []
    for path, tree in trees.items():
        module = importlib.import_module(_name(path))
        for name, value in vars(module).items():
            if isinstance(value, re.Pattern) and _defines(tree, name):
                used = methods.get((_name(path), name), set()) - {"pattern"}
                uses_found.append(Use(f"{_name(path)}.{name}", value.pattern, value.flags, used <= ANCHORED))
        for call in _calls(tree):
            if ast.unparse(call) in ALTERNATIVES:
                continue
            text = constant(call.args[0], module)
            assert text is not None, f"{_name(path)}:{call.lineno} compiles what is not a constant"
            method = call.func.attr  # type: ignore[attr-defined]
            flags = constant_flags(call, module)
            uses_found.append(Use(f"{_name(path)}:{call.lineno}", text, flags, method in ANCHORED))
    return uses_found


ALTERNATIVES = {"re.compile('|'.join((written(form) for form in sorted(forms, key=len, reverse=True))))"}
"""Calls that compile alternatives of escaped texts. Such patterns have no repeats, so their cost is linear."""


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    """The calls of ``re.something`` inside functions. Calls at the top level make the module's own patterns."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.Lambda | ast.AsyncFunctionDef):
            yield from (node for node in ast.walk(function) if is_regex(node))  # type: ignore[misc]


def is_regex(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "re"
        and node.func.attr in ANCHORED | SEARCHING | {"compile"}
    )


def constant(node: ast.expr, module: Any) -> str | None:
    """The text of a pattern that is written in the call or is a constant of its module; None if it comes from
    elsewhere."""
    names = {child.id for child in ast.walk(node) if isinstance(child, ast.Name)}
    kinds = (ast.Constant, ast.JoinedStr, ast.FormattedValue, ast.Name, ast.Attribute, ast.BinOp, ast.Add, ast.Load)
    if not all(isinstance(child, kinds) for child in ast.walk(node)) or not names <= vars(module).keys():
        return None
    pattern = eval(compile(ast.Expression(node), "pattern", "eval"), vars(module))
    return pattern.pattern if isinstance(pattern, re.Pattern) else pattern


def constant_flags(call: ast.Call, module: Any) -> int:
    flags = next((word.value for word in call.keywords if word.arg == "flags"), None)
    if flags is None and call.func.attr == "compile" and len(call.args) > 1:  # type: ignore[attr-defined]
        flags = call.args[1]
    return int(eval(compile(ast.Expression(flags), "flags", "eval"), vars(module))) if flags else 0


def _defines(tree: ast.Module, name: str) -> bool:
    return any(
        isinstance(node, ast.Assign | ast.AnnAssign)
        and name
        in {child.id for child in ast.walk(node) if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store)}
        for node in tree.body
    )


def _name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _module(path: Path, node: ast.ImportFrom) -> str:
    package = _name(path).split(".") if path.name == "__init__.py" else _name(path).split(".")[:-1]
    base = package[: len(package) - node.level + 1] if node.level else []
    return ".".join([*base, *filter(None, [node.module])])


SHORT, LONG = 16, 32


def grows(pattern: str, flags: int, anchored: bool) -> Iterator[str]:
    """The hostile texts whose cost more than doubles when their length doubles."""
    matcher = Matcher(pattern, flags)
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    try:
        for begin, pump, end in hostile(pattern, flags):
            costs = [matcher.cost(begin + pump * count + end, anchored) for count in (SHORT, LONG)]
            if costs[1] > min(2.6 * costs[0] + 40, ENOUGH):
                yield f"{begin!r} + {pump!r} * n + {end!r}: {costs}"
    finally:
        sys.setrecursionlimit(before)
