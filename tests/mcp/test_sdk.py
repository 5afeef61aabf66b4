"""The installed MCP SDK has everything that the room ``mcp/`` needs of it."""

from __future__ import annotations

import inspect
import pkgutil
import sys

import mcp_types
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


USED = {
    "mcp.Client": (
        *("server", "mode", "message_handler", "elicitation_callback", "logging_callback", "log_level", "client_info"),
        *("list_tools", "call_tool", "read_resource", "listen", "protocol_version", "server_info", "instructions"),
        "server_capabilities",
    ),
    "mcp.client.stdio": ("StdioServerParameters", "get_default_environment", "stdio_client"),
    "mcp.shared.message": ("SessionMessage",),
    "mcp.client.auth": ("OAuthClientProvider", "OAuthFlowError"),
    "mcp.client.auth.oauth2.OAuthContext": (
        *("current_tokens", "token_expiry_time", "client_info", "oauth_metadata"),
        *("is_token_valid", "can_refresh_token"),
    ),
    "mcp_types": ("jsonrpc_message_adapter", "ToolListChangedNotification", "ElicitResult", "CONNECTION_CLOSED"),
}
"""The names that the client uses of the SDK, by their modules."""

PARAMETERS = {
    "mcp.client.streamable_http.streamable_http_client": ("url", "http_client", "max_sse_event_size"),
    "mcp.Client.call_tool": ("name", "arguments", "progress_callback"),
    "mcp.Client.list_tools": ("cursor",),
    "mcp.Client.listen": ("tools_list_changed",),
    "mcp.client.auth.OAuthClientProvider": (
        *("server_url", "client_metadata", "storage", "redirect_handler", "callback_handler"),
    ),
}
"""The parameters that the client passes, by the function."""


@pytest.mark.parametrize(("place", "names"), USED.items(), ids=list(USED))
def test_the_sdk_still_has_the_names_that_the_client_uses(place: str, names: tuple[str, ...]) -> None:
    function = pkgutil.resolve_name(place)
    has = {*dir(function), *(inspect.signature(function).parameters if inspect.isclass(function) else ())}
    assert set(names) <= has


@pytest.mark.parametrize(("place", "names"), PARAMETERS.items(), ids=list(PARAMETERS))
def test_the_functions_of_the_sdk_still_accept_the_parameters_of_the_client(place: str, names: tuple[str, ...]) -> None:
    assert set(names) <= inspect.signature(pkgutil.resolve_name(place)).parameters.keys()


def test_a_transport_is_still_a_context_that_gives_two_streams_of_messages() -> None:
    """`bounded_stdio` and `bounded_http` are such transports, and the SDK closes the streams."""
    from mcp.client._transport import Transport
    from mcp.shared.message import SessionMessage

    assert {"__aenter__", "__aexit__"} <= set(dir(Transport))
    text = b'{"jsonrpc": "2.0", "id": 1, "result": {"tools": [{"name": "a", "outputSchema": {"type": "object"}}]}}'
    message = SessionMessage(mcp_types.jsonrpc_message_adapter.validate_json(text, by_name=False)).message
    assert isinstance(message, mcp_types.JSONRPCResponse)
    assert message.result["tools"][0]["name"] == "a"
    assert '"id":1' in message.model_dump_json(by_alias=True, exclude_unset=True)
