"""Completes the lines and the bodies of our magics, for Tab.

The answer always has the fragment that it replaces, because editors end a word at a dash.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from ..catalog import Model, Registry
from ..catalog.models.model import PROVIDERS
from ..commands.line import Command, Kind, Operand
from ..commands.magics import COMMANDS
from ..commands.options import TIMES
from ..commands.values import INPUT_FILES
from ..commands.words import BegunLine, quoted, split_begun
from ..flow.progress.run_line import STATUS_WORDS
from ..flow.steps import Sequence, every
from ..languages import LANGUAGES
from ..languages.ours import OURS
from ..languages.pipeline import FUNCTION_HELP
from ..lifecycle.runs.live import live
from ..pictures.layout.arrange import DIRECTIONS
from ..settings.folders import this_notebook
from ..settings.worker_words import WORDS as WORKER_WORDS
from ..values.tables.tables import DATA_SETS, known_columns, may_have_rows
from ..values.tables.tables import FILES as TABLE_FILES
from ..workers.on import can_run
from .body import Choice, Offer, complete_blank_line, complete_body, matching, path_offer
from .error_pages import entries
from .names import EXPRESSION, NAMES, is_in_text, next_parts

MAGIC = re.compile(r"\s*+(?:[\w.,\s\[\]]++=\s*+)?%{1,2}(?P<name>\w+)[ \t](?P<rest>.*)$", re.DOTALL)
"""``%name rest``, ``%%name rest`` or ``target = %name rest``, with a blank after the name."""
FILES: Mapping[Kind, tuple[str, ...]] = {
    "file": (".yaml", ".yml", ".json", ".svg", ".dot", ".agf"),
    "input": INPUT_FILES,
    "table": (*TABLE_FILES, *DATA_SETS),
}
"""The suffixes of files that are offered, by the kind of the word; folders are offered, too."""
_MOST_FILES = 200
"""The most files and folders that are offered."""
INPUTS = re.compile(r"(?:\bctx\.|\bparent\.input\.|[†$]input\.|\{\s*state\.)(\w+)")
"""A field of the input that a text of any language reads."""
SHELL_NAMES = frozenset({"In", "Out", "get_ipython", "exit", "quit", "open"})
"""The names that IPython puts among the variables: they are offered last."""
MOST_RUNS = 20
"""Runs that are offered, the latest first."""
RESUMABLE = ("interrupted", "waiting", "error", "cancelled")
"""The states of the runs that ``%resume`` offers."""


class Surroundings(NamedTuple):
    """The state of the notebook."""

    registry: Registry
    names: Mapping[str, Any]
    """The notebook's variables."""
    frame: Mapping[str, Any]
    """The last run as an expression sees it: ctx and pipe."""
    runs: Callable[[], Iterable[tuple[str, str, str]]] = tuple
    """The id, the flow and the status of each run in the journal, the latest first."""
    lessons: Callable[[], Iterable[str]] = tuple
    """The names of the lessons."""
    servers: Callable[[], Iterable[str]] = tuple
    """The names of the connected MCP servers."""


def complete(text: str, line: int, column: int, surroundings: Surroundings) -> Offer | None:
    """The completions at the cursor of a cell; None if the cell or the line is not ours."""
    lines = text.split("\n")
    before = lines[line][:column]
    first = next((number for number, text_line in enumerate(lines) if text_line.strip()), 0)
    in_body = line > first and lines[first].startswith("%%")
    # The blank: `MAGIC` wants one after the name, and the line above a body may end with the name.
    match = MAGIC.match(lines[first] + " " if in_body else before)
    command = COMMANDS.get(match["name"]) if match else None
    if match is None or command is None or (in_body and not command.name.startswith("%%")):
        return None
    body = "\n".join(lines[first + 1 :])
    if not in_body:
        return _in_line(command, match["rest"], lines[line][column:], body, surroundings)
    above = "\n".join([*lines[first + 1 : line], before])
    below = body[len(above) :]
    inputs = re.findall(r"--set[ =]['\"]?(\w+)=", match["rest"])
    name = match["name"] if match["name"] in OURS else "pipeline"  # %%run_pipeline_inline
    language = LANGUAGES[name]
    is_planner = command.name == "%%plan" and "--planner" in match["rest"].split()

    def offered(above: str) -> Offer:
        schema: Mapping[str, Any] = language.schema or {}
        if is_planner:  # the cell has the text of a planner
            from ..languages.plan.header import HEADER_SCHEMA

            schema = HEADER_SCHEMA
        names = NAMES[language.name]
        return complete_body(above, below, inputs, schema, names, surroundings.registry)

    offer = offered(above) if before.strip() else complete_blank_line(above, offered)
    return offer if before.endswith(offer.fragment) else Offer("")  # no name has several lines


