"""A client that stands for an editor in tests: it starts ``agf-magics lsp`` and exchanges messages over stdio."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PATIENCE = 60.0
"""Seconds that an answer may take on a loaded machine."""


class Editor:
    """A client of a server that runs in a process of its own."""

    def __init__(self, folder: Path, *, watches: bool = False) -> None:
        """``watches``: whether the editor can tell what other programs do with files."""
        program = [sys.executable, "-m", "agf_magics", "lsp"]
        self.folder = folder
        self.process = subprocess.Popen(
            program, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.problems: dict[str, list[dict[str, Any]]] = {}
        """What was published last, by the address of the text."""
        self.checks: list[str] = []
        """The texts whose problems were published, in order."""
        self.watched: list[str] = []
        """The files about which the server wants to be told."""
        self._arrived: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._last = 0
        threading.Thread(target=self._read, daemon=True).start()
        self.abilities = self.ask(
            "initialize",
            {
                "processId": None,
                "rootUri": folder.as_uri(),
                "capabilities": {
                    "general": {"positionEncodings": ["utf-16"]},
                    "workspace": {"didChangeWatchedFiles": {"dynamicRegistration": watches}},
                },
            },
        )["capabilities"]
        self.tell("initialized", {})

    def _read(self) -> None:
        out = self.process.stdout
        assert out is not None
        while header := out.readline():
            length = 0
            while header.strip():
                name, _, value = header.decode().partition(":")
                length = int(value) if name.lower() == "content-length" else length
                header = out.readline()
            self._arrived.put(json.loads(out.read(length)))
        self._arrived.put(None)

    def send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.send_bytes(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))

    def send_bytes(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def tell(self, method: str, params: Any) -> None:
        self.send({"method": method, "params": params})

    def ask(self, method: str, params: Any) -> Any:
        self._last += 1
        self.send({"id": self._last, "method": method, "params": params})
        while True:
            message = self._next()
            if message.get("id") == self._last and "method" not in message:
                assert "error" not in message, message
                return message["result"]

    def _next(self) -> dict[str, Any]:
        message = self._arrived.get(timeout=PATIENCE)
        assert message is not None, "the server has ended"
        if message.get("method") == "textDocument/publishDiagnostics":
            uri = message["params"]["uri"]
            self.checks.append(uri)
            self.problems[uri] = message["params"]["diagnostics"]
        if message.get("method") == "client/registerCapability":
            [registration] = message["params"]["registrations"]
            self.watched += [watcher["globPattern"] for watcher in registration["registerOptions"]["watchers"]]
            self.send({"id": message["id"], "result": None})
        assert message.get("method") not in ("window/showMessage", "window/logMessage"), message
        return message

    def wait_for(self, *uris: str) -> list[dict[str, Any]]:
        """The problems of the last of these texts, when the problems of each were published."""
        while not set(uris) <= self.problems.keys():
            self._next()
        return self.problems[uris[-1]]

    def open(self, name: str, text: str, language: str = "yaml") -> str:
        uri = (self.folder / name).as_uri()
        item = {"uri": uri, "languageId": language, "version": 1, "text": text}
        self.tell("textDocument/didOpen", {"textDocument": item})
        return uri

    def change(self, uri: str, text: str, version: int = 2) -> None:
        self.problems.pop(uri, None)
        document = {"uri": uri, "version": version}
        self.tell("textDocument/didChange", {"textDocument": document, "contentChanges": [{"text": text}]})

    def open_notebook(self, name: str, cells: Sequence[str]) -> list[str]:
        """The addresses of the cells."""
        notebook = (self.folder / name).as_uri()
        uris = [f"vscode-notebook-cell:{notebook.removeprefix('file:')}#c{index}" for index in range(len(cells))]
        items = [
            {"uri": uri, "languageId": "python", "version": 1, "text": text}
            for uri, text in zip(uris, cells, strict=True)
        ]
        book = {
            "uri": notebook, "notebookType": "jupyter-notebook", "version": 1,
            "cells": [{"kind": 2, "document": uri} for uri in uris],
        }  # fmt: skip
        self.tell("notebookDocument/didOpen", {"notebookDocument": book, "cellTextDocuments": items})
        return uris

    def changed_on_disk(self, name: str, kind: int) -> None:
        """``kind``: 1 for a new file, 2 for a changed one, 3 for a deleted one."""
        self.problems.clear()
        change = {"uri": (self.folder / name).as_uri(), "type": kind}
        self.tell("workspace/didChangeWatchedFiles", {"changes": [change]})

    def at(self, uri: str, line: int, character: int) -> dict[str, Any]:
        return {"textDocument": {"uri": uri}, "position": {"line": line, "character": character}}

    def end(self) -> tuple[int, str]:
        """The exit code of the server, and what it wrote to stderr."""
        self.ask("shutdown", None)
        self.tell("exit", None)
        return self.wait()

    def wait(self) -> tuple[int, str]:
        try:
            code = self.process.wait(PATIENCE)
        finally:
            self.process.kill()
        assert self.process.stderr is not None
        with self.process.stderr as errors:
            printed = errors.read().decode()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except OSError:
                continue
        return code, printed
