"""Tests the scan of Python text, which finds what the text would register, with the arguments, and runs nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agf_magics.catalog import Registry
from agf_magics.editor.python_cells import tree_of
from agf_magics.editor.python_scan import scan_program, scan_python
from agf_magics.editor.text_group import TextGroup

TEXTS = {
    "decorators": """
from __future__ import annotations
import agf_magics as agf
from agf_magics import agent, tool as as_tool, transform
from typing import Any, Literal, Optional

@as_tool
def fetch(url: str, times: int = 3, *, mode: Literal["a", "b"] = "a", rest: Optional[list[str]] = None) -> dict:
    "Fetch a page."

@as_tool(name="other", secret=["token"], timeout=3)
async def search(query: str | None, token: str): ...

@agf.tool(group="files")
def read(path): ...

@agent(tools=["fetch"], default=True)
def writer(prompt: str) -> str: ...

@transform
def joined(outputs): ...
""",
    "contexts": """
import typing
import agf_magics
import agf_magics as agf
from agf_magics import ToolContext
from typing import Optional, Union

@agf.tool
def first(call: agf.ToolContext, x: int): ...

@agf.tool
def second(call: ToolContext, x: int): ...

@agf.tool
def third(x: int, call: "agf.ToolContext"): ...

@agf.tool
def fourth(x: int, call: ToolContext | None = None): ...

@agf.tool
def fifth(x: int, call: Optional[agf.ToolContext] = None): ...

@agf.tool
def sixth(x: int, call: typing.Union[None, "agf_magics.ToolContext"] = None): ...
""",
    "calls": """
import json
import agf_magics as agf

def weigh(crate: dict[str, int], **rest: int) -> float: ...

agf.tool(weigh)
agf.tool(json.dumps, name="shown")

class Client:
    def search(self, text: str): ...

agf.tool(Client().search, name="search")
""",
    "all names": """
from agf_magics import *

@tool
def fetch(url: str): ...

@agent
def writer(prompt: str) -> str: ...

