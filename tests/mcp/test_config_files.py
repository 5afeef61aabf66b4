"""The files in which other programs list their MCP servers: JSON, with comments as VS Code writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

import agf_magics as agf
from agf_magics.mcp.client.config_files import read_entries

SERVER = '"command": "python", "args": ["//a", "/* b */", "\\"//c"]'
READ = {
    "plain": f'{{"mcpServers": {{"s": {{{SERVER}}}}}}}',
    "of VS Code": f'{{"servers": {{"s": {{"type": "stdio", {SERVER}}}}}}}',
    "comment of a line": f'{{\n  // ours\n  "servers": {{"s": {{{SERVER}}}}}\n}}',
    "comment after a value": f'{{"servers": {{"s": {{"type": "stdio", // local\n {SERVER}}}}}}}',
    "comment without a blank before it": f'{{"servers": {{"s": {{"type": "stdio",//"local"\n {SERVER}}}}}}}',
    "comment in between": f'/* "ours" */ {{"servers": /* { {} } */ {{"s": {{{SERVER}}}}}}}',
    "comment of many lines": f'/*\n * ours\n * // "s"\n */\n{{"servers": {{"s": {{{SERVER}}}}}}}',
    "tabs and a last comma": f'{{\n\t"servers": {{\n\t\t"s": {{{SERVER},}},\n\t}}\n}}',
    "a disabled one": f'{{"servers": {{"s": {{{SERVER}, "disabled": false}}, "t": {{"url": "x", "disabled": true}}}}}}',
}


@pytest.mark.parametrize("case", READ)
def test_a_file_is_json_with_comments(case: str, tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(READ[case], encoding="utf-8")
    assert {name: target.text for name, target in read_entries(path).items()} == {"s": "python //a '/* b */' '\"//c'"}


WRONG = {
    "a quote that is not closed": ('{"servers": {"s": {"command": "python}}}', 1, "never closed"),
    "a key twice": ('{"servers": {\n  /* one */ "s": {"url": "a"}, "s": {"url": "b"}}}', 2, "duplicate key"),
    "a comment that is not closed": ('{"servers": {\n  /* "s": {"url": "a"}}}', 1, "cannot be read"),
    "no servers": ('{\n  "server": {}\n}', 1, "lists no MCP servers"),
    "no object": ("[1]", None, "it is no object"),
}


@pytest.mark.parametrize("case", WRONG)
def test_an_error_of_a_file_has_its_place(case: str, tmp_path: Path) -> None:
    text, line, words = WRONG[case]
    path = tmp_path / "mcp.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(agf.DefinitionError, match=words) as refused:
        read_entries(path)
    problem = refused.value.diagnostic
    assert problem.code == "mcp.config"
    if line is not None:
        assert problem.span is not None
        assert problem.span.place[0] == line


def test_many_openings_of_comments_are_read_in_linear_time(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text('{"servers": {"s": {"url": "http://127.0.0.1/"}}}' + "/* " * 200_000, encoding="utf-8")
    assert [*read_entries(path)] == ["s"]
