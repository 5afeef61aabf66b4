"""`@tool(retry=…, rate=…, at_once=…)`: failed calls are repeated, and calls wait for their turn."""

from __future__ import annotations

import asyncio
import email.utils
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.catalog.tools.throttle import Gate, asked_pause, pause_after, status_of
from agf_magics.flow.progress.events import Progressed, StepStarted
from agf_magics.flow.progress.progress import Progress
from agf_magics.pictures.row_words import activity
from notebooks.scripted_server import LocalServer, Raw, Stream
from tests.engine.virtual_time import run_virtual

FAN = """
pipeline: fan
steps:
- for_each:
    over: ctx.xs
    max_parallel: 16
    on_error: {policy}
    do: {{tool: {{name: fetch, args: {{x: !expr item}}}}}}
    collect: {{transform: {{value: '{{ok: pipe, failed: __errors__}}'}}}}
"""
ONE = "pipeline: one\nsteps:\n- tool: {name: fetch, args: {x: 1}}\n"


class Answered(Exception):
    """An exception as an HTTP library raises it."""

    def __init__(self, status: int, **headers: str) -> None:
        super().__init__(f"status {status}")
        self.response = type("Response", (), {"status_code": status, "headers": headers})()


class Now:
    """Records the virtual times of the calls of `fetch`, which fails with the given errors in order."""

    def __init__(self, *errors: Exception, **options: Any) -> None:
        self.registry, self.starts, self.events = agf.Registry(), list[float](), list[Any]()
        self.running = self.most = 0

        @agf.tool(registry=self.registry, **options)
        async def fetch(x: int) -> int:
            loop = asyncio.get_running_loop()
            self.starts.append(loop.time())
            if len(self.starts) <= len(errors):
                raise errors[len(self.starts) - 1]
            self.running += 1
            self.most = max(self.most, self.running)
            await asyncio.sleep(0.1)
            self.running -= 1
            return x

    def run(self, text: str = ONE, xs: int = 0) -> agf.Run:
        flow = agf.load(text, registry=self.registry)
        fields = {"xs": list(range(xs))} if xs else {}
        return run_virtual(
            agf.arun(flow, fields, registry=self.registry, raises=False, on_event=self.events.append, stream=True)
        )


def test_a_failed_call_is_made_again_after_a_growing_pause() -> None:
    now = Now(*[ConnectionError("down")] * 3, retry=agf.Retry(3, first=1, factor=3))
    run = now.run()
    assert run.output == 1
    pauses = [b - a for a, b in zip(now.starts, now.starts[1:], strict=False)]
    assert [0.75 * n <= pause <= 1.25 * n for n, pause in zip((1, 3, 9), pauses, strict=True)] == [True] * 3
    assert [str(warning.code) for warning in run.warnings] == ["tool.retried"]
    texts = [event.text for event in now.events if isinstance(event, Progressed)]
    assert texts[1::2] == [""] * 3, "it is over when the call begins"
    assert all(text.startswith("again in ") and text.endswith(" s (ConnectionError)") for text in texts[::2])


def test_the_last_failure_is_that_of_the_step() -> None:
    now = Now(*[ConnectionError("down")] * 9, retry=agf.Retry(2))
    run = now.run()
    assert (run.status, len(now.starts)) == ("error", 3)
    assert "tool 'fetch' failed: ConnectionError: down" in str(run.error)


@pytest.mark.parametrize(
    ("error", "calls"),
    [
        (Answered(503), 2),
        (Answered(429), 2),
        (Answered(404), 1),
        (Answered(401), 1),
        (TimeoutError(), 2),
        (ValueError("wrong"), 1),
        (type("ConnectError", (type("TransportError", (Exception,), {"__module__": "httpx"}),), {})(), 2),
    ],
    ids=["503", "429", "404", "401", "timeout", "value", "httpx"],
)
def test_only_temporary_errors_are_repeated(error: Exception, calls: int) -> None:
    now = Now(error, retry=agf.Retry(3))
    now.run()
    assert len(now.starts) == calls


def test_on_names_the_exceptions() -> None:
    now = Now(ValueError("wrong"), retry=agf.Retry(3, on=ValueError))  # type: ignore[arg-type]
    assert (now.run().output, len(now.starts)) == (1, 2)
    now = Now(ConnectionError(), retry=agf.Retry(3, on=(ValueError,)))
    now.run()
    assert len(now.starts) == 1


