"""Checks the fields that a flow reads from results and passes to calls, and the schemas it names.

A schema may be incomplete, so an unknown field is only a warning (AGF-10).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from ...catalog import Agent, Tool
from ...catalog.digests.code_names import words_in
from ...flow.expressions import NamedArguments
from ...flow.flow import Flow
from ...flow.protocols import Name
from ...flow.steps import Invoke, calls
from ...schemas.schema import Schema, cycle, resolve
from ...schemas.violations import lacking
from ...text.diagnostics import Diagnostic, Diagnostics
from ...text.source import Span
from ...text.suggestions import join_hints, misspelled_names, suggest
from .linked import accepts_of, interface_of

WRAPPERS = frozenset({"args", "arguments", "kwargs", "parameters", "params", "with"})
"""Keys under which other programs write the arguments of a call."""


def unknown_reads(flow: Flow, callees: Mapping[str, Any]) -> Iterator[Diagnostic]:
    """Warnings about fields that the results lack. ``callees``: the callees by the id of the
    step."""
    for read in flow.declared.result_reads:
        callee = callees.get(read.step)
        gives = getattr(interface_of(callee), "gives", None)
        if lacks := lacking(gives, [name for name, _ in read.fields]):
            number, fields = lacks
            name, span = read.fields[number]
            message = f"{read.whose} has no field {name!r} there"
            hint = suggest(name, fields, "its fields")
            yield Diagnostic("flow.unknown-field-read", message, span, hint, "warning")
        elif read.into and read.fields:
            name, span = read.fields[-1]
            _, read_name = read.into
            # Only swapped letters count: other similar names (date, data) are often right.
            if name != read_name and sorted(name) == sorted(read_name):
                message = f"{read.whose} may lack {name!r}"
                hint = f"did you mean {read_name}?"
                yield Diagnostic("flow.unknown-field-read", message, span, hint, "warning")


def unknown_gifts(flow: Flow, callees: Mapping[str, Any]) -> Iterator[Diagnostic]:
    """Warnings about fields that the callees do not accept."""
    for step in calls(flow.body):
        if not (step.exchange.with_schema or step.kind == "flow") or step.pick is not None:
            continue
        callee = callees.get(step.id)
        names = [name for name, _ in step.args.names or ()]
        takes_prompt = isinstance(callee, Agent) and callee.prompt_only
        if takes_prompt and len(names) > 1 and "prompt" not in names:
            message = (
                f"{step.name.text!r} takes only a prompt: it gets {', '.join(names)} as JSON text"
            )
            fix = f"give the function the parameters {', '.join(names)}, or map prompt: PATH"
            yield Diagnostic("flow.unknown-field-given", message, step.name.span, fix, "warning")
        single = _single_field(callee)
        for name, span in step.args.names or () if single and single not in names else ():
            if not misspelled_names([name], [single]):
                continue
            message = f"{step.name.text!r} takes no {name!r}"
            yield Diagnostic(
                "flow.unknown-field-given", message, span, f"did you mean {single}?", "warning"
            )
        takes = accepts_of(callee)
        # An `additionalProperties` of {} also accepts anything.
        if takes is None or takes.get("additionalProperties", False) is not False:
            continue
        if isinstance(callee, Tool):  # the linker refuses unknown arguments of tools
            continue
        for name, span in step.args.names or ():
            lacks = lacking(takes, [name])
            if lacks and name not in getattr(callee, "handed", ()):
                _, fields = lacks
                message = f"{step.name.text!r} takes no {name!r}"
                hint = suggest(name, fields, "its fields")
                yield Diagnostic("flow.unknown-field-given", message, span, hint, "warning")


def _single_field(callee: Any) -> str:
    """The field of its input for which a function of one parameter would get the whole input, if the
    field is absent; empty: there is none."""
    if not isinstance(callee, Agent):
        return ""
    if callee.prompt_only:
        return "prompt"
    return callee.only or ""


def foreign_names(flow: Flow, callees: Mapping[str, Any]) -> Iterator[Diagnostic]:
    """Warnings about names of another program in the functions that get the state of a flow."""
    foreign = flow.dialect.foreign
    if foreign is None:
        return
    for step in calls(flow.body):
        code = getattr(getattr(callees.get(step.id), "function", None), "__code__", None)
        if step.exchange.with_schema and code is not None:
            problem = foreign(words_in(code))
            if problem is not None:
                yield replace(problem, span=step.name.span)


def check_arguments(step: Invoke, tool: Tool, problems: Diagnostics) -> None:
    """Report arguments that ``tool`` does not accept, that it lacks, or that a definition must not
    contain."""
    names = step.args.names
    takes = tool.arguments
    if step.pick is not None or names is None:  # the chooser also gives the arguments
        return
    spans = dict(names)
    wrapped = WRAPPERS & spans.keys() - takes.parameters.keys() if not takes.more else ()
    for name, span in spans.items():
        if name not in takes.parameters and not takes.more:
            elsewhere = getattr(step.args, "unknown_hint", lambda name: "")
            near = suggest(name, takes.parameters, given=spans) or elsewhere(name)
            if name in wrapped:
                near = f"write the arguments themselves, without {name}:"
            hints = join_hints(near, f"it takes {takes.takes or 'none'}")
            message = f"tool {tool.name!r} has no argument {name!r}"
            problems.error("flow.unknown-argument", message, span, hints)
    _warn_literal_secrets(step, tool, spans, problems)
    if isinstance(step.args, NamedArguments):
        for name, place, value in step.args.literals():
            # The run would say the same, but after the steps before, and on_error would hide it.
            if name in takes.parameters and (wrong := tool.refused_literal(name, value)):
                meant_as = wrong.hint or step.args.literal_hint(value)
                problems.add(replace(wrong, span=place, hint=meant_as))
    # The right name of a misspelt argument is not reported as missing, too.
    misspelled = misspelled_names(spans.keys() - takes.parameters.keys(), takes.parameters)
    for name, parameter in takes.parameters.items() if not wrapped else ():
        is_passed = name in spans or name in step.exchange.extra_arguments
        is_required = parameter.default is parameter.empty
        may_lack = is_passed or name in misspelled
        # To read an annotation takes long, so only what would be an error is looked up.
        if is_required and not may_lack and name not in takes.optional:
            message = f"tool {tool.name!r} needs {name!r}"
            hint = f"it takes {takes.takes}"
            problems.error("flow.missing-argument", message, step.name.span, hint)


def check_permits(step: Invoke, callees: Mapping[str, Any], problems: Diagnostics) -> None:
    """Warn of conditions that read an argument that a tool of ``callees`` does not have, since each
    call of it would fail."""
    if step.permit is None or step.permit.of is None:
        return
    lacking = dict[Name, Tool]()
    for alias, callee in callees.items():
        permit = step.permit.of(alias)
        if permit is not None and isinstance(callee, Tool) and not callee.arguments.more:
            for name in permit.reads:
                if name.text not in callee.arguments.parameters:
                    lacking.setdefault(name, callee)
    for name, tool in lacking.items():
        takes = tool.arguments
        last = name.text.rpartition(".")[2]
        is_path = last in takes.parameters
        near = f"did you mean {last}?" if is_path else suggest(name.text, takes.parameters)
        message = f"tool {tool.name!r} has no argument {name.text!r}"
        hints = join_hints(near, f"it takes {takes.takes or 'none'}")
        problems.warn("flow.unknown-argument", message, name.span, hints)


def _warn_literal_secrets(
    step: Invoke, tool: Tool, spans: Mapping[str, Span | None], problems: Diagnostics
) -> None:
    """Warn of secrets that the definition contains. ``spans``: the places of the arguments."""
    is_literal = getattr(step.args, "written_out", lambda name: False)
    for name in tool.secret & spans.keys():
        if is_literal(name):
            message = (
                f"the definition contains the secret {name!r} of tool {tool.name!r}, and is "
                f"stored and displayed"
            )
            hint = (
                f"pass it as an input (--set {name}=${name}) or read it in the tool; then "
                f"replace the secret"
            )
            problems.warn("flow.literal-secret", message, spans[name], hint)


def check_passed(step: Invoke, flow: Flow, problems: Diagnostics) -> None:
    """Check that a call passes what its callee certainly reads."""
    if step.args.names is None:
        return
    passed = dict(step.args.names)
    read = {ref.path[-1] for ref in flow.inputs}
    for ref in flow.inputs if step.pick is None else ():  # the chooser also gives the arguments
        name = ref.path[-1]
        if ref.certain and name not in passed:
            near_names = misspelled_names([name], passed.keys() - read)
            hint = f"did you mean {name}?" if near_names else _give(step, passed, name)
            span = passed[near_names.pop()] if near_names else None
            message = f"{flow.name!r} reads {name!r}, which this step does not pass"
            related = (("read here", ref.span),) if ref.span else ()
            place = span or step.name.span
            problems.add(Diagnostic("flow.not-passed", message, place, hint, related=related))


def _give(step: Invoke, passed: Collection[str], name: str) -> str:
    """The hint how to pass ``name`` besides what ``step`` passes already."""
    key = "input_mapping" if step.word == "subgraph" else "pass"
    pairs = step.args.values if isinstance(step.args, NamedArguments) else ()
    # In a list, a name is its own value.
    is_mapping = key != "pass" or any(given.span != value.span for given, value in pairs)
    if is_mapping and passed:
        return f"add {name}: {name} to {key}"
    return f"{key}: {{{name}: {name}}}" if is_mapping else f"pass: [{', '.join([*passed, name])}]"


def check_schema(name: Name, schemas: Mapping[str, Schema], problems: Diagnostics) -> bool:
    """Whether the schema ``name`` and all schemas to which it refers exist. Missing schemas are
    reported."""
    if name.text not in schemas:
        hint = (
            suggest(name.text, schemas, "schemas")
            or f"declare it: a document with schema: {name.text}"
        )
        problems.error("flow.unknown-schema", f"no schema {name.text!r}", name.span, hint)
        return False
    used, missing = resolve([name.text], schemas)
    chain = cycle(used)
    if chain:
        problems.error(
            "schema.cycle", f"schemas refer to each other: {' → '.join(chain)}", name.span
        )
    for ref in missing:
        hint = suggest(ref.schema, schemas) or f"declare it: a document with schema: {ref.schema}"
        message = f"no schema {ref.schema!r}, which schema {name.text!r} refers to"
        problems.error("flow.unknown-schema", message, ref.span or name.span, hint)
    return not chain and not missing
