"""No public name is defined in two modules of a room, so that one name means one thing."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "agf_magics"


def test_a_public_name_is_defined_in_one_module_of_a_room() -> None:
    rooms = {path.parent for path in PACKAGE.rglob("*.py")}
    names_by_room = {room.relative_to(PACKAGE).as_posix(): names_defined_twice(room) for room in rooms}
    assert {room: names for room, names in names_by_room.items() if names} == {}


def names_defined_twice(room: Path) -> set[str]:
    modules: dict[str, set[str]] = defaultdict(set)
    for path in room.glob("*.py"):
        for name in public_names(path.read_text("utf-8")):
            modules[name].add(path.stem)
    return {name for name, places in modules.items() if len(places) > 1}


def public_names(code: str) -> Iterator[str]:
    """The public names that a module defines: functions, classes and variables, but no type variables."""
    for node in ast.parse(code).body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names = [name]
            case ast.Assign(value=ast.Call(func=ast.Name(id="TypeVar" | "ParamSpec"))):
                names = []
            case ast.Assign(targets=targets):
                names = [target.id for target in targets if isinstance(target, ast.Name)]
            case ast.AnnAssign(target=ast.Name(id=name)):
                names = [name]
            case _:
                names = []
        yield from (name for name in names if not name.startswith("_"))


def test_what_counts_as_a_name(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("T = TypeVar('T')\nX = 1\n_Y = 2\ndef f(): ...\nclass C: ...\nz: int = 3\n")
    (tmp_path / "b.py").write_text("from .a import X\nT = TypeVar('T')\n_Y = 2\nasync def f(): ...\nC = z = 4\n")
    assert names_defined_twice(tmp_path) == {"f", "C", "z"}
