"""Stores the tokens of a sign-in as one entry of the system's keyring, which all processes share.

A sign-in is one entry, because a process that reads two entries could read the token of one sign-in
and the client of another, and only the client that got a token can renew it. Without a keyring the
entry lives as long as the process.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any, NamedTuple

from mcp.client.auth.oauth2 import OAuthContext
from mcp.shared.auth import OAuthClientInformationFull, OAuthMetadata, OAuthToken

SERVICE = "agf-magics mcp"
"""The name of the entries in the keyring."""

_MEMORY: dict[str, str] = {}
"""The entries of this process that no keyring stores, by address."""


class Entry(NamedTuple):
    """The stored data of one sign-in."""

    tokens: OAuthToken
    until: float | None
    """The time when the token expires, in seconds since 1970; None: unknown."""
    client: OAuthClientInformationFull | None
    """This client as the service has registered it: only this client can renew the token."""
    service: OAuthMetadata | None
    """The service that renews the token; None: the server itself renews it."""


class Tokens:
    """Reads and writes the entry of one address, as a `TokenStorage` of the SDK."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._client: OAuthClientInformationFull | None = None
        """The client of a sign-in that has no tokens yet."""
        self.context: OAuthContext | None = None
        """The SDK's data about the service, which the SDK itself does not store."""

    async def read(self) -> Entry | None:
        """The entry; None if there is no entry, or it cannot be read."""
        text = _MEMORY.get(self._address) or await asyncio.to_thread(_read_keyring, self._address)
        if not text:
            return None
        try:
            return _entry(json.loads(text))
        except (ValueError, TypeError, AttributeError, KeyError):  # written by another program
            return None

    async def get_tokens(self) -> OAuthToken | None:
        entry = await self.read()
        return entry.tokens if entry is not None else None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        context = self.context
        client = context.client_info if context is not None else self._client
        service = context.oauth_metadata if context is not None else None
        until = None if tokens.expires_in is None else time.time() + tokens.expires_in
        text = _text(Entry(tokens, until, client, service))
        if await asyncio.to_thread(_write_keyring, self._address, text):
            _MEMORY.pop(self._address, None)
        else:
            _MEMORY[self._address] = text

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        if self._client is not None:
            return self._client
        entry = await self.read()
        return entry.client if entry is not None else None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._client = client_info


def _entry(fields: dict[str, Any]) -> Entry:
    client = fields["client"]
    service = fields["service"]
    until = fields["until"]
    return Entry(
        OAuthToken.model_validate(fields["tokens"]),
        float(until) if until is not None else None,
        OAuthClientInformationFull.model_validate(client) if client is not None else None,
        OAuthMetadata.model_validate(service) if service is not None else None,
    )


def _text(entry: Entry) -> str:
    """An entry as a short text, because some keyrings limit the length."""

    def plain(model: Any, **options: Any) -> Any:
        if model is None:
            return None
        return model.model_dump(mode="json", exclude_none=True, exclude_unset=True, **options)

    ends = {"issuer", "authorization_endpoint", "token_endpoint"}
    fields = {
        "tokens": plain(entry.tokens),
        "until": entry.until,
        "client": plain(entry.client),
        "service": plain(entry.service, include=ends),
    }
    return json.dumps(fields, separators=(",", ":"))


def _read_keyring(key: str) -> str | None:
    """The text in the keyring; None if the keyring has no text for ``key``, or there is no
    keyring."""
    try:
        import keyring

        token = keyring.get_password(SERVICE, key)
    # Each kind of keyring has errors of its own: it may be locked, or have no backend.
    except Exception:
        return None
    return token if isinstance(token, str) else None


def _write_keyring(key: str, text: str) -> bool:
    """Put a text into the keyring; False if the keyring does not have it afterwards. Some keyrings
    refuse a text, or a long text, without an error."""
    try:
        import keyring

        keyring.set_password(SERVICE, key, text)
    except Exception:
        return False
    return _read_keyring(key) == text
