"""How jupyter-lsp starts the language server, for YAML files: the entry point of the distribution.

A module beside the package: the server of Jupyter imports it at each start, and the package takes
long to import. Not for notebooks: jupyter-lsp sends all code cells as one text of Python, and the
extension for JupyterLab asks the kernel, which knows what the notebook has registered.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Any


class Spec:
    """What jupyter-lsp calls when the server of Jupyter starts."""

    def is_installed(self, manager: object) -> bool:
        """Whether the server can be started: the extra ``lsp`` is installed."""
        return find_spec("pygls") is not None

    def __call__(self, manager: object) -> dict[str, dict[str, Any]]:
        """The servers by their names, as jupyter-lsp describes one."""
        return {
            "agf-magics": {
                "version": 2,
                "display_name": "agf-magics",
                "argv": [sys.executable, "-m", "agf_magics", "lsp"],
                "languages": ["yaml"],
                "mime_types": ["text/yaml", "text/x-yaml"],
                "install": {"pip": "pip install 'agf-magics[lsp]'"},
                "requires_documents_on_disk": False,
            }
        }


spec = Spec()
