"""`Elements`, the elements of a fan-out or a fold: a list, or a sequence that is read bit by bit.

``len`` and ``[number]`` of a sequence are user code. So they run in the place of a plain function
without concurrency: on the thread that waits for the run, where an interrupt reaches them, or else
on a call thread. Such a call costs more than most elements, so it reads a few elements ahead, for
at most `READ_SECONDS` and at most `READ_AHEAD` elements. A range, a tuple and an array run no user
code and are read directly. An element stays in memory only as long as the fan-out needs it, so that
the memory of a run depends on the number of concurrent elements, not of all elements.
"""

from __future__ import annotations

import asyncio
import hashlib
import sys
import time
from collections.abc import Callable
from typing import Any, final

from ...catalog import Where as Place
from ...catalog.digests.digesting import digest_value
from ...flow.progress import events as ev
from ...flow.steps import Each, Fold
from ...journal.records.records import CallKey, SequenceRow
from ...limits.grants import granted
from ...text.diagnostics import Diagnostic, StepError
from ...text.raised import describe_exception, is_a
from ...values.sequences import (
    is_array,
    is_quick,
    is_sequence,
    sequence_name,
    source_of,
    why_no_sequence,
)
from ...values.unread import opened
from ...values.value import Value, settle, type_name
from ..calls.failures import describe_masked
from ..late_values import when_read
from ..runner import CallSite, clock
from ..threads.user_code import Result, TimedOut

MOST = 100_000_000
"""The largest number of elements: the list of their results alone takes 800 MB."""

READ_SECONDS = 0.005
"""The seconds after which a call reads no further element ahead. In that time, at most some tens of
megabytes can be read."""

READ_AHEAD = 64
"""The largest number of elements that a call reads."""

SAMPLES, SAMPLE_BYTES = 256, 4096
"""The number and the size of the parts of a large array by which a resumed run recognizes it."""

STATE = "an element must be the same each time it is read, because a resumed run reads it again"
"""The end of the hint about a sequence that has changed."""


@final
class Elements:
    """The elements of one sequence, for one fan-out."""

    def __init__(
        self, site: CallSite[Any], source: Value, length: int, most: int = sys.maxsize
    ) -> None:
        """``length``: the length of ``source``. ``most``: the largest number of elements to use;
        default: no limit."""
        self.site = site
        self.source = source
        self.length = length
        self.count = min(most, length)
        """The number of elements that are used."""
        self.list = source if type(source) is list else None
        """``source`` if it is a list, whose elements are values and which cannot change; else
        None."""
        self.is_quick = self.list is not None or is_quick(source)
        """Whether each element can be read at once, without a user's code."""
        self.results: dict[int, Result] = {}
        """The elements in memory, or their errors, by number."""
        self.ahead: dict[int, Result] = {}
        """The elements that were read ahead and not requested yet, by number."""
        self.reading = asyncio.Lock()
        """Held while an element is read."""

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> Value:
        """Element ``number``. Unless the sequence is quick, `load` must have read it. Raises
        StepError."""
        if self.list is not None:
            return self.list[number]
        ok, element = self.results.get(number) or _read_one(self.source, number)
        if not ok:
            raise self._unread(number, element)
        return element

    def retain(self, number: int) -> bool:
        """Keep element ``number`` in memory until `release`. Returns False if `load` must read it
        first."""
        if number in self.ahead:
            self.results[number] = self.ahead.pop(number)
        return self.is_quick or number in self.results

    async def load(self, number: int) -> None:
        """Read element ``number``, and perhaps some further elements, and keep it in memory."""
        # Elements of one sequence are read one after another: its code may not be safe for two
        # threads.
        async with self.reading:
            # Another part may have read the element while this one waited.
            if not self.retain(number):
                await self._read(number)
                self.retain(number)

    async def take(self, number: int) -> Value:
        """Read element ``number`` without keeping it. Raises StepError."""
        if not self.retain(number):
            await self.load(number)
        element = self[number]
        self.release(number)
        return element

    def release(self, number: int) -> None:
        """Forget element ``number``, which is not needed any more."""
        self.results.pop(number, None)

    def forget_failed(self, number: int) -> None:
        """Forget element ``number`` if it could not be read: another attempt reads it again."""
        if not self.results.get(number, (True,))[0]:
            self.release(number)

    def shown(self, number: int) -> Value:
        """Element ``number`` for a message, if it is in memory or quick; None if it cannot be
        read."""
        ok, element = self.results.get(number) or _read_one(self.source, number)
        return element if ok else None

    async def check_length(self) -> None:
        """Warn if the length has changed since it was read, because the result does not cover the
        whole sequence."""
        if self.is_quick:
            return
        ok, current_length = await _call(self.site, _length, {"source": self.source})
        if ok and current_length == self.length:
            return
        after = f"{current_length:,}" if ok else "unknown"
        message = (
            f"{sequence_name(self.source)} had {self.length:,} elements at the start of the "
            f"step; now {after}"
        )
        hint = (
            f"the step has used the first {self.count:,}; let no tool change a sequence while "
            f"a step iterates over it"
        )
        self.site.run.emit(
            ev.Warned(
                clock(),
                Diagnostic(
                    "run.sequence-changed", message, self.site.step.over.span, hint, "warning"
                ),
            )
        )

    async def _read(self, number: int) -> None:
        """Read element ``number`` and some further ones into `ahead`. What `ahead` had before is
        forgotten, and read again when it is needed."""
        results, last = list[Result](), min(number + READ_AHEAD, self.count)
        arguments = {"source": self.source, "numbers": range(number, last), "results": results}
        _, error = await _call(self.site, _read_some, arguments)
        if not results:
            results.append((False, error))
        # A copy, because a call that was left running may still append.
        self.ahead = dict(enumerate(results.copy(), number))

    def _unread(self, number: int, error: BaseException) -> StepError:
        """The error for an element that cannot be read."""
        if is_a(error, StepError):  # the row of a table tells why it cannot be read
            return StepError(*error.diagnostics)
        subject = f"element {number:,} of {sequence_name(self.source)} cannot be read"
        hint = (
            f"a sequence of {self.count:,} elements needs each of the numbers 0 to "
            f"{self.count - 1:,}"
        )
        return _failure(self.site, "step.unread-element", subject, error, hint)


