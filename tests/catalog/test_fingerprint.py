"""Tests of the digest of a function: which changes of the function and its objects change it, and which do not."""

from __future__ import annotations

import datetime
import functools
import importlib
import math
import sys
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agf_magics.catalog.digests.digesting import digest_function, digest_value
from agf_magics.catalog.digests.origins import version_of

CELL = """
import math
FACTOR = 2
TABLE = {"a": [1, 2]}

class Scale:
    by = 10
    def of(self, x):
        return x * self.by

def inner(x):
    return x + FACTOR

def outer(x, more=1):
    "What it does."
    return [inner(x) + more + math.floor(TABLE["a"][0]) for _ in range(2)] and Scale().of(x)
"""


def cell(text: str, name: str = "outer") -> Callable[..., Any]:
    """A function as a cell of a notebook defines it."""
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(text, "<cell>", "exec"), names)
    function: Callable[..., Any] = names[name]
    return function


def test_the_same_cell_run_again_or_moved_is_the_same_function() -> None:
    assert digest_function(cell(CELL)) == digest_function(cell(CELL)) == digest_function(cell("\n\n\n# moved\n" + CELL))
    assert digest_function(cell(CELL)) is not None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("FACTOR = 2", "FACTOR = 3"),
        ("[1, 2]", "[1, 3]"),
        ("by = 10", "by = 11"),
        ("x * self.by", "x + self.by"),
        ("more=1", "more=2"),
        ("x + FACTOR", "x - FACTOR"),
        ("math.floor", "math.ceil"),
        ("import math", "import cmath as math"),
    ],
)
def test_whatever_it_is_made_of_changes_it(old: str, new: str) -> None:
    assert old in CELL
    assert digest_function(cell(CELL)) != digest_function(cell(CELL.replace(old, new, 1)))


def test_what_it_does_not_name_does_not_change_it() -> None:
    assert digest_function(cell(CELL)) == digest_function(cell(CELL + "\nOTHER = 1\ndef another(): pass\n"))


def test_what_it_closes_over_changes_it() -> None:
    def adding(n: Any) -> Callable[[int], Any]:
        return lambda x: x + n

    assert digest_function(adding(1)) == digest_function(adding(1)) != digest_function(adding(2))
    assert digest_function(adding(1)) != digest_function(adding(1.0)) != digest_function(adding(True))


def test_a_partial_and_a_bound_method_are_what_they_hold() -> None:
    class Counter:
        def __init__(self, start: int) -> None:
            self.start = start

        def count(self, x: int) -> int:
            return self.start + x

    first, same, other = Counter(1), Counter(1), Counter(2)
    assert digest_function(first.count) == digest_function(same.count) != digest_function(other.count)
    first_get, same_get, other_get = {"a": 1}.get, {"a": 1}.get, {"a": 2}.get
    assert digest_function(first_get) == digest_function(same_get) != digest_function(other_get)
    assert digest_function(functools.partial(pow, exp=2)) == digest_function(functools.partial(pow, exp=2))
    assert digest_function(functools.partial(pow, exp=2)) != digest_function(functools.partial(pow, exp=3))


def test_functions_that_call_each_other_have_an_end() -> None:
    text = "def odd(n): return n and even(n - 1)\ndef even(n): return not n or odd(n - 1)\n"
    assert (
        digest_function(cell(text, "odd")) == digest_function(cell(text, "odd")) != digest_function(cell(text, "even"))
    )


def test_what_is_installed_counts_by_its_version() -> None:
    assert digest_function(math.floor) == digest_function(math.floor) != digest_function(math.ceil)
    assert digest_function(pandas.concat) is not None


@pytest.mark.parametrize("value", [threading.Lock(), iter([1]), open, datetime.datetime.now])
def test_what_nobody_can_tell_has_no_digest(value: Any) -> None:
    def names_it() -> Any:
        return value

    digest = digest_function(names_it)
    assert digest is None or value in (open, datetime.datetime.now)


def test_arrays_and_tables_are_their_contents() -> None:
    table = pandas.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    assert digest_value(table) == digest_value(table.copy()) != digest_value(table.assign(a=[1, 3]))
    assert digest_value(table) != digest_value(table.rename(columns={"a": "c"}))
    array = numpy.arange(6)
    assert digest_value(array) == digest_value(array.copy()) != digest_value(array.reshape(2, 3))
    assert digest_value(numpy.array([object()])) is None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@given(VALUES, VALUES)
def test_equal_digests_are_equal_values(a: Any, b: Any) -> None:
    assert (digest_value(a) == digest_value(b)) == (repr(a) == repr(b))


