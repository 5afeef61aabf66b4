"""Programs, elements and answers as bytes, with rules for what `pickle` and cloudpickle do not send
well.

A function of this package that has no name of its own (a lambda of a language) is sent as its code
and its closure, and uses the globals of its module on the worker: a copy of them would have other
sentinels, and `is` would fail. A source is sent once, and answers name it by its number. A failure
keeps its cause, which Python's own pickle drops.

The answer of a worker for a chunk of elements, checked: a damaged one raises, and nothing of it
is used.
"""

from __future__ import annotations

import importlib
import marshal
import pickle
import re
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Annotated, Any, Literal, NamedTuple, Protocol, get_args

from ..catalog import digests
from ..catalog.tools import Arguments, names_around
from ..engine.runner import CallSite, Scope
from ..flow import events as ev
from ..flow.steps import Each
from ..journal.codec import checker
from ..journal.collected import Collected, CollectedRecords
from ..text.diagnostics import Source, StepError
from .chunk import described, reduce_exception
from .sending import HEAVY, asking, by_value_pickler, dumped, dumped_by_value, raised_there

PACKAGE = __name__.partition(".")[0]

WORD = re.compile(r"[^\W\d]\w*")

_sources: ContextVar[Sequence[Source]] = ContextVar("sources", default=())
"""The sources that numbers mean while an answer is read."""


class Unreadable(Exception):
    """A program means something else on this worker than in the kernel."""


# --- programs ---


def dump_program(program: Any, modules: Sequence[str]) -> bytes:
    """A program; the notebook's own ``modules`` travel by value. Raises whatever pickling
    raises, and ValueError for a heavy one."""
    # Bounded: a table of 100 MB in its frame was pickled and copied in vain.
    return dumped_by_value(program, modules, asking(by_value_pickler(), _reduce_program), HEAVY)


def _reduce_program(thing: Any) -> Any:
    kind = type(thing)
    if kind is types.FunctionType and _is_nameless(thing):
        return _reduce_function(thing)
    if kind is Arguments:
        return _reduce_arguments(thing)
    return NotImplemented


def _is_nameless(function: types.FunctionType) -> bool:
    """Whether a function of this package cannot be imported by its name."""
    module = function.__globals__.get("__name__")
    if not isinstance(module, str) or module.partition(".")[0] != PACKAGE:
        return False
    return (
        "<" in function.__qualname__
        or getattr(sys.modules.get(module), function.__qualname__, None) is not function
    )


def _reduce_function(function: types.FunctionType) -> Any:
    module = function.__globals__["__name__"]
    cells = tuple(_content(cell) for cell in function.__closure__ or ())
    state = (
        function.__defaults__,
        function.__kwdefaults__,
        cells,
        function.__dict__,
        function.__name__,
    )
    # By marshal, as both sides have the same Python: cloudpickle would copy the globals too.
    code = marshal.dumps(function.__code__)
    return (
        _new_function,
        (module, code, function.__qualname__, len(cells)),
        state,
        None,
        None,
        _fill_function,
    )


def _content(cell: Any) -> tuple[Any, ...]:
    try:
        return (cell.cell_contents,)
    except ValueError:  # not bound yet
        return ()


def _new_function(module: str, code: bytes, qualname: str, cells: int) -> types.FunctionType:
    found = vars(importlib.import_module(module))
    closure = tuple(types.CellType() for _ in range(cells)) or None
    function = types.FunctionType(marshal.loads(code), found, None, None, closure)
    function.__qualname__, function.__module__ = qualname, module
    return function


def _fill_function(function: types.FunctionType, state: Any) -> None:
    function.__defaults__, function.__kwdefaults__, cells, attributes, function.__name__ = state
    function.__dict__.update(attributes)
    for cell, content in zip(function.__closure__ or (), cells, strict=True):
        if content:
            cell.cell_contents = content[0]


def _reduce_arguments(arguments: Arguments) -> Any:
    """What makes them, and what the worker must find: another schema would check other things."""
    function = arguments._function
    more = dict(_annotated(function))
    given = (function, arguments._what, arguments.secret, arguments._unchecked)
    return _read_arguments, (*given, more, arguments.schema, arguments.problems)


