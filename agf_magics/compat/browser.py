"""Whether this is Python in a page (Pyodide): no threads, no processes, no sockets."""

from __future__ import annotations

import sys

IN_BROWSER = sys.platform == "emscripten"
"""Whether this is Python in a page (Pyodide): no threads, no processes, no sockets, one process."""
