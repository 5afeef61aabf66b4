"""The queue of calls for workers, with a backend in virtual time: chunks, limits, losses, effects and cancellation."""

from __future__ import annotations

import asyncio
import heapq
import io
import pickle
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agf_magics as agf
from agf_magics.engine.host.remote_calls import Terms
from agf_magics.engine.threads.call_threads import ThreadCall
from agf_magics.flow.progress.events import StepCancelled, StepFinished, StepPrinted, StepStarted
from agf_magics.lifecycle.runs.run import Run
from agf_magics.workers.backends.backend import Lost
from agf_magics.workers.call_queue import CallQueue
from tests.engine.virtual_time import run_virtual
from tests.workers.fans import FAN

Script = Callable[[int, list[Any]], Any]


def arguments_of(order: tuple[Any, ...]) -> list[dict[str, Any]]:
    """The arguments of the calls in the order of a chunk."""
    file = io.BytesIO(order[2])
    return [pickle.load(file) for _ in order[3]]


class Fake:
    """A simulated backend of ``lanes`` workers whose calls take ``seconds`` each. ``script(n, xs)``: the outcome of
    chunk ``n`` (from 0) with the calls ``xs``; None: the results of the calls."""

    name = "fakes"
    kills = False

    def __init__(
        self, lanes: int = 2, seconds: float = 0.01, identifies: bool = True, script: Script = lambda n, xs: None
    ) -> None:
        self.lanes, self.seconds, self.identifies_lost_chunk, self.script = lanes, seconds, identifies, script
        self.chunks: list[list[Any]] = []
        """The ``x`` of the calls of each chunk, in the order of `submit`."""
        self.sent: list[bytes] = []
        """All bytes that were sent."""
        self.cancelled: list[int] = []
        self.in_flight = self.peak = 0
        self.twice = False
        """Whether each outcome is reported twice."""
        self._free = [0.0] * lanes

    def submit(
        self, run: Callable[..., Any], order: tuple[Any, ...], done: Callable[[Any], None]
    ) -> Callable[[], None]:
        loop, number = asyncio.get_running_loop(), len(self.chunks)
        data = pickle.dumps(order)
        self.sent.append(data)
        xs = [arguments["x"] for arguments in arguments_of(order)]
        self.chunks.append(xs)
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        begin = max(heapq.heappop(self._free), loop.time())
        heapq.heappush(self._free, begin + self.seconds * len(xs))

        def land() -> None:
            self.in_flight -= 1
            outcome = self.script(number, xs)
            if outcome is None:
                marks, values, _, *rest = run(*pickle.loads(data))
                outcome = (marks, values, self.seconds * sum(mark != "n" for mark in marks), *rest)
            for _ in range(1 + self.twice):
                done(outcome)

        timer = loop.call_at(begin + self.seconds * len(xs), land)

        def cancel() -> None:
            self.cancelled.append(number)
            if loop.time() < begin:
                timer.cancel()
                self.in_flight -= 1
                done(Lost("cancelled", cancelled=True))

        return cancel


LIMITED = FAN.replace("      on_error:", "      max_parallel: {limit}\n      on_error:")


def run_on(fake: Fake, text: str, xs: list[Any], work: Any, **options: Any) -> Run:
    registry = agf.Registry()
    agf.tool(work, name="work", registry=registry, **options)
    return run_virtual(agf.arun(text, {"xs": xs}, registry=registry, on=fake, raises=False))


def double(x: int) -> int:
    return x * 2


def fails_at_3(x: int) -> int:
    if x == 3:
        raise KeyError(x)
    return x


# --- chunks ---


def test_the_calls_of_one_turn_share_a_chunk() -> None:
    async def main() -> None:
        fake = Fake(lanes=1)
        queue, loop = CallQueue(fake), asyncio.get_running_loop()
        calls = [ThreadCall(double, {"x": x}, loop) for x in range(20)]
        for call in calls[:1]:
            queue.hand(call, Terms())
        await asyncio.sleep(1)
        for call in calls[1:5]:
            queue.hand(call, Terms())
        await asyncio.sleep(1)
        for call in calls[5:]:
            queue.hand(call, Terms())
        await asyncio.sleep(1)
        assert fake.chunks == [[0], [1, 2, 3, 4], list(range(5, 20))]
        assert [call.result for call in calls] == [(True, x * 2) for x in range(20)]

    run_virtual(main())


