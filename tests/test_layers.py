"""Imports show the layer: what each part of the package may import, as one table, held against every file.

Languages know nothing of the kernel, the engine knows nothing of languages or IPython, and what is slow to import is
imported where it is used.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "agf_magics"

parse = cache(ast.parse)
"""Three of these tests read the whole package."""

MAY = {
    "text": (),
    "flow": ("text",),
    # A language may also import itself, never another language.
    "languages": ("text", "flow", "languages.documents"),
    "catalog": ("text", "flow"),
    "journal": ("text", "flow", "catalog", "engine.limits"),
    "engine": ("text", "flow", "catalog", "journal"),
    "pictures": ("text", "flow", "journal.codec"),
    "workers": ("text", "flow", "catalog", "journal", "engine", "lifecycle.settings"),
    "lifecycle": (*("text", "flow", "languages", "catalog", "journal", "engine", "pictures", "workers"),),
    "planning": ("languages.plan", "lifecycle"),
    "settings": ("lifecycle",),
    **dict.fromkeys(("notebook", "__init__", "__main__"), ("",)),  # everything
}
"""What each room may import. The rooms are in reading order: a room imports only rooms above it."""

# Who may import a module from outside of the project; a module of the standard library that is not named is free.
WHERE = {
    "yaml": ("text.yamlerrors",),
    "jsonschema": ("flow.json_schema",),
    "jsonschema_specifications": ("flow.json_schema",), "referencing": ("flow.json_schema",),
    "rfc3987_syntax": ("flow.json_schema",),
    "re2": ("flow.patterns",),
    "pyodide": ("engine.browser", "pictures.layout"),
    "pydantic_ai": ("catalog.model_requests", "catalog.model_requests"),
    "cairosvg": ("pictures.layout",),
    "graphviz": ("pictures.diagram",),
    "genai_prices": ("catalog.model_requests",),
    "jinja2": ("languages.graph.jinja", "languages.graph.jinja", "languages.graph.jinja_child"),
    "markupsafe": ("languages.graph.jinja",),
    "pydantic": ("catalog",), "pydantic_core": ("catalog",), "typing_extensions": ("catalog",),
    "asyncio": (
        *("engine", "journal", "lifecycle", "notebook", "catalog.model_requests", "catalog.throttle", "workers"),
    ),
    "concurrent": ("engine", "workers", "catalog.builtin"),
    "multiprocessing": (),
    "threading": (
        *("engine", "journal", "notebook", "workers", "languages.graph", "text.late_imports", "catalog.throttle"),
        "pictures.layout",
    ),
    "_thread": ("engine",),
    "sqlite3": ("journal",),
    "wasmtime": ("pictures.layout",),
    "pandas": ("lifecycle.trace", "lifecycle.table"), "polars": ("lifecycle.table",),
    "duckdb": ("catalog.builtin",),
    "pyarrow": ("flow.tables", "lifecycle.table", "catalog.builtin"),
    "opentelemetry": ("lifecycle.tracing",),
    "cloudpickle": ("workers",), "distributed": ("workers.dask",), "dask": ("workers.dask",),
    "IPython": ("notebook",), "ipywidgets": ("notebook.model",), "anywidget": ("notebook.model",),
    "comm": ("notebook",), "traitlets": ("notebook",),
}  # fmt: skip
ONLY_WHERE_USED = {
    "jsonschema",
    "jsonschema_specifications",
    "rfc3987_syntax",
    "referencing",
    "re2",
    "wasmtime",
    "pandas",
    "polars",
    "duckdb",
    "pyarrow",
    "cloudpickle",
    "distributed",
    "opentelemetry",
}


def faults(module: tuple[str, ...], code: str, is_package: bool = False) -> Iterator[str]:
    """What this module, ``("engine", "runner")``, imports and may not."""
    here = ".".join(module)
    own = ".".join(module[:2] if module[0] == "languages" and len(module) > 2 - is_package else module[:1])
    tree = parse(code)
    is_lazy = any(name in code for name in ONLY_WHERE_USED)
    free = {id(inner) for node in ast.walk(tree) if is_lazy and _is_deferred(node) for inner in ast.walk(node)}
    for node in ast.walk(tree):
        for name in _imported(node, module if is_package else module[:-1]):
            top = name.split(".")[0]
            if top == "agf_magics":
                bare = name.removeprefix("agf_magics").removeprefix(".")
                fine = any(_within(bare, part) for part in (*MAY[module[0]], own))
            else:
                places = WHERE.get(top, ("",) if top in sys.stdlib_module_names else ())
                fine = any(_within(here, place) for place in places)
            if not fine:
                yield f"{here} imports {name}"
            elif top in ONLY_WHERE_USED and id(node) not in free:
                yield f"{here} imports {name} before it is needed"


def _imported(node: ast.AST, package: tuple[str, ...]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        above = ("agf_magics", *package[: len(package) - node.level + 1]) if node.level else ()
        yield from (".".join((*above, *filter(None, [node.module]), alias.name)) for alias in node.names)


def _is_deferred(node: ast.AST) -> bool:
    typing_only = isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    return typing_only or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def _within(name: str, part: str) -> bool:
    return not part or name == part or name.startswith(f"{part}.")


def test_every_file_imports_only_what_its_layer_may() -> None:
    found: list[str] = []
    for path in sorted(PACKAGE.rglob("*.py")):
        module = path.relative_to(PACKAGE).with_suffix("").parts
        is_package = module[-1] == "__init__" and len(module) > 1
        found += faults(module[:-1] if is_package else module, path.read_text(encoding="utf-8"), is_package)
    assert found == []


@pytest.mark.parametrize(
    ("module", "code"),
    [
        ("text.source", "import yaml"),
        ("text.source", "from ..flow.steps import Flow"),
        ("flow.wiring", "from .. import catalog"),
        ("flow.json_schema", "import jsonschema"),
        ("flow.patterns", "import re2"),
        ("languages.policy.matchers", "def test():\n    import re2"),
        ("languages.pipeline.load", "from ..graph.load import load"),
        ("languages.pipeline.load", "from ...catalog import Registry"),
        ("languages.pipeline.r1.parse", "from ....engine.link import link"),
        ("catalog.tools", "import asyncio"),
        ("engine.runner", "from agf_magics.languages import LANGUAGES"),
        ("engine.runner", "def run():\n    from IPython import get_ipython"),
        ("engine.runner", "import agf_magics"),
        ("pictures.page", "from ..engine import runner"),
        ("pictures.diagram", "import wasmtime"),
        ("pictures.diagram", "import numpy.linalg"),
        ("lifecycle.launch", "import sqlite3"),
        ("lifecycle.launch", "from ..notebook import magics"),
        ("__main__", "import IPython"),
    ],
)
def test_a_file_that_imports_more_is_caught(module: str, code: str) -> None:
    assert len(list(faults(tuple(module.split(".")), code))) == 1


@pytest.mark.parametrize(
    ("module", "code"),
    [
        ("text.yamlerrors", "import yaml\nfrom yaml.cyaml import CParser"),
        ("flow.json_schema", "def judge():\n    import jsonschema.validators"),
        ("languages.pipeline.r1.parse", "from ....text.scan import scan\nfrom .. import template\nfrom . import walk"),
        ("engine.runner", "import asyncio\nfrom ..catalog import Registry\nfrom ..flow import events as ev"),
        ("pictures.page", "from ..flow.progress import Progress\nfrom .dot import dot"),
        ("pictures.layout", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import wasmtime"),
        ("notebook.magics", "import agf_magics\nfrom .. import define\nfrom IPython.core.magic import magics_class"),
    ],
)
def test_a_file_that_imports_what_it_may_is_not(module: str, code: str) -> None:
    assert list(faults(tuple(module.split(".")), code)) == []


def import_circles(folder: Path) -> list[tuple[str, ...]]:
    """The groups of modules of a room that import each other, also where only types or functions import."""
    package = ("agf_magics", *folder.relative_to(PACKAGE).parts)
    found: dict[str, set[str]] = {}
    for path in sorted(folder.glob("*.py")):
        names = {name for node in ast.walk(parse(path.read_text("utf-8"))) for name in _imported(node, package[1:])}
        inside = {tuple(name.split("."))[len(package)] for name in names if _within(name, ".".join(package))
                  and len(name.split(".")) > len(package)}  # fmt: skip
        found[path.stem] = inside - {path.stem}
    reached = {name: _reached(name, found) for name in found}
    groups = {tuple(sorted(other for other in reached[name] if name in reached.get(other, ()))) for name in found}
    return sorted(group for group in groups if len(group) > 1)


def _reached(name: str, graph: dict[str, set[str]]) -> set[str]:
    found, left = set[str](), [name]
    while left:
        for other in graph.get(left.pop(), set()) - found:
            found.add(other)
            left.append(other)
    return found


def test_the_modules_of_a_room_do_not_import_each_other() -> None:
    rooms = sorted({path.parent for path in PACKAGE.rglob("*.py")} - {PACKAGE})
    circles = {(room.relative_to(PACKAGE).as_posix(), *group) for room in rooms for group in import_circles(room)}
    assert circles == set()


def test_a_circle_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "PACKAGE", tmp_path)
    room = tmp_path / "room"
    room.mkdir()
    (room / "a.py").write_text("from .b import x\nfrom . import d")
    (room / "b.py").write_text("if TYPE_CHECKING:\n    from .c import y")
    (room / "c.py").write_text("def f():\n    from . import a")
    (room / "d.py").write_text("import json\nfrom ..other import a")
    assert import_circles(room) == [("a", "b", "c")]


def dynamic(tree: ast.AST) -> Iterator[str]:
    """What makes code of data, wherever it is named."""
    makers = {"exec", "eval", "compile", "__import__"}
    patterns = {"re.compile", "re2.compile"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in makers:
            yield node.id
        elif isinstance(node, ast.Attribute) and node.attr in makers and ast.unparse(node) not in patterns:
            yield ast.unparse(node)


def test_the_package_makes_no_code() -> None:
    found = {
        str(path.relative_to(PACKAGE)): names
        for path in sorted(PACKAGE.rglob("*.py"))
        if (names := list(dynamic(parse(path.read_text("utf-8")))))
    }
    assert found == {}


LATE = (
    *("anywidget", "dask", "ipywidgets", "jinja2", "jsonschema", "numpy", "openai", "pandas", "pydantic"),
    *("statistics", "tomllib", "yaml"),
    *(f"agf_magics.lifecycle.{name}" for name in ("contexts", "judging", "moments", "over", "replay", "stale")),
    *(f"agf_magics.lifecycle.{name}" for name in ("scores", "table", "table_comparison", "tracing")),
    *(f"agf_magics.notebook.{name}" for name in ("complete", "explorer_requests", "model", "report")),
    *(f"agf_magics.languages.{name}" for name in ("graph.load", "pipeline.load", "plan.load", "policy.load")),
)
"""Modules that are imported with their first use."""


def test_load_ext_imports_no_module_that_most_notebooks_do_not_use(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'no-settings-of-ours'\n")
    code = (
        "import sys\nfrom IPython.core.interactiveshell import InteractiveShell as Shell\n"
        "shell, before = Shell.instance(), set(sys.modules)\n"
        "shell.run_line_magic('load_ext', 'agf_magics')\n"
        "print('\\n'.join(sys.modules.keys() - before))"
    )
    program = [sys.executable, "-c", code]
    done = subprocess.run(program, capture_output=True, text=True, timeout=60, check=True, cwd=tmp_path)
    imported = set(done.stdout.split())
    assert "agf_magics.notebook.magics.lessons" in imported
    assert imported & set(LATE) == set()
