"""``python -m docs.search SITE``: whether the search of a built site answers what readers ask.

The site's own scripts are run, by node. The page that answers a word must be the first that it finds, and the
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
    "jinja": "howto/graphs",
    "gpu": "howto/workers",
    "loop": "howto/graphs",
    "secret": "howto/secrets",
    "mcp": "howto/mcp",
    "batch of rows": "howto/over-data",
    "stop": "howto/stop",
    "if": "reference/steps",
    "share": "howto/share",
    "test": "howto/ci",
    "schedule": "howto/daily",
    "airflow": "howto/coming-from",
    "merge": "howto/dataframes",
    "join": "howto/sql",
    "kubernetes": "howto/workers",
    "sqlite": "howto/objects",
    "class method": "howto/objects",
    "database": "howto/objects",
    "compare prompts": "howto/scores",
    "incremental": "howto/daily",
    "cron": "howto/daily",
    "conditional": "reference/steps",
    "if else": "reference/steps",
    "for loop": "howto/fan-out",
    "langchain": "howto/coming-from",
    "pandas": "howto/dataframes",
    "sklearn": "howto/dataframes",
    "csv file": "howto/over-data",
    "grid search": "howto/over-data",
    "plot": "howto/explore",
    "list runs": "howto/explore",
    "progress bar": "howto/progress",
    "rate limit": "howto/services",
    "structured output": "howto/replies",
    "token usage": "howto/models",
    "human approval": "howto/asking",
    "mock": "howto/replay",
    "unit test": "howto/ci",
    "papermill": "howto/ci",
    "api key": "howto/secrets",
    "environment variable": "reference/settings",
    "out of memory": "howto/large-data",
    "checkpoint": "howto/resume",
    "html report": "howto/share",
    "mcp server": "howto/mcp",
    "autocomplete": "howto/editor",
    "multiprocessing": "howto/workers",
    "upgrade": "howto/install",
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
        if pages[:1] != [ANSWERS[word]]:
            wrong.append(f"{word!r} finds {pages[:3]}, and {ANSWERS[word]} answers it")
        if LAST in pages[:-1]:
            wrong.append(f"{word!r} finds {LAST} before {pages[-1]}")
    if wrong:
        sys.exit("\n".join(wrong))
    print(f"docs: the search answers {len(ANSWERS)} questions")


if __name__ == "__main__":
    main(sys.argv[1:])