@transform
def joined(outputs): ...
""",
}


def scan(text: str) -> tuple[dict[str, Any], list[tuple[str, str | None]]]:
    registry = Registry()
    names = [(scanned.kind, scanned.name) for scanned in scan_python(text, registry)]
    return {
        **{f"tool {tool.name}": tool.accepts for tool in registry.tools.values()},
        **{f"agent {name}": None for name in registry.agents},
        **{f"transform {name}": None for name in registry.transforms},
    }, names


RUN = """
import json, runpy, sys
from agf_magics.catalog import default
before = set(default().tools)
runpy.run_path(sys.argv[1])
r = default()
print(json.dumps({
    **{f"tool {t.name}": t.accepts for t in r.tools.values() if t.name not in before},
    **{f"agent {name}": None for name in r.agents}, **{f"transform {name}": None for name in r.transforms},
}))
"""


@pytest.mark.parametrize("name", TEXTS)
def test_the_scan_finds_what_the_text_registers_when_it_runs(name: str, tmp_path: Path) -> None:
    file = tmp_path / "tools.py"
    file.write_text(TEXTS[name])
    program = [sys.executable, "-c", RUN, str(file)]
    ran = json.loads(subprocess.run(program, capture_output=True, text=True, check=True, timeout=60).stdout)
    scanned, _ = scan(file.read_text())
    before = scan("")[0]
    scanned = {key: value for key, value in scanned.items() if key not in before}
    assert scanned.keys() == ran.keys()
    unknown = {"tool shown", "tool search"}  # a callable that is not in the text takes anything
    assert {k: v for k, v in scanned.items() if k not in unknown} == {k: v for k, v in ran.items() if k not in unknown}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("import agf_magics as agf\nfor f in fs: agf.tool(f, name=f.name)", [("tool", None)]),
        ("from agf_magics import tool\ntool(f, **options)", [("tool", None)]),
        ("from agf_magics import model_agent\nmodel_agent(name)", [("model_agent", None)]),
        ("from agf_magics import policy\n@policy('x-acme.vote')\ndef vote(agents): ...", [("policy", "x-acme.vote")]),
        ("from agf_magics import tool\n@tool(registry=other)\ndef f(): ...", []),
        ("from other import tool\n@tool\ndef f(): ...", []),
        ("import agf_magics\n@agf_magics.tool(name=3)\ndef f(): ...", [("tool", None)]),
        ("%load_ext agf_magics\nfrom agf_magics import tool\n!ls\ntool?\n@tool\ndef f(): ...", [("tool", "f")]),
        ("%%bash\nfrom agf_magics import tool", []),
        (
            "from agf_magics import tool\nr = %runs p\nfiles = !ls\na, b = %time 1\n@tool\ndef f(): ...",
            [("tool", "f")],
        ),
        (
            "from agf_magics import tool\nif True:\n    %time 1\n%mcp shop -- \\\n  python s.py\n@tool\ndef f(): ...",
            [("tool", "f")],
        ),
        ("%%time\nfrom agf_magics import tool\n@tool\ndef f(): ...", [("tool", "f")]),
        ("%%capture out\nfrom agf_magics import tool\nx = %time 1\n@tool\ndef f(): ...", [("tool", "f")]),
        ("%%writefile tools.py\nfrom agf_magics import tool\n@tool\ndef f(): ...", [("tool", "f")]),
        ("%%writefile notes.md\nfrom agf_magics import tool\n@tool\ndef f(): ...", []),
        ('from agf_magics import tool\nTEXT = """\n%no magic\n"""\n@tool\ndef f(): ...', [("tool", "f")]),
        ("from agf_magics import transform\n@transform('a.b')\ndef f(outputs): ...", [("transform", "a.b")]),
        ("from agf_magics import transform\n@transform(P + '.b')\ndef f(outputs): ...", [("transform", None)]),
        ("from agf_magics import transform\n@transform(NAME)\ndef f(outputs): ...", [("transform", None)]),
        ("from agf_magics import transform\ndef f(outputs): ...\ntransform(f)", [("transform", "f")]),
        ("import agf_magics as agf\n@agf.tool(registry=agf.registry)\ndef f(): ...", [("tool", "f")]),
        ("import agf_magics as agf, company\ncompany.register(agf.registry)", [("", None)]),
        ("import agf_magics as agf\nagf.registry.tools.add(made)", [("", None)]),
        ("import agf_magics as agf\nagf.registry.choose('openai:gpt-4o')", [("", None)]),
        (
            "import agf_magics as agf\nt = agf.registry.tools['fetch']\nt.test()\nlist(agf.registry.tools.keys())",
            [],
        ),
        ("import agf_magics as agf\nshop = agf.mcp.connect('shop', ['python', 's.py'])", [("", None)]),
        ("from agf_magics import *\nshop = mcp.connect('shop', ['python', 's.py'])", [("", None)]),
        ("from agf_magics import *\ndefine(text)", [("", None)]),
        ("from agf_magics import define as d\nd('pipeline: p')", [("", None)]),
        ("import agf_magics as agf\nf = agf.load('pipeline: p')\nagf.run(f)", []),
        ("from agf_magics import tool\ndef f(:", []),
        ("(" * 10_000, []),
        ("\0", []),
        ("from agf_magics import tool\n@tool\ndef f(x: 'list[\"a\"]', y: int[3][4] = {[]: 1}): ...", [("tool", "f")]),
        ("from agf_magics import tool\n@tool\ndef f(x: __import__('os').abort() = exit()): ...", [("tool", "f")]),
    ],
)
def test_what_a_text_registers_is_read_and_not_run(text: str, names: list[tuple[str, str | None]]) -> None:
    assert scan(text)[1] == names


def test_what_one_cell_imports_and_defines_another_one_registers() -> None:
    cells = ["import agf_magics as agf", "def fetch(): ...", "r = %run_pipeline p", "broken (", "agf.tool(fetch)"]
    trees = [tree for cell in cells if (tree := tree_of(cell)) is not None]
    [scanned] = scan_program(trees, Registry())
    assert (scanned.name, scanned.part, scanned.line) == ("fetch", 3, 0)  # the cell that cannot be read has no tree


def test_a_cell_that_a_person_is_writing_registers_what_it_did_before() -> None:
    group = TextGroup()
    group.put("tools", "from agf_magics import tool\n@tool\ndef fetch(): ...", is_cell=True)
    group.put("p", "%%pipeline\npipeline: p\nsteps:\n- tool: {name: fetch}\n", is_cell=True)
    group.check()
    assert group.files["p"].problems == []
    group.put("tools", "from agf_magics import tool\n@tool\ndef fetch(): ...\nfor each in", is_cell=True)
    assert [file.uri for file in group.check()] == ["tools"]
    assert not group.files["p"].problems
    group.put("tools", "%%bash\nls", is_cell=True)
    group.check()
    assert [problem.code for problem in group.files["p"].problems or ()] == ["flow.unknown-tool"]


@pytest.mark.parametrize(
    "line", ["%mcp connect shop -- python s.py", "s = %mcp connect shop -- x", "%config AgfMagics.model = 'openai:x'"]
)
def test_after_a_magic_that_registers_unknown_names_are_not_certain(line: str) -> None:
    group = TextGroup()
    group.put("m", line, is_cell=True)
    group.put("p", "%%pipeline\npipeline: p\nsteps:\n- tool: {name: shop__price}\n", is_cell=True)
    group.check()
    assert [group.is_certain(problem) for problem in group.files["p"].problems or ()] == [False]


def test_a_name_has_its_place() -> None:
    [scanned] = scan_python("from agf_magics import tool\n@tool\nasync def größe(): ...", Registry())
    assert (scanned.name, scanned.line, scanned.column, scanned.width) == ("größe", 2, 10, 5)
