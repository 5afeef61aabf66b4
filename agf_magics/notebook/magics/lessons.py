"""``%lesson``: show an exercise, and say what is still wrong with an answer.

An answer counts by its result, not by its text: its flow is run with the input of the exercise, and must
use the kinds of steps that the lesson is about. The exercises themselves come from exercises.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from IPython.core.magic import line_magic, magics_class

from ...commands import magics
from ...commands.line import ParsedLine, read
from ...commands.values import inputs
from ...flow.steps import every
from ...lifecycle.launch import launch
from ...pictures.amounts import counted
from ...pictures.difference import MISSING, find_differences
from ...text.diagnostics import AgfError, DefinitionError, Diagnostic
from ..output.output import show_markdown
from .base import NotebookMagics, takes
from .exercises import FILE, Lesson, lessons
from .explain import nearest_hint

MOST_TOLD = 5
"""The number of differences of an answer that are shown."""


@magics_class
class LessonMagics(NotebookMagics):
    """``%lesson``."""

    @line_magic
    @takes(magics.LESSON)
    def lesson(self, parsed: ParsedLine) -> None:
        word = parsed.word("NAME")
        if word is None:
            return show_markdown(_table())
        lesson = lessons().get(word.text)
        if lesson is None:
            hint = nearest_hint(word.text, lessons(), "%lesson lists them")
            message = f"there is no lesson {word.text!r}"
            raise DefinitionError(Diagnostic("magic.unknown-lesson", message, word.span, hint))
        if "--check" not in parsed:
            text = f"### {lesson.title}\n\n{lesson.task}\n\n{_about(lesson)}`%lesson {word.text} --check`"
            return show_markdown(text)
        wrong = list(self._wrong(lesson))
        print("\n".join(wrong or [f"✓ {word.text}: right"]))

    def _wrong(self, lesson: Lesson) -> Iterator[str]:
        """The lines that say what is still wrong with the answer."""
        if not lesson.flow:
            # Not the variable `_`: IPython does not set it if builtins have a `_` (gettext does that).
            shown = self.notebook.ipython.user_ns["_oh"]
            if not shown:
                return iter(["✗ no cell has shown a value yet"])
            value = next(reversed(shown.values()))
            return _differences(lesson, value, "the value of the last cell")
        flow = self.notebook.registry.flows.get(lesson.flow)
        if flow is None:
            message = (
                f"✗ there is no {lesson.language} {lesson.flow!r} yet: write %%{lesson.language}"
            )
            return iter([message])
        line = read(magics.RUN_PIPELINE, f"{lesson.flow} {lesson.options}", self.notebook.cell)
        assert line is not None
        input = inputs(line, self.notebook.names)
        try:
            run = launch.run(flow, input, registry=self.notebook.registry)
        except AgfError as error:
            return iter([f"✗ {lesson.flow} fails: {error}"])
        words = {step.word for step in every(flow.body)}
        lacking = [word for word in lesson.uses if word not in words]
        if lacking:
            return iter(
                [f"✗ {lesson.flow} has no {' and no '.join(lacking)}: the lesson is about it"]
            )
        return _differences(lesson, run.output, "the output")


def _about(lesson: Lesson) -> str:
    """The words about the notebook to which an exercise belongs, and about the form of its answer."""
    place = f"In `{lesson.notebook}`, whose cells define what it names. " if lesson.notebook else ""
    form = "" if lesson.flow else "Answer with a cell that shows the value: `%r1 EXPRESSION`. "
    return f"{place}{form}Then: "


def _differences(lesson: Lesson, value: Any, what: str) -> Iterator[str]:
    parts = list(find_differences(lesson.gives, value))
    for path, wanted, got in parts[:MOST_TOLD]:
        place = f"{what}{' at ' + path.lstrip('.') if path else ''}"
        if got is MISSING:
            yield f"✗ {place} is missing; it must be {wanted!r}"
        elif wanted is MISSING:
            yield f"✗ {place} is {got!r:.200}, and nothing must be there"
        else:
            yield f"✗ {place} is {got!r:.200}, and must be {wanted!r:.200}"
    if len(parts) > MOST_TOLD:
        yield f"✗ and {counted(len(parts) - MOST_TOLD, 'more difference')}"


def _table() -> str:
    rows = [f"| `{name}` | {lesson.title} |" for name, lesson in lessons().items()]
    own_lessons = f"A file `{FILE}` in the notebook's folder adds lessons of your own."
    return "\n".join(["| lesson | |", "| --- | --- |", *rows, "", own_lessons])
