"""Converts the answers of this room to values of the language server protocol."""

from __future__ import annotations

from lsprotocol import types as lsp

from ..pictures.plain import line
from .body import Offer
from .positions import Position, Positions
from .problems import PlacedProblem
from .repairs import Repair
from .symbols import Symbol, Token
from .text_group import Target, TextGroup

MOST_TITLE = 80
"""Characters of a hint in the title of a quick fix."""

PAGE = "https://agf-magics.readthedocs.io/en/stable/reference/errors"

SEVERITIES = {"error": lsp.DiagnosticSeverity.Error, "warning": lsp.DiagnosticSeverity.Warning}

ITEMS = {
    "key": lsp.CompletionItemKind.Property,
    "tool": lsp.CompletionItemKind.Function,
    "function": lsp.CompletionItemKind.Function,
    "agent": lsp.CompletionItemKind.Class,
    "flow": lsp.CompletionItemKind.Module,
    "path": lsp.CompletionItemKind.Variable,
    "value": lsp.CompletionItemKind.EnumMember,
    "option": lsp.CompletionItemKind.Keyword,
    "argument": lsp.CompletionItemKind.Field,
}
"""The icon of a completion, by its kind; all other kinds have the icon of a text."""

TOKENS = ("keyword", "function", "class", "variable")
"""The kinds of semantic tokens, by their numbers."""


def diagnostic(problem: PlacedProblem, positions: Positions, group: TextGroup) -> lsp.Diagnostic:
    """A problem with its hint, and a link to its page. A problem that may not exist in a running
    kernel is only an information."""
    severity = lsp.DiagnosticSeverity.Information
    if group.is_certain(problem):
        severity = SEVERITIES.get(problem.diagnostic.severity, severity)
    message = f"{problem.message}\n= {problem.hint}" if problem.hint else problem.message
    page = problem.code.partition(".")[0]
    return lsp.Diagnostic(
        range_of(positions, problem.start, problem.end),
        message,
        severity,
        problem.code,
        lsp.CodeDescription(f"{PAGE}/{page}.html#{problem.code}"),
        "agf-magics",
    )


def range_of(positions: Positions, start: int, end: int) -> lsp.Range:
    return lsp.Range(
        lsp.Position(*positions.position(start)), lsp.Position(*positions.position(end))
    )


def completion_list(offer: Offer, offset: int, positions: Positions) -> lsp.CompletionList:
    """The choices in our order. Each replaces the fragment before the cursor."""
    where = range_of(positions, offset - len(offer.fragment), offset)
    return lsp.CompletionList(
        is_incomplete=True,
        items=[
            lsp.CompletionItem(
                choice.text,
                kind=ITEMS.get(choice.type, lsp.CompletionItemKind.Text),
                detail=choice.type,
                documentation=choice.doc or None,
                sort_text=f"{number:05}",
                filter_text=choice.text,
                text_edit=lsp.TextEdit(where, choice.text),
            )
            for number, choice in enumerate(offer.choices)
        ],
    )


def location(target: Target, positions: Positions) -> lsp.Location:
    return lsp.Location(target.uri, range_of(positions, target.start, target.end))


def document_symbol(symbol: Symbol, positions: Positions) -> lsp.DocumentSymbol:
    return lsp.DocumentSymbol(
        symbol.name,
        lsp.SymbolKind.Function,
        range_of(positions, symbol.start, max(symbol.end, symbol.word_end)),
        range_of(positions, symbol.start, symbol.word_end),
        symbol.detail or None,
        children=[document_symbol(inner, positions) for inner in symbol.inner],
    )


def fold(first: int, last: int) -> lsp.FoldingRange:
    return lsp.FoldingRange(first, last)


def token_data(tokens: list[Token], positions: Positions) -> list[int]:
    """Five numbers for each token: lines and units since the one before, its length, its kind, and
    no modifier."""
    data = list[int]()
    before = Position(0, 0)
    for token in tokens:
        start = positions.position(token.start)
        end = positions.position(token.end)
        is_same_line = start.line == before.line
        since = start.unit - before.unit if is_same_line else start.unit
        length = end.unit - start.unit
        data += [start.line - before.line, since, length, TOKENS.index(token.kind), 0]
        before = start
    return data


def code_action(repair: Repair, uri: str, positions: Positions, group: TextGroup) -> lsp.CodeAction:
    edit = repair.edit
    problem = repair.problem
    is_whole = (edit.start, edit.end) == (problem.start, problem.end)
    change = lsp.TextEdit(range_of(positions, edit.start, edit.end), edit.text)
    return lsp.CodeAction(
        f"{'Replace by' if is_whole else 'Write'} {line(repair.written, MOST_TITLE)}",
        lsp.CodeActionKind.QuickFix,
        [diagnostic(problem, positions, group)],
        is_preferred=True,
        edit=lsp.WorkspaceEdit(changes={uri: [change]}),
    )
