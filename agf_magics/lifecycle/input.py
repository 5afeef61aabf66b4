"""The input of a run, before its first step: a copy of it, and the fields that it lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from ..engine.failures import describe_exception
from ..flow.frame import Ref
from ..flow.steps import Flow, Step, every
from ..flow.values import TooDeep, Value, settle, type_name
from ..flow.wiring import wires
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


def unused_fields(flow: Flow, given: Mapping[str, Value]) -> Iterator[Diagnostic]:
    """A warning for each field of ``given`` that ``flow`` does not read.

    Where a language does not say all that its steps read (a function of a graph gets the whole
    state), only for a field that looks like one that is read and is not given.
    """
    if not given:
        return
    read = {name for name in _read_names(flow) if name}
    reads_all = not flow.reads_are_complete or "".join(flow.stores[-1:]) in read
    left = sorted(read - given.keys())
    for name in given:
        hint = suggest(name, left) if name not in read else None
        if name in read or (hint is None and (reads_all or not read)):
            continue
        message = f"{flow.name!r} does not read {name!r}, which the input has"
        yield Diagnostic("run.unused-input", message, None, hint, "warning")


def _read_names(flow: Flow) -> Iterator[str]:
    """The fields of the input that steps of ``flow`` read or that it declares."""
    yield from (ref.path[-1] for ref in flow.inputs)
    for wire in wires(flow):
        if not wire.source:
            yield (
                wire.name.partition(" → ")[0].removeprefix("†").removeprefix("input.").split(".")[0]
            )
    declared = flow.accepts.get("properties") if flow.accepts is not None else None
    yield from declared if isinstance(declared, Mapping) else ()


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
