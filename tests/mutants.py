"""Breaks random places of the package and runs the tests that should notice: ``python -m tests.mutants 60 SEED``.

A mutant is one random change of one expression or statement. It is made in a copy of the tree, so no file here changes.
A mutant is killed when a test fails. The tests run in order of nearness until one fails or the time for a mutant is
over: the examples of the file, its tests, the tests that import it, those of its room, all others. ``python -m
tests.mutants map`` runs all tests once, even the slow ones, and records which test reaches which line, itself or in a
process that it starts (with Python 3.12 or later); later runs of this command then try only those tests, of equally
near ones the fast ones first. ``python -m tests.mutants add tests/...`` records new tests. A test that hangs counts as
a failure. A test that also fails without the change, or fails only sometimes, does not count.

The exit status is 1 if a mutant survived. Such a change shows a hole in the tests, or makes no difference (it is
equivalent).
"""

from __future__ import annotations

import argparse
import ast
import copy
import difflib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from compileall import compile_dir
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from py_compile import PycInvalidationMode
from queue import SimpleQueue
from typing import NamedTuple

from tests.mutated import SILENCE, Change, NotCollected, Tests
from tests.reach import recording, seconds, tests_of

ROOT = Path(__file__).parents[1]
PACKAGE = "agf_magics"

ALONE = {"tests/test_rooms.py", "tests/test_size.py", "tests/test_contributing.py", "tests/test_packaging.py"}
"""Tests of the form of the code. They would notice every change, even one that does not matter."""

COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}

SLOW = 2.0
"""Seconds from which on a test runs after the faster ones that are as near."""

SMALL = 10
"""The largest whole number that a mutant changes. Larger numbers are sizes and times, whose exact value is arbitrary.
"""


class Mutant(NamedTuple):
    """One change: the file, the place in its text (line, and column in bytes), and the new text there."""

    file: str
    begin: tuple[int, int]
    end: tuple[int, int]
    text: str
    kind: str

    def apply(self, source: str) -> str:
        """The text of the file after the change."""
        lines = source.encode().splitlines(keepends=True)
        (begin_line, begin_column), (end_line, end_column) = self.begin, self.end
        lines[begin_line - 1 : end_line] = [
            lines[begin_line - 1][:begin_column] + self.text.encode() + lines[end_line - 1][end_column:]
        ]
        return b"".join(lines).decode()

    def show(self, source: str) -> str:
        """The changed lines, in the format of ``diff``."""
        changed = difflib.unified_diff(source.splitlines(), self.apply(source).splitlines(), lineterm="", n=0)
        return "\n".join(line for line in changed if not line.startswith(("---", "+++", "@@")))


class Outcome(NamedTuple):
    """The outcome of a mutant: the test that failed, or None; the number of tests (or of test files) that ran; the
    seconds."""

    mutant: Mutant
    killer: str | None
    tests: int
    seconds: float


# --- mutants ---


def mutants_of(file: str, source: str) -> list[Mutant]:
    """All possible changes of a file.

    >>> [m.text for m in mutants_of("f.py", "def f(a: int) -> bool:\\n    return a < 3 and not a\\n")]
    ['return None', 'a < 3 or not a', 'a >= 3', '4', '(a)']
    """
    tree = ast.parse(source)
    return [
        Mutant(file, (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset), text, kind)
        for node, condition in _code(tree)
        for kind, text in _changes(node, condition)
        if node.end_lineno is not None and node.end_col_offset is not None
    ]


def _code(node: ast.AST, condition: bool = False) -> Iterator[tuple[ast.stmt | ast.expr, bool]]:
    """The nodes that run, each with whether it is a condition. It leaves out annotations, texts of f-strings, patterns
    of `match`, constants of a module, and code for types only."""
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    if isinstance(node, (ast.stmt, ast.expr)):
        yield node, condition
    if isinstance(node, ast.JoinedStr):
        return
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "pattern", "decorator_list", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(node, ast.Module) and isinstance(child, (ast.Assign, ast.AnnAssign)):
                continue
            if isinstance(child, ast.AST):
                yield from _code(child, name == "test")


