"""What a server says of a failed call is the error of the step, in whichever part of the result it stands."""

from __future__ import annotations

from typing import Any

import pytest
from mcp import types

from agf_magics.mcp.client.results import text_of

TEXT = types.TextContent(type="text", text="no figs")
IMAGE = types.ImageContent(type="image", data="", mime_type="image/png")
FILE = types.EmbeddedResource(type="resource", resource=types.TextResourceContents(uri="file:///log", text="no pears"))
SAID: list[tuple[list[Any], Any, str]] = [
    ([TEXT], None, "no figs"),
    ([TEXT, FILE], None, "no figs\nno pears"),
    ([FILE, IMAGE], None, "no pears"),
    ([TEXT], {"why": "other"}, "no figs"),
    ([], {"why": "größe"}, '{"why": "größe"}'),
    ([types.TextContent(type="text", text="")], {"why": 3}, '{"why": 3}'),
    ([IMAGE], None, "the server does not say why"),
    ([], {}, "the server does not say why"),
    ([], None, "the server does not say why"),
]


@pytest.mark.parametrize(("content", "structured", "said"), SAID)
def test_the_reason_is_found(content: list[Any], structured: Any, said: str) -> None:
    result = types.CallToolResult(content=content, structured_content=structured, is_error=True)
    assert text_of(result) == said
