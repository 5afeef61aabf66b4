"""Calls whose outcome nobody knows: nothing repeats one with an effect without a person (decision D7), and no `Retry`
calls any of them beside the first call (decision D46)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.engine.calls.failures import UnknownEffect
from agf_magics.engine.host.host import Host
from agf_magics.engine.threads.user_code import LeftRunning, TimedOut
from agf_magics.mcp.client.session import Gone
from agf_magics.text.diagnostics import Diagnostic, StepError

pytestmark = pytest.mark.usefixtures("journaled")

LEFT = LeftRunning(1.0, "left running: pay")
ENDED = Gone(Diagnostic("mcp.gone", "MCP server 'bank' ended during the call"))
INNER = UnknownEffect(Diagnostic("step.unknown-outcome", "the outcome of 'mail' is unknown: it was lost"))
UNKNOWN = {
    "left running": (LEFT, "step.timeout", "it took longer than 1 s (left running: pay)"),
    "its server ended": (ENDED, "mcp.gone", "MCP server 'bank' ended during the call"),
    "a run inside it": (INNER, "step.unknown-outcome", "the outcome of 'mail' is unknown: it was lost"),
}
KNOWN = {
    "stopped in time": (TimedOut(1.0), "step.timeout"),
    "its own timeout": (TimeoutError("no answer"), "step.tool-failed"),
    "its own failure": (StepError(Diagnostic("mcp.result", "no JSON")), "mcp.result"),
}


def paying(error: Exception, **options: Any) -> tuple[agf.Registry, list[int]]:
    """A registry whose tool `pay` fails with ``error``, and the list of its calls."""
    registry, paid = agf.Registry(), list[int]()

    @agf.tool(registry=registry, **options)
    def pay(amount: int) -> str:
        paid.append(amount)
        raise error

    return registry, paid


def pay_flow(on_error: str) -> str:
    return f"pipeline: p\nsteps:\n- tool: {{name: pay, args: {{amount: 5}}, on_error: {on_error}}}\n"


@pytest.mark.parametrize("on_error", ["abort", "continue", "retry(2)"])
@pytest.mark.parametrize("how", UNKNOWN)
def test_a_call_with_an_effect_waits_for_a_person(how: str, on_error: str) -> None:
    error, _, why = UNKNOWN[how]
    registry, paid = paying(error, reuse=False)
    run = agf.run(pay_flow(on_error), registry=registry, raises=False)
    assert (run.status, run.error.code) == ("waiting", "step.unknown-outcome")
    assert run.error.diagnostic.message == f"the outcome of 'pay' is unknown: {why}"
    again = agf.resume(run.run_id, registry=registry, raises=False)
    assert (again.status, again.error.code, paid) == ("waiting", "step.unknown-outcome", [5])
    assert agf.resume(run.run_id, registry=registry, answer={"result": "paid"}).output == "paid"
    assert paid == [5]


@pytest.mark.parametrize("how", ["left running", "its server ended"])
def test_a_call_without_an_effect_fails_and_its_retry_does_not_repeat_it(how: str) -> None:
    error, code, _ = UNKNOWN[how]
    registry, paid = paying(error, retry=agf.Retry(2, on=(Exception,), first=0))
    run = agf.run(pay_flow("abort"), registry=registry, raises=False)
    assert (run.status, run.error.code, paid) == ("error", code, [5])


@pytest.mark.parametrize("how", KNOWN)
def test_a_call_that_has_ended_has_failed(how: str) -> None:
    error, code = KNOWN[how]
    registry, paid = paying(error, reuse=False, retry=agf.Retry(1, on=(Exception,), first=0))
    run = agf.run(pay_flow("abort"), registry=registry, raises=False)
    assert (run.status, run.error.code, len(paid)) == ("error", code, 2)


@pytest.mark.parametrize("on_error", ["abort", "continue"])
def test_a_run_inside_a_tool_without_an_effect_passes_it_on(on_error: str) -> None:
    registry, paid = paying(INNER, retry=agf.Retry(2, on=(Exception,), first=0))
    run = agf.run(pay_flow(on_error), registry=registry, raises=False)
    assert (run.status, run.error.code, paid) == ("waiting", "step.unknown-outcome", [5])


@pytest.fixture
def blocked(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """An event that a call waits for, which no interrupt reaches."""
    monkeypatch.setattr(Host.__init__, "__defaults__", (None, 0.0))
    event = threading.Event()
    yield event
    event.set()


@pytest.mark.parametrize(("reuse", "status"), [(False, "waiting"), (True, "error")])
def test_a_call_that_is_left_running_is_not_made_beside_itself(
    reuse: bool, status: str, blocked: threading.Event
) -> None:
    registry, calls = agf.Registry(), list[int]()

    @agf.tool(registry=registry, where="thread", timeout=0.2, reuse=reuse, retry=agf.Retry(2, first=0))
    def pay(amount: int) -> None:
        calls.append(amount)
        blocked.wait()

    run = agf.run(pay_flow("abort"), registry=registry, raises=False)
    assert (run.status, calls) == (status, [5])
    assert "took longer than 0.2 s (left running: pay)" in run.error.diagnostic.message
    if not reuse:
        assert agf.resume(run.run_id, registry=registry, raises=False).status == "waiting"
        assert calls == [5]