def test_a_server_that_asks_for_a_pause_gets_it_from_all_calls() -> None:
    now = Now(Answered(429, **{"Retry-After": "7"}), retry=agf.Retry(3))
    run = now.run(FAN.format(policy="abort"), xs=40)
    assert run.output == {"ok": list(range(40)), "failed": []}
    first, *later_starts = now.starts
    assert (first, min(later_starts)) == (0.0, 7.0)


def test_no_pause_is_longer_than_the_longest() -> None:
    retry = agf.Retry(9, first=28, most=30)
    pauses = [pause_after(retry, attempt) for attempt in (1, 2, 70) for _ in range(300)]
    assert max(pauses) <= 30


def test_a_pause_that_is_too_long_fails_now() -> None:
    now = Now(Answered(429, **{"Retry-After": "315360000"}), retry=agf.Retry(3))
    run = now.run()
    assert (run.status, now.starts) == ("error", [0.0])
    assert str(run.warnings[0].message) == (
        "tool 'fetch' is not called again: its server asks to wait 315,360,000 s (HTTP 429), "
        "and its Retry waits at most 60 s"
    )


@pytest.mark.parametrize(
    ("header", "seconds"), [("2.5", 2.5), ("-1", 0.0), ("soon", None), ("nan", None), ("inf", None), ("", None)]
)
def test_retry_after_in_seconds(header: str, seconds: float | None) -> None:
    assert asked_pause(Answered(429, **{"retry-after": header})) == seconds


def test_retry_after_as_a_date() -> None:
    date = email.utils.formatdate(time.time() + 30, usegmt=True)
    pause = asked_pause(Answered(503, **{"Retry-After": date}))
    assert pause is not None
    assert 25 < pause <= 30


def test_the_status_of_the_libraries() -> None:
    assert status_of(Answered(418)) == 418
    assert status_of(urllib.request.HTTPError("u", 503, "m", {}, None)) == 503  # type: ignore[arg-type]
    assert status_of(OSError(111, "refused")) is None
    assert status_of(type("Broken", (Exception,), {"status": property(lambda self: 1 / 0)})()) is None


def test_the_rate_holds_in_every_window() -> None:
    now = Now(rate="20/s")
    run = now.run(FAN.format(policy="abort"), xs=100)
    assert len(run.output["ok"]) == 100
    starts = sorted(now.starts)
    assert all(b - a >= 1 - 1e-9 for a, b in zip(starts, starts[20:], strict=False))
    assert max(starts) < 5


def test_at_once_holds_for_all_runs() -> None:
    now = Now(at_once=3)
    flow = agf.load(FAN.format(policy="abort"), registry=now.registry)

    async def both() -> None:
        await asyncio.gather(*(agf.arun(flow, {"xs": list(range(20))}, registry=now.registry) for _ in range(2)))

    run_virtual(both())
    assert now.most == 3


