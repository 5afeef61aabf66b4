"""``--reuse``, `agf.stale` and `agf.rerun` after an edit of something that a tool or an agent names.

A result is reused only if nothing that counts has changed. An object that calls of the run changed themselves does not
count.
"""

from __future__ import annotations

import importlib
import os
import sys
import types
from pathlib import Path

import pytest

import agf_magics as agf
from tests.borders.cells import TEXTS, Kernel, calls_made

pytestmark = pytest.mark.usefixtures("journaled")


@pytest.fixture
def helpers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A module of the project, with helper functions."""
    (tmp_path / "helpers_of_reuse.py").write_text(
        "RATE, CACHE, count = {'a': 1}, {}, 0\n"
        "def scaled(x): return x * RATE['a']\n"
        "def cached(x): return CACHE.setdefault(x, x)\n"
        "def counted(x):\n    global count\n    count += 1\n    return x\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "helpers_of_reuse", raising=False)
    return importlib.import_module("helpers_of_reuse")


# Methods whose names sound like changes although they change nothing.
SOUNDS = ("add", "append", "update", "insert", "pop", "remove", "sort", "setdefault", "discard", "clear", "rotate")
BOX = """
class Box:
    def __init__(self, n): self.n = n
    def {0}(self, x): return x + self.n
box = Box(1)
def t(x): return box.{0}(x)
"""

EDITED: dict[str, tuple[str, str]] = {
    **{f"an object with a method {name}": (BOX.format(name), "box = Box(100)") for name in SOUNDS},
    **{f"the field of such an object, {name}": (BOX.format(name), "box.n = 100") for name in SOUNDS[:3]},
    "a series": (
        "import pandas as pd\nPRICES = pd.Series([1, 2])\ndef t(x): return int(PRICES.add(x).sum())",
        "PRICES = pd.Series([100, 200])"),
    "a frame": (
        "import pandas as pd\nG = pd.DataFrame({'a': [1]})\ndef t(x): return int(G.copy().pop('a').sum())",
        "G = pd.DataFrame({'a': [5]})"),
    "a frame in place": (
        "import pandas as pd\nG = pd.DataFrame({'a': [1]})\ndef t(x): return int(G.add(x)['a'].sum())",
        "G.loc[0, 'a'] = 5"),
    "an array in place": ("import numpy as np\nG = np.zeros(3)\ndef t(x): return float(G.sum())", "G[1] = 5"),
    "setdefault of a key that exists": (
        "RATES = {'rate': 1}\ndef t(x): return x * RATES.setdefault('rate', 1)", "RATES = {'rate': 5}"),
    "a list in place": ("ITEMS = [1]\ndef t(x): return len(ITEMS)", "ITEMS.append(2)"),
    "a number": ("N = 1\ndef t(x): return x + N", "N = 2"),
    "a number that another function counts": (
        "N = 1\ndef count():\n    global N\n    N += 1\ndef t(x): return x + N", "N = 5"),
    "a tuple of lists": ("PAIR = ([1], [2])\ndef t(x): return len(PAIR[0])", "PAIR[0].append(3)"),
    "a helper": ("def h(x): return x + 1\ndef t(x): return h(x)", "def h(x): return x + 100"),
    "a helper that counts its calls": (
        "def h(x): return x + 1\nh.calls = 0\ndef t(x):\n    h.calls += 1\n    return h(x)",
        "def h(x): return x + 100\nh.calls = 0"),
    "an attribute of a helper": ("def h(x): return x * h.by\nh.by = 1\ndef t(x): return h(x)", "h.by = 5"),
    "a list on a helper": ("def h(x): return len(h.all)\nh.all = [1]\ndef t(x): return h(x)", "h.all.append(2)"),
    "what a helper of a helper reads": (
        "TABLE = {'a': 1}\ndef g(x): return x + TABLE['a']\ndef h(x): return g(x)\ndef t(x): return h(x)",
        "TABLE['a'] = 9"),
    "a helper in a list": (
        "def h(x): return x + 1\nALL = [h]\ndef t(x): return ALL[0](x)", "def h(x): return x + 9\nALL[0] = h"),
    "what a helper in a list reads": (
        "K = {'a': 1}\ndef h(x): return x + K['a']\nALL = [h]\ndef t(x): return ALL[0](x)", "K['a'] = 5"),
    "the method of an object that its calls change": (
        "class C:\n    n = 0\n    def add(self, x):\n        self.n += 1\n        return x + 1\n"
        "c = C()\ndef t(x): return c.add(x)",
        "class C:\n    n = 0\n    def add(self, x):\n        self.n += 1\n        return x + 100\nc = C()"),
    "a static method": (
        "class C:\n    @staticmethod\n    def remove(x): return x - 1\ndef t(x): return C.remove(x)",
        "class C:\n    @staticmethod\n    def remove(x): return x - 100"),
    "the class whose attribute its calls count": (
        "class C:\n    n = 0\n    @staticmethod\n    def f(x): return x - 1\ndef t(x):\n    C.n += 1\n"
        "    return C.f(x)",
        "class C:\n    n = 0\n    @staticmethod\n    def f(x): return x - 100"),
    "an attribute of a class": ("class C: rate = 1\ndef t(x): return x * C.rate", "C.rate = 5"),
    "a list of a class": ("class C: all = [1]\ndef t(x): return len(C.all)", "C.all.append(5)"),
    "a list of the class of an object": (
        "class C: all = [1]\nc = C()\ndef t(x): return len(c.all)", "C.all.append(5)"),
    "an attribute of a base": ("class B: rate = 1\nclass C(B): pass\ndef t(x): return x * C.rate", "B.rate = 5"),
    "the object of a bound method": (
        "class C:\n    def __init__(self, n): self.n = n\n    def add(self, x): return x + self.n\nc = C(1)\nt = c.add",
        "c.n = 5"),
    "an object that is called": (
        "class C:\n    def __init__(self, n): self.n = n\n    def __call__(self, x): return x + self.n\n"
        "t = C(1)", "t.n = 5"),
    "the list of a partial": (
        "import functools\ndef f(by, x): return x + len(by)\nBY = [1]\nt = functools.partial(f, BY)", "BY.append(2)"),
    "the method of a dict": ("D = {1: 1}\nt = lambda x, get=D.get: get(x)", "D[1] = 5"),
    "a list as a default": ("ALL = [1]\ndef t(x, all=ALL): return len(all)", "ALL.append(2)"),
    "the list of a closure": (
        "def make(all):\n    def t(x): return len(all)\n    return t\nALL = [1]\nt = make(ALL)", "ALL.append(2)"),
    "a number of a closure": ("def make(n):\n    def t(x): return x + n\n    return t\nt = make(1)", "t = make(5)"),
    "the helper of a closure": (
        "def h(x): return x + 1\ndef make():\n    all = []\n    def t(x):\n        all.append(x)\n        return h(x)\n"
        "    return t\nt = make()", "def h(x): return x + 9"),
    "a table of a module": ("import helpers_of_reuse as m\ndef t(x): return m.scaled(x)", "m.RATE['a'] = 5"),
    "a table of a module, bound again": ("import helpers_of_reuse as m\n"
    "def t(x): return m.scaled(x)", "m.RATE = {'a': 5}"),
    "a table that is imported": ("from helpers_of_reuse import RATE\ndef t(x): return x * RATE['a']", "RATE['a'] = 5"),
    "a function of a module": (
        "import helpers_of_reuse as m\ndef t(x): return m.cached(x)", "m.cached = lambda x: -x"),
}  # fmt: skip


@pytest.mark.parametrize("edited", EDITED)
def test_an_edited_thing_never_gives_the_old_result(edited: str, helpers: types.ModuleType) -> None:
    cell, edit = EDITED[edited]
    kernel = Kernel(cell)
    first = kernel.run()
    same = kernel.run(reuse=True)
    if "calls count" not in edited:  # an attribute of a class counts even if calls change it
        assert (calls_made(same), same.output) == (0, first.output)
        assert kernel.stale(first) == ()
    kernel.cell(edit)
    assert kernel.stale(first) == ("steps[0]",)
    again = kernel.run(reuse=True)
    assert calls_made(again) == 1
    assert again.output != first.output
    assert again.output == kernel.run().output


CHANGING: dict[str, str] = {
    "a cache": "cache = {}\ndef t(x):\n    cache[x] = x\n    return x",
    "a list": "seen = []\ndef t(x):\n    seen.append(x)\n    return x",
    "a count": "count = 0\ndef t(x):\n    global count\n    count += 1\n    return x",
    "an own class with any method": (
        "class Log:\n    def __init__(self): self.lines = []\n    def note(self, x): self.lines.append(x)\n"
        "log = Log()\ndef t(x):\n    log.note(x)\n    return x"),
    "an inner part": "tree = {'a': {'b': []}}\ndef t(x):\n    tree['a']['b'].append(x)\n    return x",
    "an attribute of a helper": "def h(x): return x\nh.n = 0\ndef t(x):\n    h.n += 1\n    return h(x)",
    "an attribute of itself": "def t(x):\n    t.n = getattr(t, 'n', 0) + 1\n    return x\nt.n = 0",
    "the list of a default": "def t(x, seen=[]):\n    seen.append(x)\n    return x",
    "the list of a closure": (
        "def make():\n    seen = []\n    def t(x):\n        seen.append(x)\n        return x\n"
        "    return t\nt = make()"),
    "the number of a closure": (
        "def make():\n    n = 0\n    def t(x):\n        nonlocal n\n        n += 1\n        return x\n"
        "    return t\nt = make()"),
    "what a helper of a helper changes": (
        "seen = []\ndef g(x): seen.append(x)\ndef h(x): g(x)\ndef t(x):\n    h(x)\n    return x"),
    "the cache of a module": "import helpers_of_reuse as m\ndef t(x): return m.cached(x)",
    "the count of a module": "import helpers_of_reuse as m\ndef t(x): return m.counted(x)",
    "the attribute of a module": "import helpers_of_reuse as m\ndef t(x):\n    m.count += 1\n    return x",
    "its object": (
        "class C:\n    def __init__(self): self.n = 0\n    def go(self, x):\n        self.n += 1\n"
        "        return x\nt = C().go"),
    "a frame": (
        "import pandas as pd\nG = pd.DataFrame({'a': [1]})\ndef t(x):\n    G.loc[len(G)] = [x]\n    return x"),
    "an array": "import numpy as np\nG = np.zeros(3)\ndef t(x):\n    G[0] += x\n    return x",
    "two names of one list": "A = [1]\nB = {'a': A}\ndef t(x):\n    A.append(x)\n    return x + 0 * len(B)",
    "an async function": "seen = []\nasync def t(x):\n    seen.append(x)\n    return x",
}  # fmt: skip


@pytest.mark.parametrize("changed", CHANGING)
def test_changes_by_calls_do_not_count_before_or_after_a_restart(changed: str, helpers: types.ModuleType) -> None:
    kernel = Kernel(CHANGING[changed])
    first = kernel.run()
    again = kernel.run(reuse=True)
    assert (calls_made(again), again.output) == (0, first.output)
    assert kernel.stale(first) == ()
    importlib.reload(helpers)
    restarted = Kernel(CHANGING[changed])
    assert calls_made(restarted.run(reuse=True)) == 0
    # That run made no call. It knows the changes from the first run.
    assert calls_made(restarted.run(reuse=True)) == 0


@pytest.mark.parametrize("language", TEXTS)
@pytest.mark.parametrize("kind", ["edited", "changing", "method"])
def test_every_language_reuses_in_the_same_way(language: str, kind: str) -> None:
    if kind == "changing":
        kernel = Kernel("seen = []\ndef t(x):\n    seen.append(x)\n    return x", language)
        kernel.run()
        assert calls_made(kernel.run(reuse=True)) == 0
        return
    method = "class C:\n    def add(self, x): return x + {}\nc = C()\n"
    cell = "R = [1]\n" if kind == "edited" else method.format(1)
    cell += "def t(x): return " + ("x * R[0]" if kind == "edited" else "c.add(x)")
    kernel = Kernel(cell, language)
    first = kernel.run()
    assert calls_made(kernel.run(reuse=True)) == 0
    kernel.cell("R = [7]" if kind == "edited" else method.format(7))
    assert len(kernel.stale(first)) == 1
    again = kernel.run(reuse=True)
    assert calls_made(again) == 1
    assert again.output == kernel.run().output != first.output


FAN = """\
pipeline: flow
steps:
- for_each:
    over: ctx.xs
    on_error: abort
    do: {tool: {name: t, args: {x: !expr item}}}
    collect: {transform: {value: pipe}}
