"""Syntax highlighting of cells that contain definitions, of error messages and of grammars."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ipython_pygments_lexers import IPython3Lexer
from pygments.lexer import Lexer, RegexLexer, bygroups
from pygments.lexers.data import YamlLexer
from pygments.token import Comment, Generic, Keyword, Name, Operator, String, Text, _TokenType

YAML_CELL = re.compile(
    r"(%%(?:pipeline|policy|plan|graph|run_pipeline_inline(?:_async)?|writefile(?=.*\.yaml)))\b(.*\n?)"
)


class CellLexer(Lexer):
    """A notebook cell: YAML after the magic of a language, otherwise the syntax of IPython."""

    name = "IPython cell with definitions"

    def get_tokens_unprocessed(self, text: str) -> Iterator[tuple[int, _TokenType, str]]:
        line = YAML_CELL.match(text)
        if line is None:
            yield from IPython3Lexer(**self.options).get_tokens_unprocessed(text)
            return
        yield line.start(1), Keyword, line[1]
        yield line.start(2), Text, line[2]
        for index, kind, part in YamlLexer(**self.options).get_tokens_unprocessed(text[line.end() :]):
            yield line.end() + index, kind, part


class MessageLexer(RegexLexer):
    """An error message; other text has no colours."""

    name = "message"
    tokens = {  # noqa: RUF012 - Pygments requires a class attribute
        "root": [
            (r"(.* )(\[[a-z0-9]+\.[a-z0-9-]+\])(\n)", bygroups(Generic.Strong, Name.Label, Text)),
            (r"( +-->)(.*\n)", bygroups(Comment, Comment)),
            (r"( *\d+ \|)(.*\n)", bygroups(Comment, Text)),
            (r"( +\|)( *\^+\n)", bygroups(Comment, Generic.Error)),
            (r"  = .*\n", Generic.Emph),
            (r".*\n", Text),
        ]
    }


class GrammarLexer(RegexLexer):
    """EBNF."""

    name = "grammar"
    tokens = {  # noqa: RUF012
        "root": [
            (r"^\w+(?= *::=)", Name.Function),
            (r'"[^"\n]*"', String),
            (r"\(\*.*?\*\)", Comment),
            (r"::=|[|*+?()\[\]]", Operator),
            (r"\w+|\s+|.", Text),
        ]
    }
