"""The colours of notebook cells: YAML in a ``%%pipeline`` cell, IPython's own in any other."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ipython_pygments_lexers import IPython3Lexer
from pygments.lexer import Lexer
from pygments.lexers.data import YamlLexer
from pygments.token import Keyword, Text, _TokenType

Tokens = Iterator[tuple[int, _TokenType, str]]

MAGIC = re.compile(r"(%{1,2}\w+)(.*\n?)")


class CellLexer(Lexer):
    """A cell of a notebook that has loaded the extension."""

    name = "IPython cell with pipelines"

    def get_tokens_unprocessed(self, text: str) -> Tokens:
        if not text.startswith("%%pipeline"):
            yield from IPython3Lexer(**self.options).get_tokens_unprocessed(text)
            return
        line = MAGIC.match(text)
        assert line is not None, "it begins with a magic"
        yield line.start(1), Keyword, line[1]
        yield line.start(2), Text, line[2]
        for index, kind, part in YamlLexer(**self.options).get_tokens_unprocessed(text[line.end() :]):
            yield line.end() + index, kind, part