def test_chunks_grow_until_they_take_half_a_second() -> None:
    fake = Fake(lanes=1, seconds=0.01)
    run = run_on(fake, FAN.format(on_error="abort"), list(range(500)), double)
    assert run.output == [x * 2 for x in range(500)]
    sizes = [len(chunk) for chunk in fake.chunks]
    assert sizes[:2] == [1, 1], "two chunks are in flight before the first one has ended"
    for i, size in enumerate(sizes[1:], 1):
        assert size <= 8 * max(sizes[:i]), sizes
    assert max(sizes) == 50
    assert len(sizes) <= 20


@pytest.mark.parametrize(("seconds", "most"), [(0.0001, 1000), (0.001, 500), (0.1, 5), (2.0, 1)])
def test_the_size_of_a_chunk_follows_the_time_of_a_call(seconds: float, most: int) -> None:
    fake = Fake(lanes=2, seconds=seconds)
    count = 40 * most
    run = run_on(fake, FAN.format(on_error="abort"), list(range(count)), double)
    assert len(run.output) == count
    assert most * 0.5 <= max(len(chunk) for chunk in fake.chunks) <= most


def test_the_last_calls_are_shared_out_without_tiny_chunks() -> None:
    fake = Fake(lanes=4, seconds=0.001)
    run_on(fake, FAN.format(on_error="abort"), list(range(5000)), double)
    sizes = [len(chunk) for chunk in fake.chunks]
    grown = sizes[sizes.index(max(sizes)) :]
    assert sum(size < max(sizes) // 4 for size in grown) <= 1, grown
    assert len(sizes) <= 60


def test_heavy_arguments_make_small_chunks() -> None:
    fake = Fake(lanes=1, seconds=0.0)
    run_on(fake, FAN.format(on_error="abort"), [str(i) + "x" * 400_000 for i in range(100)], lambda_length)
    assert 18 <= max(len(chunk) for chunk in fake.chunks) <= 20


def lambda_length(x: str) -> int:
    return len(x)


def test_at_most_two_chunks_for_each_lane_are_in_flight() -> None:
    fake = Fake(lanes=3, seconds=0.02)
    run_on(fake, FAN.format(on_error="abort"), list(range(2000)), double)
    assert fake.peak == 6


def test_as_many_calls_have_started_as_are_in_flight_and_one_chunk_more_for_each_lane() -> None:
    begun, most = 0, 0

    def listen(event: Any) -> None:
        nonlocal begun, most
        if isinstance(event, StepStarted | StepFinished) and len(event.at) > 1:  # a step inside an element
            begun += 1 if isinstance(event, StepStarted) else -1
            most = max(most, begun)

    fake, registry = Fake(lanes=3, seconds=0.02), agf.Registry()
    agf.tool(double, name="work", reuse=False, registry=registry)  # with an effect, so each call is a chunk of its own
    text = FAN.format(on_error="abort")
    run_virtual(agf.arun(text, {"xs": list(range(50))}, registry=registry, on=fake, on_event=listen))
    assert (fake.peak, most) == (6, 9)


@pytest.mark.parametrize("limit", [2, 5])
def test_max_parallel_bounds_the_chunks_in_flight(limit: int) -> None:
    fake = Fake(lanes=4, seconds=0.01)
    run = run_on(fake, LIMITED.format(limit=limit, on_error="abort"), list(range(800)), double)
    assert len(run.output) == 800
    assert fake.peak == limit
    assert max(len(chunk) for chunk in fake.chunks) == 50


def test_a_body_of_several_calls_runs_enough_elements_for_the_workers() -> None:
    text = """
pipeline: main
steps:
  - for_each:
      over: ctx.xs
      on_error: abort
      do: {call: {pipeline: twice, pass: [item]}}
      collect: {transform: {value: pipe}}
"""
    twice = """
pipeline: twice
steps:
  - tool: {name: work, args: {x: !expr ctx.item}}
  - tool: {name: work, args: {x: !expr pipe}}
"""
    fake, registry = Fake(lanes=2, seconds=0.001), agf.Registry()
    agf.tool(double, name="work", registry=registry)
    agf.define(twice, registry=registry)
    run = run_virtual(agf.arun(text, {"xs": list(range(3000))}, registry=registry, on=fake))
    assert run.output == [x * 4 for x in range(3000)]
    assert len(fake.chunks) < 120
    assert max(len(chunk) for chunk in fake.chunks) > 100


def test_a_second_outcome_of_a_chunk_is_ignored() -> None:
    fake = Fake(lanes=2)
    fake.twice = True
    run = run_on(fake, FAN.format(on_error="abort"), list(range(300)), double)
    assert run.output == [x * 2 for x in range(300)]
    assert run.calls == 300


def test_an_abort_ends_its_chunk_and_nothing_more_is_sent() -> None:
    fake = Fake(lanes=1, seconds=0.01)
    run = run_on(fake, FAN.format(on_error="abort"), list(range(100)), fails_at_3)
    assert run.error.diagnostic.code == "step.tool-failed"
    (failed,) = [i for i, chunk in enumerate(fake.chunks) if 3 in chunk]
    assert len(fake.chunks) <= failed + 2, "the next chunk was in flight already"
    row = run.progress.rows["steps[0].do",]
    assert (row.failed, row.running) == (1, 0)
    assert row.finished + row.failed + row.cancelled == row.started


def test_retries_come_first() -> None:
    tries = Counter[int]()

    def once(x: int) -> int:
        tries[x] += 1
        if x == 3 and tries[x] == 1:
            raise KeyError(x)
        return x

    fake = Fake(lanes=1, seconds=0.01)
    fake.script = lambda n, xs: None
    run = run_on(fake, FAN.format(on_error="retry(2)"), list(range(200)), once)
    assert run.output == list(range(200)), run.error
    sent = [x for chunk in fake.chunks for x in chunk]
    assert sent.count(3) >= 2
    assert sent.index(3, sent.index(3) + 1) < 150


# --- losses ---


@pytest.mark.parametrize("identifies", [True, False])
def test_a_call_that_ends_its_worker_fails_alone(identifies: bool) -> None:
    fake = Fake(lanes=2, identifies=identifies)
    fake.script = lambda n, xs: Lost("gone") if 77 in xs else None
    run = run_on(fake, FAN.format(on_error="continue"), list(range(200)), double)
    assert run.output == [x * 2 for x in range(200) if x != 77]
    (failure,) = run.progress.failures
    assert failure.error.diagnostic.code == "step.worker-lost"  # type: ignore[attr-defined]
    lost = [chunk for chunk in fake.chunks if 77 in chunk]
    assert len(lost[0]) > 1
    assert lost[1:] == [[77]] * 3, "it is repeated three times, alone"


def test_a_pool_that_breaks_gets_one_suspect_at_a_time() -> None:
    def script(n: int, xs: list[Any]) -> Any:
        return Lost("broken") if n in (3, 4) else None

    fake = Fake(lanes=2, identifies=False, script=script)
    submit, alone = fake.submit, set[tuple[int, int]]()

    def watched(run: Any, order: Any, done: Any) -> Any:
        cancel = submit(run, order, done)
        suspects = {x for chunk in fake.chunks[3:5] for x in chunk}
        if len(fake.chunks) > 5 and suspects.issuperset(fake.chunks[-1]):
            alone.add((fake.in_flight, len(fake.chunks[-1])))
        return cancel

    fake.submit = watched  # type: ignore[method-assign]
    run = run_on(fake, FAN.format(on_error="abort"), list(range(60)), double)
    assert run.output == [x * 2 for x in range(60)]
    assert alone == {(1, 1)}


def test_a_call_with_an_effect_is_sent_once() -> None:
    fake = Fake(lanes=2, script=lambda n, xs: Lost("gone") if 5 in xs else None)
    run = run_on(fake, FAN.format(on_error="continue"), list(range(20)), double, reuse=False)
    assert {len(chunk) for chunk in fake.chunks} == {1}
    assert sum(5 in chunk for chunk in fake.chunks) == 1
    assert run.status == "waiting"
    assert run.error.code == "step.unknown-outcome"


def test_a_backend_that_fails_fails_the_calls() -> None:
    fake = Fake(script=lambda n, xs: RuntimeError("no scheduler"))
    run = run_on(fake, FAN.format(on_error="abort"), [1, 2], double)
    assert run.error.diagnostic.message == "fakes could not run 'work': RuntimeError: no scheduler"


class Unreadable:
    """An object that can be pickled but not unpickled."""

    def __reduce__(self) -> Any:
        return int, ("x",)


def test_a_result_that_the_kernel_cannot_read_fails_alone() -> None:
    def work(x: int) -> Any:
        return Unreadable() if x == 30 else x

    fake = Fake(lanes=1)
    run = run_on(fake, FAN.format(on_error="continue"), list(range(100)), work)
    assert run.output == [x for x in range(100) if x != 30]
    (failure,) = run.progress.failures
    assert failure.error.diagnostic.code == "step.unsent-result"  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.law
@settings(max_examples=15)
@given(
    lanes=st.integers(1, 4),
    count=st.integers(0, 300),
    lost=st.sets(st.integers(0, 40), max_size=12),
    identifies=st.booleans(),
    on_error=st.sampled_from(["abort", "continue"]),
    bad=st.sets(st.integers(0, 300), max_size=3),
    limit=st.sampled_from([None, 1, 3]),
)
def test_losses_do_not_change_the_outcome(
    lanes: int, count: int, lost: set[int], identifies: bool, on_error: str, bad: set[int], limit: int | None
) -> None:
    def work(x: int) -> int:
        if x in bad:
            raise KeyError(x)
        return -x

    losses = Counter[int]()

    def script(n: int, xs: list[Any]) -> Any:
        if n not in lost or any(losses[x] >= 3 for x in xs):  # a call that is lost four times may fail
            return None
        losses.update(xs)
        return Lost("gone")

    fake = Fake(lanes, 0.01, identifies, script)
    text = FAN.format(on_error=on_error) if limit is None else LIMITED.format(on_error=on_error, limit=limit)
    run = run_on(fake, text, list(range(count)), work)
    if on_error == "abort" and any(x < count for x in bad):
        assert run.error.diagnostic.code == "step.tool-failed"
    else:
        assert run.error is None
        assert run.output == [-x for x in range(count) if x not in bad]
    assert fake.in_flight == 0
    row = run.progress.rows["steps[0].do",]
    assert row.running == 0
    assert row.finished + row.failed + row.cancelled == row.started


# --- cancellation ---


@pytest.mark.parametrize(("after", "sent"), [(0.0, 0), (0.5, 2), (1.5, 4)])
def test_a_cancelled_run_ends_and_drops_what_was_not_sent(after: float, sent: int) -> None:
    """The run is cancelled before the first chunk was sent, while calls are in flight, and after some have
    completed."""
    fake = Fake(lanes=1, seconds=1.0)
    registry = agf.Registry()
    agf.tool(double, name="work", registry=registry)

    async def main() -> None:
        text, fields = FAN.format(on_error="abort"), {"xs": list(range(50))}
        task = asyncio.ensure_future(agf.arun(text, fields, registry=registry, on=fake))
        if after:
            await asyncio.sleep(after)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert asyncio.get_running_loop().time() <= after + 2.0, "the grace is two seconds"

    run_virtual(main())
    assert len(fake.chunks) <= sent
    assert fake.in_flight == 0


def test_a_call_that_ends_after_the_cancellation_has_its_prints_before_its_end() -> None:
    """The call ends within the grace, and its prints come together with its result."""
    prints = [(0, "stdout", "a word")]
    fake = Fake(lanes=1, seconds=1.0, script=lambda n, xs: ("v", pickle.dumps(xs), 1.0, prints, "a worker"))
    registry, events = agf.Registry(), list[Any]()
    agf.tool(double, name="work", registry=registry)

    async def main() -> None:
        run = agf.arun(
            FAN.format(on_error="abort"), {"xs": [0]}, registry=registry, on=fake, stream=True, on_event=events.append
        )
        task = asyncio.ensure_future(run)
        await asyncio.sleep(0.5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run_virtual(main())
    kinds = (StepStarted, StepPrinted, StepCancelled)
    assert [type(event) for event in events if isinstance(event, kinds) and len(event.at) > 1] == [*kinds]


# --- what is sent ---


def test_no_secret_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """This holds for a secret of an input, of a store that was made from it, and of an environment variable."""
    text = """
pipeline: main
steps:
  - tool: {name: login, args: {token: !expr ctx.token}, output: session}
  - for_each:
      over: ctx.xs
      on_error: abort
      do: {call: {pipeline: both, pass: [item, token]}}
      collect: {transform: {value: count(pipe)}}
"""
    both = """
pipeline: both
steps:
  - tool: {name: login, args: {token: !expr ctx.token}}
  - tool: {name: work, args: {x: !expr ctx.item}}
"""
    registry = agf.Registry()
    marker = "MARKER-e5c1"
    monkeypatch.setenv("TOKEN_OF_TEST", marker)

    @agf.tool(registry=registry, secret=["token"])
    def login(token: str) -> str:
        return "session of " + token

    agf.tool(double, name="work", registry=registry)
    agf.define(both, registry=registry)
    fake = Fake()
    fields = {"xs": list(range(30)), "token": marker}
    run = run_virtual(agf.arun(text, fields, registry=registry, on=fake))
    assert run.output == 30
    assert sum(map(len, fake.chunks)) == 30, "the calls without a secret are sent"
    assert not any(marker.encode() in sent for sent in fake.sent)
