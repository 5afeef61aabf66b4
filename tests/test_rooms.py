"""The structure of the package: what each room may import, how a file begins, and how long files and functions are.

A room is a folder of the package; its entries are files and inner rooms. The imports among the entries of a room form
no circle, even with imports inside functions and for types. Languages do not import the notebook, the engine imports
neither languages nor IPython, and slow modules are imported at their first use. docs/design.md describes the rooms.
"""

from __future__ import annotations

import ast
import graphlib
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from .size import size_of

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "agf_magics"

Module = tuple[str, ...]
"""The name of a module as a tuple: ``("engine", "calls", "call")``. The ``__init__`` of a room has the name of the
room."""

Graph = Mapping[Module, set[Module]]
"""The modules of the package that each module imports."""

ABOVE_ALL = {"__init__", "__main__"}
"""The modules of the public names and of the command line."""

MAY: dict[str, tuple[str, ...]] = {
    "version": (),
    "compat": (),
    "text": (),
    "values": ("compat", "text"),
    "schemas": ("compat", "text", "values"),
    "flow": ("text", "values", "schemas"),
    "catalog": ("compat", "text", "values", "schemas", "flow"),
    "languages": ("compat", "text", "values", "schemas", "flow"),
    "limits": ("text", "values", "flow", "catalog"),
    "journal": ("compat", "text", "values", "flow", "catalog", "limits"),
    "engine": ("compat", "text", "values", "schemas", "flow", "catalog", "limits", "journal"),
    "pictures": ("compat", "text", "values", "flow", "journal"),
    "settings": ("compat", "text", "limits", "journal", "engine"),
    "workers": ("compat", "text", "values", "flow", "catalog", "limits", "journal", "engine", "settings"),
    "lifecycle": (
        *("compat", "text", "values", "schemas", "flow", "catalog", "languages", "limits", "journal", "engine"),
        *("pictures", "settings", "workers"),
    ),
    "planning": ("languages", "lifecycle"),
    "commands": ("text", "values", "limits", "engine", "workers", "lifecycle"),
    "editor": (
        *("text", "values", "schemas", "flow", "catalog", "languages", "engine", "pictures", "settings", "workers"),
        *("lifecycle", "commands", "version"),
    ),
    "mcp": (
        *("compat", "text", "values", "schemas", "flow", "catalog", "languages", "limits", "journal", "engine"),
        *("settings", "pictures", "workers", "lifecycle", "commands", "editor", "version"),
    ),
    "command_line": ("",),
    "notebook": ("",),
}
"""The rooms that each room may import, in the order in which a reader learns them. ``""`` means all rooms."""

APART = ("languages",)
"""Rooms whose inner rooms do not import each other: no language imports another language."""

# The modules that may import each module from outside of the project. Modules of the standard library that are not
# listed here are free.
WHERE: dict[str, tuple[str, ...]] = {
    "yaml": ("text.yaml.parser",),
    "jsonschema": ("schemas",),
    "jsonschema_specifications": ("schemas.json_schema",), "referencing": ("schemas.json_schema",),
    "rfc3987_syntax": ("schemas.json_schema",),
    "re2": ("schemas.patterns", "journal.codec.secret_search"),
    "pyodide": ("engine.host.page_loop", "pictures.layout"),
    "pydantic_ai": ("catalog.models",),
    "cairocffi": ("pictures.layout",),
    "cairosvg": ("pictures.layout",),
    "graphviz": ("pictures.diagram",),
    "genai_prices": ("catalog.models.prices",),
    "jinja2": ("languages.graph.prompts",),
    "markupsafe": ("languages.graph.prompts",),
    "pydantic": ("catalog.tools.annotations",),
    "pydantic_core": ("catalog.tools.annotations", "catalog.tools.mapping_keys", "catalog.tools.numpy_types"),
    "typing_extensions": ("catalog.tools.annotations",),
    "asyncio": (
        *("engine", "journal", "lifecycle", "notebook", "catalog.models.requests", "catalog.tools.throttle", "workers"),
        *("editor.server", "mcp"),
    ),
    "concurrent": ("engine", "workers", "lifecycle.runs.pending_questions", "catalog.builtin", "mcp"),
    "multiprocessing": (),
    "threading": (
        *("engine", "journal", "notebook", "workers", "languages.graph", "catalog.tools.throttle", "pictures.layout"),
        "pictures.pages.live_line",  # tools print on threads while it writes
        "mcp.client", "mcp.server.http", "mcp.server.stdio",
        *("catalog.builtin.sql_process", "catalog.builtin.sql_child"),  # these two watch and end a process
    ),
    "_thread": ("engine",),
    "sqlite3": ("journal",),
    "wasmtime": ("pictures.layout",),
    "pandas": ("lifecycle.runs.trace", "lifecycle.table_runs.table"), "polars": ("lifecycle.table_runs.table",),
    "duckdb": ("catalog.builtin",),
    "pyarrow": ("values.tables", "lifecycle.table_runs.table", "catalog.builtin"),
    "opentelemetry": ("lifecycle.launch.tracing",),
    "cloudpickle": ("workers",), "distributed": ("workers.backends.dask",), "dask": ("workers.backends.dask",),
    "pygls": ("editor.server",), "lsprotocol": ("editor.server", "editor.protocol_values"),
    "mcp": ("mcp",), "mcp_types": ("mcp",), "anyio": ("mcp",), "httpx2": ("mcp",), "keyring": ("mcp.client",),
    "uvicorn": ("mcp.server.http",),
    "IPython": ("notebook",), "ipywidgets": ("notebook.explorer.widget_model",),
    "anywidget": ("notebook.explorer.widget_model",),
    "comm": ("notebook",), "traitlets": ("notebook",),
}  # fmt: skip

