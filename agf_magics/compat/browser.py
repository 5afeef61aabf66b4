"""Tells whether Python runs in a browser (Pyodide), without threads, processes and sockets."""

from __future__ import annotations

import sys

IN_BROWSER = sys.platform == "emscripten"
"""True in a browser, where nothing may start a thread or a process, or open a socket."""
