"""``%mcp`` in a shell: servers are connected, listed, shown, completed and closed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

import agf_magics as agf
from agf_magics.editor.complete import complete
from agf_magics.notebook.completion.tab import known
from tests.mcp.servers import PROGRAMS

if TYPE_CHECKING:
    from .conftest import Shell

CONNECT = f"%mcp connect quick --env TOKEN=$MCP_TOKEN -- python {PROGRAMS / 'quick.py'}"


@pytest.fixture(autouse=True)
def _token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCP_TOKEN", "tok-12345")


def test_a_server_is_connected_called_listed_and_closed(shell: Shell) -> None:
    result = shell.good(CONNECT)
    assert f"starting: python {PROGRAMS / 'quick.py'}" in result.out
    assert "quick: open, 3 tools: quick__add, quick__drop, quick__die" in result.out
    shell.good("%%pipeline --run --quiet --out r\npipeline: sum\nsteps: [{tool: {name: quick__add, args: {a: 2}}}]")
    assert shell.names["r"].output == "3"
    assert "quick__add" in shell.good("%mcp quick --tools").outputs[0]["text/plain"]
    assert "quick   open" in shell.good("%mcp").outputs[0]["text/plain"]
    assert "has logged nothing" in shell.good("%mcp quick --log").out
    assert "quick: open" in shell.good("%mcp quick --restart").out
    assert "closed quick" in shell.good("%mcp quick --close").out
    assert "no MCP server is connected" in shell.good("%mcp").outputs[0]["text/plain"]
    assert "quick__add" not in agf.registry.tools


def test_options_choose_the_tools_and_words_after_the_dashes_belong_to_the_server(shell: Shell) -> None:
    shell.good(f"{CONNECT} --help --trust")
    assert agf.registry.tools["quick__add"].asks_first
    shell.good(CONNECT.replace("--env", "--only add,drop --trust --timeout 5 --env"))
    assert not agf.registry.tools["quick__add"].asks_first
    assert agf.registry.tools["quick__drop"].timeout == 5
    assert "quick__die" not in agf.registry.tools
    assert shell.good("%mcp --close").out == "closed 1 MCP server\n"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("%mcp connect", "magic.missing"),
        ("%mcp connect quick", "magic.missing"),
        ("%mcp nobody --log", "magic.server"),
        ("%mcp connect quick --env TOKEN -- python x.py", "magic.set"),
        ("%mcp connect quick --timeout soon -- python x.py", "magic.seconds"),
        ("%mcp connect 'a b' -- python x.py", "mcp.config"),
        ("%mcp connect quick --env T=$NO_SUCH -- python x.py", "mcp.environment"),
        ("%mcp connect quick -- no-such-program", "mcp.unreachable"),
        ("%mcp connect quick 'no address' --sign-in", "mcp.config"),
    ],
)
def test_a_wrong_line_is_refused(shell: Shell, line: str, code: str) -> None:
    assert [diagnostic.code for diagnostic in shell.run(line).error.diagnostics] == [code]
    assert "quick" not in agf.mcp.servers


def test_names_of_servers_are_completed(shell: Shell) -> None:
    shell.good(CONNECT)
    magics = shell.ip.magics_manager.registry["PipelineMagics"]
    around = known(magics.notebook, shell.ip)
    offer = complete("%mcp ", 0, 5, around)
    assert offer is not None
    assert [choice.text for choice in offer.choices] == ["connect", "quick"]


def test_unloading_closes_the_servers(shell: Shell) -> None:
    shell.good(CONNECT)
    server = agf.mcp.servers["quick"]
    shell.ip.extension_manager.unload_extension("agf_magics")
    assert server.state == "closed"
    shell.ip.extension_manager.load_extension("agf_magics")


def test_no_server_costs_no_import(shell: Shell) -> None:
    code = "import sys, agf_magics.notebook.magics.mcp as m; m.server_names(); print('mcp' in sys.modules)"
    assert shell.good(f'!{sys.executable} -c "{code}"').out.strip() == "False"
