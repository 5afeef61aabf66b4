"""Loads a text with its language, and collects the problems that are found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import agf_magics as agf
from agf_magics.flow.flow import Definition
from agf_magics.languages import LANGUAGES
from agf_magics.text.diagnostics import Diagnostics
from agf_magics.text.source import Source
from agf_magics.text.yaml.nodes import Node
from agf_magics.text.yaml.reader import Bounds, documents


def load(language: str, text: str) -> tuple[Definition, list[agf.Diagnostic]]:
    problems = Diagnostics()
    return LANGUAGES[language].load(Source("test", text), problems, Bounds()), list(problems)


def nodes(text: str) -> tuple[list[Node], Diagnostics]:
    """The YAML documents of a text, before a language reads them."""
    problems = Diagnostics()
    return list(documents(Source("test", text), problems, Bounds())), problems


def write_files(row: Mapping[str, Any]) -> None:
    """Write the files of a row into the working folder."""
    for name, text in row.get("files", {}).items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text, encoding="utf-8")


def code_and_place(problem: agf.Diagnostic) -> dict[str, Any]:
    """The code of a problem, and the text under its caret."""
    return {"code": problem.code, "at": problem.span.text if problem.span else None}


def as_vectors(problems: Iterable[agf.Diagnostic], *severities: str) -> dict[str, list[dict[str, Any]]]:
    """The problems in the format of the vectors: `errors`, `warnings` and so on, as far as there are any."""
    told_problems = {
        f"{name}s": [code_and_place(problem) for problem in problems if problem.severity == name] for name in severities
    }
    return {name: rows for name, rows in told_problems.items() if rows}
