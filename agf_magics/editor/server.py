"""The language server: the protocol over stdin and stdout (pygls), for files and cells of notebooks.

Each notebook and each folder of open files is a `TextGroup`. A change is checked `PAUSE` seconds
after the last one, so that a client that sends a hundred changes gets one check. What a request asks
is answered from the last text.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer

from ..text.giving_up import giving_up
from ..version import __version__
from .folder_texts import folder_texts, path_of
from .positions import Positions
from .problems import Place
from .text_group import TextGroup, WrittenFile

PAUSE = 0.15
"""Seconds without a change before a text is checked."""

PAGE = "https://agf-magics.readthedocs.io/en/stable/reference/errors"

SEVERITIES = {"error": lsp.DiagnosticSeverity.Error, "warning": lsp.DiagnosticSeverity.Warning}

SUFFIXES = (".py", ".yaml", ".yml", ".json")
"""Files of which the server takes the text."""

CELLS = lsp.NotebookDocumentFilterWithNotebook(
    notebook="*",
    cells=[lsp.NotebookCellLanguage("python"), lsp.NotebookCellLanguage("yaml")],
)


class Server(LanguageServer):
    """The groups of open texts, and the checks that wait."""

    def __init__(self) -> None:
        sync = lsp.NotebookDocumentSyncOptions([CELLS])
        super().__init__("agf-magics", __version__, notebook_document_sync=sync)
        self.groups: dict[str, TextGroup] = {}
        """By the address of the notebook, or of the folder."""
        self.group_of: dict[str, str] = {}
        """By the address of an open text."""
        self._waiting: dict[str, asyncio.TimerHandle] = {}

    def report_server_error(self, error: Exception, source: Any) -> None:
        """A message that cannot be read, or a failed notification, is not shown in the editor."""
        logging.getLogger(__name__).info("the language server went on after %r", error)

    def file(self, uri: str) -> WrittenFile | None:
        group = self.groups.get(self.group_of.get(uri, ""))
        return group.files.get(uri) if group is not None else None

    def positions(self, text: str) -> Positions:
        """The positions of a text, in the units that the client has chosen."""
        encoding = lsp.PositionEncodingKind(self.workspace.position_encoding or "utf-16")
        return Positions(text, encoding.value)

    def open_file(self, uri: str, text: str) -> None:
        path = path_of(uri)
        if path is None or not path.name.endswith(SUFFIXES) or uri in self.group_of:
            return
        key = path.parent.as_uri() if path.is_absolute() else uri
        group = self._group(key, uri)
        self.group_of[uri] = key
        group.put(uri, text)
        self.check_later(key)

    def open_notebook(self, key: str) -> None:
        self._group(key, key)
        self.take_cells(key)

    def _group(self, key: str, uri: str) -> TextGroup:
        """The group of a notebook or a folder; a new one knows the files of the folder."""
        if key not in self.groups:
            group = self.groups[key] = TextGroup()
            path = path_of(uri)
            if path is not None and path.parent.is_dir():
                for each in folder_texts(path.parent):
                    group.put(each.uri, each.text, is_open=False)
        return self.groups[key]

    def take_cells(self, key: str) -> None:
        """The texts of the cells of a notebook, in its order."""
        notebook = self.workspace.get_notebook_document(notebook_uri=key)
        group = self.groups.get(key)
        if notebook is None or group is None:
            return
        cells = [c.document for c in notebook.cells if c.kind == lsp.NotebookCellKind.Code]
        for uri in cells:
            group.put(uri, self.workspace.get_text_document(uri).source, is_cell=True)
            self.group_of[uri] = key
        group.arrange(cells)
        self.check_later(key)

    def close(self, uri: str) -> None:
        key = self.group_of.pop(uri, "")
        group = self.groups.get(key)
        if group is not None and uri in group.files:
            group.files[uri].is_open = False
        if group is not None and not any(file.is_open for file in group.files.values()):
            self._forget(key)
        self._publish(uri, [])

    def close_notebook(self, key: str, cells: list[str]) -> None:
        self._forget(key)
        for uri in cells:
            self.group_of.pop(uri, None)
            self._publish(uri, [])

    def _forget(self, key: str) -> None:
        self.groups.pop(key, None)
        if key in self._waiting:
            self._waiting.pop(key).cancel()

    def check_later(self, key: str) -> None:
        if key in self._waiting:
            self._waiting[key].cancel()
        loop = asyncio.get_running_loop()
        self._waiting[key] = loop.call_later(PAUSE, self._check, key)

    def check_now(self, uri: str) -> TextGroup | None:
        """The group of a text, after the check that waits: a request is about the last text."""
        key = self.group_of.get(uri, "")
        if key in self._waiting:
            self._waiting[key].cancel()
            self._check(key)
        return self.groups.get(key)

    def _check(self, key: str) -> None:
        self._waiting.pop(key, None)
        group = self.groups.get(key)
        if group is None:
            return
        with giving_up(__name__, "a text has no problems shown"):
            for file in group.check():
                positions = self.positions(file.text)
                found = [diagnostic(one, positions, group) for one in file.problems or ()]
                self._publish(file.uri, found)

    def _publish(self, uri: str, found: list[lsp.Diagnostic]) -> None:
        self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, found))


def diagnostic(one: Place, positions: Positions, group: TextGroup) -> lsp.Diagnostic:
    severity = SEVERITIES.get(one.found.severity, lsp.DiagnosticSeverity.Information)
    if not group.is_certain(one):
        severity = lsp.DiagnosticSeverity.Information
    return lsp.Diagnostic(
        range_of(positions, one.start, one.end),
        one.message + f"\n= {one.hint}" * bool(one.hint),
        severity,
        one.code,
        lsp.CodeDescription(f"{PAGE}/{one.code.partition('.')[0]}.html#{one.code}"),
        "agf-magics",
    )


def range_of(positions: Positions, start: int, end: int) -> lsp.Range:
    return lsp.Range(
        lsp.Position(*positions.position(start)), lsp.Position(*positions.position(end))
    )


def serve() -> int:
    """Serve until the client ends the server or closes stdin."""
    # What pygls logs, each malformed message with a trace, is for who works on the server.
    logging.getLogger("pygls").setLevel(logging.CRITICAL)
    make_server().start_io()
    return 0


def make_server() -> Server:
    server = Server()

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    def opened(ls: Server, given: lsp.DidOpenTextDocumentParams) -> None:
        ls.open_file(given.text_document.uri, given.text_document.text)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def changed(ls: Server, given: lsp.DidChangeTextDocumentParams) -> None:
        uri = given.text_document.uri
        key = ls.group_of.get(uri, "")
        if (group := ls.groups.get(key)) is not None:
            text = ls.workspace.get_text_document(uri).source
            group.put(uri, text, is_cell=uri in group.files and group.files[uri].is_cell)
            ls.check_later(key)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def closed(ls: Server, given: lsp.DidCloseTextDocumentParams) -> None:
        ls.close(given.text_document.uri)

    @server.feature(lsp.NOTEBOOK_DOCUMENT_DID_OPEN)
    def opened_notebook(ls: Server, given: lsp.DidOpenNotebookDocumentParams) -> None:
        ls.open_notebook(given.notebook_document.uri)

    @server.feature(lsp.NOTEBOOK_DOCUMENT_DID_CHANGE)
    def changed_notebook(ls: Server, given: lsp.DidChangeNotebookDocumentParams) -> None:
        ls.take_cells(given.notebook_document.uri)

    @server.feature(lsp.NOTEBOOK_DOCUMENT_DID_CLOSE)
    def closed_notebook(ls: Server, given: lsp.DidCloseNotebookDocumentParams) -> None:
        cells = [cell.uri for cell in given.cell_text_documents]
        ls.close_notebook(given.notebook_document.uri, cells)

    return server
