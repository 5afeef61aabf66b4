"""`ToolContext`, with which a running tool reports progress and asks the person (decision D47).

It is passed as a parameter, not in a context variable: a coroutine runs after such a variable is
reset, and every call would pay for setting it. The engine connects a `ToolContext` with its run by
a `Contact`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ForwardRef, NamedTuple, Protocol, TypeAlias, get_args

from ...flow.progress.question import Question
from ...text.diagnostics import Diagnostic, StepError
from ...text.source import Span
from ...values.value import Value
from .callables import resolve
from .throttle import is_number

MOST_CHOICES = 100
"""The largest number of answers to choose from."""
LONGEST_TEXT = 200
"""The largest number of characters of a report's text; the rest is cut off."""
LONGEST_QUESTION = 4_000
"""The largest number of characters of a question; the rest is cut off."""
LARGEST = 1e15
"""The largest amount of a report."""

Amount: TypeAlias = float
"""A number in any unit."""


class Report(NamedTuple):
    """The progress of a call."""

    done: float | None = None
    """How much is done; None: only the text is reported."""
    total: float | None = None
    """How much there is to do; None: unknown."""
    text: str = ""


class Contact(Protocol):
    """The connection of a call to its run. Any thread may call its methods."""

    def report(self, report: Report) -> None: ...
    async def ask(self, question: Question) -> Value: ...
    def ask_and_wait(self, question: Question) -> Value: ...


class ToolContext:
    """What a running tool may report and ask. A tool gets it for a parameter with this annotation,
    which is not part of its schema:

        @tool
        async def crawl(url: str, call: agf.ToolContext) -> str:
            call.progress(3, total=10, text="page 3")
            answer = await call.ask("Follow this link?", choices=["yes", "no"])

    Outside of a run, for example in a test, pass ``agf.ToolContext()``: it shows nothing.

    Parameters:

    - ``ask``: a function that answers the questions, ``ask(question) -> answer``, outside of a run.
      Default None: nobody answers.
    """

    __slots__ = ("__weakref__", "_contact")

    def __init__(self, ask: Callable[[Question], Value] | None = None) -> None:
        self._contact: Contact = NoRun(ask)

    def __reduce__(self) -> Any:
        return context_of, (self._contact,)

    def progress(
        self, done: Amount | None = None, total: Amount | None = None, text: str = ""
    ) -> None:
        """Report how far the call is, from any thread. The row of the step shows a bar, or a counter
        if there is no total, and the text: ten times a second at most, on workers once.

        - ``done``: how much is done, a number from 0. Default None: only the text is shown.
        - ``total``: how much there is to do, in the same unit. Default None: it is not known.
        - ``text``: what is being done, in a line. Default: empty.

        Raises StepError ``tool.progress`` for another value, such as NaN.
        """
        self._contact.report(check_report(done, total, text))

    async def ask(self, question: str, choices: Sequence[str] = ()) -> str:
        """Ask the person who runs the tool, and return the answer: ``await call.ask(…)`` in an
        ``async def``. The time that the tool may take pauses until the answer.

        - ``question``: the text. Required.
        - ``choices``: the answers to choose from. Default: any text.

        Raises StepError ``step.no-user`` if nobody is there, and ``tool.ask`` for another question.
        """
        checked_question = _check_question(question, choices)
        return check_answer(checked_question, await self._contact.ask(checked_question))

    def ask_and_wait(self, question: str, choices: Sequence[str] = ()) -> str:
        """Ask the person who runs the tool, and wait for the answer, in a plain function. The time
        that the tool may take pauses until the answer.

        - ``question``: the text. Required.
        - ``choices``: the answers to choose from. Default: any text.

        Raises the same errors as `ask`.
        """
        checked_question = _check_question(question, choices)
        return check_answer(checked_question, self._contact.ask_and_wait(checked_question))


def context_of(contact: Contact) -> ToolContext:
    """The context of a call in a run."""
    context = ToolContext()
    context._contact = contact
    return context


class NoRun:
    """The contact for a tool that is called outside of a run."""

    def __init__(self, ask: Callable[[Question], Value] | None) -> None:
        self._ask = ask

    def report(self, report: Report) -> None:
        """Do nothing: nobody would see the report."""

    async def ask(self, question: Question) -> Value:
        return self.ask_and_wait(question)

    def ask_and_wait(self, question: Question) -> Value:
        if self._ask is None:
            raise no_user(
                question, "there is no run", "agf.ToolContext(ask=…) answers without a run"
            )
        return self._ask(question)


def no_user(question: Question, why: str, hint: str) -> StepError:
    """The error for a tool's question that nobody can answer. Unlike a step's question, it does not
    make the run wait, because a resumed run would call the tool from its beginning (decision
    D47)."""
    message = f"the tool asks {question.text!r}, and {why}"
    return StepError(Diagnostic("step.no-user", message, hint=hint))


def check_report(done: Any, total: Any, text: Any) -> Report:
    """The report of these values; a total of 0 counts as unknown. Raises StepError
    ``tool.progress`` for wrong values."""
    for name, value in (("done", done), ("total", total)):
        # NaN is refused, because it is not in the range.
        if value is not None and not (is_number(value) and 0 <= value <= LARGEST):
            message = f"progress: {name} must be a number from 0 to {LARGEST:g}, got {value!r:.100}"
            raise StepError(Diagnostic("tool.progress", message, hint=_REPORT))
    if not isinstance(text, str):
        message = f"progress: text must be text, got {text!r:.100}"
        raise StepError(Diagnostic("tool.progress", message, hint=_REPORT))
    done, total = (None if number is None else float(number) for number in (done, total))
    return Report(done, total or None, text[:LONGEST_TEXT])


_REPORT = 'for example progress(3, total=10, text="page 3"); without a total: progress(3)'


def _check_question(text: Any, choices: Any) -> Question:
    """The question of these values. Raises StepError ``tool.ask`` for wrong values."""
    why = ""
    if not isinstance(text, str) or not text.strip():
        why = f"the question must be a text, got {text!r:.100}"
    elif not _are_texts(choices):
        why = f"choices must be a list of texts, got {choices!r:.100}"
    elif len(choices) > MOST_CHOICES:
        why = f"{len(choices):,} choices, and a question has at most {MOST_CHOICES}"
    if why:
        hint = 'for example ask("Follow this link?", choices=["yes", "no"])'
        raise StepError(Diagnostic("tool.ask", f"ask: {why}", hint=hint))
    return Question(text[:LONGEST_QUESTION], tuple(choices))


def _are_texts(choices: Any) -> bool:
    return isinstance(choices, list | tuple) and all(isinstance(text, str) for text in choices)


def check_answer(question: Question, answer: Value, place: Span | None = None) -> str:
    """``answer``, if it is a text and one of the choices. Otherwise raises StepError
    ``step.question-failed``."""
    if isinstance(answer, str) and (not question.choices or answer in question.choices):
        return answer
    expected = " or ".join(map(repr, question.choices[:5])) or "a text"
    message = f"the answer to {question.text!r:.100} must be {expected}, got {answer!r:.100}"
    hint = "ask= returns the answer"
    raise StepError(Diagnostic("step.question-failed", message, place, hint))


def is_context(annotation: object, names: Mapping[str, Any]) -> bool:
    """Whether a parameter with this annotation gets a `ToolContext`. ``names``: the globals of the
    function, for annotations that are texts."""
    if any(isinstance(part, str | ForwardRef) for part in (annotation, *get_args(annotation))):
        annotation = resolve(annotation, names)
    return annotation is ToolContext or ToolContext in get_args(annotation)