def _in_line(
    command: Command, rest: str, after: str, body: str, surroundings: Surroundings
) -> Offer:
    """The completions of the last word of a line, ``rest`` after the name of its magic. ``after``: the
    line behind the cursor."""
    if command.operands and command.operands[0].is_rest:
        path = next_parts(EXPRESSION, rest, lambda lead: _data(lead, surroundings.frame))
        return path_offer(*path) if path is not None and not is_in_text(rest) else Offer("")
    begun = split_begun(rest)
    if begun is None:
        return Offer("")
    offer = _of_word(command, begun.word.text, begun.before, body, surroundings)
    return _as_written(offer, begun, rest, after)


def _as_written(offer: Offer, begun: BegunLine, rest: str, after: str) -> Offer:
    """An offer for the text of the last word, as the line has it: with the quotes that a choice needs.
    A quote that is open is closed, unless the word goes on or the quote is there already."""
    fragment = rest[begun.word.at[len(begun.word.text) - len(offer.fragment)] :]
    if fragment != offer.fragment:  # a closed quote, or a backslash
        return Offer(fragment)
    quote = begun.quote
    close = "" if after.startswith(quote) else quote

    def written(text: str) -> str:
        if not quote:
            return quoted(text)
        return text if text.endswith(GOES_ON) else text + close

    fitting = (choice for choice in offer.choices if not quote or quote not in choice.text)
    return Offer(fragment, tuple(choice._replace(text=written(choice.text)) for choice in fitting))


GOES_ON = ("/", "=", ":")
"""The ends of choices behind which the word goes on."""


def _of_word(
    command: Command, word: str, before: list[str], body: str, surroundings: Surroundings
) -> Offer:
    """The completions of a word of a line behind the words ``before``, all without quotes."""
    options = {option.flag: option for option in command.options}
    flag, equals, value = word.partition("=")
    if equals and flag in options:
        return _values(options[flag].kind, LineWord(value, flag, before, body, surroundings))
    last = before[-1] if before else ""
    if word.startswith("-"):
        flags = [
            option.flag for option in command.options if option.many or option.flag not in before
        ]
        return _offer(word, "option", [*flags, "--help"])
    if last in options and options[last].kind != "switch":
        return _values(options[last].kind, LineWord(word, last, before, body, surroundings))
    operand = _operand(command, before)
    if operand is None:
        return Offer(word)
    return _values(operand.kind, LineWord(word, command.name, before, body, surroundings))


def _operand(command: Command, before: list[str]) -> Operand | None:
    """The kind of the next word, if it is no option; None: the command already has all its
    operands."""
    valued = {option.flag for option in command.options if option.kind != "switch"}
    words = [
        word
        for word, last in zip(before, ["", *before], strict=False)
        if word and not word.startswith("-") and last not in valued
    ]
    operands = command.operands
    if len(words) < len(operands):
        return operands[len(words)]
    return operands[-1] if operands and operands[-1].many else None


class LineWord(NamedTuple):
    """A word of a line that is completed."""

    text: str
    owner: str
    """The option or the magic whose value it is."""
    before: list[str]
    """The words before it."""
    body: str
    surroundings: Surroundings


