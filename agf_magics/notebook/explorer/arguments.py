"""The arguments of a page's requests, read and checked: the row of a step, its flow, numbers, texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...engine.linking.linked import Linked, flow_at
from ...flow.flow import Flow
from ...flow.progress.rows import Row
from ...flow.session_tools import tool_id
from ...flow.step_names import only_call
from ...journal.run_calls import RunCalls
from ...lifecycle.past.calls_of_run import calls_of
from ...lifecycle.run_internals import linked_flow
from ...pictures.pages.updates import session_tools
from ...pictures.plain import line
from .request_types import NO_JOURNAL, AnyRun, Refused


def linked_within(linked: Linked, calls: Sequence[str]) -> Linked:
    """The flow that the calls with these ids lead to. The page splits a path at each slash, and an id may have
    one."""
    flow, rest = linked, "/".join(calls)
    while rest:
        ids = (id for id in flow.callees if f"{rest}/".startswith(f"{id}/"))
        inner = next(((id, one) for id in ids if (one := flow_at(flow, [id])) is not None), None)
        if inner is None:
            raise Refused("this step calls no flow that can be drawn")
        id, flow = inner
        rest = rest[len(id) + 1 :]
    return flow


def row_of(run: AnyRun, arguments: Mapping[str, Any]) -> Row:
    """The row of the step that a request names by its id."""
    id = arguments.get("step")
    row = run.progress.rows.get(tuple(str(id).split("/")))
    if row is None or row.id != id:  # an id may have a slash, and then the split key is wrong
        row = next(
            (candidate for candidate in list(run.progress.rows.values()) if candidate.id == id),
            None,
        )
    if row is None:  # one of the tools of a session, whose calls are one step
        calls = (
            session
            for session, tool in session_tools(run.progress)
            if tool_id(session.id, tool) == id
        )
        row = next(calls, None)
    if row is not None:
        # A step around a single call, such as a policy for its failures, is shown as the call.
        return row.elements[0] if only_call(row.step) is not None else row
    raise Refused(f"the run has no step {line(str(id), 100)!r}")


def calls_or_refuse(run: AnyRun) -> RunCalls:
    """The calls in the journal of a run; without a journal the request is refused."""
    calls = calls_of(run)
    if calls is None:
        raise Refused(NO_JOURNAL)
    return calls


def natural(number: object) -> int:
    """A number that the page sent; 0 if it is no whole number, negative or too large."""
    return number if type(number) is int and 0 <= number < 1 << 40 else 0


def naturals(numbers: object) -> tuple[int, ...]:
    """The first numbers of a list that the page sent, each as `natural`; empty if it sent no list."""
    return tuple(natural(number) for number in numbers[:20]) if isinstance(numbers, list) else ()


def texts_of(texts: object) -> list[str]:
    """The first texts of a list that the page sent; empty if it sent no list."""
    return (
        [text for text in texts[:1_000] if isinstance(text, str)] if isinstance(texts, list) else []
    )


def flow_of(run: AnyRun, row: Row) -> Flow:
    """The flow that has the step of a row: the run's flow or a flow that it calls."""
    return linked_within(linked_flow(run), row.key[:-1]).flow