async def read_elements(site: CallSite[Each] | CallSite[Fold]) -> Elements:
    """The elements of the value of ``over``. Raises StepError for a value that is no sequence."""
    source = await when_read(lambda: opened(site.step.over.evaluate(site.frame)))
    # Not copied, because frames share values and no step changes them.
    if type(source) is list:
        if site.run.journal is not None:
            body = CallKey(site.path_of(site.step.body), site.key.tries)
            is_fold = isinstance(site.step, Fold)
            site.run.journal.compare_elements(body, source, is_fold)
        return Elements(site, source, len(source))
    span = site.step.over.span
    if not is_sequence(source):
        hint = why_no_sequence(source) or (
            "over takes a list or a sequence; without over and items the incoming pipe data is used"
        )
        raise StepError(
            Diagnostic("step.not-a-list", f"expected a list, got {type_name(source)}", span, hint)
        )
    if is_quick(source):
        ok, count = _length(source)
    else:
        ok, count = await _call(site, _length, {"source": source})
    if not ok:
        subject = f"the length of {sequence_name(source)} cannot be read"
        hint = "__len__ must return the number of its elements"
        raise _failure(site, "step.sequence-length", subject, count, hint)
    # Checked before the list of results is made, which alone would fill the memory.
    if count > MOST:
        message = (
            f"{sequence_name(source)} has {count:,} elements; a step can have at most {MOST:,}"
        )
        hint = (
            "let each element be a part: range(0, n, 10_000), and a tool that works on 10,000 "
            "of them"
        )
        raise StepError(Diagnostic("step.sequence-length", message, span, hint))
    elements = Elements(site, source, count)
    _compare(elements)
    return elements


def first_of(items: Elements, most: int) -> Elements:
    """The first ``most`` elements."""
    return Elements(items.site, items.source, items.length, most)


