"""``python -m docs.search SITE``: whether the search of a built site answers what readers ask.

The site's own scripts are run, by node. Each word must lead to a page that answers it among the first three, and the
decisions, the log of those who make the project, come last wherever they are found. `make docs` runs it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ANSWERS: Mapping[str, str] = {
    "cache": "howto/reuse",
    "validate": "howto/replies",
    "retry": "howto/fan-out",
    "jinja": "reference/prompts",
    "gpu": "howto/workers",
    "loop": "howto/graphs",
    "secret": "howto/secrets",
    "mcp": "howto/mcp",
    "batch of rows": "howto/over-data",
    "stop": "howto/stop",
    "if": "reference/steps",
    "share": "howto/share",
    "test": "howto/ci",
    "schedule": "howto/when-not",
    "airflow": "howto/coming-from",
    "merge": "howto/dataframes",
    "join": "howto/sql",
    "kubernetes": "howto/workers",
    "sqlite": "howto/objects",
    "class method": "howto/objects",
    "database": "howto/objects",
    "compare prompts": "howto/scores",
    "incremental": "howto/daily",
    "cron": "howto/when-not",
    "conditional": "reference/steps",
}
"""What readers ask, and the page that answers it."""

LAST = "decisions"


def ask(site: Path, node: str) -> Mapping[str, list[str]]:
    """The pages that each question finds, the best first, each once."""
    command = [node, str(Path(__file__).with_name("search.js")), str(site), *ANSWERS]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {word: list(dict.fromkeys(pages)) for word, pages in zip(ANSWERS, json.loads(done.stdout), strict=True)}


def main(arguments: list[str]) -> None:
    node = shutil.which("node")
    if node is None:
        print("docs: the search was not asked, as there is no node")
        return
    wrong = []
    for word, pages in ask(Path(arguments[0]), node).items():
        if ANSWERS[word] not in pages[:3]:
            wrong.append(f"{word!r} finds {pages[:3]}, and {ANSWERS[word]} answers it")
        if LAST in pages[:-1]:
            wrong.append(f"{word!r} finds {LAST} before {pages[-1]}")
    if wrong:
        sys.exit("\n".join(wrong))
    print(f"docs: the search answers {len(ANSWERS)} questions")


if __name__ == "__main__":
    main(sys.argv[1:])