def _read_arguments(
    function: Any,
    what: str,
    secret: Any,
    unchecked: Any,
    names: dict[str, Any],
    schema: Any,
    problems: Any,
) -> Arguments:
    around = names_around(function)
    for name, value in names.items():
        around.setdefault(name, value)
    made = Arguments(function, what, secret=secret, unchecked=unchecked)
    if made.schema != schema or made.problems != problems:
        raise Unreadable(f"the annotations of {what} mean something else here")
    return made


def _annotated(function: Any) -> Iterator[tuple[str, Any]]:
    """The globals that annotations of a notebook's function name in texts: cloudpickle does not see
    them."""
    around = names_around(function)
    if not digests.is_ours(str(around.get("__name__", "builtins"))):
        return
    inner = getattr(function, "__func__", function)
    for annotation in (getattr(inner, "__annotations__", None) or {}).values():
        for word in WORD.findall(annotation) if isinstance(annotation, str) else ():
            if word in around:
                yield word, around[word]


# --- elements and answers ---


def dump_plain(value: Any, sources: Sequence[Source] = (), modules: Sequence[str] = ()) -> bytes:
    """Elements, or an answer: plain pickle, and cloudpickle for what only this process knows, such
    as the notebook's own ``modules``."""
    numbers = {id(source): number for number, source in enumerate(sources)}

    def reduce(thing: Any) -> Any:
        if isinstance(thing, StepError):
            return _reduce_error(thing)
        if type(thing) is Source and id(thing) in numbers:
            return _source, (numbers[id(thing)],)
        return reduce_exception(thing)

    return dumped(value, modules, reduce)


def load_plain(data: bytes, sources: Sequence[Source] = ()) -> Any:
    # In a context variable: reading may run on any thread, and nested.
    before = _sources.set(sources)
    try:
        return pickle.loads(data)
    finally:
        _sources.reset(before)


def _source(number: int) -> Source:
    return _sources.get()[number]


def _reduce_error(error: StepError) -> Any:
    cause = error.__cause__
    packed = described(cause, dump_plain) if cause is not None else None
    state = (
        *(error.path, error.where, error.arguments, error.partial),
        *(error.is_unknown_name, packed),
    )
    return _new_error, (type(error), tuple(error.diagnostics)), state, None, None, _fill_error


def _new_error(kind: Any, diagnostics: tuple[Any, ...]) -> StepError:
    # The answer names the class: any other one would be called with arguments of a stranger.
    if not (isinstance(kind, type) and issubclass(kind, StepError)):
        raise TypeError("a failure is a StepError")
    # A subclass of a user has an __init__ of its own.
    error = kind.__new__(kind, *diagnostics)
    error.diagnostics = diagnostics
    return error


def _fill_error(error: StepError, state: tuple[Any, ...]) -> None:
    error.path, error.where, error.arguments, error.partial, is_unknown_name, packed = state
    error.is_unknown_name = is_unknown_name is True
    if packed is not None:
        error.__cause__ = raised_there(*packed)


SENT = frozenset(get_args(ev.Event)) - {ev.RunStarted, ev.RunEnded}
"""The events that a worker may send."""


class Unread(Exception):
    """There is no answer, or the kernel cannot unpickle it, for example because a library is missing
    here."""


class Reader(Protocol):
    """The fan-out that an answer is for."""

    each: CallSite[Each]
    inside: Scope
    records: CollectedRecords | None
    path: ev.StepPath


ElementAnswer = tuple[bool, Any, list[ev.Event], list[Collected]]
"""Whether an element has a value; the value or the failure; its events; its records."""


class Answered(NamedTuple):
    elements: list[tuple[int, ElementAnswer]]
    """With their numbers."""
    counts: Mapping[tuple[str, ...], tuple[int, int]] | None
    """The starts and the ends of each row; None: all events are there."""
    calls: int
    began: float
    """By the clock of the worker, as ``ended``."""
    ended: float
    seconds: float
    weight: int
    """In bytes."""
    prints: list[tuple[str, str]]
    """The stream and the text."""