def _changes(node: ast.stmt | ast.expr, condition: bool) -> Iterator[tuple[str, str]]:
    match node:
        case ast.Compare(ops=[op]) if type(op) in COMPARED:
            yield "comparison", _unparsed(node, ops=[COMPARED[type(op)]()])
        case ast.BoolOp(op=op):
            yield "and/or", _unparsed(node, op=ast.Or() if isinstance(op, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "not dropped", f"({ast.unparse(operand)})"
        case ast.BinOp(op=op, left=left) if type(op) in COMPUTED and not _is_text(left):
            yield "arithmetic", _unparsed(node, op=COMPUTED[type(op)]())
        case ast.Constant(value=bool() as value):
            yield "constant", repr(not value)
        case ast.Constant(value=int() as value) if value <= SMALL:
            yield "constant", repr(value + 1)
        case ast.Call() | ast.Name() | ast.Attribute() if condition:
            yield "condition", f"(not {ast.unparse(node)})"
        case ast.Return(value=value) if value is not None and not _is_empty(value):
            yield "return None", "return None"
        case ast.Expr(value=ast.Call() | ast.Await() as value):
            yield "statement removed", "pass"
        case ast.AugAssign() | ast.Delete():
            yield "statement removed", "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "statement removed", "pass"
        case ast.Continue():
            yield "continue/break", "break"
        case ast.Break():
            yield "continue/break", "continue"


def _unparsed(node: ast.expr, **changed: object) -> str:
    other = copy.copy(node)
    for name, value in changed.items():
        setattr(other, name, value)
    text = ast.unparse(other)
    return f"({text})" if "\n" in text else text


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _is_empty(node: ast.expr) -> bool:
    """Whether ``node`` is None, False, 0 or an empty text or container. In these places None would mostly work as
    well."""
    if isinstance(node, (ast.Tuple, ast.List)):
        return not node.elts
    return (isinstance(node, ast.Constant) and not node.value) or (isinstance(node, ast.Dict) and not node.keys)


def draw(number: int, seed: int, under: Sequence[str] = (PACKAGE,)) -> list[Mutant]:
    """``number`` random mutants of all files below ``under``. The same seed and tree give the same mutants."""
    files = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / PACKAGE).rglob("*.py"))
    chosen = [file for file in files if file.startswith(tuple(under))]
    candidates = [mutant for file in chosen for mutant in mutants_of(file, read(file))]
    return random.Random(seed).sample(candidates, min(number, len(candidates)))


@cache
def read(file: str) -> str:
    return (ROOT / file).read_text(encoding="utf-8")


# --- the tests that should notice ---


def nearest_tests(file: str) -> list[str]:
    """All test files, sorted by their nearness to a file of the package."""
    distances = _distances(file)
    examples = [file] if ">>> " in read(file) else []
    return [*examples, *sorted(distances, key=distances.__getitem__)]


def _distances(file: str) -> dict[str, tuple[int, int, str]]:
    """For each test file how far it is from a file of the package: five steps, then the words that the names share."""
    room = file.split("/")[1].removesuffix(".py")
    stem = Path(file).stem
    words = set(re.findall(r"[a-z]+", file.removeprefix(PACKAGE)))
    importers = _importers()
    near = importers.get(file, frozenset())
    importers_of_importers = frozenset[str]().union(*(importers.get(importer, frozenset()) for importer in near))

    def distance(test: str) -> tuple[int, int, str]:
        in_room = test.startswith(f"tests/{room}/")
        alike = -len(words & set(re.findall(r"[a-z]+", test)))
        if Path(test).stem.removeprefix("test_") == stem:
            return 0, alike, test
        if test in near:
            return (1 if in_room else 2), alike, test
        if in_room or test == "tests/test_conformance.py":
            return 3, alike, test
        return (4 if test in importers_of_importers else 5), alike, test

    return {test: distance(test) for test in _test_files()}


