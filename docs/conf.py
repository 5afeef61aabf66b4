"""The documentation site: the Markdown and the notebooks of the repository, as they are committed.

Nothing is executed or generated here: `python -m docs` does that, and tests compare the result with the code. The build
needs no network, and a warning is an error, such as a broken link or a page without an entry in a table of contents.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))

import markdown  # noqa: E402
from lexers import CellLexer, GrammarLexer, MessageLexer  # noqa: E402

from agf_magics import __version__ as release  # noqa: E402

project = "agf-magics"
author = "agf-magics contributors"
copyright = author

extensions = ["myst_nb"]
exclude_patterns = ["**/.ipynb_checkpoints", "_templates"]
suppress_warnings = ["toc.empty_glob"]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

nb_execution_mode = "off"
nb_merge_streams = True
nb_render_error_lexer = "text"

html_theme = "furo"
html_title = f"agf-magics {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_search_scorer = str(DOCS / "scorer.js")
html_extra_path = [*(f"{name}.schema.json" for name in ("pipeline", "policy", "plan", "graph")), "llms.txt"]
html_show_copyright = False
# Each page links to the site that runs in a browser (`make lite`), which the published documentation has as lite/.
templates_path = ["_templates"]
html_theme_options = {"announcement": "the text is in _templates/page.html"}
pygments_style = "friendly"
pygments_dark_style = "github-dark"


def copy_notebooks(app: object, config: object) -> None:
    """The source of the site must be one folder, and the notebooks are in another."""
    copies = DOCS / "notebooks"
    shutil.rmtree(copies, ignore_errors=True)
    copies.mkdir()
    for notebook in sorted(DOCS.parent.glob("notebooks/*.ipynb")):
        # A link of a notebook leads to a page from the folder beside this one; the copy is inside it.
        text = notebook.read_text(encoding="utf-8").replace("(../docs/", "(../")
        (copies / notebook.name).write_text(text, encoding="utf-8")


def show_comments(app: object, name: str, source: list[str]) -> None:
    source[0] = markdown.site(source[0])


def setup(app: Any) -> None:
    app.connect("config-inited", copy_notebooks)
    app.connect("source-read", show_comments)
    for name, lexer in (
        ("ipython", CellLexer),
        ("ipython3", CellLexer),
        ("text", MessageLexer),
        ("grammar", GrammarLexer),
    ):
        app.add_lexer(name, lexer)
