"""The package finds its own imports among the installed packages only, and never in the notebook's folder."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import agf_magics

ROOT = Path(agf_magics.__file__).parent
MADE_BY = ("import_module", "find_spec", "files", "__import__")
"""Functions that import or look for the module in their parameter."""


def modules() -> dict[str, list[str]]:
    """The modules of other packages that each module of this package imports anywhere."""
    modules_of = dict[str, list[str]]()
    for path in sorted(ROOT.rglob("*.py")):
        module = ".".join(("agf_magics", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
        names = dict.fromkeys(name for name in _imported(ast.parse(path.read_text("utf-8"))) if _is_foreign(name))
        if names:
            modules_of[module] = list(names)
    return modules_of


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield str(node.module)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name in MADE_BY and isinstance(node.args[0].value, str) and node.args[0].value[:1].isalpha():
                yield node.args[0].value


def _is_foreign(name: str) -> bool:
    return name.partition(".")[0] not in {*sys.stdlib_module_names, "agf_magics"}


FOREIGN = modules()
# The code computes the name of the package of a model's provider. `attr` is imported by packages that ours imports.
NAMES = sorted({name.partition(".")[0] for names in FOREIGN.values() for name in names} | {"google", "attr"})

TRAP = "open('RAN.txt', 'a').write(__name__ + '\\n')\nraise ImportError('of the folder')\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stranger's folder that contains a namesake of each such module."""
    place = tmp_path_factory.mktemp("stranger")
    for name in NAMES:
        (place / f"{name}.py").write_text(TRAP)
    (place / "pyproject.toml").write_text('[project]\nname = "x"\n')
    return place


def modules_that_ran(folder: Path, code: str) -> list[str]:
    """The modules of the folder that ran. ``-c`` puts the folder first on ``sys.path``, like a kernel."""
    (folder / "RAN.txt").unlink(missing_ok=True)
    completed = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=200)
    assert "Traceback" not in completed.stderr, completed.stderr
    ran = folder / "RAN.txt"
    return sorted(set(ran.read_text().split())) if ran.exists() else []


def test_the_imports_of_the_code_are_found() -> None:
    assert {"yaml", "jinja2", "pydantic_ai", "cloudpickle", "pandas", "polars", "IPython", "duckdb"} <= set(NAMES)


def test_each_import_of_each_module_finds_the_installed_package(folder: Path) -> None:
    """Each import is made in the name of its module, because the name decides."""
    code = f"""
import agf_magics
for module, names in {FOREIGN!r}.items():
    for name in names:
        for line in (f"import {{name}}", f"__import__('importlib.util').util.find_spec({{name!r}})"):
            try:
                exec(line, {{"__name__": module}})
            except Exception:
                pass  # it is not installed
"""
    assert modules_that_ran(folder, code) == []


def test_every_module_of_the_package_is_imported_in_a_strangers_folder(folder: Path) -> None:
    code = """
import importlib, pkgutil, agf_magics
for found in pkgutil.walk_packages(agf_magics.__path__, "agf_magics.", onerror=lambda name: None):
    if not found.name.endswith("__main__"):
        try:
            importlib.import_module(found.name)
        except ImportError:
            pass  # it runs in a web page only, or needs a package that is not installed
"""
    assert modules_that_ran(folder, code) == []


USES = {
    "a definition": "agf.run('pipeline: a\\nsteps: [{transform: {value: \"1\"}}]')",
    "a template": 'agf.define(\'name: g\\nstate: {x: str}\\nnodes:\\n  n: {type: llm, prompt: "{{ x }}"}\\n'
    "edges: [{from: START, to: n}]', 'graph')",
    "a picture": "agf.draw('pipeline: a\\nsteps: [{transform: {value: \"1\"}}]')._repr_mimebundle_()",
    "a model": "agf.run('pipeline: a\\nsteps: [{agent: {prompt: hi, model: \"google:x\"}}]', raises=False)",
    "workers": "agf.tool(lambda n: n, name='t'); agf.run('pipeline: a\\nsteps: [{for_each: {items: [1, 2], "
    "on_error: abort, do: {tool: {name: t, args: {n: !expr item}}}, collect: {transform: {value: pipe}}}}]', "
    "raises=False, on='processes:2')",
    "a table": "open('a.csv', 'w').write('x\\n1\\n'); agf.run('pipeline: a\\nsteps: [{transform: {value: ctx.x}}]', "
    "over='a.csv').table.to_arrow()",
    "a report": "agf.report(agf.run('pipeline: a\\nsteps: [{transform: {value: \"1\"}}]'), 'r.html')",
    "a schema": "agf.define('schema: s\\nfields: {a: {type: string}}')",
}


@pytest.mark.parametrize("use", USES)
def test_nothing_of_the_folder_runs_while_the_package_is_used(folder: Path, use: str) -> None:
    caught = "except agf.DefinitionError as error:\n    assert 'no-key' in str(error)"
    code = f"import agf_magics as agf\ntry:\n    {USES[use]}\n{caught}"
    assert modules_that_ran(folder, code) == []


def test_imports_of_the_user_find_modules_in_the_folder(folder: Path, tmp_path: Path) -> None:
    """Imports in a cell, in a tool, for a stored value, and of a module that the user names."""
    (tmp_path / "mine.py").write_text("class Thing:\n    pass\n\n\ndef give():\n    import later\n    return Thing()\n")
    (tmp_path / "later.py").write_text("value = 1\n")
    code = """
import json, sys
import agf_magics as agf
import mine
from agf_magics import tool
tool(mine.give, name="give")

@tool(where="thread")
def cell() -> int:
    import late_too
    return late_too.value

flow = "pipeline: p\\nsteps: [{tool: {name: give, output: a}}, {tool: {name: cell, output: b}}]"
run = agf.run(flow)
print(json.dumps([run.stores["b"], run.status, "later" in sys.modules]))
"""
    (tmp_path / "late_too.py").write_text("value = 2\n")
    completed = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert json.loads(completed.stdout or "[]") == [2, "ok", True], completed.stderr