@cache
def _test_files() -> tuple[str, ...]:
    tests = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py"))
    return tuple(test for test in tests if test not in ALONE and not test.startswith("tests/browser/"))


@cache
def _importers() -> dict[str, frozenset[str]]:
    """For each file of the package, the files of the package and the tests that import it."""
    importers_of: dict[str, set[str]] = {}
    for path in [*(ROOT / PACKAGE).rglob("*.py"), *(ROOT / "tests").rglob("*.py")]:
        importer = path.relative_to(ROOT).as_posix()
        for name in _imported(importer):
            for target in (f"{name.replace('.', '/')}.py", f"{name.replace('.', '/')}/__init__.py"):
                importers_of.setdefault(target, set()).add(importer)
    return {target: frozenset(importers) for target, importers in importers_of.items()}


def _imported(file: str) -> Iterator[str]:
    parts = list(Path(file).with_suffix("").parts)
    for node in ast.walk(ast.parse(read(file))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = parts[: -node.level] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield from (module, *(f"{module}.{alias.name}" for alias in node.names))


def reaching_tests(mutant: Mutant) -> list[str]:
    """The tests that reach the statement of a mutant, the likeliest to fail first: the nearest, of these the fast ones.
    There are none if there is no map, or if only an import or a closed process reaches the statement."""
    text = read(mutant.file)
    statements = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.stmt) and (node.end_lineno or 0) >= mutant.begin[0] >= node.lineno
    ]
    tests = tests_of(mutant.file, text, range(max(node.lineno for node in statements), mutant.end[0] + 1))
    distances = _distances(mutant.file) | {mutant.file: (-1, 0, mutant.file)}
    by_file = dict[str, list[str]]()
    for test in tests:
        by_file.setdefault(test.partition("::")[0], []).append(test)

    def order(test: str) -> tuple[float, ...]:
        file = test.partition("::")[0]
        took = seconds().get(test, SLOW)
        mean = sum(seconds().get(other, SLOW) for other in by_file[file]) / len(by_file[file])
        distance = distances[file][0] if file in distances else 6
        # The tests of a file stay together, as they may share a cluster or a kernel.
        return distance, took >= SLOW, mean, position[file], took

    position = {file: number for number, file in enumerate(sorted(by_file))}
    return sorted(tests, key=order)


def write_map(arguments: Sequence[str], anew: bool) -> int:
    """Run the tests once, and record which test reaches which line. ``anew``: drop what was recorded before."""
    with recording(anew):
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "tests.reach", "-m", "not browser", *arguments],
            cwd=ROOT,
            check=False,
        ).returncode


# --- running ---