def _values(kind: Kind, word: LineWord) -> Offer:
    """The completions of a word that is a value of this kind."""
    offer = Offer(word.text)
    if kind in _OFFERED:
        fragment = _FRAGMENT.get(kind, str)(word.text)
        offer = _offer(fragment, _SHOWN_AS.get(kind, kind), _OFFERED[kind](word))
    if kind == "pair":
        return _pair(word)
    if kind == "score":
        return _scores(word)
    if kind in FILES and not word.text.startswith("$"):
        files = _files(word.text, FILES[kind])
        return files._replace(choices=(*offer.choices, *files.choices))
    return offer


def _pair(word: LineWord) -> Offer:
    """The completions of ``key=$variable``, or of ``key=column`` for ``--map``; the keys are the inputs
    of the flow that the line names, or that the body is."""
    registry = word.surroundings.registry
    key, equals, value = word.text.partition("=")
    if equals and word.owner == "--map":
        return _offer(value, "column", _columns(word))
    if equals:
        names = _variables(word.surroundings) if value.startswith("$") else []
        return _offer(value[1:], "variable", names) if names else Offer(value)
    flow = next((registry.flows[name] for name in word.before if name in registry.flows), None)
    inputs = [ref.path[-1] for ref in flow.inputs] if flow else INPUTS.findall(word.body)
    return _offer(key, "input", [f"{name}=" for name in inputs])


def _steps(word: LineWord) -> Iterable[str]:
    """The ids of the steps of the run that the line names."""
    flows = word.surroundings.registry.flows
    for id, name, _ in word.surroundings.runs():
        if any(part and (name == part or id.startswith(part)) for part in word.before):
            body = [*every(flows[name].body)] if name in flows else []
            return [step.id for step in body if not isinstance(step, Sequence)]
    return ()


def _runs(word: LineWord) -> list[str]:
    """The latest runs that begin with the word, those that fit the magic or the option first; for
    ``%resume`` no others."""
    started = ((run.run_id, run.name, run.status) for run in reversed(tuple(live)))
    runs = dict.fromkeys([*started, *word.surroundings.runs()])
    fits: Mapping[str, Callable[[str, str], bool]] = {
        "%resume": lambda name, status: status in RESUMABLE,
        "%answer": lambda name, status: status == "running",
        "--cancel": lambda name, status: status == "running",
        "--reuse": lambda name, status: name in word.before,
    }
    fit = fits.get(word.owner)
    fitting = dict[str, bool]()
    for id, name, status in runs:
        if id.startswith(word.text):
            # A run of this process comes first; the journal may have an older status of it.
            fitting.setdefault(id, fit is None or fit(name, status))
    if word.owner == "%resume":
        fitting = {id: True for id, fits_it in fitting.items() if fits_it}
    return sorted(fitting, key=lambda id: not fitting[id])[:MOST_RUNS]


def _data(lead: str, frame: Mapping[str, Any]) -> Iterable[str]:
    """The paths that begin with ``lead`` in the last run, and the functions of an expression."""
    value: Any = frame
    for part in lead.split(".")[:-1]:
        value = value.get(part) if isinstance(value, Mapping) else None
    names = value if isinstance(value, Mapping) else ()
    return [*(f"{lead}{name}" for name in names), *(f"{name}(" for name in FUNCTION_HELP)]


def _models(surroundings: Surroundings) -> list[str]:
    """The chosen model, and the variables that are model objects, as an option names them."""
    chosen = surroundings.registry.model
    models = _variables_with(
        surroundings, lambda value: isinstance(value, Model) or hasattr(value, "model_name")
    )
    names = [f"${name}" for name in models]
    return [*([chosen.name] if chosen is not None and chosen.address is not None else []), *names]


