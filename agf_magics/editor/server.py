"""The language server: the protocol over stdin and stdout (pygls), for files and cells of notebooks.

Each notebook and each folder of open files is a `TextGroup`. A change is checked `PAUSE` seconds
after the last one, so that a client that sends a hundred changes gets one check. A request is
answered from the last text.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, NamedTuple

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer

from ..text.giving_up import giving_up
from ..version import __version__
from .folder_texts import MOST_FILES, folder_texts, is_below, path_of, text_of
from .folding import folds_of
from .positions import Positions
from .protocol_values import (
    TOKENS,
    code_action,
    completion_list,
    diagnostic,
    document_symbol,
    fold,
    location,
    token_data,
)
from .questions import complete_at, definition_at, help_at
from .repairs import repairs_of
from .symbols import symbols_of, tokens_of
from .text_group import TextGroup, WrittenFile

PAUSE = 0.15
"""Seconds without a change before a text is checked."""

SUFFIXES = (".py", ".yaml", ".yml", ".json")
"""Files of which the server takes the text."""

LANGUAGES = ("python", "yaml", "json")
"""The languages that an editor names, for a text whose file name does not tell the language."""

WATCHED = lsp.DidChangeWatchedFilesRegistrationOptions(
    [lsp.FileSystemWatcher("**/*.{py,yaml,yml,json}")]
)
"""The files whose changes on the disk the client reports: those of `SUFFIXES`."""

CELLS = lsp.NotebookDocumentFilterWithNotebook(
    notebook="*",
    cells=[lsp.NotebookCellLanguage("python"), lsp.NotebookCellLanguage("yaml")],
)
"""The cells that the client sends: those of every notebook in these languages."""


class Requested(NamedTuple):
    """A text that a request is about."""

    group: TextGroup
    file: WrittenFile
    positions: Positions

    def offset(self, position: lsp.Position) -> int:
        return self.positions.offset(position.line, position.character)


class Server(LanguageServer):
    """The groups of open texts, and the checks that wait."""

    def __init__(self) -> None:
        sync = lsp.NotebookDocumentSyncOptions([CELLS])
        super().__init__("agf-magics", __version__, notebook_document_sync=sync)
        self.groups: dict[str, TextGroup] = {}
        """The groups, by the address of the notebook or the folder."""
        self.group_of: dict[str, str] = {}
        """The address of the group of each open text, by the address of the text."""
        self._waiting: dict[str, asyncio.TimerHandle] = {}
        """The check that waits for each changed group, by the address of the group."""

    def report_server_error(self, error: Exception, source: Any) -> None:
        """A message that cannot be read, or a failed notification, is not shown in the editor."""
        logging.getLogger(__name__).info("the language server went on after %r", error)

    def requested(self, uri: str) -> Requested | None:
        """The text that a request is about, after any waiting check; None: the text does not
        concern this package."""
        key = self.group_of.get(uri, "")
        if key in self._waiting:
            self._waiting[key].cancel()
            self._check(key)
        group = self.groups.get(key)
        if group is None or uri not in group.files:
            return None
        return Requested(group, group.files[uri], self.positions(group.files[uri].text))

    def positions(self, text: str) -> Positions:
        """The positions of a text, in the units that the client has chosen."""
        encoding = lsp.PositionEncodingKind(self.workspace.position_encoding or "utf-16")
        return Positions(text, encoding.value)

    def open_file(self, uri: str, text: str, language: str) -> None:
        """Take the text of an opened file, or a text that is in no file yet and is its own
        group."""
        path = path_of(uri)
        is_known = path is not None and path.name.lower().endswith(SUFFIXES)
        if uri in self.group_of or not (is_known or language in LANGUAGES):
            return
        key = path.parent.as_uri() if path is not None and path.is_absolute() else uri
        group = self._group(key, uri)
        self.group_of[uri] = key
        group.put(uri, text, language=language)
        self.check_later(key)

    def take_from_disk(self, uri: str, is_there: bool) -> None:
        """Take a file that another program has written or deleted (``is_there`` is False)."""
        path = path_of(uri)
        if path is None or not path.is_absolute() or not path.name.lower().endswith(SUFFIXES):
            return
        keys = [
            key
            for key, group in self.groups.items()
            if is_below(path, key) and (uri in group.files or len(group.files) < MOST_FILES)
        ]
        text = text_of(path) if keys and is_there else None
        for key in keys:
            self.groups[key].take_from_disk(uri, text)
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
                for file in folder_texts(path.parent):
                    group.put(file.uri, file.text, is_open=False)
        return self.groups[key]

    def take_cells(self, key: str) -> None:
        """Take the texts of the cells of a notebook, in the order of the notebook."""
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
        # What the editor had not saved is gone, so other files see what is on disk.
        self.take_from_disk(uri, is_there=True)
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

    def _check(self, key: str) -> None:
        self._waiting.pop(key, None)
        group = self.groups.get(key)
        if group is None:
            return
        with giving_up(__name__, "a text has no problems shown"):
            for file in group.check():
                positions = self.positions(file.text)
                diagnostics = [
                    diagnostic(problem, positions, group) for problem in file.problems or ()
                ]
                self._publish(file.uri, diagnostics)

    def _publish(self, uri: str, diagnostics: list[lsp.Diagnostic]) -> None:
        self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, diagnostics))


def serve() -> int:
    """Serve until the client ends the server or closes stdin."""
    # pygls logs each malformed message with a traceback, which helps only developers of the server.
    logging.getLogger("pygls").setLevel(logging.CRITICAL)
    make_server().start_io()
    return 0


def make_server() -> Server:
    """A server with the functions for all requests and notifications."""
    server = Server()
    _take_texts(server)
    _answer_places(server)
    _answer_texts(server)
    return server


def _take_texts(server: Server) -> None:
    """The notifications that a text was opened, changed or closed, one function for each."""

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    def opened(ls: Server, params: lsp.DidOpenTextDocumentParams) -> None:
        text = params.text_document
        ls.open_file(text.uri, text.text, text.language_id)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def changed(ls: Server, params: lsp.DidChangeTextDocumentParams) -> None:
        uri = params.text_document.uri
        key = ls.group_of.get(uri, "")
        if (group := ls.groups.get(key)) is not None:
            text = ls.workspace.get_text_document(uri).source
            group.put(uri, text, is_cell=uri in group.files and group.files[uri].is_cell)
            ls.check_later(key)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def closed(ls: Server, params: lsp.DidCloseTextDocumentParams) -> None:
        ls.close(params.text_document.uri)

    @server.feature(lsp.INITIALIZED)
    def initialized(ls: Server, params: lsp.InitializedParams) -> None:
        workspace = ls.client_capabilities.workspace
        watching = workspace.did_change_watched_files if workspace else None
        if watching is not None and watching.dynamic_registration:
            method = lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES
            registration = lsp.Registration("files", method, WATCHED)
            ls.client_register_capability(lsp.RegistrationParams([registration]), lambda _: None)

    @server.feature(lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def changed_on_disk(ls: Server, params: lsp.DidChangeWatchedFilesParams) -> None:
        for change in params.changes:
            ls.take_from_disk(change.uri, change.type != lsp.FileChangeType.Deleted)

    @server.feature(lsp.NOTEBOOK_DOCUMENT_DID_OPEN)
    def opened_notebook(ls: Server, params: lsp.DidOpenNotebookDocumentParams) -> None:
        ls.open_notebook(params.notebook_document.uri)

    @server.feature(lsp.NOTEBOOK_DOCUMENT_DID_CHANGE)
    def changed_notebook(ls: Server, params: lsp.DidChangeNotebookDocumentParams) -> None:
        ls.take_cells(params.notebook_document.uri)

    @server.feature(lsp.NOTEBOOK_DOCUMENT_DID_CLOSE)
    def closed_notebook(ls: Server, params: lsp.DidCloseNotebookDocumentParams) -> None:
        cells = [cell.uri for cell in params.cell_text_documents]
        ls.close_notebook(params.notebook_document.uri, cells)


def _answer_places(server: Server) -> None:
    """The questions about a place of a text."""

    @server.feature(
        lsp.TEXT_DOCUMENT_COMPLETION,
        lsp.CompletionOptions(trigger_characters=[" ", ".", "-", "{", ":"]),
    )
    def complete(ls: Server, params: lsp.CompletionParams) -> lsp.CompletionList | None:
        if (requested := ls.requested(params.text_document.uri)) is None:
            return None
        offset = requested.offset(params.position)
        offer = complete_at(requested.file, offset, requested.group)
        return completion_list(offer, offset, requested.positions) if offer is not None else None

    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    def hover(ls: Server, params: lsp.HoverParams) -> lsp.Hover | None:
        if (requested := ls.requested(params.text_document.uri)) is None:
            return None
        offset = requested.offset(params.position)
        text = help_at(requested.file, offset, requested.group)
        return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.PlainText, text)) if text else None

    @server.feature(lsp.TEXT_DOCUMENT_DEFINITION)
    def define(ls: Server, params: lsp.DefinitionParams) -> lsp.Location | None:
        if (requested := ls.requested(params.text_document.uri)) is None:
            return None
        offset = requested.offset(params.position)
        target = definition_at(requested.file, offset, requested.group)
        if target is None or target.uri not in requested.group.files:
            return None
        return location(target, ls.positions(requested.group.files[target.uri].text))

    @server.feature(
        lsp.TEXT_DOCUMENT_CODE_ACTION, lsp.CodeActionOptions([lsp.CodeActionKind.QuickFix])
    )
    def repair(ls: Server, params: lsp.CodeActionParams) -> list[lsp.CodeAction] | None:
        if (requested := ls.requested(params.text_document.uri)) is None:
            return None
        start = requested.offset(params.range.start)
        end = requested.offset(params.range.end)
        return [
            code_action(found_repair, requested.file.uri, requested.positions, requested.group)
            for found_repair in repairs_of(requested.file, start, end, requested.group)
        ]


def _answer_texts(server: Server) -> None:
    """The questions about a whole text."""

    @server.feature(lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    def outline(ls: Server, params: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol] | None:
        if (requested := ls.requested(params.text_document.uri)) is None:
            return None
        return [
            document_symbol(symbol, requested.positions) for symbol in symbols_of(requested.file)
        ]

    @server.feature(lsp.TEXT_DOCUMENT_FOLDING_RANGE)
    def folds(ls: Server, params: lsp.FoldingRangeParams) -> list[lsp.FoldingRange] | None:
        requested = ls.requested(params.text_document.uri)
        return (
            [fold(*lines) for lines in folds_of(requested.file)] if requested is not None else None
        )

    @server.feature(
        lsp.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL, lsp.SemanticTokensLegend(list(TOKENS), [])
    )
    def tokens(ls: Server, params: lsp.SemanticTokensParams) -> lsp.SemanticTokens | None:
        if (requested := ls.requested(params.text_document.uri)) is None:
            return None
        return lsp.SemanticTokens(token_data(tokens_of(requested.file), requested.positions))
