"""Exceptions of foreign code are read here and nowhere else: no read raises, whatever their class does.

A class of a user may compute anything: its ``__str__``, its ``__getattr__``, a property called
``__notes__``, ``__cause__`` or even ``__class__`` can raise, and end a run with an error of ours in
place of its own (CPython guards the same reads in its tracebacks). So the kind of an exception is
that of its type, as for an ``except``, what `BaseException` itself holds is read from there, past
any property, and the rest is read guarded.
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
"""All that code of a user may raise inside of ours, but for the interrupt of a person."""

LONGEST_READ = 100_000_000
"""Characters of a text that Python may write, to be cut then."""

MOST = 500
"""Characters of the text of an exception in a message."""


def is_a(error: BaseException | None, kinds: type[E] | tuple[type[E], ...]) -> TypeGuard[E]:
    """As ``isinstance``, which asks the object for its ``__class__`` too.

    >>> class Liar(ValueError):
    ...     __class__ = property(lambda self: 1 / 0)
    >>> is_a(Liar(), ValueError), is_a(Liar(), KeyError)
    (True, False)
    """
    try:
        return issubclass(type(error), kinds)
    except BaseException:  # the metaclass of a class that a user names in Retry(on=…)
        return False


def kind_of(error: BaseException) -> str:
    """The name of its class."""
    name: str = _NAME.__get__(type(error))
    return name


def attribute(thing: object, name: str, otherwise: Any = None) -> Any:
    """An attribute that the class of a user may compute; ``otherwise`` if that raises."""
    try:
        return getattr(thing, name, otherwise)
    except BaseException:
        return otherwise


def text_of(error: object, otherwise: str | None = None) -> str:
    """Its text; ``otherwise`` if that cannot be read, by default a text that says so. A text without
    end, of arguments whose parts stand in many places, is not written."""
    if not can_write(error, LONGEST_READ):
        return UNWRITTEN
    try:
        return str.__str__(str(error))  # plain text, also of a subclass of str
    except BaseException as worse:
        return f"(its text cannot be read: {kind_of(worse)})" if otherwise is None else otherwise


def notes_of(error: BaseException) -> tuple[str, ...]:
    """What ``add_note`` added."""
    notes = attribute(error, "__notes__")
    return tuple(map(text_of, notes)) if type(notes) in (list, tuple) else ()


def cause_of(error: BaseException) -> BaseException | None:
    """The exception of its ``raise … from``."""
    cause: BaseException | None = _CAUSE.__get__(error)
    return cause


def set_cause(error: BaseException, cause: BaseException) -> None:
    _CAUSE.__set__(error, cause)


def context_of(error: BaseException) -> BaseException | None:
    """The exception that was being handled when it was raised."""
    context: BaseException | None = _CONTEXT.__get__(error)
    return context


def trace_of(error: BaseException) -> TracebackType | None:
    """Its traceback."""
    trace: TracebackType | None = _TRACE.__get__(error)
    return trace


def args_of(error: BaseException) -> tuple[Any, ...]:
    """The arguments that it was made with."""
    args: tuple[Any, ...] = _ARGS.__get__(error)
    return args


def members_of(error: BaseException) -> tuple[BaseException, ...]:
    """The exceptions of a group; none of any other."""
    if not is_a(error, BaseExceptionGroup):
        return ()
    members: tuple[BaseException, ...] = _MEMBERS.__get__(error)
    return members


def format_trace(error: BaseException, trace: TracebackType | None = None) -> str:
    """Its traceback as text, with those of its causes; ``trace``: from there on. Only its frames if
    its class does not let Python read the rest."""
    trace = trace or trace_of(error)
    try:
        return "".join(traceback.format_exception(type(error), error, trace))
    except BaseException:
        lines = traceback.format_tb(trace)
        return "".join((*lines, f"{kind_of(error)}: {text_of(error)}\n"))


def describe_exception(
    error: BaseException, mask: Callable[[str], str] = str, longest: int = MOST
) -> str:
    """An exception in a line: its class and its text, those of the exceptions of a group, and those
    of the exception that it was raised ``from``."""
    text = _cut(mask(text_of(error)), longest)
    # The text of a TaskGroup's error only gives their number.
    if is_a(error, BaseExceptionGroup):
        inner = (describe_exception(leaf, mask, longest // 2) for leaf in _leaves(error))
        text = f"{text}: {'; '.join(inner)}"
    cause = cause_of(error)
    why = mask(text_of(cause)).strip() if cause is not None else ""
    # An exception that only says that there is another one: a RetryError of tenacity. A cause of
    # many lines is the traceback of another process.
    if cause is not None and why not in text and "\n" not in why:
        text = f"{text}, from {kind_of(cause)}: {_cut(why, longest // 2)}"
    return f"{kind_of(error)}: {text}" if text else kind_of(error)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}… ({len(text):,} characters)"


def _leaves(group: BaseException, count: int = 3) -> list[BaseException]:
    """The first ``count`` exceptions in a group and in the groups inside it, without recursion."""
    # Only the first ones of each group: a group of a million takes no longer.
    queue = list(reversed(members_of(group)[:count]))
    leaves = list[BaseException]()
    while queue and len(leaves) < count:
        inner = queue.pop()
        if members := members_of(inner):
            queue += reversed(members[:count])
        else:
            leaves.append(inner)
    return leaves
