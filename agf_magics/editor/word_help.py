"""Shows the help for the word at the cursor.

On the line of a magic it is the help of the option or of the magic. In a definition it is the help of
a key, a kind, an argument, a function or a registered name, with the problem at the cursor. For the
code of an error it is its page.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

from ..catalog import Registry
from ..catalog.tools.tool import Tool
from ..commands.magics import COMMANDS
from ..languages import LANGUAGES, Language
from ..languages.ours import OURS
from ..pictures.plain import line as one_line
from ..pictures.plain import plain
from ..text.raised import RAISED
from .cursor import Reading
from .error_pages import entries
from .problems import problems_at

_LINE = re.compile(r"\s*(?:[\w.]+\s*=\s*)?%{1,2}(?P<magic>\w+)")
"""A line that begins with a magic, or stores what one returns."""
_CELL = re.compile(r"%%(?P<magic>\w+)")
_WORD = re.compile(r"[\w-]+")
"""A key, or the name of a function: without dots, unlike `NAME`."""
NAME = re.compile(r"[\w.-]+")
"""A name with its dots."""
_QUOTED = re.compile(r"(: |-> )'([^']{0,200})'")
"""A postponed annotation in the text of a signature."""
MOST_HELP = 300
"""Characters of a signature and of a description."""
MOST_TOOLTIP = 2_000
"""Characters of a docstring."""


def describe(
    code: str, position: int, registry: Registry, with_problems: bool = True
) -> str | None:
    """The help for the word at ``position``, after the problem there: empty where a cell of ours
    has none, None where the cell is not ours."""
    start = code.rfind("\n", 0, position) + 1
    line = code[start:].split("\n", 1)[0]
    word = word_at(_WORD, line, position - start)
    name = word_at(NAME, line, position - start)
    on_line = _LINE.match(line)
    if on_line is not None:
        command = COMMANDS.get(on_line["magic"])
        if command is None:
            return None
        if name is None:
            return command.help
        shown = (
            f"{option.shown}: {option.help}" for option in command.options if option.flag == name[0]
        )
        return entries().get(name[0]) or next(shown, command.help)
    cell = _CELL.match(code.lstrip("\n"))
    if cell is None or cell["magic"] not in COMMANDS:
        return None
    texts = problems_at(code, position, registry) if with_problems else []
    if word is not None and name is not None:
        # Else it is %%run_pipeline_inline.
        language = LANGUAGES[cell["magic"] if cell["magic"] in OURS else "pipeline"]
        body = code.index("\n") + 1
        texts += _help_of_word(language, code[body : start + word.start()], word[0], registry)
        texts += _help_of_name(language, code[body : start + name.start()], name[0], registry)
    return "\n".join(dict.fromkeys(texts))


def word_at(pattern: re.Pattern[str], line: str, column: int) -> re.Match[str] | None:
    return next(
        (match for match in pattern.finditer(line) if match.start() <= column <= match.end()), None
    )


def _help_of_name(language: Language, before: str, name: str, registry: Registry) -> Iterator[str]:
    """The help of a value that is the name of a kind, a tool, an agent or a flow."""
    from .schema_walk import describe_value  # imports the pipeline language

    cursor = Reading(before).cursor
    if cursor.part != "value":
        return
    if language.schema is not None and (text := describe_value(language.schema, cursor, name)):
        yield text if text.startswith(f"{name}:") else f"{name}: {text}"
    if (tool := registry.tools.get(name)) is not None:
        yield f"tool {name} takes {one_line(tool.takes, MOST_HELP) or 'no arguments'}"
        yield one_line(f"{name}{_signature(tool)}", MOST_HELP)
        yield plain(inspect.getdoc(tool.function) or tool.description, MOST_TOOLTIP)
    if (agent := registry.agents.get(name)) is not None:
        yield f"agent {name}: {one_line(agent.description, MOST_HELP)}".rstrip(": ")
    if (flow := registry.flows.get(name)) is not None:
        inputs = ", ".join(dict.fromkeys(str(ref.path[-1]) for ref in flow.inputs))
        yield f"{flow.language} {name} reads {one_line(inputs, MOST_HELP) or 'no input'}"
        yield one_line(flow.declared.description, MOST_HELP)


def _signature(tool: Tool) -> str:
    """``(topic: str, count: int = 40) -> list``"""
    try:
        # Postponed annotations are texts, with quotes.
        return _QUOTED.sub(r"\1\2", str(inspect.signature(tool.function)))
    except RAISED:  # a callable without one, or a default without a text
        return f"({tool.takes})"


def _help_of_word(language: Language, before: str, word: str, registry: Registry) -> Iterator[str]:
    """The help of a key with the keys below it, of an argument, or of a function of an
    expression."""
    from .names import CALLS
    from .schema_walk import keys_at  # imports the pipeline language

    cursor = Reading(before).cursor
    schema = language.schema or {}
    if text := keys_at(schema, cursor).get(word):
        below = cursor._replace(path=(*cursor.path, word), around=({}, *cursor.around))
        keys = ", ".join(keys_at(schema, below))
        yield f"{word}: {text}" + (f" Keys: {one_line(keys, MOST_HELP)}." if keys else "")
    called = (near.get(key) for near in cursor.around for key in CALLS)
    tool = registry.tools.get(next(filter(None, called), ""))
    if tool is not None and word in (tool.accepts or {}).get("properties", {}):
        yield one_line(f"{word}: an argument of {tool.name}{_signature(tool)}", MOST_HELP)
    if word in language.functions and cursor.part == "value":
        yield language.functions[word]
