"""Shift-Tab: the help of a magic in its line, and of a key of the document in the cell of a definition."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

from ..languages import LANGUAGES, Language
from .commands import COMMANDS
from .cursor import Reading
from .schema_walk import describe_key

_LINE = re.compile(r"\s*(?:[\w.]+\s*=\s*)?%{1,2}(\w+)")
_CELL = re.compile(r"%%(\w+)")


def install_inspector(undo: ExitStack, shell: Any) -> None:
    """Answer the kernel's inspect requests in our cells. All others, and any failure, go to IPython."""
    kernel: Any = getattr(shell, "kernel", None)
    before = getattr(kernel, "do_inspect", None)
    if before is None:
        return

    def do_inspect(code: str, cursor_pos: int, *rest: Any, **named: Any) -> Any:
        try:
            text = describe(code, cursor_pos)
        except Exception:  # help is never worth a failed request
            text = None
        if text is None:
            return before(code, cursor_pos, *rest, **named)
        return {"status": "ok", "found": bool(text), "data": {"text/plain": text} if text else {}, "metadata": {}}

    kernel.do_inspect = do_inspect
    undo.callback(setattr, kernel, "do_inspect", before)


def describe(code: str, position: int) -> str | None:
    """The help for the word at ``position``: empty where a cell of ours has none, None where the cell is not ours."""
    start, end = code.rfind("\n", 0, position) + 1, code.find("\n", position)
    line = code[start : end if end >= 0 else len(code)]
    magic = _LINE.match(line)
    if magic is not None:
        command = COMMANDS.get(magic[1])
        return command.help if command is not None else None
    cell = _CELL.match(code.lstrip("\n"))
    if cell is None or cell[1] not in COMMANDS:
        return None
    column = position - start
    word = next((found for found in re.finditer(r"[\w-]+", line) if found.start() <= column <= found.end()), None)
    if word is None:
        return ""
    body = code[code.index("\n") + 1 : start + word.start()]
    language = LANGUAGES.get(cell[1]) or LANGUAGES["pipeline"]  # %%run_pipeline_inline
    return "\n".join(dict.fromkeys(_help(language, body, word[0])))


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
    elif language.schema is not None and (text := describe_key(language.schema, Reading(before).spot, word)):
        yield f"{word}: {text}"
