"""The input of a run, copied and checked against the fields that its flow reads, before the first
step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from ...flow.checks.wiring import follow, wires
from ...flow.steps import Flow
from ...settings.settings import current
from ...text.diagnostics import DefinitionError, Diagnostic
from ...text.raised import describe_exception
from ...text.source import Span
from ...text.suggestions import misspelled_names, suggest
from ...values.value import TooDeep, Value, settle, type_name

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