def test_at_once_holds_for_plain_functions_and_threads() -> None:
    registry, lock, state, apart = agf.Registry(), threading.Lock(), [0, 0], threading.Event()

    @agf.tool(registry=registry, at_once=2)
    def fetch(x: int) -> int:
        with lock:
            state[0] += 1
            state[1] = max(state)
        apart.wait(0.002)  # the work
        with lock:
            state[0] -= 1
        return x

    flow = agf.load(FAN.format(policy="abort"), registry=registry)
    runs = list[Any]()
    threads = [
        threading.Thread(target=lambda: runs.append(agf.run(flow, {"xs": list(range(10))}, registry=registry)))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [run.output["ok"] for run in runs] == [list(range(10))] * 3
    assert state == [0, 2]


@pytest.mark.parametrize(
    ("rate", "cancelled_at", "starts"),
    [
        pytest.param(None, 0.5, {"a": 0.0, "c": 1.0}, id="while it waits for a call"),
        pytest.param("1/min", 0.5, {"a": 0.0, "c": 60.0}, id="before the rate"),
        pytest.param("1/min", 30.0, {"a": 0.0, "c": 60.0}, id="while it waits for the rate"),
    ],
)
def test_a_cancelled_call_passes_its_turn_on(
    rate: str | None, cancelled_at: float, starts: Mapping[str, float]
) -> None:
    gate, started = Gate(), dict[str, float]()
    gate.limit(rate, 1)

    async def work(name: str) -> None:
        started[name] = asyncio.get_running_loop().time()
        await asyncio.sleep(1)

    async def main() -> None:
        begin = asyncio.get_running_loop().time()
        first, second, third = (asyncio.ensure_future(gate.pass_through(lambda n=n: work(n))) for n in "abc")  # type: ignore[misc]
        await asyncio.sleep(cancelled_at)
        second.cancel()
        await asyncio.wait([first, second, third], timeout=600)
        assert third.done(), "nobody has woken it"
        assert {name: when - begin for name, when in started.items()} == pytest.approx(starts)

    run_virtual(main())


def test_a_wider_limit_holds_for_the_calls_that_wait() -> None:
    gate, ended = Gate(), list[float]()
    gate.limit(None, 1)

    async def work() -> None:
        await asyncio.sleep(10)
        ended.append(asyncio.get_running_loop().time())

    async def main() -> None:
        begin = asyncio.get_running_loop().time()
        calls = [asyncio.ensure_future(gate.pass_through(work)) for _ in range(4)]
        await asyncio.sleep(5)
        gate.limit(None, 3)
        await asyncio.gather(*calls)
        assert [when - begin for when in ended] == pytest.approx([10, 15, 15, 20])

    run_virtual(main())


def test_a_tool_that_runs_a_flow_that_calls_it_does_not_wait_for_itself() -> None:
    registry = agf.Registry()

    @agf.tool(registry=registry, at_once=1)
    async def fetch(x: int) -> int:
        if x > 0:
            return (await agf.arun(inner, {"x": x - 1}, registry=registry)).output  # type: ignore[no-any-return]
        return 7

    inner = agf.load("pipeline: inner\nsteps:\n- tool: {name: fetch, args: {x: !expr ctx.x}}\n", registry=registry)
    assert run_virtual(agf.arun(inner, {"x": 2}, registry=registry)).output == 7


def test_each_attempt_has_arguments_of_its_own() -> None:
    registry, received = agf.Registry(), list[Any]()

    @agf.tool(registry=registry, retry=agf.Retry(1, first=0))
    def fetch(rows: list[int]) -> int:
        received.append(list(rows))
        rows.append(9)
        if len(received) == 1:
            raise ConnectionError
        return len(rows)

    text = "pipeline: p\nsteps:\n- tool: {name: fetch, args: {rows: [1, 2]}}\n"
    assert agf.run(agf.load(text, registry=registry), registry=registry).output == 3
    assert received == [[1, 2], [1, 2]]


def test_a_tool_that_is_registered_again_keeps_its_gate() -> None:
    now = Now(rate="1/min")
    gate = now.registry.tools["fetch"].throttle.gate  # type: ignore[union-attr]
    agf.tool(lambda x: x, name="fetch", registry=now.registry, at_once=2)
    assert now.registry.tools["fetch"].throttle.gate is gate  # type: ignore[union-attr]
    agf.tool(lambda x: x, name="fetch", registry=now.registry)
    assert now.registry.tools["fetch"].throttle is None


RATES = '"20/s", "100/min" or "1000/h", with a number from 1'


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"rate": "0/s"}, ValueError, f"rate must be written {RATES}, got '0/s'"),
        ({"rate": "20"}, ValueError, f"rate must be written {RATES}, got '20'"),
        ({"rate": 20}, TypeError, 'rate must be a text such as "20/s", got 20'),
        ({"at_once": 0}, ValueError, "at_once must be at least 1, got 0"),
        ({"at_once": True}, TypeError, "at_once must be a whole number, got True"),
        ({"retry": 3}, TypeError, "retry must be an agf.Retry, got 3: write retry=agf.Retry(3)"),
    ],
)
def test_wrong_options(options: Mapping[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error) as caught:
        agf.tool(lambda x: x, name="t", registry=agf.Registry(), **options)
    assert str(caught.value) == says


@pytest.mark.parametrize(
    ("options", "error"),
    [({"times": -1}, ValueError), ({"times": True}, ValueError), ({"on": "x"}, TypeError), ({"on": KeyboardInterrupt},
     TypeError), ({"first": float("nan")}, ValueError), ({"most": 1e9}, ValueError), ({"factor": "2"}, ValueError)],
)  # fmt: skip
def test_a_wrong_retry(options: Mapping[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match="Retry: "):
        agf.Retry(**options)


class Flaky(LocalServer):
    """A service that fails three of ten requests, and counts them."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.running, self.most = Counter[str](), 0, 0

    def reply(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> Raw | Stream:
        with self._lock:
            self.asked[path] += 1
            self.running += 1
            self.most, number = max(self.most, self.running), sum(self.asked.values())
        self._over.wait(0.001)  # the work
        with self._lock:
            self.running -= 1
        if number % 10 == 3:
            return Raw("slow down", 429, {"Retry-After": "0.02"})
        return Raw("restarting", 503) if number % 10 in (5, 8) else Raw('"fine"')


@pytest.mark.parametrize("on", [None, "processes:2"])
def test_a_flaky_service_is_asked_as_often_as_it_allows(on: str | None) -> None:
    registry = agf.Registry()
    with Flaky() as server:
        address = server.address

        @agf.tool(registry=registry, retry=agf.Retry(8, first=0.005, most=1), at_once=4)
        def fetch(x: int) -> str:
            request = urllib.request.Request(f"{address}/{x}", data=b"{}")
            with urllib.request.urlopen(request, timeout=30) as reply:
                return str(reply.read().decode())

        flow = agf.load(FAN.format(policy="continue"), registry=registry)
        run = agf.run(flow, {"xs": list(range(120 if on else 500))}, registry=registry, on=on)
        assert run.output == {"ok": ['"fine"'] * (120 if on else 500), "failed": []}
        assert server.most <= 4
        assert max(server.asked.values()) <= 9


def test_the_row_says_when_the_call_is_made_again() -> None:
    registry = agf.Registry()
    agf.tool(lambda x: x, name="fetch", registry=registry)
    progress = Progress(agf.load(ONE, registry=registry))
    path = ("steps[0]",)
    progress.apply(StepStarted(path, 1.0))
    progress.apply(Progressed(path, 2.0, text="again in 0.3 s (HTTP 429)"))
    row = progress.rows[path]
    assert activity(row) == "again in 0.3 s (HTTP 429)"
    progress.apply(Progressed(path, 2.3))
    assert activity(row) == ""


def test_the_warning_comes_once_in_a_run_whatever_the_reason() -> None:
    errors = [ConnectionError("down"), TimeoutError(), Answered(503), Answered(429)]
    run = Now(*errors, retry=agf.Retry(9, first=0)).run(FAN.format(policy="abort"), xs=20)
    assert run.status == "ok"
    assert [warning.code for warning in run.warnings] == ["tool.retried"]
    answers = [Answered(429, **{"Retry-After": str(100 + number)}) for number in range(20)]
    run = Now(*answers, retry=agf.Retry(9)).run(FAN.format(policy="continue"), xs=20)
    assert [warning.code for warning in run.warnings] == ["tool.retried", "run.all-dropped"]


def test_a_failed_element_is_one_value_after_its_retries() -> None:
    now = Now(*[ConnectionError("down")] * 99, retry=agf.Retry(1, first=0))
    run = now.run(FAN.format(policy="'retry(1, then: continue)'"), xs=2)
    error = "tool 'fetch' failed: ConnectionError: down"
    assert run.output == {"ok": [], "failed": [{"index": i, "error": error} for i in range(2)]}
    assert len(now.starts) == 8, "two attempts of each element, each with one more call"


PARALLEL = "pipeline: many\nsteps:\n- parallel:\n    branches:\n{}    collect: {{transform: {{value: pipe}}}}\n"


@pytest.mark.parametrize(("count", "kind", "warned"), [(9, "agent", True), (8, "agent", False), (9, "tool", False)])
def test_many_agents_at_once_are_a_warning(count: int, kind: str, warned: bool) -> None:
    registry = agf.Registry()
    agf.agent(lambda prompt: prompt, name="ask", registry=registry)
    agf.tool(lambda: 1, name="work", registry=registry)
    step = {"agent": "agent: {prompt: hi}", "tool": "tool: {name: work}"}[kind]
    branches = "".join(f"      b{number}: {{{step}}}\n" for number in range(count))
    run = agf.run(PARALLEL.format(branches), registry=registry)
    warnings = [warning for warning in run.warnings if warning.code == "flow.unlimited"]
    assert len(warnings) == warned
    if warnings:
        assert warnings[0].message == "9 branches ask agents at the same time, and nothing limits them"
        assert warnings[0].span is not None


@pytest.mark.parametrize(
    ("options", "on_error", "warned"),
    [
        ({"reuse": False}, "retry(2)", True),
        ({"reuse": False}, "continue", False),
        ({"reuse": False, "retry": agf.Retry(1)}, "retry(2)", False),
        ({}, "retry(2)", False),
    ],
)
@pytest.mark.parametrize("text", [None, FAN], ids=["step", "fan-out"])
def test_a_retry_of_an_effect_that_its_author_did_not_allow_is_a_warning(
    text: Any, options: Any, on_error: str, warned: bool
) -> None:
    registry = agf.Registry()
    agf.tool(lambda x: x, name="fetch", registry=registry, **options)
    flow_text = f"pipeline: one\nsteps:\n- tool: {{name: fetch, args: {{x: 1}}, on_error: {on_error}}}\n"
    run = agf.run(text.format(policy=on_error) if text else flow_text, {"xs": [1]} if text else None, registry=registry)
    warnings = [warning for warning in run.warnings if warning.code == "flow.repeated-effect"]
    assert len(warnings) == warned
    if warnings:
        assert warnings[0].message == "retry repeats 'fetch', which has an effect (reuse=False)"
        assert warnings[0].span.text == "fetch"


INNER = "pipeline: inner\nsteps:\n- tool: {name: mail, args: {x: 1}}\n- tool: {name: mail, args: {x: 2}}\n"
OUTER = "pipeline: outer\nsteps:\n- call: {pipeline: inner}\n"
EACH = "for_each: {items: [1], on_error: retry(1), do: {call: {pipeline: outer}}, collect: {transform: {value: pipe}}}"
AROUND = {
    "a flow": ("call: {pipeline: inner, on_error: retry(1)}", "inner"),
    "a flow in a flow": ("call: {pipeline: outer, on_error: retry(1)}", "outer"),
    "each of a list": (EACH, "outer"),
    "no retry": ("call: {pipeline: outer, on_error: continue}", None),
}


@pytest.mark.parametrize("options", [{"reuse": False}, {"reuse": False, "retry": agf.Retry(1)}, {}])
@pytest.mark.parametrize("around", AROUND)
def test_a_retry_around_a_flow_with_an_effect_is_a_warning(around: str, options: Any) -> None:
    registry = agf.Registry()
    agf.tool(lambda x: x, name="mail", registry=registry, **options)
    agf.define(INNER, registry=registry)
    agf.define(OUTER, registry=registry)
    step, name = AROUND[around]
    run = agf.run(f"pipeline: p\nsteps:\n- {step}\n", registry=registry)
    warnings = [warning for warning in run.warnings if warning.code == "flow.repeated-effect"]
    if name is None or options != {"reuse": False}:
        assert warnings == []
        return
    (warning,) = warnings
    assert warning.message == "retry repeats 'mail', which has an effect (reuse=False)"
    assert (warning.span.text, [span.text for _, span in warning.related]) == (name, ["mail"])


@pytest.mark.parametrize("how", ["its time is over", "its run is cancelled", "its loop has ended"])
def test_a_call_that_is_left_running_keeps_its_place(how: str) -> None:
    """It counts for `at_once` until its function returns, whatever has become of its run."""
    registry, lock, state, ends = agf.Registry(), threading.Lock(), [0, 0], threading.Event()
    begun = threading.Event()

    @agf.tool(registry=registry, at_once=1, timeout=0.2 if how != "its run is cancelled" else None, where="thread")
    def fetch(x: int) -> int:
        with lock:
            state[0] += 1
            state[1] = max(state)
        begun.set()
        ends.wait(20 if x == 0 else 0)
        with lock:
            state[0] -= 1
        return x

    flow = agf.load(FAN.format(policy="continue"), registry=registry)
    first = agf.load(FAN.format(policy="abort"), registry=registry)
    if how == "its loop has ended":
        run = asyncio.run(agf.arun(first, {"xs": [0]}, registry=registry, raises=False))
    else:
        run = agf.start(first, {"xs": [0]}, registry=registry)
        assert begun.wait(20)
        if how == "its run is cancelled":
            run.cancel()
        run.wait()
    assert (run.status, state) == ("cancelled" if how == "its run is cancelled" else "error", [1, 1])
    second = agf.start(flow, {"xs": [1, 2]}, registry=registry)
    time.sleep(0.3)
    assert (second.done, state) == (False, [1, 1])
    ends.set()
    assert second.wait().output["ok"] == [1, 2]
    assert state == [0, 1]
