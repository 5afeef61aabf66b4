"""The functions behind the tools for an agent that writes definitions; `own_tools` offers them.

They check a text, explain an error and describe a language.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...catalog import Registry, default
from ...editor.error_pages import entries
from ...editor.language_text import language_text, registered_text
from ...editor.pasting import Edit
from ...editor.problems import PlacedProblem, places_of, read_file_text
from ...editor.repairs import repairs_of
from ...editor.text_group import TextGroup, WrittenFile
from ...languages import LANGUAGES
from ...languages.ours import detect_language
from ...text.diagnostics import refused
from ...text.source import Source
from ...text.suggestions import nearest, suggest

UNNAMED = "definition"
"""The name of a text that has none, as a file would give it."""


def check_definition(
    definition: str, language: str = "", registry: Registry | None = None
) -> dict[str, Any]:
    """Return what is wrong with the text of a definition: each problem with its code, its place, a
    hint, and where one is known a fix. Nothing is run and no file is read.

    Parameters:

    - ``definition``: the text, in YAML or JSON. Required.
    - ``language``: ``pipeline``, ``policy``, ``plan`` or ``graph``. Default empty: recognised from
      the text.
    - ``registry``: the `Registry` of the tools and agents that it can name. Default None: the one of
      this process.

    Raises DefinitionError if there is no such language.
    """
    registry = default(registry)
    chosen = known_language(language or detect_language(definition))
    file = WrittenFile(UNNAMED, definition, read=read_file_text(definition, chosen, UNNAMED))
    assert file.read is not None, "it was read just now"
    file.problems = places_of(file.read, registry)
    group = TextGroup()
    group.registry = registry
    fixes = repairs_of(file, 0, len(definition), group)
    source = Source(UNNAMED, definition)
    problems = [_problem(problem, source) for problem in file.problems]
    for fix in fixes:
        place = _place(fix.problem, source)
        for problem in problems:
            if problem["code"] == fix.problem.code and place.items() <= problem.items():
                problem["fix"] = _replacement(definition, fix.edit)
    is_refused = any(problem["severity"] == "error" for problem in problems)
    return {"language": chosen, "ok": not is_refused, "problems": problems}


def _replacement(definition: str, edit: Edit) -> dict[str, str]:
    """An edit as a part of the text and its replacement, for a client that cannot use offsets. The
    part occurs once: if the edited text itself occurs several times, the part has as many lines
    around it as are needed, at most twice as many."""
    start, end = edit.start, edit.end
    lines = 1
    while end - start < len(definition) and not _occurs_once(definition, definition[start:end]):
        start, end = edit.start, edit.end
        for _ in range(lines):
            start = definition.rfind("\n", 0, max(start - 1, 0)) + 1
            newline = definition.find("\n", end + 1)
            end = newline if newline >= 0 else len(definition)
        lines *= 2
    after = definition[start : edit.start] + edit.text + definition[edit.end : end]
    return {"replace": definition[start:end], "with": after}


def _occurs_once(text: str, part: str) -> bool:
    first = text.find(part)
    return bool(part) and text.find(part, first + 1) < 0


def explain(code: str) -> str:
    """Return the page of an error: what the error means, an example, and what to do.

    ``code``: the code in brackets after a message, such as ``flow.unknown-tool``. Required.

    Raises DefinitionError if no error has the code.
    """
    page = entries().get(code.strip("[] \n"))
    if page is None:
        near = nearest(code, list(entries()), 0.6)
        hint = f"did you mean {near}?" if near else "the code is in brackets after the message"
        raise refused("magic.unknown-code", f"no error has the code {code[:80]!r}", hint)
    return page


def describe_language(language: str, registry: Registry | None = None) -> str:
    """Return a language as a text: the keys of a definition, the functions of expressions, a complete
    example, and the tools, agents and flows that a definition can name here.

    Parameters:

    - ``language``: ``pipeline``, ``policy``, ``plan`` or ``graph``. Required.
    - ``registry``: the `Registry` of those names. Default None: the one of this process.

    Raises DefinitionError if there is no such language.
    """
    return language_text(known_language(language)) + registered_text(default(registry))


def known_language(language: str) -> str:
    """``language`` itself. Raises DefinitionError if no language has this name."""
    if language not in LANGUAGES:
        hint = suggest(language, LANGUAGES, "languages")
        raise refused("define.language", f"there is no language {language[:80]!r}", hint)
    return language


def languages() -> Iterable[str]:
    """The names of the languages."""
    return tuple(LANGUAGES)


def _problem(problem: PlacedProblem, source: Source) -> dict[str, Any]:
    return {
        **_place(problem, source),
        "severity": problem.diagnostic.severity,
        "code": problem.code,
        "message": problem.message,
        "hint": problem.hint,
    }


def _place(problem: PlacedProblem, source: Source) -> dict[str, int]:
    """The begin and the end of a problem: lines and columns from 1, as in an editor."""
    line, column = source.place(problem.start)
    end_line, end_column = source.place(problem.end)
    return {"line": line, "column": column, "end_line": end_line, "end_column": end_column}
