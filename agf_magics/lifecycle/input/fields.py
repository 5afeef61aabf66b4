"""Copies the input of a run and checks it against the fields that the flow reads, before the first
step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from ...engine.linking.linked import Linked, accepts_of
from ...flow.checks.wiring import follow, wires
from ...flow.flow import Flow
from ...flow.graph_steps import Walk
from ...flow.protocols import Frame, HintedArgs
from ...flow.steps import Invoke
from ...settings.settings import current
from ...text.diagnostics import DefinitionError, Diagnostic
from ...text.names import same_name
from ...text.raised import describe_exception
from ...text.source import Span
from ...text.suggestions import misspelled_names, suggest
from ...values.extent import TooDeep
from ...values.value import Value, settle, type_name

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
    """A copy of a mapping of names to values. ``names``: names that it may have, as an example for
    a hint. Raises DefinitionError."""
    if not isinstance(input, Mapping) or not all(isinstance(key, str) for key in input):
        message = f"the input must be a mapping of names to values, not {type_name(input)}"
        name = next(iter(names), "word")
        raise DefinitionError(Diagnostic("run.input", message, hint=f"write {{{name!r}: …}}"))
    fields = {same_name(str(key)): value for key, value in input.items()}
    if len(fields) < len(input):
        message = "two fields of the input have names that look the same"
        hint = f"rename one of {', '.join(map(ascii, input))}"
        raise DefinitionError(Diagnostic("run.input", message, hint=hint))
    return _settle(lambda: {name: settle(value) for name, value in fields.items()})


LATER = "no step writes it before this one; in a fold, acc is the value so far"
"""The hint for a field that is also a store."""


def missing_fields(flow: Flow, input: Mapping[str, Value]) -> Sequence[Diagnostic]:
    """A problem for each required field of the input of ``flow`` that ``input`` lacks."""
    absent = [ref for ref in flow.inputs if ref.certain and ref.path[-1] not in input]
    if not absent:
        return ()
    stores = [write.store for write in follow(flow).writes]
    hints = _hints_of_warnings(flow)
    missing = []
    for ref in absent:
        name = ref.path[-1]
        place = (ref.span.start, ref.span.end) if ref.span else ""
        # The hint of a warning about the same token is more specific.
        hint = hints.get(place) or hints.get(name) or suggest(name, input)
        if not hint and name in stores:
            hint = LATER
        elif not hint:
            # Only where a name is an expression is a text without quotes taken for one.
            bare = ref.span if flow.dialect.reads_are_complete else None
            hint = " else ".join(filter(None, (suggest(name, stores), _give(name, bare))))
        message = f"{flow.name!r} reads {name!r}, which the input lacks"
        missing.append(Diagnostic("run.missing-input", message, ref.span, hint))
    return missing


def _hints_of_warnings(flow: Flow) -> Mapping[tuple[int, int] | str, str | None]:
    """The hints of the warnings of a definition, by the place and by the word that each is about."""
    hints = dict[tuple[int, int] | str, str | None]()
    for warning in flow.warnings:
        if warning.span is not None:
            hints.setdefault((warning.span.start, warning.span.end), warning.hint)
            hints.setdefault(warning.span.text.rpartition(".")[2], warning.hint)
    return hints


def missing_of_callees(linked: Linked, input: Mapping[str, Value]) -> Iterator[Diagnostic]:
    """A problem for each field that a callee surely needs of the input, which ``input`` lacks.

    The text does not name these fields: they are the parameters of functions that get the whole
    input, or the fields of a value of the input that is passed on.
    """
    flow = linked.flow
    reported_names = {ref.path[-1] for ref in flow.inputs if ref.certain}  # by `missing_fields`
    unwritten = _unwritten(flow)
    is_first = True
    for read in follow(flow).reads:
        if not (read.required and read.unwritten) or not isinstance(read.step, Invoke):
            continue
        callee = linked.callees.get(read.step.id)
        needs = _required_fields(callee)
        properties = (accepts_of(callee) or {}).get("properties", {})
        if read.key == flow.dialect.stores:  # all of it
            if read.step.args.names is not None and not read.ref.into:
                continue  # as the value of one argument, which is there
            of_input = needs if unwritten is None else needs & unwritten.keys()
            names = [name for name in properties or needs if name in of_input]
        elif read.ref.into and read.store:
            is_needed = read.ref.into in needs or read.ref.into not in properties
            names = [read.store] if is_needed else []
        else:
            continue
        for name in names:
            if name in input or name in reported_names or name in _defaults(flow):
                continue
            reported_names.add(name)
            span = (unwritten or {}).get(name) or read.ref.span or read.step.name.span
            callee_text = f"{read.step.kind} {read.step.name.text!r}"
            hint = suggest(name, input) or _give(name, None)
            if unwritten is None and (input or not is_first):
                hint = _mapping_hint(read.step, name, flow, input) or hint
            message = f"{callee_text} needs {name!r}, which the input lacks"
            yield Diagnostic("run.missing-input", message, span, hint)
        is_first = False


def _mapping_hint(step: Invoke, name: str, flow: Flow, input: Mapping[str, Value]) -> str | None:
    """The hint of a language that can take the field from another place."""
    if not isinstance(step.args, HintedArgs) or step.args.names is not None:
        return None
    frame: Frame = dict(input)
    for part in reversed(flow.dialect.stores):
        frame = {part: frame}
    return step.args.hint_for(name, frame)


def _unwritten(flow: Flow) -> Mapping[str, Span | None] | None:
    """The keys of a graph that only its input can set; None for other flows."""
    for step in flow.body.steps:
        if isinstance(step, Walk):
            return step.unwritten
    return None


def _required_fields(callee: object) -> set[str]:
    """The fields that a callee needs."""
    needs = set((accepts_of(callee) or {}).get("required", ()))
    if isinstance(callee, Linked):
        needs.update(ref.path[-1] for ref in callee.flow.inputs if ref.certain)
    return needs


def _defaults(flow: Flow) -> set[str]:
    """The fields of the input for which the definition has a default."""
    fields = (flow.declared.accepts or {}).get("properties") or {}
    return {
        name for name, field in fields.items() if isinstance(field, dict) and "default" in field
    }


def unused_fields(flow: Flow, input: Mapping[str, Value]) -> Iterator[Diagnostic]:
    """A warning for each field of ``input`` that ``flow`` does not read.

    If the flow reads the whole input, every field is read; then a warning is about a name that the
    flow reads, that the input lacks, and that resembles a field. If the text of a language does not
    name everything that its steps read (a function of a graph gets the whole state), a field gets a
    warning only if it resembles a name that the input lacks.
    """
    # True for most runs, so that the reads of a large definition are not followed at each start.
    if input.keys() == {ref.path[-1] for ref in flow.inputs}:
        return
    read = set(read_names(flow))
    reads_all = "".join(flow.dialect.stores[-1:]) in read  # such as `ctx` without a name
    absent = sorted(read - input.keys())
    # If a warning of the definition names the misspelt word, a second warning would suggest the
    # opposite correction.
    warned = [warning.span.text for warning in flow.warnings if warning.span is not None]
    unread = sorted(input.keys() - read - misspelled_names(warned, input))
    if reads_all:  # nothing is unread, so the name that is read is wrong
        for ref in flow.inputs:
            name = ref.path[-1]
            hint = suggest(name, unread)
            if name not in input and hint is not None:
                message = f"{flow.name!r} reads {name!r}, which the input lacks"
                yield Diagnostic("run.missing-input", message, ref.span, hint, "warning")
        return
    values_of_frame = _beside_stores(flow)
    for name in unread:
        hint = suggest(name, absent)
        if name in values_of_frame:
            path = ".".join((*flow.dialect.stores, name))
            hint = f"{name!r} alone is another value; {path} reads this one"
        # The warnings of the definition are probably about the text that was meant to read the
        # field.
        warned_of_text = not read and flow.warnings
        if hint is None and (warned_of_text or not flow.dialect.reads_are_complete):
            continue
        message = f"{flow.name!r} does not read {name!r}, which the input has"
        yield Diagnostic("run.unused-input", message, None, hint, "warning")


def read_names(flow: Flow) -> Iterator[str]:
    """The fields of the input that steps of ``flow`` read or that it declares; some of them more
    than once."""
    yield from filter(None, (ref.path[-1] for ref in flow.inputs))
    outside = (wire.name.partition(" → ")[0] for wire in wires(flow) if not wire.source)
    fields = (name.lstrip("†$").removeprefix("input.").split(".")[0] for name in outside)
    no_fields = {"", *_beside_stores(flow)}
    yield from (name for name in fields if name not in no_fields)
    declared = (flow.declared.accepts or {}).get("properties")
    yield from declared if isinstance(declared, Mapping) else ()


def _beside_stores(flow: Flow) -> set[str]:
    """The values that steps of ``flow`` read beside its stores before a step writes them, such as
    ``pipe``: no field of the input is one of them."""
    stores = flow.dialect.stores
    return {
        read.key[-1]
        for read in follow(flow).reads
        if stores and read.unwritten and not read.store and read.key != stores
    }


def _settle(copy: Callable[[], R]) -> R:
    """The copy of an input. Raises DefinitionError."""
    try:
        return copy()
    except Exception as error:  # the value contains itself, or a user's class that raises
        why = str(error) if isinstance(error, TooDeep) else describe_exception(error)
        raise DefinitionError(Diagnostic("run.input", f"the input cannot be used: {why}")) from None


def _give(name: str, span: Span | None) -> str:
    bare = f" If it is text, write \"'{name}'\"." if span and span.text == name else ""
    return f"give it: {current.words.input_of(name)}.{bare}"