_OFFERED: Mapping[Kind, Callable[[LineWord], Iterable[str]]] = {
    "flow": lambda word: word.surroundings.registry.flows,
    "tool": lambda word: [*word.surroundings.registry.tools, *word.surroundings.registry.agents],
    "tools": lambda word: [*word.surroundings.registry.tools, *word.surroundings.registry.flows],
    "model": lambda word: [
        *_models(word.surroundings),
        *(f"{provider}:" for provider in PROVIDERS),
    ],
    "context": lambda word: word.surroundings.registry.contexts,
    "code": lambda word: entries(),
    "lesson": lambda word: word.surroundings.lessons(),
    "status": lambda word: STATUS_WORDS,
    "direction": lambda word: DIRECTIONS,
    "time": lambda word: TIMES,
    "notebook": lambda word: filter(None, [Path(this_notebook()).name]),
    "run": _runs,
    "step": _steps,
    "workers": lambda word: [*WORKER_WORDS, *_variables_with(word.surroundings, can_run)],
    "input": lambda word: _variables_with(
        word.surroundings, lambda value: isinstance(value, Mapping)
    ),
    "table": lambda word: _variables_with(word.surroundings, may_have_rows),
    "column": lambda word: _columns(word),
    "server": lambda word: ["connect"] * (not word.before) + [*word.surroundings.servers()],
    "new": lambda word: [
        name
        for name in _variables_with(word.surroundings, lambda value: not _is_code(value))
        if name not in SHELL_NAMES
    ],
}
"""The possible words of a kind."""

_SHOWN_AS: Mapping[Kind, str] = {
    "tools": "tool",
    **dict.fromkeys(("new", "input", "table"), "variable"),
}
"""The kind in the popup, where it is another one."""

_FRAGMENT: Mapping[Kind, Callable[[str], str]] = {
    "tools": lambda word: word.rpartition(",")[2],
    **dict.fromkeys(("workers", "input", "table"), lambda word: word.lstrip("$")),
}
"""The part of a word that is completed, where it is not the whole."""


def _variables_with(surroundings: Surroundings, fits: Callable[[Any], bool]) -> list[str]:
    """The variables with values that fit."""
    return [name for name in _variables(surroundings) if fits(surroundings.names[name])]


def _variables(surroundings: Surroundings) -> list[str]:
    """The data of the user first, then functions and modules, and IPython's own names last."""
    names = [name for name in surroundings.names if not name.startswith("_")]
    return sorted(names, key=lambda name: (name in SHELL_NAMES, _is_code(surroundings.names[name])))


def _is_code(value: Any) -> bool:
    return callable(value) or isinstance(value, ModuleType)


def _scores(word: LineWord) -> Offer:
    """The functions and the flows that can score."""
    fitting = _variables_with(word.surroundings, _may_score)
    functions = [name for name in fitting if name not in SHELL_NAMES]
    flows = word.surroundings.registry.flows
    choices = [Choice(name, "function") for name in functions]
    return matching(word.text.lstrip("$"), [*choices, *(Choice(name, "flow") for name in flows)])


def _may_score(value: Any) -> bool:
    """Whether a value is a function of the user, or an Evaluator of pydantic-evals."""
    is_ours = str(getattr(value, "__module__", "")).partition(".")[0] == "agf_magics"
    return (isinstance(value, FunctionType) and not is_ours) or hasattr(type(value), "evaluate")


def _columns(word: LineWord) -> list[str]:
    """The columns of the table that the line names with ``--over``."""
    words = pairwise([word_before for text in word.before for word_before in _parted(text)])
    name = next((name.lstrip("$") for flag, name in words if flag == "--over"), "")
    return known_columns(word.surroundings.names.get(name))


def _parted(word: str) -> list[str]:
    """``--over=rows`` as the two words that it stands for."""
    return word.split("=", 1) if word.startswith("--") else [word]


def _files(word: str, suffixes: tuple[str, ...]) -> Offer:
    folder, _, fragment = word.rpartition("/")
    try:
        entries = sorted(
            os.scandir(Path(folder or ("/" if word.startswith("/") else "."))), key=lambda e: e.name
        )
    except (OSError, ValueError):
        return Offer(word)
    names = [entry.name + ("/" if entry.is_dir() else "") for entry in entries]
    fitting = [name for name in names if name.endswith(("/", *suffixes))]
    if not fragment:
        fitting = [name for name in fitting if not name.startswith((".", "__pycache__"))]
    return _offer(fragment, "file", fitting[:_MOST_FILES])


def _offer(fragment: str, type: str, names: Iterable[str]) -> Offer:
    return matching(fragment, [Choice(name, type) for name in names])
