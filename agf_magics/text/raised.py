"""Reads the exceptions of foreign code so that the reading itself never raises.

The class of a user's exception may run any code: its ``__str__``, its ``__getattr__``, a property
``__notes__``, ``__cause__`` or even ``__class__`` can raise, and a run would end with that second
error instead of the first (CPython guards the same reads in its tracebacks). So this module takes
an exception's kind from its type, as ``except`` does, reads the fields of `BaseException` past any
property, and guards all other reads. No other module reads them.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeGuard, TypeVar

from .length import UNWRITTEN, can_write

E = TypeVar("E", bound=BaseException)

_CAUSE, _CONTEXT, _TRACE, _ARGS = (
    vars(BaseException)[name] for name in ("__cause__", "__context__", "__traceback__", "args")
)
_NAME = vars(type)["__name__"]
_MEMBERS = vars(BaseExceptionGroup)["exceptions"]

RAISED = (Exception, SystemExit)
"""The exceptions that a user's code may raise in ours, except the interrupt of a person."""

LONGEST_READ = 100_000_000
"""The largest number of characters that Python may write before the text is cut."""

MOST = 500
"""The largest number of characters of an exception's text in a message."""


def is_a(error: BaseException | None, kinds: type[E] | tuple[type[E], ...]) -> TypeGuard[E]:
    """``isinstance`` by the type alone, without the object's own ``__class__``.

    >>> class Liar(ValueError):
    ...     __class__ = property(lambda self: 1 / 0)
    >>> is_a(Liar(), ValueError), is_a(Liar(), KeyError)
    (True, False)
    """
    try:
        return issubclass(type(error), kinds)
    except BaseException:  # the metaclass of a class that a user gives in Retry(on=…)
        return False


def kind_of(error: BaseException) -> str:
    """The name of the class of ``error``."""
    name: str = _NAME.__get__(type(error))
    return name


def attribute(thing: object, name: str, otherwise: Any = None) -> Any:
    """The attribute ``name`` of ``thing``, which a user's class may compute; ``otherwise`` if that
    raises."""
    try:
        return getattr(thing, name, otherwise)
    except BaseException:
        return otherwise


def text_of(error: object, otherwise: str | None = None) -> str:
    """The text of ``error``. If it cannot be read or is nearly endless, ``otherwise``; default: a
    text that says so."""
    if not can_write(error, LONGEST_READ):
        return UNWRITTEN
    try:
        return str.__str__(str(error))  # a plain str, even if `__str__` returns a subclass
    except BaseException as worse:
        return f"(its text cannot be read: {kind_of(worse)})" if otherwise is None else otherwise


def notes_of(error: BaseException) -> tuple[str, ...]:
    """The notes that ``add_note`` added to ``error``."""
    notes = attribute(error, "__notes__")
    return tuple(map(text_of, notes)) if type(notes) in (list, tuple) else ()


def cause_of(error: BaseException) -> BaseException | None:
    """The exception that ``error`` was raised ``from``."""
    cause: BaseException | None = _CAUSE.__get__(error)
    return cause


def set_cause(error: BaseException, cause: BaseException) -> None:
    _CAUSE.__set__(error, cause)


def context_of(error: BaseException) -> BaseException | None:
    """The exception that was being handled when ``error`` was raised."""
    context: BaseException | None = _CONTEXT.__get__(error)
    return context


def trace_of(error: BaseException) -> TracebackType | None:
    """The traceback of ``error``."""
    trace: TracebackType | None = _TRACE.__get__(error)
    return trace


def args_of(error: BaseException) -> tuple[Any, ...]:
    """The arguments with which ``error`` was created."""
    args: tuple[Any, ...] = _ARGS.__get__(error)
    return args


def members_of(error: BaseException) -> tuple[BaseException, ...]:
    """The exceptions in an exception group; empty for any other exception."""
    if not is_a(error, BaseExceptionGroup):
        return ()
    members: tuple[BaseException, ...] = _MEMBERS.__get__(error)
    return members


def format_trace(error: BaseException, trace: TracebackType | None = None) -> str:
    """The traceback of ``error`` and its causes, as text. ``trace``: the traceback to begin with;
    None: the whole. If the class of ``error`` does not let Python read the rest, only the
    frames."""
    trace = trace or trace_of(error)
    try:
        return "".join(traceback.format_exception(type(error), error, trace))
    except BaseException:
        lines = traceback.format_tb(trace)
        return "".join((*lines, f"{kind_of(error)}: {text_of(error)}\n"))


def describe_exception(
    error: BaseException, mask: Callable[[str], str] = str, longest: int = MOST
) -> str:
    """``error`` on one line: its class and text, followed by the members of a group and by the
    exception that it was raised ``from``. ``mask``: hides secrets in the text. ``longest``: the
    largest number of characters."""
    text = _cut(mask(text_of(error)), longest)
    # The text of a TaskGroup's error gives only the number of its members.
    if is_a(error, BaseExceptionGroup):
        inner = (describe_exception(leaf, mask, longest // 2) for leaf in _leaves(error))
        text = f"{text}: {'; '.join(inner)}"
    cause = cause_of(error)
    why = mask(text_of(cause)).strip() if cause is not None else ""
    # Some exceptions only say that there is another one, as tenacity's RetryError does. A cause of
    # many lines is the traceback of another process.
    if cause is not None and why not in text and "\n" not in why:
        text = f"{text}, from {kind_of(cause)}: {_cut(why, longest // 2)}"
    return f"{kind_of(error)}: {text}" if text else kind_of(error)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}… ({len(text):,} characters)"


def _leaves(group: BaseException, count: int = 3) -> list[BaseException]:
    """The first ``count`` exceptions in a group and in the groups inside it, without recursion."""
    # Only the first members of each group are read: a group may have a million.
    queue = list(reversed(members_of(group)[:count]))
    leaves = list[BaseException]()
    while queue and len(leaves) < count:
        inner = queue.pop()
        if members := members_of(inner):
            queue += reversed(members[:count])
        else:
            leaves.append(inner)
    return leaves
