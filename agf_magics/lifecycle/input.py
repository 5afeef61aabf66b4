"""What a run gets of a person: its options, its input, and the answers to its questions.

`RunOptions` is what `run`, `arun`, `start`, `resume` and the notebook pass on. The input is copied
and checked before the first step.

An answer is typed in a cell, in a terminal, or comes through a pipe. The question is repeated until
the answer is understood. If no one can answer (no standard input, or its end), the engine denies an
approval and lets a run wait (decision A18).
"""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeVar

from ..catalog import Registry, Tool
from ..engine.failures import describe_exception
from ..engine.host import Asker, NoUser, runs_on_workers
from ..engine.limits import Budget, Limits
from ..engine.linked import Linked
from ..engine.runner import Recording, clock
from ..flow.events import Event, Question, Warned
from ..flow.steps import Flow
from ..flow.values import TooDeep, Value, settle, type_name
from ..flow.wiring import follow, wires
from ..pictures.plain import line, plain
from ..text.diagnostics import (
    DefinitionError,
    Diagnostic,
    Diagnostics,
    Source,
    Span,
    misspelled_names,
    suggest,
)
from ..text.nodes import Fields
from ..text.nodes import plain as plain_value
from ..text.yamlnodes import documents
from ..workers.backend import Need, WorkerBackend, find_problems
from ..workers.on import find_backend
from .settings import current


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How a run is made and driven."""

    registry: Registry | None = None
    """None: the registry of this process."""
    limits: Limits | None = None
    """None: those of the settings; for a resumed run, the original ones."""
    on_event: Callable[[Event], None] | None = None
    stream: bool = False
    """Whether the text of models is reported while it arrives."""
    queue: bool = False
    """Whether the events wait for `Run.events`."""
    ask: Asker | None = None
    """Puts a question to a person; None: the notebook or the terminal asks."""
    dry: bool = False
    on: object = None
    """Where concurrent calls run: see `workers.on`; None: in this process."""
    reuse: bool | str = False
    """Whether to reuse earlier results: of the run with this id; True: of the latest runs of the
    flow."""
    background: bool = False
    """Whether no caller waits for the run. Otherwise the caller must `wait`: it runs the plain
    functions."""
    inline: bool = False
    """Whether the flow is not registered and must pass the static gate."""
    enter: Callable[[], None] | None = None
    """Called once, in the context of the run, before its first step: it reserves the place of the
    output."""
    shown: tuple[Diagnostic, ...] = ()
    """Warnings that the person has already seen; the run does not repeat them."""
    answer: Value = None
    """Of a resumed run: the answer to the question that it waits for; None: ask."""
    budget: Budget | None = None
    """What earlier runs have used of the limits, which this run continues; None: its own."""
    secrets: tuple[Value, ...] = ()
    """Values that are secret from the start, whichever tool receives them."""
    plans: bool = False
    """Whether the run asks a model for a plan: its trace says so."""
    continuing: Callable[[str], str] | None = None
    """What a person writes to continue a run with this status; None: the run is resumed by its
    id."""
    note: str = ""
    """What a person must know about the run, as a part of its note."""
    found: tuple[Diagnostic, ...] = ()
    """Warnings about its input."""
    recording: Recording | None = None
    """The calls that the run replays; None: those of the `replay` around it."""
    trust: bool = False
    """Of a resumed run: whether to unpickle values that are not signed by the user."""

    def __post_init__(self) -> None:
        limits: object = self.limits
        if not isinstance(limits, Limits | None):
            pairs = fields_of(limits).items()
            write = ", ".join(f"{name}={most!r}" for name, most in pairs) or "timeout=…"
            raise TypeError(f"limits takes an agf.Limits: write limits=agf.Limits({write})")


DEFAULTS = RunOptions()

replaying: ContextVar[Recording | None] = ContextVar("replaying", default=None)
"""The recording that runs replay here, also those that a tool of such a run starts."""


def find_workers(
    options: RunOptions, linked: Linked
) -> tuple[WorkerBackend | None, tuple[Warned, ...]]:
    """The worker backend of a run, None: this process; and warnings about it. Raises
    DefinitionError.

    A run that a tool starts follows the settings, not the run around it; a dry run has no workers.
    """
    wanted = _wanted(options)
    backend = find_backend(wanted) if wanted is not None else None
    if backend is None:
        return None, ()
    problems = Diagnostics()
    needs = [
        Need(callee.name, callee.resources, bool(callee.secret), span)
        for callee, span in linked.every_callee
        if isinstance(callee, Tool) and runs_on_workers(callee)
    ]
    problems.extend(find_problems(backend, needs))
    problems.refuse()
    return backend, tuple(Warned(clock(), problem) for problem in problems)


def _wanted(options: RunOptions) -> object:
    if options.dry:
        return None
    return options.on if options.on is not None else current.settings.on or None


async def prepare_workers(options: RunOptions) -> RunOptions:
    """``options`` with the worker backend in place of its name: a loop must not wait for a
    connection."""
    if _wanted(options) is None:
        return options
    return replace(options, on=await asyncio.to_thread(find_backend, _wanted(options)) or "here")


R = TypeVar("R")


def fields_of(input: Value) -> Mapping[str, Value]:
    """The named values of an input; none if it is no mapping."""
    return input if isinstance(input, dict) else {}


def settle_input(input: Value, flow: Flow) -> Value:
    """A copy of an input of ``flow``, checked. Raises DefinitionError."""
    if input is None:
        return {}
    if isinstance(input, Mapping) or flow.declared.accepts is None:
        return settle_fields(input, read_names(flow))
    return _settle(lambda: settle(input))  # the definition's interface checks it


def settle_fields(input: Value, names: Iterable[str] = ()) -> dict[str, Value]:
    """A copy of a mapping of names to values; ``names``: some that it may have. Raises
    DefinitionError."""
    if not isinstance(input, Mapping) or not all(isinstance(key, str) for key in input):
        message = f"the input must be a mapping of names to values, not {type_name(input)}"
        name = next(iter(names), "word")
        raise DefinitionError(Diagnostic("run.input", message, hint=f"write {{{name!r}: …}}"))
    return _settle(lambda: {str(key): settle(value) for key, value in input.items()})


LATER = "no step writes it before this one; in a fold, acc is the value so far"


def missing_fields(flow: Flow, given: Mapping[str, Value]) -> Sequence[Diagnostic]:
    """A problem for each required field of the input of ``flow`` that ``given`` lacks."""
    absent = [ref for ref in flow.inputs if ref.certain and ref.path[-1] not in given]
    if not absent:
        return ()
    missing = []
    # The hint of a warning about the same token is more specific.
    hints = {
        warning.span.text.rpartition(".")[2]: warning.hint
        for warning in reversed(flow.warnings)
        if warning.span is not None
    }
    written = [write.store for write in follow(flow).writes]
    for ref in absent:
        name = ref.path[-1]
        otherwise = filter(None, (suggest(name, written), _give(name, ref.span)))
        hint = (
            hints.get(name)
            or suggest(name, given)
            or (LATER if name in written else " else ".join(otherwise))
        )
        message = f"{flow.name!r} reads {name!r}, which the input lacks"
        missing.append(Diagnostic("run.missing-input", message, ref.span, hint))
    return missing


def unused_fields(flow: Flow, given: Mapping[str, Value]) -> Iterator[Diagnostic]:
    """A warning for each field of ``given`` that ``flow`` does not read; where it reads the whole
    input too, for each name that looks like one of these.

    Where a language does not say all that its steps read (a function of a graph gets the whole
    state), only for a field that looks like one that is read and is not given.
    """
    # Of most runs: the reads of a large definition then need not be followed at each start.
    if given.keys() == {ref.path[-1] for ref in flow.inputs}:
        return
    read = set(read_names(flow))
    whole = "".join(flow.dialect.stores[-1:]) in read
    left = sorted(read - given.keys())
    # Where a warning of the definition names the misspelt word, a second one would hint the reverse.
    named = [warning.span.text for warning in flow.warnings if warning.span is not None]
    unread = sorted(given.keys() - read - misspelled_names(named, given))
    if whole:  # nothing is unread, so the name that is read is wrong
        for ref in flow.inputs:
            name, hint = ref.path[-1], suggest(ref.path[-1], unread)
            if name not in given and hint is not None:
                message = f"{flow.name!r} reads {name!r}, which the input lacks"
                yield Diagnostic("run.missing-input", message, ref.span, hint, "warning")
        return
    for name in unread:
        hint = suggest(name, left)
        told = not read and flow.warnings  # probably of the text that was meant to read it
        if hint is None and (told or not flow.dialect.reads_are_complete):
            continue
        message = f"{flow.name!r} does not read {name!r}, which the input has"
        yield Diagnostic("run.unused-input", message, None, hint, "warning")


def read_names(flow: Flow) -> Iterator[str]:
    """The fields of the input that steps of ``flow`` read or that it declares; some of them more
    than once."""
    yield from filter(None, (ref.path[-1] for ref in flow.inputs))
    outside = (wire.name.partition(" → ")[0] for wire in wires(flow) if not wire.source)
    fields = (name.removeprefix("†").removeprefix("input.").split(".")[0] for name in outside)
    yield from filter(None, fields)
    declared = (flow.declared.accepts or {}).get("properties")
    yield from declared if isinstance(declared, Mapping) else ()


def _settle(copy: Callable[[], R]) -> R:
    try:
        return copy()
    except Exception as error:  # it contains itself, or a user's class that raises
        why = str(error) if isinstance(error, TooDeep) else describe_exception(error)
        raise DefinitionError(Diagnostic("run.input", f"the input cannot be used: {why}")) from None


def _give(name: str, span: Span | None) -> str:
    bare = f" If it is text, write \"'{name}'\"." if span and span.text == name else ""
    return f"give it: {current.words.give.format(name)}.{bare}"


ANSWERS = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}


TRIES = 20
"""The number of answers that are tried: a pipe may send anything."""


def ask_at_prompt(
    question: Question,
    *,
    say: Callable[[str], object] = print,
    read: Callable[[str], str] | None = None,
) -> Value:
    """Ask, and return the answer: for an approval True, False, or a mapping of changed arguments;
    one of the choices; else the text. Raises NoUser."""
    say(format_question(question))
    for _ in range(TRIES):
        answer = parse_answer(question, _read(read or builtins.input, _prompt(question)))
        if answer is not None:
            return answer
        say(f"please answer {_prompt(question).strip()}")
    raise NoUser(f"none of {TRIES} answers was understood")


def format_question(question: Question) -> str:
    """The question as shown, without control characters."""
    text = plain(question.text, 4_000)
    choices = [
        f"  {number}. {line(choice, 200)}" for number, choice in enumerate(question.choices, 1)
    ]
    return "\n".join([text, *choices])


def parse_answer(question: Question, text: str) -> Value:
    """The answer that ``text`` gives; None if it is not an answer to this question.

    >>> parse_answer(Question("Which?", ("red", "green")), "2")
    'green'
    >>> parse_answer(Question("pay(amount=5)?", approval=True, arguments={"amount": 5}), "{amount: 3}")
    {'amount': 3}
    """
    text = text.strip()
    if question.approval:
        answer = ANSWERS.get(text.lower())
        return _mapping(text) if answer is None and question.arguments is not None else answer
    if not question.choices:
        return text
    return _choice(text, question.choices)


def _mapping(text: str) -> Value:
    """The changed arguments of a call, as YAML or JSON: ``{amount: 3}`` or ``amount: 3``."""
    problems = Diagnostics()
    nodes = documents(Source("", text), problems)
    mapping = (
        plain_value(nodes[0])
        if not problems.errors and len(nodes) == 1 and isinstance(nodes[0], Fields)
        else None
    )
    return mapping or None


def _choice(text: str, choices: Sequence[str]) -> str | None:
    """The choice with this text, this number, or (if there is only one) this beginning."""
    numbered = {str(number): choice for number, choice in enumerate(choices, 1)}
    exact = numbered | dict(zip(choices, choices, strict=True))
    if text in exact:
        return exact[text]
    near = [choice for choice in choices if text and choice.lower().startswith(text.lower())]
    return near[0] if len(near) == 1 else None


def _prompt(question: Question) -> str:
    if question.approval and question.arguments is not None:
        # A changed call: ``{amount: …}``, ``{_output: …}``.
        names = [*islice(question.arguments, 1), question.result]
        return f"yes, no, {' or '.join(f'{{{line(name, 40)}: …}}' for name in names)}: "
    if question.approval:
        return "yes or no: "
    return f"1 to {len(question.choices)}: " if question.choices else "your answer: "


def _read(read: Callable[[str], str], prompt: str) -> str:
    try:
        return read(prompt)
    except (EOFError, OSError, RuntimeError) as error:  # no input, or its end
        raise NoUser("there is no user to answer") from error
