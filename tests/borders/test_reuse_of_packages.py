"""A tool that names a part of an installed package is reused, because the package's version identifies the part.

That holds for all kinds of parts: a function in C or inside a decorator, a partial, an object with a lock.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agf_magics.catalog.digests import origins
from agf_magics.catalog.digests.digesting import digest_function
from tests.borders.cells import Kernel, calls_made
from tests.engine.kept import journal_in

PACKAGE = """\
import functools
import threading

LOCK = threading.Lock()


def validated(rules):
    def wrap(function):
        @functools.wraps(function)
        def inner(*args, **more):
            with rules["lock"]:
                return function(*args, **more)
        return inner
    return wrap


def bare(function):
    lock = threading.Lock()
    def inner(*args, **more):
        with lock:
            return function(*args, **more)
    return inner


class Wrapped:
    def __init__(self, function):
        functools.update_wrapper(self, function)
        self.function, self.lock = function, threading.Lock()
    def __call__(self, *args, **more):
        return self.function(*args, **more)


class Method:
    lock = threading.Lock()
    def twice(self, x):
        return 2 * x


def plain(x): return 2 * x
@validated({"lock": LOCK})
def decorated(x): return 2 * x
@bare
def unnamed(x): return 2 * x
@Wrapped
def instance(x): return 2 * x
@functools.lru_cache
def cached(x): return 2 * x
def _partial(lock, x): return 2 * x
partial = functools.partial(_partial, LOCK)
instance_of_its_own = Wrapped(lambda x: 2 * x)
method = Method().twice
@functools.singledispatch
def dispatched(x): return 2 * x
"""
NAMES = (
    "plain",
    "decorated",
    "unnamed",
    "instance",
    "cached",
    "partial",
    "instance_of_its_own",
    "method",
    "dispatched",
)


@pytest.fixture(autouse=True)
def _package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    site = tmp_path / "site"
    (site / "orchard_tools-1.0.dist-info").mkdir(parents=True)
    (site / "orchard_tools-1.0.dist-info" / "RECORD").write_text("orchard_tools.py,,\n")
    (site / "orchard_tools.py").write_text(PACKAGE)
    monkeypatch.syspath_prepend(site)
    monkeypatch.delitem(sys.modules, "orchard_tools", raising=False)
    for cached in (origins._is_ours, origins._packages, origins.version_of, origins._file):
        cached.cache_clear()
    importlib.import_module("orchard_tools")
    with journal_in(tmp_path):
        yield
    sys.modules.pop("orchard_tools", None)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "text",
    [
        "from orchard_tools import {0}\ndef t(x): return {0}(x)",
        "import orchard_tools\ndef t(x): return orchard_tools.{0}(x)",
        "import orchard_tools as o\ndef h(x): return o.{0}(x)\ndef t(x): return h(x)",
        "def t(x):\n    from orchard_tools import {0}\n    return {0}(x)",
        "from orchard_tools import {0}\nALL = [{0}]\ndef t(x): return {0}(x)",
    ],
    ids=["taken", "module", "helper", "within", "in a list"],
)
def test_a_tool_that_names_a_function_of_a_package_is_reused(name: str, text: str) -> None:
    kernel = Kernel(text.format(name))
    first = kernel.run()
    assert first.output == 2
    assert kernel.stale(first) == ()
    assert calls_made(kernel.run(reuse=True)) == 0


@pytest.mark.parametrize("name", ["plain", "decorated", "unnamed", "instance"])
def test_a_function_of_a_package_under_another_name_is_reused(name: str) -> None:
    kernel = Kernel(f"from orchard_tools import {name} as other\ndef t(x): return other(x)")
    kernel.run()
    assert calls_made(kernel.run(reuse=True)) == 0


@pytest.mark.parametrize("text", ["import random\nf = random.randint", "from numpy import mean as f",
                                  "from numpy import add as f", "from numpy.random import rand as f"])  # fmt: skip
def test_functions_in_c_and_methods_of_hidden_objects_have_a_digest(text: str) -> None:
    """``randint`` and ``rand`` are methods of a generator that their module keeps."""
    assert digest_function(Kernel(f"{text}\ndef t(x): return f").names["t"]) is not None


def test_a_function_of_the_notebook_inside_of_a_packages_decorator_changes_the_digest() -> None:
    cell = (
        "from orchard_tools import validated\n@validated({{'lock': 1}})\ndef h(x): return x + {}\ndef t(x): return h(x)"
    )
    first_digest, second_digest = (digest_function(Kernel(cell.format(n)).names["t"]) for n in (1, 2))
    assert first_digest is not None
    assert first_digest != second_digest


def test_a_function_that_the_notebook_puts_into_a_package_makes_the_result_stale() -> None:
    kernel = Kernel("import orchard_tools as o\ndef t(x): return o.plain(x)")
    first = kernel.run()
    kernel.cell("def plain(x): return 9 * x\no.plain = plain")
    assert kernel.stale(first) == ("steps[0]",)
    assert kernel.run(reuse=True).output == 9


@pytest.mark.parametrize(("first_object", "second_object"), [
    ("{1: 1}.get", "{1: 2}.get"), ("[1].append", "[2].append"), ("'a'.join", "'b'.join"),
    ("{1}.union", "{2}.union"), ("(1).__add__", "(2).__add__"), ("[1].__len__", "[1, 2].__len__"),
    ("__import__('re').compile('a').match", "__import__('re').compile('b').match"),
])  # fmt: skip
def test_methods_of_different_objects_have_different_digests(first_object: str, second_object: str) -> None:
    cell = "f = {}\ndef t(x): return f(x)"
    digests = [
        digest_function(Kernel(cell.format(text)).names["t"]) for text in (first_object, first_object, second_object)
    ]
    assert digests[0] == digests[1] != digests[2]
    bound = [
        digest_function(Kernel(f"f = {text}\ndef t(x): return x").names["f"])
        for text in (first_object, first_object, second_object)
    ]
    assert bound[0] == bound[1] != bound[2]
    assert None not in (*digests, *bound)