"""
TWO = "{pipeline: flow, steps: [{tool: {name: t, args: {x: 1}}}, {tool: {name: u, args: {x: 2}, output: r}}]}"


@pytest.mark.parametrize("start", ["def", "async def"])
def test_calls_that_overlap_leave_out_what_any_of_them_changes(start: str) -> None:
    """The other calls of the fan-out see the object before, between and after the changes."""
    wait = "time.sleep(0.01 * x)" if start == "def" else "await asyncio.sleep(0.01 * x)"
    cell = (
        f"import asyncio, time\nseen, RATE = [], [1]\n{start} t(x):\n    {wait}\n"
        "    if x == 2: seen.append(x)\n    return x * RATE[0]"
    )
    kernel = Kernel(cell, text=FAN)
    first = kernel.run()
    assert calls_made(kernel.run(reuse=True)) == 0
    assert calls_made(Kernel(cell, text=FAN).run(reuse=True)) == 0
    kernel.cell("RATE = [5]")
    again = kernel.run(reuse=True)
    assert again.output == [5, 10, 15, 20] != first.output


BIG = "BIG = {str(n): n for n in range(50_000)}\n"


def test_a_large_object_that_is_looked_at_less_often_is_left_out_if_calls_change_it() -> None:
    cell = BIG + "def t(x):\n    if x == 4: BIG[str(x)] = -1\n    return x"
    kernel = Kernel(cell, text=FAN.replace("on_error", "max_parallel: 1\n    on_error"))
    kernel.run()
    assert calls_made(kernel.run(reuse=True)) == 0
    assert calls_made(Kernel(cell, text=FAN).run(reuse=True)) == 0


def test_a_large_object_that_no_call_changes_counts() -> None:
    kernel = Kernel(BIG + "def t(x): return x + BIG[str(x)]", text=FAN)
    kernel.run()
    assert calls_made(kernel.run(reuse=True)) == 0
    kernel.cell("BIG['3'] = 100")
    assert kernel.run(reuse=True).output == [2, 4, 103, 8]


def test_changes_by_a_failed_call_are_left_out_too() -> None:
    cell = "seen = []\ndef t(x):\n    seen.append(x)\n    if x == 2: raise ValueError(x)\n    return x"
    text = FAN.replace("abort", "continue")
    Kernel(cell, text=text).run()
    assert calls_made(Kernel(cell, text=text).run(reuse=True)) == 1  # the failed call is made again


def test_an_object_that_another_function_changed_is_left_out_too() -> None:
    cell = "log = []\ndef t(x): log.append(x)\ndef u(x): return len(log)"
    first = Kernel(cell, text=TWO).run()
    again = Kernel(cell, text=TWO).run(reuse=True)
    assert (calls_made(again), again.stores) == (0, first.stores)


def test_an_object_that_is_changed_after_the_call_that_reads_it_is_left_out_too() -> None:
    cell = "log = []\ndef u(x): log.append(x)\ndef t(x): return len(log)"
    kernel = Kernel(cell, text=TWO)
    kernel.run()
    assert calls_made(kernel.run(reuse=True)) == 0


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the call waits in a FIFO")
@pytest.mark.parametrize("edit", ["R = [5]", "N = 5", "def h(): return 5", "class C: n = 5"])
def test_an_object_that_a_cell_assigns_while_a_call_runs_is_an_edit(edit: str, tmp_path: Path) -> None:
    """Nobody can know which object the call has read, so its result is never reused."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    cell = (
        "R, N = [1], 1\ndef h(): return 1\nclass C: n = 1\n"
        f"def t(x):\n    open({str(fifo)!r}).read()\n    return x * (R[0] + N + h() + C.n)"
    )
    kernel = Kernel(cell)
    run = agf.start("flow", {"x": 1}, registry=kernel.registry)
    with fifo.open("w"):  # returns as soon as the call reads
        kernel.cell(edit)
    assert run.wait(30).output == 8
    fifo.unlink()
    fifo.touch()
    kernel.cell(cell)  # as it was at the start of the call
    assert calls_made(kernel.run(reuse=True)) == 1
    assert calls_made(kernel.run(reuse=True)) == 0


