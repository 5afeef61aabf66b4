"""Makes the results of calls in a dry run, from schemas."""

from __future__ import annotations

from collections.abc import Sequence

from ...catalog import Agent, Tool
from ...flow.step_options import ResultRead
from ...flow.steps import Invoke
from ...schemas.sample import sample
from ...schemas.schema import json_schema
from ...values.value import Value
from ..linking.linked import Linked, accepts_of


def result(step: Invoke, callee: Tool | Agent | None, linked: Linked) -> Value:
    """A value for the step's schema or the function's return annotation, or without these null (for
    an agent a text). It has all fields that the definition reads.

    ``callee``: the callee; None: no agent is registered yet.
    """
    if step.gives is not None:
        return sample(
            json_schema(linked.schemas[step.gives.text], linked.schemas, all_required=True)
        )
    if step.asking.schema is not None:
        return sample(step.asking.schema)
    gives = getattr(callee, "gives", None)
    if gives is not None and (isinstance(callee, Tool) or gives.get("type") != "string"):
        return add_fields(sample(gives), step, linked)
    if isinstance(callee, Tool):
        return None
    return add_fields(
        f"(a reply of {callee.name})" if callee is not None else "(a reply)", step, linked
    )


def add_fields(value: Value, step: Invoke, linked: Linked) -> Value:
    """``value`` with the fields that the definition reads of this step's result. A field has the
    type that its reader accepts, or is a text."""
    for read in linked.flow.declared.result_reads:
        if read.step == step.id:
            value = _with([name for name, _ in read.fields], value, _placeholder(read, linked))
    return value


def _with(names: Sequence[str], value: Value, placeholder: Value) -> Value:
    """``value`` with ``placeholder`` at the path ``names``, unless there is a value."""
    if not names:
        return placeholder
    name, *inner_names = names
    fields = value if type(value) is dict else {}
    if name in fields and not inner_names:
        return fields
    return {**fields, name: _with(inner_names, fields.get(name), placeholder)}


def _placeholder(read: ResultRead, linked: Linked) -> Value:
    """A value of the type that the reader of a field accepts."""
    reader, name = read.into if read.into is not None else ("", "")
    accepts = accepts_of(linked.callees.get(reader)) or {}
    field = accepts.get("properties", {}).get(name)
    if not isinstance(field, dict):
        return "text"
    return sample({**field, "$defs": accepts.get("$defs", {})})
