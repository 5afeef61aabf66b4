"""Tab: what completes the lines and the bodies of our magics, silent everywhere else.

The answer always names the fragment it replaces (IPython's own idea of a token ends at a dash) and is the only one
there: in a YAML body an empty answer is better than Python's names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult

from ..catalog import Registry
from ..languages import LANGUAGES, Language
from ..languages.pipeline import WORDS
from ..lifecycle.launch import live
from .body import Choice, Offer, by_schema, expression, offer
from .commands import COMMANDS
from .explain import entries
from .names import NAMES
from .options import Command, Kind

MAGIC = re.compile(r"\s*+(?:[\w.,\s\[\]]++=\s*+)?(%{1,2})(\w+)[ \t](.*)$", re.DOTALL)
FILES = (".yaml", ".yml", ".json", ".svg", ".dot")
MOST_FILES = 200
INPUTS = re.compile(r"(?:\bctx\.|\bparent\.input\.|[†$]input\.|\{\s*state\.)(\w+)")
"""What a text surely or maybe reads of its input, in whatever language it is written."""


class Silence(list[SimpleCompletion]):
    """Nothing to offer, and nobody else has either: IPython lets all others speak where a list has no length."""

    def __len__(self) -> int:
        return super().__len__() or 1


class Known(NamedTuple):
    """What the notebook knows besides the text."""

    registry: Registry
    names: Mapping[str, Any]
    """The notebook's variables."""
    frame: Mapping[str, Any]
    """What the last run left, as an expression sees it: ctx and pipe."""
    runs: Callable[[], Iterable[str]] = tuple
    """The ids of the runs that are kept."""


def complete(text: str, line: int, column: int, known: Known) -> Offer | None:
    """What may stand at the cursor of a cell; None where it is none of our magics."""
    lines = text.split("\n")
    before = lines[line][:column]
    first = next((number for number, found in enumerate(lines) if found.strip()), 0)
    in_body = line > first and lines[first].startswith("%%")
    found = MAGIC.match(lines[first] + " " if in_body else before)
    command = COMMANDS.get(found[2]) if found else None
    if found is None or command is None or (in_body and not command.name.startswith("%%")):
        return None
    body = "\n".join(lines[first + 1 :])
    if not in_body:
        return _in_line(command, found[3], body, known)
    above = "\n".join([*lines[first + 1 : line], before])
    inputs = re.findall(r"--set[ =]['\"]?(\w+)=", found[3])
    language = LANGUAGES.get(found[2]) or LANGUAGES["pipeline"]  # %%run_pipeline_inline
    made = _in_body(language, above, body[len(above) :], inputs, known)
    return made if before.endswith(made.fragment) else Offer("")  # a text of several lines is nobody's name


def _in_body(language: Language, above: str, below: str, inputs: list[str], known: Known) -> Offer:
    if language.words is not None:
        return offer(above, below, inputs, language.words, known.registry)
    if language.schema is None:
        return Offer("")
    return by_schema(above, below, inputs, language.schema, NAMES[language.name], known.registry)


def answer(context: CompletionContext, known: Known) -> SimpleMatcherResult:
    """What IPython is told."""
    found = complete(context.full_text, context.cursor_line, len(context.text_until_cursor), known)
    if found is None:
        return SimpleMatcherResult(completions=[], suppress=False)
    choices = Silence(SimpleCompletion(text=choice.text, type=choice.type) for choice in found.choices)
    return SimpleMatcherResult(completions=choices, suppress=True, matched_fragment=found.fragment, ordered=True)


def _in_line(command: Command, rest: str, body: str, known: Known) -> Offer:
    if command.operands and command.operands[0].rest:
        return expression(rest.lstrip(), lambda path: _data(path, known.frame))
    *said, word = re.split(r"\s+", rest)
    options = {option.flag: option for option in command.options}
    flag, equals, value = word.partition("=")
    if equals and flag in options:
        return _values(options[flag].kind, value, said, body, known)
    if word.startswith("-"):
        left = [option.flag for option in command.options if option.many or option.flag not in said]
        return _those(word, "option", [*left, "--help"])
    if said and said[-1] in options and options[said[-1]].kind != "switch":
        return _values(options[said[-1]].kind, word, said, body, known)
    if not command.operands:
        return Offer(word)
    return _values(command.operands[0].kind, word, said, body, known)


def _values(kind: Kind, word: str, said: list[str], body: str, known: Known) -> Offer:
    match kind:
        case "flow":
            return _those(word, "flow", known.registry.flows)
        case "context":
            return _those(word, "context", known.registry.contexts)
        case "code":
            return _those(word, "code", entries())
        case "run":
            return _those(word, "run", [*(run.run_id for run in live), *known.runs()])
        case "variable":
            mappings = [name for name in _variables(known) if isinstance(known.names[name], Mapping)]
            return _those(word.lstrip("$"), "variable", mappings)
        case "new" if body == "":
            return _those(word, "variable", _variables(known))
        case "file":
            return _files(word)
        case "pair":
            key, equals, value = word.lstrip("'\"").partition("=")
            if equals:
                names = _variables(known) if value.startswith("$") else []
                return _those(value[1:], "variable", names) if names else Offer(value)
            flow = next((known.registry.flows[name] for name in said if name in known.registry.flows), None)
            inputs = [ref.path[-1] for ref in flow.inputs] if flow else INPUTS.findall(body)
            return _those(key, "input", [f"{name}=" for name in inputs])
    return Offer(word)


def _data(path: str, frame: Mapping[str, Any]) -> Iterable[Choice]:
    """The names at ``path`` in what the last run left."""
    value: Any = frame
    for part in path.split(".") if path else ():
        value = value.get(part) if isinstance(value, Mapping) else None
    if isinstance(value, Mapping):
        yield from (Choice(str(name), "name") for name in value)
    if not path:
        yield from (Choice(f"{name}(", "function") for name in WORDS.functions)


def _variables(known: Known) -> list[str]:
    return [name for name in known.names if not name.startswith("_")]


def _files(word: str) -> Offer:
    folder, _, fragment = word.rpartition("/")
    try:
        entries = sorted(os.scandir(Path(folder or ("/" if word.startswith("/") else "."))), key=lambda e: e.name)
    except (OSError, ValueError):
        return Offer(word)
    names = [entry.name + ("/" if entry.is_dir() else "") for entry in entries]
    return _those(fragment, "file", [name for name in names if name.endswith(("/", *FILES))][:MOST_FILES])


def _those(fragment: str, type: str, names: Iterable[str]) -> Offer:
    return Offer(fragment, tuple(Choice(name, type) for name in dict.fromkeys(names) if name.startswith(fragment)))
