"""The SDK that the room ``mcp/`` is written for."""

from __future__ import annotations

import sys

import pytest

from agf_magics import DefinitionError
from agf_magics.mcp.sdk import require_sdk


def test_the_sdk_is_found() -> None:
    require_sdk()
    assert "mcp" in sys.modules


def test_without_the_sdk_the_error_has_the_line_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(DefinitionError) as caught:
        require_sdk()
    assert caught.value.diagnostics[0].code == "mcp.not-installed"
    assert caught.value.diagnostics[0].hint == "pip install 'agf-magics[mcp]'"
