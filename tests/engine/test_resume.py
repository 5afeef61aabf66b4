"""A run taken up again comes to the same end as one that was never interrupted, and makes no finished call twice."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agf_magics as agf
from agf_magics.resumed import resume
from tests.engine import kept

Calls = list[tuple[str, Any]]


def world(calls: Calls, texts: list[str]) -> agf.Registry:
    """Tools that write down what they were called with; ``flaky`` fails for what begins with x, ``once`` the first
    time it is called with a word."""
    registry = agf.Registry()

    @agf.tool(registry=registry, where="loop")
    async def note(word: Any) -> Any:
        calls.append(("note", word))
        await asyncio.sleep(0)
        return [word]

    @agf.tool(registry=registry, where="loop")
    async def flaky(word: Any) -> Any:
        calls.append(("flaky", word))
        await asyncio.sleep(0)
        if str(word).startswith("x"):
            raise ValueError(f"no {word}")
        return word

    @agf.tool(registry=registry, where="loop")
    def double(word: Any) -> Any:
        calls.append(("double", word))
        return str(word) * 2

    @agf.agent(registry=registry)
    def carol(prompt: str) -> str:
        calls.append(("carol", prompt))
        return prompt.upper()

    for text in texts:
        agf.define(text, registry=registry)
    return registry


LINEAR = """\
pipeline: main
steps:
- tool: {name: note, args: {word: a}, output: one}
- transform: {value: "count(one) + 1", output: two}
- tool: {name: double, args: {word: !expr two}, output: three}
- agent: {prompt: "say {three}", output: four}
"""

FAN_OUT = """\
pipeline: main
steps:
- for_each:
    items: [a, xb, c, xd, e]
    max_parallel: 2
    on_error: continue
    do: {tool: {name: flaky, args: {word: !expr item}}}
    collect: {transform: {value: pipe}}
    output: words
- for_each:
    over: words
    max_parallel: 3
    on_error: retry(1)
    do:
      for_each:
        items: [1, 2]
        on_error: abort
        do: {tool: {name: note, args: {word: !expr pipe}}}
        collect: {tool: {name: double, args: {word: !expr "count(pipe)"}}}
    collect: {transform: {value: pipe}}
    output: lists
"""

BRANCHES = """\
pipeline: main
steps:
- parallel:
    on_error: continue
    branches:
      one: {tool: {name: note, args: {word: 1}}}
      two: {tool: {name: flaky, args: {word: x2}}}
      three:
        fold: {items: [a, b], init: "''", do: {tool: {name: double, args: {word: !expr "acc + item"}}}, output: folded}
    collect: {transform: {value: pipe}}
    output: both
- tool: {name: note, args: {word: !expr both}}
"""

FAILS = """\
pipeline: main
steps:
- tool: {name: note, args: {word: a}, output: one}
- for_each:
    items: [b, xc, d]
    max_parallel: 1
    on_error: retry(1)
    do: {tool: {name: flaky, args: {word: !expr item}}}
    collect: {transform: {value: pipe}}
"""

NESTED = """\
pipeline: main
steps:
- call: {pipeline: inner, pass: [], output: first}
- match:
    on: "count(first)"
    cases:
      "1": {pipeline: inner}
      "2": {pipeline: other}
    output: second
- for_each:
    items: [p, q]
    on_error: abort
    do: {call: {pipeline: other, pass: [item]}}
    collect: {transform: {value: pipe}}
"""
INNER = """\
pipeline: inner
steps:
- tool: {name: note, args: {word: in}, output: a}
- transform: {value: a}
"""
OTHER = """\
pipeline: other
steps:
- tool: {name: note, args: {word: !expr "get(ctx, 'item')"}, output: a}
- tool: {name: double, args: {word: !expr "get(ctx, 'item')"}, output: b}
"""

SCENARIOS = {
    "linear": [LINEAR],
    "fan-out": [FAN_OUT],
    "branches": [BRANCHES],
    "fails": [FAILS],
    "nested": [INNER, OTHER, NESTED],
}


def told(run: agf.Run) -> tuple[Any, ...]:
    """All of its outcome that must be the same."""
    error = (run.error.code, run.error.diagnostic.message, run.error.where) if run.error else None
    return run.status, run.output, dict(run.stores), error, run.sessions


def finished(path: Path) -> list[str]:
    return [at for what, at, _ in kept.lines(path) if what in ("finished", "failed")]


def holds(texts: list[str], folder: Path) -> None:
    """Cut after every line of its journal, the run comes to the same end, without a call that had come to its own."""
    calls: Calls = []
    registry = world(calls, texts)
    with kept.journal_in(folder / "whole") as whole:
        wanted = told(agf.run("main", registry=registry, raises=False))
        count = len(kept.lines(whole))
        cuts = [(after, kept.cut(whole, after, folder / f"cut{after}")) for after in range(count + 1)]
    assert count > 1
    made = Counter(map(str, calls))
    for after, path in cuts:
        again: Calls = []
        with kept.journal_in(path.parent):
            before = len(finished(path))
            found = resume("main", registry=world(again, texts), raises=False)
            assert told(found) == wanted, f"after {after} lines"
            assert len(again) == len(calls) - before, f"after {after} lines: {again}"
            assert not Counter(map(str, again)) - made
            assert len(finished(path)) == len(calls)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_run_cut_after_any_line_comes_to_the_same_end(name: str, tmp_path: Path) -> None:
    holds(SCENARIOS[name], tmp_path)