ONLY_WHERE_USED = {
    *("jsonschema", "jsonschema_specifications", "rfc3987_syntax", "referencing", "re2", "wasmtime", "pandas"),
    *("polars", "duckdb", "pyarrow", "cloudpickle", "distributed", "opentelemetry", "keyring"),
}

LONG_FILES: dict[str, str] = {
    "journal/calls/call_rows.py": "what is kept of a call from its start to its row: each step needs the one before it",
    "journal/run_journal.py": "what is written and read of a run, in the order in which it happens",
    "commands/magics.py": "the words of every magic, one table",
    "workers/chunk.py": "all that runs on a worker: it is sent by value, without other files of ours",
}
"""Files of more than 500 lines, each with the reason why it is one thought."""

LONG_FUNCTIONS: dict[str, str] = {
    "catalog.agents.arguments": "one row for each name that an agent's parameter may have (decision A10)",
    "flow.progress.progress._fold_step": "one match over the kinds of events",
    "flow.progress.rows._step": "one match over the kinds of steps",
    "journal.run_journal.__init__": "the fields of a run's journal, each with its words",
    "lifecycle.runs.state.__init__": "the fields of a run's state, each with its words",
    "lifecycle.planning.planner.run_planner": "half of it are its eighteen parameters, each passed on once",
}
"""Functions of more than 40 lines of code, each with the reason why it is not split."""


@cache
def files() -> dict[Module, Path]:
    paths = {path.relative_to(PACKAGE).with_suffix("").parts: path for path in sorted(PACKAGE.rglob("*.py"))}
    return {parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts: path for parts, path in paths.items()}


@cache
def source(path: Path) -> tuple[str, ast.Module]:
    text = path.read_text(encoding="utf-8")
    return text, ast.parse(text)


# --- circles ---


def imports(module: Module, tree: ast.AST, modules: Mapping[Module, Path], is_room: bool) -> Iterator[Module]:
    """The modules of the package that a module imports."""
    inside = module if is_room else module[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").split(".")[0] == PACKAGE.name):
            above = inside[: len(inside) - node.level + 1] if node.level else ()
            names = (node.module or "").split(".") if node.module else []
            base = (*above, *(names if node.level else names[1:]))
            for alias in node.names:
                yield (*base, alias.name) if (*base, alias.name) in modules else base


def graph() -> Graph:
    return {
        module: set(imports(module, source(path)[1], files(), path.name == "__init__.py")) - {module}
        for module, path in files().items()
        if module[0] not in ABOVE_ALL
    }


def entries(room: Module, graph: Graph) -> dict[str, set[str]]:
    """The other entries of a room that each entry imports."""
    depth, needs = len(room), dict[str, set[str]]()
    for module, imported in graph.items():
        if module[:depth] == room and len(module) > depth:
            inside = {other[depth] for other in imported if other[:depth] == room and len(other) > depth}
            needs.setdefault(module[depth], set()).update(inside - {module[depth]})
    return {name: imported - ABOVE_ALL for name, imported in needs.items() if name not in ABOVE_ALL}


ROOMS = sorted({module[:depth] for module in files() for depth in range(len(module))})


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: "/".join(room) or "agf_magics")
def test_the_entries_of_a_room_do_not_import_in_a_circle(room: Module) -> None:
    graphlib.TopologicalSorter(entries(room, graph())).prepare()


