"""A large argument that the calls of a fan-out share is sent to a cluster only once, and each call has its own copy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import agf_magics as agf
from agf_magics.workers.sending.functions import Program
from agf_magics.workers.sending.sent_once import SentOnce, SharedValues
from tests.workers.fans import FAN
from tests.workers.test_sent_bytes import Relay

SIZE = 8_000_000
COUNT = 40


def work(x: int, frame: Any) -> Any:
    if type(frame) is str:
        return len(frame)
    frame[0] += x
    return frame[0]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    dask, distributed = pytest.importorskip("dask"), pytest.importorskip("distributed")
    with (
        dask.config.set({"distributed.comm.compression": None}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=":0", silence_logs=50
        ) as local_cluster,
    ):
        yield local_cluster


def run(on: object, frame: Any) -> agf.Run:
    registry = agf.Registry()
    agf.tool(work, registry=registry)
    text = FAN.format(on_error="abort").replace("x: !expr item", "x: !expr item, frame: !expr ctx.frame")
    return agf.run(text, {"xs": list(range(COUNT)), "frame": frame}, registry=registry, on=on)


SHARED: dict[str, tuple[Any, list[Any]]] = {
    "an array": (np.zeros(SIZE // 8), [float(x) for x in range(COUNT)]),
    "a text": ("a" * SIZE, [SIZE] * COUNT),
}


@pytest.mark.parametrize("case", SHARED)
def test_the_bytes_of_a_shared_argument_are_sent_once(case: str, cluster: Any) -> None:
    from distributed import Client

    argument, expected = SHARED[case]
    host, _, port = cluster.scheduler_address.removeprefix("tcp://").partition(":")
    relay = Relay(host, int(port))
    try:
        with Client(relay.address, set_as_default=False) as client:
            assert run(client, argument).output == expected
        # It is sent twice if the loop is so slow that the first call is sent before the second one is built.
        assert SIZE <= sum(map(len, relay.sent)) < 2.5 * SIZE
    finally:
        relay.listener.close()


SHARED_RESULT = """
pipeline: shared
steps:
- tool: {name: load, output: frame}
- for_each:
    over: ctx.xs
    on_error: abort
    do: {tool: {name: work, args: {x: !expr item, frame: !expr frame}}}
    collect: {transform: {value: pipe}}
"""


def test_the_result_of_a_worker_is_sent_to_the_other_workers_once(cluster: Any) -> None:
    from distributed import Client

    def load() -> Any:
        import numpy as np

        return np.zeros(1_000_000)

    registry = agf.Registry()
    agf.tool(load, registry=registry, where="worker")
    agf.tool(work, registry=registry)
    host, _, port = cluster.scheduler_address.removeprefix("tcp://").partition(":")
    relay = Relay(host, int(port))
    try:
        with Client(relay.address, set_as_default=False) as client:
            run = agf.run(SHARED_RESULT, {"xs": list(range(COUNT))}, registry=registry, on=client)
        assert run.output == [float(x) for x in range(COUNT)]
        # As above, the argument is sent twice at most.
        assert SIZE <= sum(map(len, relay.sent)) < 2.5 * SIZE
    finally:
        relay.listener.close()


def test_unshared_arguments_are_sent_with_their_calls() -> None:
    values, program = SharedValues(), Program(work)
    frames = [np.full(SIZE // 8, number) for number in range(3)]
    data, _, once = values.packed([{"frame": frames[0]}], {"frame": frames[1]}, program)
    assert (len(data) > SIZE, once) == (True, [])
    data, _, once = values.packed([{"frame": frames[0]}] * 2 + [{"frame": frames[1]}], {"frame": frames[2]}, program)
    assert SIZE < len(data) < 1.1 * SIZE, "the last call of the chunk does not know that the first one is shared"
    assert len(once) == 1
    again, _, once_again = values.packed([{"frame": frames[0]}], {}, program)
    assert (len(again) < 1000, once_again) == (True, once)


def test_a_shared_argument_is_given_to_the_cluster_once() -> None:
    shared, sent = SentOnce(b"abc"), []

    def send(data: bytes) -> str:
        sent.append(data)
        return "there"

    assert [shared.sent(send), shared.sent(send)] == ["there", "there"]
    assert (sent, shared.data) == ([b"abc"], b"")
