"""``llms.txt``: what a language model reads first about this package. ``python -m docs llms`` writes it.

It is made of the tables of the languages, as the tool `describe_language` of the MCP server, and of the first
sentence of each page, so it has nothing that the reference does not have.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from agf_magics.editor.language_text import language_text
from agf_magics.languages.ours import OURS

DOCS = Path(__file__).parent
FILE = DOCS / "llms.txt"

HEAD = """\
# agf-magics

> agf-magics is an IPython extension and a command line that run pipelines, policies, plans and graphs of tools and
> agents. A definition is a text in YAML that is checked before it runs: every error has a place, a code and a hint.

Before you write a definition, read its language below. Then check it until nothing is wrong, and run it without calls:

    agf-magics check FILE --format json
    agf-magics run FILE --tools tools.py --set name=value --dry

`agf-magics mcp FILE` serves definitions to MCP clients. Its tools `check_definition`, `explain` and `describe_language`
say the same.
"""

SECTIONS = (("Reference", "reference"), ("How-to guides", "howto"))
"""The folders of pages, with the titles of their sections."""

_NO_PROSE = re.compile(r"^(?:#[^\n]*|<!--.*?-->|```.*?^```|:::.*?^:::|\([^\n]*\)=)$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")


def text() -> str:
    pages = [f"## {title}\n\n" + "".join(map(_line, _pages(folder))) for title, folder in SECTIONS]
    languages = [_lowered(language_text(language)) for language in OURS]
    return "\n".join([HEAD, "## The languages\n", *languages, *pages])


def _pages(folder: str) -> Iterator[Path]:
    return (page for page in sorted((DOCS / folder).glob("*.md")) if page.stem != "index")


def _line(page: Path) -> str:
    """The title of a page with its first sentence."""
    content = page.read_text(encoding="utf-8")
    title = content.partition("\n")[0].removeprefix("# ")
    return f"- [{title}]({page.relative_to(DOCS).as_posix()}): {_first_sentence(content)}\n"


def _first_sentence(content: str) -> str:
    paragraph = _NO_PROSE.sub("", content).strip().partition("\n\n")[0]
    flat = " ".join(_LINK.sub(r"\1", paragraph).split())
    return re.split(r"(?<=[.:])\s", flat)[0].rstrip(":")


def _lowered(described: str) -> str:
    """The text of a language two headings lower: the file has one title."""
    return re.sub(r"^#", "###", described, flags=re.MULTILINE)
