"""The tools that jupyter-server-mcp finds by the entry point of this package."""

from __future__ import annotations

import inspect
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import agf_magics_jupyter_mcp as ours
from agf_magics import DefinitionError

ROOT = Path(__file__).parents[2]


def functions() -> dict[str, Any]:
    """The functions, loaded as the server of Jupyter does."""
    parts = (spec.rsplit(":", 1) for spec in ours.TOOLS)
    return {name: getattr(import_module(module), name) for module, name in parts}


def test_the_entry_point_has_a_list_of_functions_with_types_and_descriptions() -> None:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    assert groups["jupyter_server_mcp.tools"] == {"agf-magics": "agf_magics_jupyter_mcp:TOOLS"}
    for name, function in functions().items():
        assert name == function.__name__
        assert "agf-magics" in inspect.getdoc(function)  # so that the agent can tell them from tools of other packages
        assert get_type_hints(function).keys() == {*inspect.signature(function).parameters, "return"}


def test_the_start_of_the_server_imports_nothing_of_the_package() -> None:
    code = "import sys, agf_magics_jupyter_mcp; print('agf_magics' in sys.modules)"
    completed = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert completed.stdout == "False\n"


def test_the_tools_report_nothing_that_only_a_kernel_knows() -> None:
    tools = functions()
    text = "pipeline: p\nsteps:\n- tool: {name: prise}\n"
    assert tools["agf_check_definition"](text) == {"language": "pipeline", "ok": True, "problems": []}
    wrong = tools["agf_check_definition"](text.replace("name: prise", "nme: prise"))
    assert wrong["ok"] is False
    assert tools["agf_explain"]("flow.unknown-tool").startswith("### flow.unknown-tool")
    assert "`for_each`" in tools["agf_describe_language"]("pipeline")
    with pytest.raises(DefinitionError):
        tools["agf_describe_language"]("pipes")
