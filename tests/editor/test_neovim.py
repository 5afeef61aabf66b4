"""Tests the configuration for Neovim in the documentation, in a Neovim without a window."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

NVIM = shutil.which("nvim")
PAGE = Path(__file__).parents[2] / "docs" / "howto" / "editors.md"

TOOLS = 'from agf_magics import tool\n\n\n@tool\ndef fetch(url: str) -> str:\n    """Fetch a page."""\n    return url\n'
TEXT = """pipeline: p
steps:
- tool: {name: fetch, args: {url: x}}
- tool: {name: fetsh, args: {url: x}}
"""

BEFORE = """
if not vim.lsp.start then  -- Neovim 0.7
  vim.lsp.start = function(config)
    vim.lsp.buf_attach_client(0, vim.lsp.start_client(config))
  end
end
"""
AFTER = """
vim.cmd('filetype on')
vim.cmd('edit p.yaml')
vim.wait(60000, function() return #vim.diagnostic.get(0) > 0 end, 20)
local function ask(method)
  local params = { textDocument = vim.lsp.util.make_text_document_params(), position = { line = 2, character = 16 } }
  local answers = vim.lsp.buf_request_sync(0, method, params, 60000)
  for _, answer in pairs(answers or {}) do return answer.result end
end
local told = {
  problems = vim.diagnostic.get(0),
  help = ask('textDocument/hover'),
  definition = ask('textDocument/definition'),
}
for _, one in ipairs(told.problems) do one.user_data = nil end
vim.fn.writefile({ vim.fn.json_encode(told) }, 'told.json')
vim.cmd('qa!')
"""


@pytest.mark.slow
@pytest.mark.skipif(NVIM is None, reason="needs Neovim")
def test_the_lines_of_the_page_show_problems_help_and_definitions(tmp_path: Path) -> None:
    [lines] = re.findall(r"^```lua\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "tools.py").write_text(TOOLS)
    (tmp_path / "p.yaml").write_text(TEXT)
    (tmp_path / "try.lua").write_text(BEFORE + lines + AFTER)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    program = [str(NVIM), "--headless", "-n", "-u", "NONE", "-i", "NONE", "-c", "luafile try.lua"]
    completed = subprocess.run(
        program,
        cwd=tmp_path,
        env={**os.environ, "PATH": path, "XDG_CACHE_HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert (tmp_path / "told.json").is_file(), completed.stdout + completed.stderr
    shown: dict[str, Any] = json.loads((tmp_path / "told.json").read_text())
    [problem] = shown["problems"]
    assert (problem["code"], problem["lnum"], problem["col"], problem["end_col"]) == ("flow.unknown-tool", 3, 15, 20)
    assert "did you mean fetch?" in problem["message"]
    assert "Fetch a page." in shown["help"]["contents"]["value"]
    assert shown["definition"]["uri"] == (tmp_path / "tools.py").as_uri()
