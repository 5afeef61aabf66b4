"""The input of a run, before its first step: a copy of it, and the fields that it lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from ..engine.failures import describe_exception
from ..flow.frame import Ref
from ..flow.steps import Flow, Step, every
from ..flow.values import TooDeep, Value, settle, type_name
from ..settings import current
from ..text.diagnostics import DefinitionError, Diagnostic, suggest
from ..text.source import Span

R = TypeVar("R")


def settle_input(input: Value, flow: Flow) -> Value:
    """A copy of an input of ``flow``, checked. Raises DefinitionError."""
    if input is None:
        return {}
    if isinstance(input, Mapping) or flow.accepts is None:
        return settle_fields(input)
    return _settle(lambda: settle(input))  # the definition's interface checks it


def settle_fields(input: Value) -> dict[str, Value]:
    """A copy of a mapping of names to values. Raises DefinitionError."""
    if not isinstance(input, Mapping) or not all(isinstance(key, str) for key in input):
        message = f"the input must be a mapping of names to values, not {type_name(input)}"
        raise DefinitionError(Diagnostic("run.input", message, hint="for example {'word': 'pear'}"))
    return _settle(lambda: {str(key): settle(value) for key, value in input.items()})


def missing_fields(flow: Flow, given: Mapping[str, Value]) -> Sequence[Diagnostic]:
    """A problem for each required field of the input of ``flow`` that ``given`` lacks."""
    found: dict[str, Diagnostic] = {}
    known = {
        warning.span: warning.hint for warning in flow.warnings if warning.span and warning.hint
    }
    written = [ref.path[-1] for step in every(flow.body) for ref in _stores(step, flow)]
    optional = [
        ref.path[-1] for ref in flow.inputs if not ref.certain and ref.path[-1] not in given
    ]
    for ref in flow.inputs:
        name = ref.path[-1]
        if ref.certain and name not in given and name not in found:
            # The hint of a warning about the same token is more specific.
            hint = (
                (ref.span and known.get(ref.span))
                or suggest(name, given)
                or " else ".join(
                    filter(None, (suggest(name, written), _give(name, ref.span, optional)))
                )
            )
            found[name] = Diagnostic(
                "run.missing-input",
                f"{flow.name!r} reads {name!r}, which the input lacks",
                ref.span,
                hint,
            )
    return list(found.values())


def _stores(step: Step, flow: Flow) -> Iterator[Ref]:
    """The stores that ``step`` writes."""
    for ref in step.target.writes() if step.target else ():
        if len(ref.path) == len(flow.stores) + 1 and ref.path[:-1] == flow.stores:
            yield ref


def _settle(copy: Callable[[], R]) -> R:
    try:
        return copy()
    except Exception as error:  # it contains itself, or a user's class that raises
        why = str(error) if isinstance(error, TooDeep) else describe_exception(error)
        raise DefinitionError(Diagnostic("run.input", f"the input cannot be used: {why}")) from None


def _give(name: str, span: Span | None, optional: Sequence[str]) -> str:
    bare = (
        f" A text has quotes of its own: \"'{name}'\"."
        if span is not None and span.text == name
        else ""
    )
    also = f" It may also read {', '.join(optional)}." if optional else ""
    return f"give it: {current.words.give.format(name)}.{bare}{also}"
