"""The quickstart notebook, ready to be copied into a folder of the user.

The notebook is part of the wheel. A checkout has it in ``notebooks`` only.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

# The first place is in the wheel, the second one in a checkout.
PLACES = (
    Path(__file__).parents[1] / "quickstart.ipynb",
    Path(__file__).parents[2] / "notebooks" / "quickstart.ipynb",
)
SITE = "https://agf-magics.readthedocs.io/en/stable"

_PAGE = re.compile(r"\(\.\./docs/([\w/-]+)\.md\b")
_NOTEBOOK = re.compile(r"\(([\w-]+)\.ipynb\b")
"""The begins of relative links to a page of the documentation, and to another notebook."""


def quickstart() -> str:
    """The notebook as JSON. The outputs are removed, because they come from another computer.
    Relative links are replaced by links to the documentation, because the copy has no neighbours.
    """
    path = next(path for path in PLACES if path.is_file())
    notebook = json.loads(path.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell.update(outputs=[], execution_count=None)
        else:
            cell["source"] = [_link(line) for line in cell["source"]]
    return json.dumps(notebook, ensure_ascii=False, indent=1) + "\n"


def _link(line: str) -> str:
    line = _PAGE.sub(rf"({SITE}/\1.html", line)
    return _NOTEBOOK.sub(rf"({SITE}/notebooks/\1.html", line)
