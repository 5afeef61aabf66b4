"""The documentation site: Markdown by MyST, the notebooks executed by MyST-NB, what the code knows from the code.

It is built offline, and any warning is an error: a link that leads nowhere, a page that stands in no table of contents.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))
os.environ["PYTHONPATH"] = str(DOCS.parent / "notebooks")  # for the kernels: what stands beside the notebooks

from lexers import CellLexer, GrammarLexer, ToldLexer  # noqa: E402

from agf_magics import __version__ as release  # noqa: E402

project = "agf-magics"
author = "agf-magics contributors"
copyright = author

extensions = ["myst_nb"]
exclude_patterns = ["**/.ipynb_checkpoints"]
suppress_warnings = ["toc.empty_glob"]  # docs/benchmarks.md is there once somebody has measured

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_timeout = 180
nb_execution_raise_on_error = True
nb_merge_streams = True
nb_render_error_lexer = "text"

html_theme = "furo"
html_title = f"agf-magics {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_extra_path = [f"{name}.schema.json" for name in ("pipeline", "policy", "plan", "graph")]
html_show_copyright = False
html_show_sourcelink = False
html_copy_source = False
pygments_style = "friendly"
pygments_dark_style = "github-dark"


def copy_notebooks(app: object, config: object) -> None:
    """The site's source is one folder; the notebooks stand in another and must not stand in two."""
    copies = DOCS / "notebooks"
    shutil.rmtree(copies, ignore_errors=True)
    copies.mkdir()
    for notebook in sorted(DOCS.parent.glob("notebooks/*.ipynb")):
        shutil.copy(notebook, copies)


def setup(app: Any) -> None:
    app.connect("config-inited", copy_notebooks)
    for name, lexer in (
        ("ipython", CellLexer),
        ("ipython3", CellLexer),
        ("text", ToldLexer),
        ("grammar", GrammarLexer),
    ):
        app.add_lexer(name, lexer)