class Shift(NamedTuple):
    """The difference between the clocks of the kernel and of a worker, in seconds."""

    by: float

    @staticmethod
    def between(sent: float, landed: float, began: float, ended: float) -> Shift:
        """The difference lies between two bounds: a chunk begins after it was sent, and ends before
        it has landed. It is 0 if that is possible: then both use the clock of one machine."""
        least, most = sent - began, landed - ended
        return Shift(0.0 if least <= 0 <= most else most)

    def of(self, when: float) -> float:
        return when + self.by

    def event(self, event: ev.Event) -> ev.Event:
        when: Any = getattr(event, "when")  # noqa: B009  # all events have it
        return event._replace(when=when + self.by)


_Count = Annotated[int, lambda number: number >= 0]
_Time = Annotated[float, lambda when: -1e15 < when < 1e15]

_is_time = checker(_Time)
_stays = checker(tuple[Literal["no"], object, object, object, object])
"""Whether a worker cannot run the program: the kernel then sends calls."""
_is_outcome = checker(
    tuple[Literal["ok"], bytes, _Time, list[tuple[object, object, object]], object]
)
_is_answer = checker(
    tuple[
        Annotated[list, bool],  # type: ignore[type-arg]
        object,
        _Count,
        _Time,
        _Time,
    ]
)
"""The fields of `element_chunk.Answer`. `_check` has those of its elements: for thousands of them,
it takes a tenth of the time."""
_is_count = checker(Annotated[tuple[_Count, _Count], lambda count: count[1] <= count[0]])


def read_answer(
    outcome: Any, numbers: Sequence[int], reader: Reader, sources: Sequence[Source]
) -> Answered:
    """An answer, checked. Raises Unread for bytes that cannot be read here, else whatever a wrong
    form raises."""
    if _stays(outcome):
        raise Unread
    if not _is_outcome(outcome):
        raise ValueError("it has another form")
    _, data, seconds, prints, _ = outcome
    try:
        answer = load_plain(data, sources)
    except BaseException as error:
        # Reading a pickle can raise SystemExit too.
        raise Unread from error
    if not _is_answer(answer):
        raise ValueError("it has another form")
    elements, counts, calls, began, ended = answer
    if len(elements) > len(numbers) or began > ended:
        raise ValueError("it has too many elements, or its end is before its begin")
    found = list(zip(numbers, elements, strict=False))
    for i, element in found:
        _check(i, element, reader)
    if len(found) < len(numbers) and elements[-1][0]:
        raise ValueError("elements are missing")
    return Answered(
        found,
        _counts(counts, reader),
        calls,
        began,
        ended,
        seconds,
        len(data),
        [(str(stream), str(text)) for _, stream, text in prints],
    )


def _check(i: int, element: Any, reader: Reader) -> None:
    """Raise unless this is an answer for element ``i``."""
    if type(element) is not tuple:
        raise ValueError("an element has another form")
    ok, value, events, records = element
    # A CancelledError or KeyboardInterrupt would end the run as if the person had.
    if type(ok) is not bool or type(events) is not list or not (ok or isinstance(value, Exception)):
        raise ValueError("an element has neither a value nor a failure")
    for event in events:
        at = getattr(event, "at", None)
        is_inside = at is None or _is_inside(at, i, reader)
        if type(event) not in SENT or not _is_time(event.when) or not is_inside:
            raise ValueError("an event is unknown, or belongs to another element")
    if reader.records is not None:
        reader.records.check(records)
    elif records:
        raise ValueError("there are records of a run that is not journaled")


def _is_inside(at: Any, i: int, reader: Reader) -> bool:
    """Whether a path is the one of element ``i``, or inside it."""
    depth, index = len(reader.inside.before), (*reader.each.index, i)
    if (
        type(at) is not tuple
        or at[:depth] != reader.inside.before
        or at[depth + 1 : depth + 1 + len(index)] != index
    ):
        return False
    ids = tuple(bit for bit in at if type(bit) is str)
    progress = reader.each.run.progress
    return progress is None or ids in progress


def _counts(counts: Any, reader: Reader) -> Mapping[tuple[str, ...], tuple[int, int]] | None:
    progress = reader.each.run.progress
    if progress is None:
        if counts is not None:
            raise ValueError("it has numbers instead of events")
        return None
    # A row that the run does not have would be drawn for ever.
    for key, count in counts.items():
        if key not in progress or not _is_count(count):
            raise ValueError("it counts an unknown step")
    return dict(counts)
