"""The exercises of the notebooks that teach the languages, as data for ``%lesson``.

An exercise is a Markdown cell that begins with ``**Exercise.**`` and ends with its solution, folded. The notebook is
run up to it in a shell, then the solution: what that gives is what an answer must give.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any, NamedTuple

from IPython.utils.capture import capture_output

import agf_magics as agf
from agf_magics.flow.steps import every
from tests.doc_pages import new_shell, session

ROOT = Path(__file__).parents[1]
FILE = ROOT / "agf_magics" / "notebook" / "lessons.json"
NOTEBOOKS = {
    "pipeline": "pipeline-language",
    "policy": "policies",
    "plan": "plan-language",
    "graph": "graph-language",
}
HEADING = re.compile(r"^##+ (?P<number>\d+)\. (?P<title>.+)$", re.MULTILINE)
EXERCISE = re.compile(
    r"\*\*Exercise\.\*\* (?P<task>.*?)\s*<details><summary>Solution</summary>\s*(?P<solution>.*?)</details>", re.DOTALL
)
CODE = re.compile(r"^```[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(
    r"%%(?:policy|plan|graph) (?!-)(\S+)|^(?:pipeline|name|  id): *([\w-]+)$|metadata: \{id: ([\w-]+)", re.MULTILINE
)
INPUT = re.compile(r"--(?:set|input) (?:'[^']*'|\"[^\"]*\"|\S+)")


class Exercise(NamedTuple):
    """An exercise in its notebook."""

    name: str
    title: str
    task: str
    solution: tuple[str, ...]
    """Its cells."""
    before: tuple[str, ...]
    """The code cells between it and the exercise before it."""


def exercises(language: str) -> Iterator[Exercise]:
    """The exercises of the notebook of a language, in order."""
    notebook = json.loads((ROOT / "notebooks" / f"{NOTEBOOKS[language]}.ipynb").read_text(encoding="utf-8"))
    number = title = ""
    cells: list[str] = []
    for cell in notebook["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "code":
            cells.append(text)
            continue
        for heading in HEADING.finditer(text):
            number, title = heading["number"], heading["title"]
        if exercise := EXERCISE.search(text):
            solution = tuple(code.rstrip("\n") for code in CODE.findall(exercise["solution"]))
            yield Exercise(f"{language}.{number}", title, exercise["task"], solution, tuple(cells))
            cells = []


def shown(shell: Any, code: str) -> Any:
    """Run a cell; the notebooks contain mistakes. Returns what it displays as its result."""
    with capture_output():
        return shell.run_cell(code, store_history=True).result


def lesson(shell: Any, language: str, exercise: Exercise) -> dict[str, Any]:
    """An exercise as data, with what its solution gives in the shell."""
    for cell in exercise.solution[:-1]:
        shown(shell, cell)
    last = exercise.solution[-1]
    result = shown(shell, last)
    flow = options = ""
    uses: list[str] = []
    if not last.startswith("%r1"):
        flow = next(filter(None, NAMED.search(last).groups()))  # type: ignore[union-attr]
        options = " ".join(INPUT.findall(last.partition("\n")[0]))
        words = {step.word for step in every(agf.registry.flows[flow].body)}
        uses = [word for word in re.findall(r"`([\w.]+)`", exercise.title) if word in words]
        result = result.output
    return {
        "title": exercise.title,
        "task": exercise.task,
        "language": language,
        "flow": flow,
        "options": options,
        "uses": uses,
        "gives": result,
        "notebook": f"{NOTEBOOKS[language]}.ipynb",
    }


def text() -> str:
    """The content of the file."""
    shell = new_shell()
    data = dict[str, Any]()
    for language in NOTEBOOKS:
        with session(shell), tempfile.TemporaryDirectory() as folder:
            shutil.copytree(ROOT / "notebooks", folder, dirs_exist_ok=True)
            Path(folder, "pyproject.toml").touch()
            with chdir(folder):
                for exercise in exercises(language):
                    for cell in exercise.before:
                        shown(shell, cell)
                    data[exercise.name] = lesson(shell, language, exercise)
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"