def test_a_circle_of_rooms_is_found() -> None:
    modules = {(room, name): Path() for room, name in ("ax", "by", "bz")}
    wrong: dict[Module, set[Module]] = {
        ("a", "x"): set(imports(("a", "x"), ast.parse("def f():\n    from ..b import y"), modules, False)),  # type: ignore[arg-type]
        ("b", "z"): set(imports(("b", "z"), ast.parse("if TYPE_CHECKING:\n    from ..a.x import T"), modules, False)),  # type: ignore[arg-type]
        ("b", "y"): set(),
    }
    with pytest.raises(graphlib.CycleError):
        graphlib.TopologicalSorter(entries((), wrong)).prepare()


# --- who may import what ---


def faults(module: Module, code: str, is_package: bool = False) -> Iterator[str]:
    """The imports of ``module``, as ``("engine", "runner")``, that its room may not have."""
    importer = ".".join(module)
    own_room = ".".join(module[:2] if module[0] in APART and len(module) > 2 - is_package else module[:1])
    # Inner rooms may import the files of such a room, which they share.
    shared = [f"{room}.{path.stem}" for room in APART if room == module[0] for path in (PACKAGE / room).glob("*.py")]
    tree = ast.parse(code)
    is_lazy = any(name in code for name in ONLY_WHERE_USED)
    deferred = {id(inner) for node in ast.walk(tree) if is_lazy and _is_deferred(node) for inner in ast.walk(node)}
    for node in ast.walk(tree):
        for name in _imported(node, module if is_package else module[:-1]):
            top = name.split(".")[0]
            if top == PACKAGE.name:
                inner_name = name.removeprefix(top).removeprefix(".")
                allowed = ("",) if module[0] in ABOVE_ALL else (*MAY[module[0]], own_room, *shared)
                is_allowed = any(_within(inner_name, part) for part in allowed)
            else:
                places = WHERE.get(top, ("",) if top in sys.stdlib_module_names else ())
                is_allowed = any(_within(importer, place) for place in places)
            if not is_allowed:
                yield f"{importer} imports {name}"
            elif top in ONLY_WHERE_USED and id(node) not in deferred:
                yield f"{importer} imports {name} before it is needed"


def _imported(node: ast.AST, package: Module) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        above = (PACKAGE.name, *package[: len(package) - node.level + 1]) if node.level else ()
        yield from (".".join((*above, *filter(None, [node.module]), alias.name)) for alias in node.names)


def _is_deferred(node: ast.AST) -> bool:
    typing_only = isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    return typing_only or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def _within(name: str, part: str) -> bool:
    return not part or name == part or name.startswith(f"{part}.")


def test_every_file_imports_only_what_its_room_may() -> None:
    wrong = [
        fault
        for module, path in files().items()
        for fault in faults(module, source(path)[0], path.name == "__init__.py" and module != ("__init__",))
    ]
    assert wrong == []


def test_every_room_has_its_row() -> None:
    assert {module[0] for module in files()} - ABOVE_ALL == set(MAY)


@pytest.mark.parametrize(
    ("module", "code"),
    [
        ("text.source", "import yaml"),
        ("text.source", "from ..flow.steps import Flow"),
        ("flow.checks.wiring", "from ... import catalog"),
        ("schemas.json_schema", "import jsonschema"),
        ("schemas.patterns", "import re2"),
        ("languages.policy.matchers", "def test():\n    import re2"),
        ("languages.pipeline.load", "from ..graph.load import load"),
        ("languages.pipeline.load", "from ...catalog import Registry"),
        ("languages.pipeline.r1.parse", "from ....engine.linking.link import link"),
        ("catalog.tools.tool", "import asyncio"),
        ("engine.runner", "from agf_magics.languages import LANGUAGES"),
        ("engine.runner", "def run():\n    from IPython import get_ipython"),
        ("engine.runner", "import agf_magics"),
        ("pictures.pages.parts", "from ...engine import runner"),
        ("pictures.diagram", "import wasmtime"),
        ("pictures.diagram", "import numpy.linalg"),
        ("lifecycle.launch.launch", "import sqlite3"),
        ("lifecycle.launch.launch", "from ...notebook import magics"),
        ("commands.line", "import IPython"),
        ("__main__", "import IPython"),
    ],
)
def test_a_file_that_imports_more_is_caught(module: str, code: str) -> None:
    assert len(list(faults(tuple(module.split(".")), code))) == 1


