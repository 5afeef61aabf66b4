"""No secret is in any byte that leaves this process for workers: in the pipes of children, and on the sockets of
Dask."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Iterable
from pathlib import Path

import pytest

import agf_magics as agf
from agf_magics.workers.backends.processes import Processes
from agf_magics.workers.sending.unsendable import HEAVY

SECRET, OPEN = "mArKeR-93b1-secret", "mArKeR-77c0-open"

TEXT = """
pipeline: main
steps:
{first}
  - for_each:
      over: ctx.xs
      on_error: abort
      do: {{tool: {{name: work, args: {{x: !expr item, y: !expr ctx.open}}}}}}
      collect: {{transform: {{value: pipe}}}}
"""
SIGN_IN = """\
  - for_each:
      over: ctx.xs
      on_error: abort
      do: {tool: {name: sign_in, args: {x: !expr item, token: !expr ctx.token}}}
      collect: {transform: {value: pipe}}
"""
WAYS = pytest.mark.parametrize("way", ["calls", "calls of a large function"])


def run(on: object, way: str) -> None:
    """Make a run with a secret in its input, and with one argument that is sent, to show that the search can find a
    text."""
    registry, table = agf.Registry(), bytes(HEAVY + 1 if way == "calls of a large function" else 10)

    def sign_in(x: int, token: str, other: str = SECRET) -> str:
        assert token == SECRET
        return f"session {x} of {token}"

    def work(x: int, y: str) -> int:
        return x + len(y) + table[x]

    agf.tool(sign_in, registry=registry, secret=["token", "other"])
    agf.tool(work, registry=registry)
    fields = {"xs": [1, 2, 3], "token": SECRET, "open": OPEN}
    ended = agf.run(TEXT.format(first=SIGN_IN), fields, registry=registry, on=on)
    assert ended.status == "ok"


def check(sent: Iterable[bytes], way: str) -> None:
    data = b"\n".join(sent)
    assert OPEN.encode() in data, "the bytes of the calls are there, and not compressed"
    assert SECRET.encode() not in data


@pytest.fixture
def tee(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which each new child of `processes` gets a file with the bytes that came through its pipe."""
    script, folder = tmp_path / "python", tmp_path / "pipes"
    folder.mkdir()
    script.write_text(f'#!/bin/sh\ntee "{folder}/$$" | "{sys.executable}" "$@"\n')
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    return folder


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell script between the kernel and its children")
@WAYS
def test_no_byte_in_the_pipes_of_the_children_has_a_secret(
    way: str, tee: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGF_TEST_TOKEN", SECRET)
    workers = Processes(2)
    try:
        run(workers, way)
        files = [Path(path).read_bytes() for path, _ in workers._files.values()]  # large functions are sent in files
    finally:
        workers.close()
    assert bool(files) == (way == "calls of a large function")
    check([*(path.read_bytes() for path in tee.iterdir()), *files], way)


class Relay:
    """A relay between a client and a scheduler, which stores what the client sends."""

    def __init__(self, host: str, port: int) -> None:
        self.target = host, port
        self.sent: list[bytearray] = []
        """The bytes of each connection."""
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:  # the socket is closed
                return
            server = socket.create_connection(self.target)
            self.sent.append(bytearray())
            for source, target, copied in ((client, server, self.sent[-1]), (server, client, bytearray())):
                threading.Thread(target=self._copy, args=(source, target, copied), daemon=True).start()

    @staticmethod
    def _copy(source: socket.socket, target: socket.socket, copied: bytearray) -> None:
        with source, target:
            try:
                while data := source.recv(1 << 16):
                    copied += data
                    target.sendall(data)
            except OSError:  # the other side has ended
                return


@WAYS
def test_no_byte_on_the_sockets_of_dask_has_a_secret(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dask, distributed = pytest.importorskip("dask"), pytest.importorskip("distributed")
    monkeypatch.setenv("AGF_TEST_TOKEN", SECRET)
    with (
        dask.config.set({"distributed.comm.compression": None}),
        distributed.LocalCluster(n_workers=1, host="127.0.0.1", dashboard_address=":0", silence_logs=50) as cluster,
    ):
        host, _, port = cluster.scheduler_address.removeprefix("tcp://").partition(":")
        relay = Relay(host, int(port))
        try:
            with distributed.Client(relay.address, set_as_default=False) as client:
                run(client, way)
            check(map(bytes, relay.sent), way)
        finally:
            relay.listener.close()
