"""The values of a background run are freed together with its handle. Afterwards they are read from the journal."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.lifecycle.runs.live import live
from tests.engine.kept import no_journal

pytestmark = pytest.mark.usefixtures("journaled")

TEXT = "{pipeline: flow, steps: [{tool: {name: big, output: a}}]}"


class Thing:
    def __init__(self) -> None:
        self.data = bytearray(1000)


class Made:
    """The objects that a tool has made."""

    def __init__(self) -> None:
        self.refs: list[weakref.ref[Thing]] = []
        self.registry = agf.Registry()

        @agf.tool(registry=self.registry)
        def big() -> Thing:
            value = Thing()
            self.refs.append(weakref.ref(value))
            return value

        agf.define(TEXT, registry=self.registry)
        agf.define("{pipeline: nothing, steps: [{transform: {value: '1'}}]}", registry=self.registry)

    def alive(self) -> int:
        agf.start("nothing", registry=self.registry).wait()  # the loop has then released the previous run
        gc.collect()
        return sum(ref() is not None for ref in self.refs)


@pytest.mark.parametrize("start", ["start", "run"])
def test_values_are_freed_with_the_handle(start: str) -> None:
    objects = Made()

    def once() -> str:
        run: Any = getattr(agf, start)("flow", registry=objects.registry)
        run.wait()
        assert live.find(run.run_id) in (run, None)
        return str(run.run_id)

    ids = [once() for _ in range(5)]
    assert objects.alive() == 0
    past = agf.runs(ids[0])
    assert past.status == "ok"
    assert isinstance(past.load(), Thing)


def test_a_handle_keeps_the_values() -> None:
    objects = Made()
    runs = [agf.start("flow", registry=objects.registry).wait() for _ in range(3)]
    assert objects.alive() == 3
    assert agf.runs(runs[0].run_id) is runs[0]
    del runs
    assert objects.alive() == 0


def test_without_a_journal_a_run_is_found_as_long_as_it_is_among_the_last_ones() -> None:
    with no_journal():
        objects = Made()
        run_id = agf.start("flow", registry=objects.registry).wait().run_id
        assert objects.alive() == 1
        found_run = live.find(run_id)
        assert found_run is not None
        assert isinstance(found_run.output, Thing)
        del found_run
        live.forget()
        assert objects.alive() == 0