def _compare(elements: Elements) -> None:
    """Journal the identity of the sequence, or compare it in a resumed run, whose recorded elements
    are valid only for an equal sequence."""
    site, source = elements.site, elements.source
    journal = site.run.journal
    if journal is None:
        return
    digest = None
    # Only in a run without secrets, because a secret could be guessed from a digest.
    if elements.is_quick and not site.run.secrets.active:
        digest = _digest(source_of(source), journal.most)
    name = type(source_of(source)).__name__
    # The name, the length and a digest identify it. The elements themselves are never stored.
    earlier = journal.compare_sequence(site.key, SequenceRow(name, elements.count, digest))
    if earlier is None:
        return
    if (name, elements.count) == (earlier.name, earlier.length):
        message = f"the elements of {sequence_name(source)} have changed since the start of the run"
    else:
        expected = f"{earlier.name} with {earlier.length:,} elements"
        current = f"{name} with {elements.count:,} elements"
        message = f"expected {expected}, as at the start of the run, got {current}"
    hint = f"start a new run; {STATE}"
    raise StepError(Diagnostic("step.sequence-changed", message, site.step.over.span, hint))


def _digest(source: Value, most: int) -> str | None:
    """A digest of a quick sequence. Of a large array it covers its form and `SAMPLES` parts of its
    data: to read one gigabyte takes a second."""
    if type(source) is range:
        return repr(source)
    digest_of_all = digest_value(source, most)
    if digest_of_all is not None:
        return digest_of_all
    if not is_array(source) or source.dtype.hasobject or not source.flags.c_contiguous:
        return None
    # This makes no copy, because the array is contiguous.
    data = source.reshape(-1).view("u1")
    digest = hashlib.sha256(f"{source.dtype!r} {source.shape}".encode())
    for part in range(SAMPLES):
        start = part * max(0, len(data) - SAMPLE_BYTES) // (SAMPLES - 1)
        digest.update(data[start : start + SAMPLE_BYTES].tobytes())
    return digest.hexdigest()


def _failure(
    site: CallSite[Any], code: str, subject: str, error: BaseException, hint: str
) -> StepError:
    """The error for a sequence whose code raised ``error``. ``subject``: the words for what failed."""
    span, secrets = site.step.over.span, site.run.secrets
    if is_a(error, TimedOut):
        hint = (
            "%config AgfMagics.step_timeout sets how long it may take; let the tool read it, "
            "so that others continue"
        )
        return StepError(Diagnostic("step.timeout", f"{subject}: it {error}", span, hint))
    if secrets.raised(error):  # the exception has a secret, so it does not become the cause
        message = f"{subject}: {describe_masked(error, secrets)}"
        return StepError(Diagnostic(code, message, span, hint))
    failed = StepError(Diagnostic(code, f"{subject}: {describe_exception(error)}", span, hint))
    failed.__cause__ = error
    return failed


async def _call(
    site: CallSite[Any], function: Callable[..., Any], arguments: dict[str, Any]
) -> Result:
    """Call the code of a sequence, with the rights and the time limit of a tool of the step."""
    host = site.run.host
    place: Place = "kernel" if host.waited else "thread"
    # `__len__` and `__getitem__` are user code, which may use no more than a tool of the step.
    outer = granted.set(site.scope.grant)
    try:
        ok, result = await host.call(
            place, function, arguments, site.run.budget.limits.step_timeout
        )
    finally:
        granted.reset(outer)
    return result if ok else (False, result)


def _length(source: Value) -> Result:
    """The length of ``source`` as a plain int that is not negative."""
    try:
        count = len(source)
    # `len` cannot return more than `sys.maxsize`; a range can be longer.
    except OverflowError:
        return _long_length(source)
    except Exception as error:
        return False, error
    # A subclass of int could run user code.
    return True, int(count)


def _long_length(source: Value) -> Result:
    """The length of a sequence with more than ``sys.maxsize`` elements."""
    source = source_of(source)
    if type(source) is range:
        last = source.stop - (1 if source.step > 0 else -1)
        return True, (last - source.start) // source.step + 1
    return False, OverflowError(f"it has more than {sys.maxsize:,} elements")


def _read_one(source: Value, number: int) -> Result:
    try:
        return True, settle(source[number])
    except Exception as error:
        return False, error


def _read_some(source: Value, numbers: range, results: list[Result]) -> Result:
    """Append the first of the elements, and some further elements, to ``results``."""
    until = time.monotonic() + READ_SECONDS
    for number in numbers:
        # The caller's list keeps the elements that were read, even if the call is stopped.
        results.append(_read_one(source, number))
        if time.monotonic() > until:
            break
    return True, None
