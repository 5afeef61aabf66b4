"""The scan of Python text: it finds what the text registers when it runs, with the same arguments, and runs nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agf_magics.catalog import Registry
from agf_magics.editor.python_scan import scan_python

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
}


def found(text: str) -> tuple[dict[str, Any], list[tuple[str, str | None]]]:
    registry = Registry()
    names = [(one.kind, one.name) for one in scan_python(text, registry)]
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
    scanned, _ = found(file.read_text())
    before = found("")[0]
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
        ("from agf_magics import tool\ndef f(:", []),
        ("(" * 10_000, []),
        ("\0", []),
        ("from agf_magics import tool\n@tool\ndef f(x: 'list[\"a\"]', y: int[3][4] = {[]: 1}): ...", [("tool", "f")]),
        ("from agf_magics import tool\n@tool\ndef f(x: __import__('os').abort() = exit()): ...", [("tool", "f")]),
    ],
)
def test_what_a_text_registers_is_read_and_not_run(text: str, names: list[tuple[str, str | None]]) -> None:
    assert found(text)[1] == names


def test_a_name_has_its_place() -> None:
    [one] = scan_python("from agf_magics import tool\n@tool\nasync def größe(): ...", Registry())
    assert (one.name, one.line, one.column, one.width) == ("größe", 2, 10, 5)
