"""Completes the lines and the bodies of our magics, for Tab.

The answer always has the fragment that it replaces, because editors end a word at a dash.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from ..catalog import Model, Registry
from ..catalog.models.model import PROVIDERS
from ..commands.line import Command, Kind, Operand
from ..commands.magics import COMMANDS
from ..commands.options import TIMES
from ..flow.progress.run_line import STATUS_WORDS
from ..flow.steps import Sequence, every
from ..languages import LANGUAGES
from ..languages.ours import OURS
from ..languages.pipeline import FUNCTION_HELP
from ..lifecycle.runs.live import live
from ..pictures.layout.arrange import DIRECTIONS
from ..settings.folders import this_notebook
from ..settings.worker_words import WORDS as WORKER_WORDS
from ..workers.on import can_run
from .body import Choice, Offer, complete_blank_line, complete_body, matching, path_offer
from .error_pages import entries
from .names import EXPRESSION, NAMES, is_in_text, next_parts

MAGIC = re.compile(r"\s*+(?:[\w.,\s\[\]]++=\s*+)?%{1,2}(?P<name>\w+)[ \t](?P<rest>.*)$", re.DOTALL)
"""``%name rest``, ``%%name rest`` or ``target = %name rest``, with a blank after the name."""
FILES = (".yaml", ".yml", ".json", ".svg", ".dot", ".agf")
"""The suffixes of files that are offered; folders are offered, too."""
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
        return _in_line(command, match["rest"], body, surroundings)
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


def _in_line(command: Command, rest: str, body: str, surroundings: Surroundings) -> Offer:
    """The completions of the last word of a line, ``rest`` after the name of its magic."""
    if command.operands and command.operands[0].is_rest:
        path = next_parts(EXPRESSION, rest, lambda lead: _data(lead, surroundings.frame))
        return path_offer(*path) if path is not None and not is_in_text(rest) else Offer("")
    *before, word = re.split(r"\s+", rest)
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
    if kind in _OFFERED:
        fragment = _FRAGMENT.get(kind, str)(word.text)
        return _offer(fragment, _SHOWN_AS.get(kind, kind), _OFFERED[kind](word))
    if kind == "file":
        return _files(word.text)
    if kind == "pair":
        return _pair(word)
    return Offer(word.text)


def _pair(word: LineWord) -> Offer:
    """The completions of ``key=$variable``; the keys are the inputs of the flow that the line names,
    or that the body is."""
    registry = word.surroundings.registry
    key, equals, value = word.text.lstrip("'\"").partition("=")
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
    "variable": lambda word: _variables_with(
        word.surroundings, lambda value: isinstance(value, Mapping)
    ),
    "server": lambda word: ["connect"] * (not word.before) + [*word.surroundings.servers()],
    "new": lambda word: _variables(word.surroundings) if word.body == "" else (),
}
"""The possible words of a kind."""

_SHOWN_AS: Mapping[Kind, Kind] = {"tools": "tool", "new": "variable"}
"""The kind in the popup, where it is another one."""

_FRAGMENT: Mapping[Kind, Callable[[str], str]] = {
    "tools": lambda word: word.rpartition(",")[2],
    "step": lambda word: word.lstrip("'\""),
    "workers": lambda word: word.lstrip("$"),
    "variable": lambda word: word.lstrip("$"),
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


def _files(word: str) -> Offer:
    folder, _, fragment = word.rpartition("/")
    try:
        entries = sorted(
            os.scandir(Path(folder or ("/" if word.startswith("/") else "."))), key=lambda e: e.name
        )
    except (OSError, ValueError):
        return Offer(word)
    names = [entry.name + ("/" if entry.is_dir() else "") for entry in entries]
    return _offer(
        fragment, "file", [name for name in names if name.endswith(("/", *FILES))][:_MOST_FILES]
    )


def _offer(fragment: str, type: str, names: Iterable[str]) -> Offer:
    return matching(fragment, [Choice(name, type) for name in names])
