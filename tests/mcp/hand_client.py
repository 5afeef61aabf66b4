"""A client for tests without the SDK: JSON-RPC by hand, line by line, over the stdin and stdout of a server."""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

PATIENCE = 60.0
"""Seconds that an answer may take on a busy machine."""


class HandClient:
    """A client of ``agf-magics mcp WORDS`` that speaks a protocol from before 2026."""

    def __init__(
        self, folder: Path, *words: str, protocol: str = "2025-06-18", greets: bool = True, **capabilities: Any
    ) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "agf_magics", "mcp", *words],
            cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self._arrived: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._told: queue.Queue[str | None] = queue.Queue()
        self._last = 0
        self.progress: list[str] = []
        """The texts of the progress reports."""
        for target in (self._read, self._read_errors):
            threading.Thread(target=target, daemon=True).start()
        if not greets:
            return
        hello = {"protocolVersion": protocol, "capabilities": capabilities}
        self.greeting = self.ask("initialize", {**hello, "clientInfo": {"name": "hand", "version": "1"}})
        self.tell("notifications/initialized")

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._arrived.put(json.loads(line))
        self._arrived.put(None)

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._told.put(line.decode().rstrip())
        self._told.put(None)

    def send(self, message: dict[str, Any]) -> None:
        self.send_bytes(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def send_bytes(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def tell(self, method: str, params: Any = None) -> None:
        self.send({"method": method, **({"params": params} if params is not None else {})})

    def begin(self, method: str, params: Any) -> int:
        """Send a request, and return its id."""
        self._last += 1
        self.send({"id": self._last, "method": method, "params": params})
        return self._last

    def reply(self, id: int | None) -> dict[str, Any]:
        """The reply to a request. Earlier replies are dropped."""
        while (message := self.next()).get("id") != id or "method" in message:
            if message.get("method") == "notifications/progress":
                self.progress.append(message["params"].get("message", ""))
        return message

    def next(self) -> dict[str, Any]:
        message = self._arrived.get(timeout=PATIENCE)
        assert message is not None, "the server has ended"
        return message

    def ask(self, method: str, params: Any) -> Any:
        message = self.reply(self.begin(method, params))
        assert "error" not in message, message
        return message["result"]

    def call(self, tool: str, **arguments: Any) -> Any:
        return self.ask("tools/call", {"name": tool, "arguments": arguments})

    def envelope(self, tool: str, **arguments: Any) -> tuple[str, Any]:
        """The status and the data of one of the tools for runs."""
        result = self.call(tool, **arguments)
        assert not result.get("isError"), result
        return result["structuredContent"]["status"], result["structuredContent"]["data"]

    def end_of(self, run_id: str) -> tuple[str, Any]:
        """The state of a run after its end."""
        while (state := self.envelope("run_result", run_id=run_id))[0] == "started":
            pass
        return state

    def told(self, method: str) -> str:
        """The next line of stderr that contains ``method``."""
        while True:
            line = self._told.get(timeout=PATIENCE)
            assert line is not None, f"the server has not told {method!r}"
            if method in line:
                return line

    def kill(self) -> None:
        self.process.kill()
        self.wait()

    def leave(self) -> int:
        """Close stdin, as a client that leaves. Returns the exit code of the server."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.wait()

    def wait(self) -> int:
        try:
            return self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
                assert pipe is not None
                with contextlib.suppress(OSError):
                    pipe.close()