def test_what_a_packages_decorator_holds_changes_it() -> None:
    import contextlib  # its decorator keeps the function in a closure

    def managed(factor: int) -> Any:
        return contextlib.contextmanager(cell(CELL.replace("FACTOR = 2", f"FACTOR = {factor}")))

    assert digest_function(managed(2)) == digest_function(managed(2)) != digest_function(managed(3))
    assert digest_function(managed(2)) is not None


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A module of the project, imported from its file."""
    (tmp_path / "orchard_of_a_test.py").write_text("YEARLY = 3\n\ndef kilos(n):\n    return n * YEARLY\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "orchard_of_a_test", raising=False)
    return importlib.import_module("orchard_of_a_test")


@pytest.mark.parametrize(
    "text",
    [
        "import orchard_of_a_test as o\ndef outer(): return o.kilos(2)",
        "def outer():\n    import orchard_of_a_test\n    return orchard_of_a_test.kilos(2)",
        "def outer():\n    from orchard_of_a_test import kilos\n    return kilos(2)",
        "import orchard_of_a_test as o\ndef outer(): return (lambda: getattr(o, 'YEARLY'))()",
    ],
    ids=["global", "imported-within", "taken-from", "by-its-name"],
)
def test_a_module_of_the_project_counts_as_it_is_loaded(module: types.ModuleType, text: str) -> None:
    before = digest_function(cell(text))
    assert before == digest_function(cell(text))
    assert before is not None
    module.__dict__["YEARLY"] = 4  # as a reload of the edited file leaves it, or anybody
    assert digest_function(cell(text)) != before


def test_a_module_that_is_not_loaded_yet_counts_where_it_is_installed(module: types.ModuleType) -> None:
    assert digest_function(cell("def outer():\n    import this\n    return this")) is not None
    del sys.modules[module.__name__]
    assert digest_function(cell("def outer():\n    import orchard_of_a_test as o\n    return o")) is None
    assert digest_function(cell("def outer():\n    import no_such_module_at_all as o\n    return o")) is None


def test_what_is_written_on_a_function_changes_it() -> None:
    before, marked = cell(CELL), cell(CELL)
    marked.__dict__["by"] = 3
    assert None is not digest_function(before) != digest_function(marked)


@pytest.mark.parametrize("body", ["globals()['FACTOR']", "eval('FACTOR')", "__import__('math').pi"])
def test_who_may_read_anything_has_no_digest(body: str) -> None:
    assert digest_function(cell(f"FACTOR = 2\ndef outer(): return {body}")) is None


def test_what_is_written_on_a_table_changes_it() -> None:
    table = pandas.DataFrame({"a": [1, 2]})
    marked = table.copy()
    marked.attrs["unit"] = "kg"
    assert digest_value(table) != digest_value(marked) == digest_value(marked.copy())


def test_a_digest_names_the_parts_in_which_it_differs() -> None:
    before, after = digest_function(cell(CELL)), digest_function(cell(CELL.replace("FACTOR = 2", "FACTOR = 3")))
    assert before is not None
    assert after is not None
    assert {"its code", "inner", "TABLE", "Scale", "math"} <= before.parts.keys()
    assert [name for name in before.parts if before.parts[name] != after.parts[name]] == ["FACTOR"]


def test_a_module_belongs_to_each_package_that_lists_a_file_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The names begin alike, end with all signs that sort next to a slash, and are in no order."""
    site = tmp_path / "site-packages"
    listed = {
        "owned-1.0": "owned/z.py,,\nowned-1.0.dist-info/RECORD,,\nowned0/a.py,,\nowned.py,,\n"
        "owned_b.abi3.so,,\nowned/a.py,,\n",
        "other-2.0": "owned-more/a.py,,\r\nowned/sub/b.py,sha256=x/owned_c/,3\r\n../../bin/owned_d,,\r\nowned_e/x.py,,",
    }
    for package, text in listed.items():
        (site / f"{package}.dist-info").mkdir(parents=True)
        (site / f"{package}.dist-info" / "RECORD").write_text(text, newline="")
    # Beside the list of all files the other one has nothing more: a name of it may be in a folder.
    (site / "owned-1.0.dist-info" / "top_level.txt").write_text("owned_c")
    (site / "third-3.0.dist-info").mkdir()
    (site / "third-3.0.dist-info" / "top_level.txt").write_text("owned_f\nowned\nowned-g")
    monkeypatch.syspath_prepend(site)
    names = ("owned", "owned0", "owned_b", "owned-more", "owned_c", "owned_d", "owned_e", "owned_f", "owned-g")
    versions = {name: version_of(name) for name in names}
    assert versions == {
        "owned": "other-2.0 owned-1.0 third-3.0",
        "owned0": "owned-1.0",
        "owned_b": "owned-1.0",
        "owned-more": "other-2.0",
        "owned_c": "",
        "owned_d": "",
        "owned_e": "other-2.0",
        "owned_f": "third-3.0",
        "owned-g": "third-3.0",
    }


def test_a_function_of_python_counts_by_the_version_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    before = digest_function(math.floor)
    monkeypatch.setattr(sys, "version", "4.0 of a test")
    version_of.cache_clear()
    try:
        assert digest_function(math.floor) != before
    finally:
        version_of.cache_clear()