@pytest.mark.parametrize(
    ("module", "code"),
    [
        ("text.yaml.parser", "import yaml\nfrom yaml.cyaml import CParser"),
        ("schemas.json_schema", "def judge():\n    import jsonschema.validators"),
        (
            "languages.pipeline.r1.parse",
            "from ....text.source import Span\nfrom .. import template\nfrom . import walk",
        ),
        ("languages.plan.load", "from ..keys import Key\nfrom ..scan import Scanner"),
        ("engine.runner", "import asyncio\nfrom ..catalog import Registry\nfrom ..flow.progress import events as ev"),
        ("pictures.layout.svg", "from ...flow.progress.progress import Progress\nfrom .dot import dot"),
        ("pictures.layout.graphviz", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import wasmtime"),
        (
            "notebook.magics.base",
            "import agf_magics\nfrom ... import define\nfrom IPython.core.magic import magics_class",
        ),
    ],
)
def test_a_file_that_imports_what_it_may_is_not(module: str, code: str) -> None:
    assert list(faults(tuple(module.split(".")), code)) == []


def private_imports(code: str) -> list[str]:
    """The private names that a file imports from another file of the package."""
    return [
        alias.name
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").startswith(PACKAGE.name))
        for alias in node.names
        if alias.name.startswith("_") and not alias.name.startswith("__")
    ]


def test_no_file_imports_a_private_name_of_another() -> None:
    assert private_imports("from .a import _b, c\nfrom os import _exit\nfrom . import __version__") == ["_b"]
    private = {".".join(module): private_imports(source(path)[0]) for module, path in files().items()}
    assert {module: names for module, names in private.items() if names} == {}


# --- how a file begins, and how long it is ---


def opening(code: str) -> str:
    """The first sentence of a docstring, on one line."""
    paragraph = " ".join((ast.get_docstring(ast.parse(code)) or "").split("\n\n")[0].split())
    return re.split(r"(?<=[.:])\s(?=[A-Z`])", paragraph)[0]


def wrong_openings(codes: Mapping[str, str]) -> dict[str, str]:
    """The files whose docstring does not begin with a unique sentence of at most 120 characters."""
    first, wrong = dict[str, str](), dict[str, str]()
    for name, code in codes.items():
        sentence = opening(code)
        if not sentence.endswith((".", ":")):
            wrong[name] = f"no sentence: {sentence!r}"
        elif len(sentence) > 120:
            wrong[name] = f"{len(sentence)} characters: {sentence!r}"
        elif sentence in first:
            wrong[name] = f"as {first[sentence]}: {sentence!r}"
        first.setdefault(sentence, name)
    return wrong


def test_every_file_begins_with_a_sentence_of_its_own() -> None:
    codes = {".".join(module): source(path)[0] for module, path in files().items()}
    assert wrong_openings(codes) == {}


def test_a_wrong_opening_is_found() -> None:
    fine, long = '"""Reads a text. It is\nbounded.\n\nMore."""', f'"""{"A word " * 20}."""'
    codes = {"a": fine, "b": '"""Reads a text. Other words."""', "c": "x = 1", "d": '"""no end"""', "e": long}
    assert list(wrong_openings(codes)) == ["b", "c", "d", "e"]


def long_functions(code: str) -> list[str]:
    """The functions with more than 40 lines of code, without blanks, comments and docstrings."""
    lines = code.split("\n")
    return [
        node.name
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and size_of("if 1:\n" * bool(node.col_offset) + "\n".join(lines[node.lineno - 1 : node.end_lineno])).code
        > 40 + bool(node.col_offset)
    ]


def test_the_long_functions_are_those_with_a_reason() -> None:
    assert long_functions("def f():\n" + "    x = 1\n" * 40) == ["f"]
    assert long_functions("class C:\n    def f(self):\n" + "        x = 1\n" * 39 + "        # no code") == []
    long = {f"{'.'.join(m)}.{name}" for m, path in files().items() for name in long_functions(source(path)[0])}
    assert long == set(LONG_FUNCTIONS)


def test_the_long_files_are_those_with_a_reason() -> None:
    lengths = {path.relative_to(PACKAGE).as_posix(): source(path)[0].count("\n") for path in files().values()}
    assert {path for path, lines in lengths.items() if lines > 500} == set(LONG_FILES)


# --- names of files in prose ---

PAGES = ("docs/design.md", "CONTRIBUTING.md")


def dead_names(text: str) -> set[str]:
    """The files of the package that a text names although they do not exist."""
    named = {match[1] for match in re.finditer(r"(?<![\w./<])((?:\w+/)*\w+\.py)\b", text)}
    places = (ROOT, PACKAGE, *(path.parent for path in files().values()))
    return {name for name in named if not any((place / name).exists() for place in places)}


def prose(code: str) -> str:
    """The docstrings and comments of a file, as one text."""
    tree = ast.parse(code)
    texts = [
        node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]
    return "\n".join([*texts, *re.findall(r"#.*", code)])


FOREIGN = {
    "tools.py",
    "json.py",
    "FILE.py",
    "setup.py",
    "conftest.py",
    "sitecustomize.py",
    "usercustomize.py",
    "jsonschema.py",
    "pyproject.py",
}
"""Files of other projects or of a user that our prose names."""


def test_every_file_that_prose_names_exists() -> None:
    assert dead_names("see no_such.py, `engine/nobody.py` and engine/runner.py") == {"no_such.py", "engine/nobody.py"}
    dead = {".".join(module): dead_names(prose(source(path)[0])) - FOREIGN for module, path in files().items()}
    dead |= {page: dead_names((ROOT / page).read_text("utf-8")) - FOREIGN for page in PAGES}
    assert {name: names for name, names in dead.items() if names} == {}


# --- no code from data, no early import of slow modules ---


def dynamic(tree: ast.AST) -> Iterator[str]:
    """The names by which a file makes code from data."""
    makers = {"exec", "eval", "compile", "__import__"}
    patterns = {"re.compile", "re2.compile"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in makers:
            yield node.id
        elif isinstance(node, ast.Attribute) and node.attr in makers and ast.unparse(node) not in patterns:
            yield ast.unparse(node)


def test_the_package_makes_no_code_from_data() -> None:
    assert list(dynamic(ast.parse("eval(x); builtins.exec; re.compile('a')"))) == ["builtins.exec", "eval"]
    code_makers = {".".join(module): list(dynamic(source(path)[1])) for module, path in files().items()}
    assert {module: names for module, names in code_makers.items() if names} == {}


def test_only_one_file_reads_the_private_names_of_a_run() -> None:
    names = {"_linked", "_in_journal", "_definition", "_input_value"}
    readers = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in names and ast.unparse(node.value) != "self"
    }
    assert readers == {str(Path("lifecycle", "run_internals.py"))}


LATE = (
    *("anywidget", "dask", "ipywidgets", "jinja2", "jsonschema", "mcp", "numpy", "openai", "pandas", "pydantic"),
    *("statistics", "tomllib", "yaml", "agf_magics.mcp"),
    *("agf_magics.workers", "agf_magics.pictures.scene", "agf_magics.pictures.layout"),
    *(f"agf_magics.lifecycle.{room}" for room in ("planning", "scoring", "forecasts", "recordings")),
    *(f"agf_magics.lifecycle.{name}" for name in ("launch.tracing", "table_runs.over", "table_runs.table")),
    *(
        f"agf_magics.notebook.{name}"
        for name in ("completion.matcher_result", "explorer.requests", "explorer.widget_model", "report")
    ),
    *(f"agf_magics.editor.{name}" for name in ("complete", "server", "python_scan")),
    *(f"agf_magics.languages.{name}" for name in ("graph.load", "pipeline.load", "plan.load", "policy.load")),
)
"""Modules that are imported only at their first use."""


def test_load_ext_imports_no_module_that_most_notebooks_do_not_use(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'no-settings-of-ours'\n")
    code = (
        "import sys\nfrom IPython.core.interactiveshell import InteractiveShell as Shell\n"
        "shell, before = Shell.instance(), set(sys.modules)\n"
        "shell.run_line_magic('load_ext', 'agf_magics')\n"
        "print('\\n'.join(sys.modules.keys() - before))"
    )
    program = [sys.executable, "-c", code]
    completed = subprocess.run(program, capture_output=True, text=True, timeout=60, check=True, cwd=tmp_path)
    imported = set(completed.stdout.split())
    assert "agf_magics.notebook.magics.lessons" in imported
    assert {name for name in imported if name in LATE or name.rpartition(".")[0] in LATE} == set()