class Copy:
    """A copy of the tree for mutants, which are made one after the other, and a pytest that has collected its tests.
    ``arguments`` are more arguments of pytest, such as the files to collect."""

    def __init__(self, folder: Path, number: int, arguments: Sequence[str] = ()) -> None:
        self.tree = folder / f"tree-{number}"
        self.temporary = folder / f"tmp-{number}"
        self.home = folder / f"home-{number}"
        ignore = shutil.ignore_patterns(".git", ".venv*", "build", "dist", "__pycache__", ".*_cache", "screenshots")
        shutil.copytree(ROOT, self.tree, ignore=ignore, symlinks=True)
        # The processes of the tests then compile the changed file alone; the hash tells which.
        compile_dir(self.tree / PACKAGE, quiet=1, invalidation_mode=PycInvalidationMode.CHECKED_HASH)
        self.temporary.mkdir()
        self.home.mkdir()
        self.arguments = arguments
        self.unchanged: Tests | None = None

    def judge(self, mutant: Mutant, seconds: float) -> Outcome:
        """Run the tests on a mutant for at most ``seconds``, beginning with the nearest."""
        path = self.tree / mutant.file
        source = path.read_text(encoding="utf-8")
        names = reaching_tests(mutant) or nearest_tests(mutant.file)
        change: Change | None = (str(path), source, mutant.apply(source))
        unchanged = self.unchanged = self.unchanged or self.collected()
        tests, unsure, begin = unchanged, list[str](), time.monotonic()
        try:
            while True:
                path.write_text(mutant.apply(source), encoding="utf-8")
                word, told = tests.run(names, unsure, change, begin + seconds - time.monotonic())
                if word == "import":
                    tests, change = self.collected(), None
                    continue
                if word != "failed":
                    return Outcome(mutant, None, int(told), time.monotonic() - begin)
                path.write_text(source, encoding="utf-8")
                without = unchanged.run([told], [], None, SILENCE)[0]
                path.write_text(mutant.apply(source), encoding="utf-8")
                # Run the test once more without the change: a test that fails only sometimes proves nothing.
                if without == "passed" and tests.run([told], [], change, SILENCE)[0] == "failed":
                    return Outcome(mutant, told, 0, time.monotonic() - begin)
                unsure.append(told)
        except NotCollected:
            return Outcome(mutant, "an import", 0, time.monotonic() - begin)
        finally:
            path.write_text(source, encoding="utf-8")
            if tests is not unchanged:
                tests.close()

    def collected(self) -> Tests:
        """A new pytest that has collected the tests of the tree as it is now. Raises NotCollected."""
        return Tests(self.tree, self.temporary, self.home, self.arguments)

    def close(self) -> None:
        if self.unchanged:
            self.unchanged.close()


def main(arguments: Sequence[str]) -> int:
    if arguments[:1] in (["map"], ["add"]):
        return write_map(arguments[1:], anew=arguments[0] == "map")
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.partition("\n")[0])
    parser.add_argument("number", type=int, metavar="N")
    parser.add_argument("seed", type=int, metavar="SEED")
    parser.add_argument("--seconds", type=float, default=300, help="for the tests of one mutant (300)")
    parser.add_argument("--jobs", type=int, default=1, help="how many mutants at once (1)")
    parser.add_argument("--under", action="append", help="only files whose path begins so")
    parser.add_argument("--list", action="store_true", help="show the mutants, run nothing")
    options = parser.parse_args(arguments)
    mutants = draw(options.number, options.seed, options.under or [PACKAGE])
    if options.list:
        print(
            "\n".join(
                f"{drawn.file}:{drawn.begin[0]} {drawn.kind}\n{drawn.show(read(drawn.file))}" for drawn in mutants
            )
        )
        return 0
    with tempfile.TemporaryDirectory(prefix="agf-mutants-", ignore_cleanup_errors=True) as folder:
        copies = SimpleQueue[Copy]()
        for number in range(options.jobs):
            copies.put(Copy(Path(folder), number))

        def judge(mutant: Mutant) -> Outcome:
            tree = copies.get()
            try:
                outcome = tree.judge(mutant, options.seconds)
            finally:
                copies.put(tree)
            print(_row(outcome), flush=True)
            return outcome

        with ThreadPoolExecutor(options.jobs) as pool:
            outcomes = list(pool.map(judge, mutants))
        for _ in range(options.jobs):
            copies.get().close()
    survivors = [outcome for outcome in outcomes if outcome.killer is None]
    print(f"\nseed {options.seed}: {len(outcomes) - len(survivors)} killed, {len(survivors)} survived")
    for outcome in survivors:
        print(f"\n{outcome.mutant.file}:{outcome.mutant.begin[0]}\n{outcome.mutant.show(read(outcome.mutant.file))}")
    return int(bool(survivors))


def _row(outcome: Outcome) -> str:
    mutant, killer, tests, seconds = outcome
    end = f"killed by {killer}" if killer else f"SURVIVES {tests} tests"
    change = mutant.show(read(mutant.file))
    return f"{mutant.file}:{mutant.begin[0]} {mutant.kind}: {end} ({seconds:.0f} s)\n{change}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
