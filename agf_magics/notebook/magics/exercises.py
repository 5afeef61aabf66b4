"""The exercises that ``%lesson`` gives: the exercises of our notebooks, and the exercises of a teacher.

``lessons.json`` is written from our notebooks (``python -m docs lessons``). A teacher writes
``lessons.yaml`` into the notebook's folder. Students get this file, so it has the value that a solution
must give, and not the solution.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ...text.diagnostics import DefinitionError, Diagnostics, refused
from ...text.files import read_file
from ...text.folder import notebook_folder
from ...text.source import UNUSABLE, Source, path_error_reason
from ...text.suggestions import suggest
from ...text.yaml.nodes import Fields, Node, Scalar, plain, shown
from ...text.yaml.reader import documents

FILE = "lessons.yaml"


class Lesson(NamedTuple):
    """An exercise."""

    title: str
    task: str
    """Markdown, without the solution."""
    gives: Any
    """The output of the solution, a JSON value."""
    language: str = "pipeline"
    flow: str = ""
    """The flow that the answer defines. Empty: the answer is an expression of R1, whose value the last
    cell displayed."""
    options: str = ""
    """The input of the flow's run, as the options of a magic: ``--set earth=$earth``."""
    uses: tuple[str, ...] = ()
    """The kinds of steps that the answer must use."""
    notebook: str = ""
    """Our notebook whose cells define what the exercise names; empty for a teacher's exercise."""


TEXTS = ("title", "task", "language", "flow", "options")
"""The keys of a lesson in a teacher's file whose value is a text."""
KEYS = (*TEXTS, "uses", "gives")
"""All keys of a lesson in a teacher's file."""
REQUIRED = ("task", "gives")
"""The keys that a lesson must have."""


def lessons() -> Mapping[str, Lesson]:
    """All lessons by their names: ``pipeline.1``. Raises DefinitionError with all problems of a teacher's
    file."""
    return {**_ours(), **_theirs()}


def lesson_names() -> Iterator[str]:
    """The names of the lessons, for completion. A teacher's file with problems adds no names."""
    yield from _ours()
    try:
        yield from _theirs()
    except DefinitionError:
        return


@cache
def _ours() -> Mapping[str, Lesson]:
    text = (Path(__file__).parents[1] / "lessons.json").read_text(encoding="utf-8")
    return {name: Lesson(**fields) for name, fields in json.loads(text).items()}


def _theirs() -> Mapping[str, Lesson]:
    path, problems = notebook_folder.path / FILE, Diagnostics()
    if not path.is_file():
        return {}
    try:
        text = read_file(path).decode("utf-8")
    except UNUSABLE as error:
        message = f"{FILE} cannot be read: {path_error_reason(error)}"
        raise refused("magic.lesson-file", message) from None
    lessons = {}
    for document in documents(Source(FILE, text), problems):
        if not isinstance(document, Fields):
            _wrong(problems, document, f"{FILE} must be a mapping of lessons", _EXAMPLE)
            continue
        for name, node in document.fields.items():
            lesson = _read(name, node, document.keys[name], problems)
            if lesson is not None:
                lessons[name] = lesson
    problems.refuse()
    return lessons


_EXAMPLE = "write: rivers.1: {task: What is 6 * 7?, gives: 42}"
_WRITE = {"task": "write: task: What is 6 * 7?", "gives": "write: gives: 42"}


def _read(name: str, node: Node, key: Scalar, problems: Diagnostics) -> Lesson | None:
    if not isinstance(node, Fields):
        _wrong(problems, node, f"lesson {name!r} must be a mapping, got {shown(node)}", _EXAMPLE)
        return None
    for word in node.fields.keys() - set(KEYS):
        hint = suggest(word, KEYS, "its keys")
        _wrong(problems, node.keys[word], f"a lesson has no key {word!r}", hint)
    for word in REQUIRED:
        if word not in node.fields:
            _wrong(problems, key, f"lesson {name!r} has no {word!r}", _WRITE[word])
    fields = {word: plain(value) for word, value in node.fields.items() if word in KEYS}
    for word in TEXTS:
        if word in fields and not isinstance(fields[word], str):
            value = node.fields[word]
            _wrong(problems, value, f"{word!r} must be a text, got {shown(value)}")
    uses = fields.pop("uses", [])
    if not isinstance(uses, list) or not all(isinstance(each, str) for each in uses):
        _wrong(problems, node.fields["uses"], "'uses' must be a list of step kinds", "uses: [fold]")
    if problems.error_count:
        return None
    return Lesson(**{"title": name, **fields, "uses": tuple(uses)})


def _wrong(problems: Diagnostics, node: Node, message: str, hint: str | None = None) -> None:
    problems.error("magic.lesson-file", message, node.span, hint)