def test_a_later_step_is_run_again_with_the_edited_object() -> None:
    cell = "R = [1]\ndef t(x): return x\ndef u(x): return x * R[0]"
    kernel = Kernel(cell, text=TWO)
    first = kernel.run()
    kernel.cell("R = [5]")
    again = agf.rerun(first.run_id, "steps[1]", registry=kernel.registry)
    assert (calls_made(again), again.stores["r"]) == (1, 10)


def test_an_earlier_step_is_made_again_if_it_names_an_edited_object() -> None:
    cell = "R = {'a': 1}\ndef t(x): return x * R.setdefault('a', 1)\ndef u(x): return x"
    text = TWO.replace("x: 1}}}", "x: 1}, output: first}}")
    kernel = Kernel(cell, text=text)
    first = kernel.run()
    assert calls_made(agf.rerun(first.run_id, "steps[1]", registry=kernel.registry)) == 1
    kernel.cell("R = {'a': 7}")
    again = agf.rerun(first.run_id, "steps[1]", registry=kernel.registry)
    assert (calls_made(again), again.stores["first"]) == (2, 7)


def test_the_reason_says_what_was_edited_and_what_is_not_compared() -> None:
    kernel = Kernel("seen, RATE = [], [1]\ndef t(x):\n    seen.append(x)\n    return x * RATE[0]")
    first = kernel.run()
    kernel.cell("RATE = [5]")
    (row,) = agf.stale(first, registry=kernel.registry)
    assert row["why"] == ("its function was edited: RATE (not compared: seen, which calls of the run changed)")


def test_the_reason_names_objects_that_cannot_be_compared() -> None:
    kernel = Kernel("import threading\nlock = threading.Lock()\ndef h(): return lock\ndef t(x): return h() and x")
    (row,) = agf.stale(kernel.run(), registry=kernel.registry)
    assert row["why"] == "its function cannot be compared: lock (a lock of _thread)"
    two = "{pipeline: flow, steps: [{tool: {name: t, args: {x: 1}, output: a}}, {tool: {name: u, args: {x: !expr a}}}]}"
    kernel = Kernel("def t(x): return {'inner': iter([x])}\ndef u(x): return 1", text=two)
    row = agf.stale(kernel.run(), registry=kernel.registry)[1]
    assert row["why"] == "its argument 'x' cannot be compared: a list_iterator of builtins"
