"""After ``%autoreload`` has changed the functions of a module, tools and agents have the new parameters at once."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell

import agf_magics as agf
from tests.engine.kept import journal_in

BEFORE = """\
class Box:
    def scale(self, x): return x
    def __call__(self, x): return x
box = Box()
def scale(x): return x
def second(x, /): return x
async def later(x): return x
"""
AFTER = """\
class Box:
    def scale(self, x, plus=0): return x + plus
    def __call__(self, x, plus=0): return x + plus
box = Box()
def scale(x, plus=0):
    "Scales."
    return x + plus
def second(x, plus=0, /): return x + plus
async def later(x, plus=0): return x + plus
"""
NAMES = ("scale", "box.scale", "box", "second", "later")
TEXTS = {
    "pipeline": "{pipeline: flow, steps: [{tool: {name: t, args: {x: 1, plus: 6}, output: r}}]}",
    "policy": "{id: agf.sequential, config: {steps: [{agent: a, input_mapping: "
    "{x: parent.input.x, plus: parent.input.plus}}]}}",
    "plan": "{name: flow, calls: [{_tool: t, x: 1, plus: 6, _outputPath: †state.r}], output: †state.r}",
    "graph": "{name: flow, state: {r: any}, nodes: {n: {type: tool, tool: t, variables: {x: 1, plus: 6}, "
    "state_key: r}}, edges: [{from: START, to: n}]}",
}


class Reloading:
    """A shell with ``%autoreload 2`` and a module that the test edits."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "reloaded_helpers.py"
        self.path.write_text(BEFORE)
        self.time = 2e9
        self.shell = InteractiveShell()
        self.shell.run_line_magic("load_ext", "autoreload")
        self.shell.run_line_magic("autoreload", "2")
        self.run("import reloaded_helpers as h")

    def run(self, cell: str) -> None:
        self.shell.run_cell(cell).raise_error()

    def edit(self, text: str) -> None:
        self.path.write_text(text)
        self.time += 10
        os.utime(self.path, (self.time, self.time))  # newer, even if the clock of the file system is coarse
        self.run("1")


@pytest.fixture
def reloading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reloading]:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "reloaded_helpers", raising=False)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    with journal_in(tmp_path):
        yield Reloading(tmp_path)


@pytest.mark.parametrize("language", TEXTS)
@pytest.mark.parametrize("name", NAMES)
def test_a_parameter_that_a_file_adds_can_be_used_at_once(reloading: Reloading, name: str, language: str) -> None:
    registry = agf.Registry()
    reloading.shell.user_ns["found"] = None
    reloading.run(f"found = h.{name}")
    function = reloading.shell.user_ns["found"]
    agf.tool(function, name="t", registry=registry)
    agf.agent(function, name="a", registry=registry)
    before = registry.tools["t"]
    assert registry.tools["t"] is before
    reloading.edit(AFTER)
    agf.define(TEXTS[language], language, name="flow", registry=registry)
    output = agf.run("flow", {"x": 1, "plus": 6}, registry=registry).output
    assert (output["r"] if language == "graph" else output) == 7
    assert "plus" in registry.tools["t"].takes
    reloading.edit(BEFORE)
    assert "plus" not in registry.tools["t"].takes


def test_an_edited_agent_is_the_default_only_if_it_was(reloading: Reloading) -> None:
    registry = agf.Registry()
    reloading.run("found = h.scale")
    agf.agent(reloading.shell.user_ns["found"], name="first", default=True, registry=registry)
    agf.agent(lambda prompt: "b", name="second", default=True, registry=registry)
    reloading.edit(AFTER)
    assert registry.agents["first"].name == "first"
    default = registry.agents.default
    assert default is not None
    assert default.name == "second"


def test_the_options_of_a_tool_stay(reloading: Reloading) -> None:
    registry = agf.Registry()
    reloading.run("found = h.scale")
    agf.tool(reloading.shell.user_ns["found"], name="t", registry=registry, reuse=False, timeout=7, where="thread",
             retry=agf.Retry(2), secret=["x"], resources={"gpu": 1})  # fmt: skip
    before = registry.tools["t"]
    reloading.edit(AFTER)
    after = registry.tools["t"]
    assert after is not before
    assert after.description == "Scales."
    same = ("name", "reuse", "timeout", "where", "throttle", "secret", "resources", "listed_only", "kernel_only")
    assert [getattr(after, option) for option in same] == [getattr(before, option) for option in same]


def test_parameters_that_fit_no_tool_leave_it_as_it_was(reloading: Reloading) -> None:
    registry = agf.Registry()
    reloading.run("found = h.scale")
    agf.tool(reloading.shell.user_ns["found"], name="t", registry=registry)
    before = registry.tools["t"]
    reloading.edit(AFTER.replace("def scale(x, plus=0):", "def scale(*plus):"))
    assert registry.tools["t"] is before
