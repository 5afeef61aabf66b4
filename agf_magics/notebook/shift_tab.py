"""Shift-Tab: the help of a magic in its line; in the cell of a definition, of a key, a kind, a
function or a registered name, and the problem at the cursor; of a code of an error, its page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

from ..catalog import Registry
from ..languages import LANGUAGES, Language
from ..pictures.plain import line as one_line
from .commands import COMMANDS
from .cursor import Reading
from .explain import entries
from .problems import problems_at
from .schema_walk import describe_value, keys_at

_LINE = re.compile(r"\s*(?:[\w.]+\s*=\s*)?%{1,2}(\w+)")
_CELL = re.compile(r"%%(\w+)")
_WORD, _NAME = re.compile(r"[\w-]+"), re.compile(r"[\w.-]+")
MOST_HELP = 300
"""Characters of a signature and of a description."""


def install_inspector(undo: ExitStack, shell: Any, registry: Registry) -> None:
    """Answer the kernel's inspect requests in our cells. All others, and any failure, go to
    IPython."""
    kernel: Any = getattr(shell, "kernel", None)
    before = getattr(kernel, "do_inspect", None)
    if before is None:
        return

    def do_inspect(code: str, cursor_pos: int, *rest: Any, **named: Any) -> Any:
        try:
            text = describe(code, cursor_pos, registry)
        except Exception:  # help is never worth a failed request
            text = None
        if text is None:
            return before(code, cursor_pos, *rest, **named)
        return {
            "status": "ok",
            "found": bool(text),
            "data": {"text/plain": text} if text else {},
            "metadata": {},
        }

    kernel.do_inspect = do_inspect
    undo.callback(setattr, kernel, "do_inspect", before)


def describe(code: str, position: int, registry: Registry) -> str | None:
    """The help for the word at ``position``: empty where a cell of ours has none, None where the
    cell is not ours."""
    start, end = code.rfind("\n", 0, position) + 1, code.find("\n", position)
    line = code[start : end if end >= 0 else len(code)]
    word, name = (_word_at(pattern, line, position - start) for pattern in (_WORD, _NAME))
    magic = _LINE.match(line)
    if magic is not None:
        command = COMMANDS.get(magic[1])
        page = entries().get(name[0]) if command is not None and name is not None else None
        return page or (command.help if command is not None else None)
    cell = _CELL.match(code.lstrip("\n"))
    if cell is None or cell[1] not in COMMANDS:
        return None
    found = problems_at(code, position, registry)
    if word is not None and name is not None:
        language = LANGUAGES.get(cell[1]) or LANGUAGES["pipeline"]  # %%run_pipeline_inline
        body = code.index("\n") + 1
        found += _help(language, code[body : start + word.start()], word[0])
        found += _named(language, code[body : start + name.start()], name[0], registry)
    return "\n".join(dict.fromkeys(found))


def _word_at(pattern: re.Pattern[str], line: str, column: int) -> re.Match[str] | None:
    return next(
        (found for found in pattern.finditer(line) if found.start() <= column <= found.end()), None
    )


def _named(language: Language, before: str, name: str, registry: Registry) -> Iterator[str]:
    """The help of a value that is the name of a kind, a tool, an agent or a flow."""
    spot = Reading(before).spot
    if spot.part != "value":
        return
    if language.schema is not None and (text := describe_value(language.schema, spot, name)):
        yield f"{name}: {text}"
    if (tool := registry.tools.get(name)) is not None:
        yield f"tool {name} takes {one_line(tool.takes, MOST_HELP) or 'no arguments'}"
        yield one_line(tool.description, MOST_HELP)
    if (agent := registry.agents.get(name)) is not None:
        yield f"agent {name}: {one_line(agent.description, MOST_HELP)}".rstrip(": ")
    if (flow := registry.flows.get(name)) is not None:
        inputs = ", ".join(dict.fromkeys(str(ref.path[-1]) for ref in flow.inputs))
        yield f"{flow.language} {name} reads {one_line(inputs, MOST_HELP) or 'no input'}"
        yield one_line(flow.description, MOST_HELP)


def _help(language: Language, before: str, word: str) -> Iterator[str]:
    if language.words is not None:
        words = language.words
        for kind in (*words.steps.values(), *words.documents.values()):
            if kind.name == word:
                yield f"{word}: {kind.doc} Keys: {', '.join(kind.keys)}."
        path = Reading(before).spot.path
        owners = [kind for kind in words.steps.values() if kind.name in path[-1:]]
        owners = owners or [*words.documents.values(), *words.steps.values(), words.target]
        for kind in owners:
            if (key := kind.keys.get(word)) is not None:
                yield f"{word}: {key.doc} Takes {key.says}, as in {key.example}"
        if word in words.functions:
            yield words.functions[word]
    elif language.schema is not None and (
        text := keys_at(language.schema, Reading(before).spot).get(word)
    ):
        yield f"{word}: {text}"
