"""What a sign-in has brought, as one entry of the system's keyring that all processes of the person share.

One entry: of several, a process could read the token of one sign-in and the client of another, and a
token that no client of ours can renew is lost. Without a keyring the entry lives as long as the
process.
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
"""The entries that no keyring keeps."""


class Entry(NamedTuple):
    """One sign-in."""

    tokens: OAuthToken
    until: float | None
    """When the token expires, in seconds since 1970; None: it is not known."""
    client: OAuthClientInformationFull | None
    """Whom the service knows us as: only this client can renew the token."""
    service: OAuthMetadata | None
    """Where the token is renewed; None: at the server itself."""


class Tokens:
    """The entry of one address, and a `TokenStorage` of the SDK."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._client: OAuthClientInformationFull | None = None
        """Of a sign-in that has no tokens yet."""
        self.context: OAuthContext | None = None
        """What the SDK knows of the service, which it does not store."""

    async def read(self) -> Entry | None:
        """The entry; None if there is none, or it cannot be read."""
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
    """An entry as a text, as short as possible: a keyring may take few characters."""

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
    """The text in the keyring; None if it has none, or there is no keyring."""
    try:
        import keyring

        token = keyring.get_password(SERVICE, key)
    # A locked keyring, one without a backend: each has its own error.
    except Exception:
        return None
    return token if isinstance(token, str) else None


def _write_keyring(key: str, text: str) -> bool:
    """Put a text into the keyring; False if it is not there then. Some keyrings take no text, or
    none of this length, and do not say so."""
    try:
        import keyring

        keyring.set_password(SERVICE, key, text)
    except Exception:
        return False
    return _read_keyring(key) == text
