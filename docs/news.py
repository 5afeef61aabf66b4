"""``python -m docs.news``: what users will notice in the next release, from the files in ``news``.

``python -m docs.news release VERSION DATE`` moves them into ``CHANGELOG.md``, below the sections of that version, and
gives it its date. Each file is one change, because a list that all changes append to conflicts in each merge.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
NEWS = ROOT / "news"
CHANGELOG = ROOT / "CHANGELOG.md"
WIDTH = 140

SECTIONS = {
    "languages": "Languages",
    "right": "Right where people work",
    "learning": "Learning",
    "data": "Runs over tables",
    "errors": "Errors",
    "runs": "Runs",
    "display": "Display",
    "safety": "Safety",
    "tools": "Tools, agents, models, Python",
}
"""The sections of a version, by the first word of a file's name."""


def fragments(folder: Path = NEWS) -> Mapping[str, Sequence[str]]:
    """The changes of each section, as items of a list. Raises ValueError for a file that belongs to no section."""
    changes: dict[str, list[str]] = {title: [] for title in SECTIONS.values()}
    for path in sorted(folder.glob("*.md")):
        if path.name == "README.md":
            continue
        section = SECTIONS.get(path.name.partition(".")[0])
        if section is None or path.name.count(".") != 2:
            raise ValueError(f"{path.name}: a name must be <section>.<words>.md, with one of {', '.join(SECTIONS)}")
        text = " ".join(path.read_text(encoding="utf-8").split())
        if not text.endswith("."):
            raise ValueError(f"{path.name}: a text must be one to three sentences")
        changes[section].append(text)
    return changes


def released(changelog: str, news: Mapping[str, Sequence[str]], version: str, date: str) -> str:
    """The changelog with ``news`` in the sections of ``version``, which is released on ``date``.

    >>> print(released("# All\\n\\n## 0.1 (unreleased)\\n\\n### Runs\\n\\n- A.\\n", {"Runs": ["B."]}, "0.1", "today"))
    # All
    <BLANKLINE>
    ## 0.1 (today)
    <BLANKLINE>
    ### Runs
    <BLANKLINE>
    - A.
    - B.
    <BLANKLINE>
    """
    head, *versions = re.split(r"(?m)^(?=## )", changelog)
    if not versions or not versions[0].startswith(f"## {version} (unreleased)\n"):
        versions.insert(0, f"## {version} (unreleased)\n\n")
    _, _, sections = versions[0].partition("\n")
    for section, texts in news.items():
        if texts:
            sections = _added(sections, section, "".join(_item(text) for text in texts))
    return f"{head}## {version} ({date})\n{sections}{''.join(versions[1:])}"


def _added(text: str, section: str, items: str) -> str:
    """The sections of a version with these items at the end of one, which may be new."""
    parts = re.split(r"(?m)^(?=### )", text)
    for number, part in enumerate(parts):
        if part.startswith(f"### {section}\n"):
            end = part[len(part.rstrip("\n")) + 1 :]
            parts[number] = f"{part.rstrip()}\n{items}{end}"
            return "".join(parts)
    return f"{text}### {section}\n\n{items}\n"


def _item(text: str) -> str:
    return textwrap.fill(text, WIDTH, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False) + "\n"


def main(arguments: Sequence[str]) -> int:
    news = fragments()
    match arguments:
        case []:
            for section, texts in news.items():
                if texts:
                    print(f"### {section}\n\n{''.join(map(_item, texts))}")
        case ["release", version, date]:
            CHANGELOG.write_text(released(CHANGELOG.read_text(encoding="utf-8"), news, version, date), encoding="utf-8")
            for path in NEWS.glob("*.*.md"):
                path.unlink()
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
