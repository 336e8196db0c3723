"""Keeps the OAuth tokens of a remote server in the user's secret store."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Protocol

import msgspec
from mcp.client.auth import TokenStorage
from mcp.shared.auth import OAuthClientInformationFull, OAuthMetadata, OAuthToken
from pydantic import ValidationError

from workspace_server.config.model import RemoteServer

_BASIC, _POST = "client_secret_basic", "client_secret_post"


class SecretStore(Protocol):
    """Where tokens are kept: the user's secret store."""

    async def get(self, key: str) -> str | None:
        """The value, None when there is none."""

    async def set(self, key: str, value: str) -> None:
        """Store a value."""


def key_of(server: RemoteServer) -> str:
    """The key of a server's tokens in the secret store: never shared between URLs or clients."""
    digest = sha256(f"{server.url}\n{server.client_id}\n{server.scope}".encode()).hexdigest()[:16]
    return f"mcp-oauth.{re.sub('[^A-Za-z0-9._-]', '_', server.namespace)[:64]}.{digest}"


@dataclass(slots=True)
class StoredLogin:
    """What is stored for one server. `expires_at` is seconds of the wall clock, None for unknown."""

    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None
    expires_at: float | None = None
    issuer: str | None = None


class LoginStorage(TokenStorage):
    """The stored login of one server; also the SDK's `TokenStorage`. Its content is never printed."""

    def __init__(
        self, server: RemoteServer, keeper: SecretStore, wall: Callable[[], float] = time.time
    ) -> None:
        self._server = server
        self._keeper = keeper
        self._wall = wall

    async def load(self) -> StoredLogin:
        """What is stored now; an empty login for nothing, or nothing readable."""
        text = await self._keeper.get(key_of(self._server))
        try:
            stored = {} if text is None else msgspec.json.decode(text)
            return StoredLogin(
                _model(OAuthToken, stored.get("tokens")),
                _model(OAuthClientInformationFull, stored.get("client")),
                stored.get("expires_at"),
                stored.get("issuer"),
            )
        except (msgspec.DecodeError, ValidationError, AttributeError):
            return StoredLogin()

    async def save(self, login: StoredLogin) -> None:
        """Replace what is stored."""
        content = {
            "tokens": None
            if login.tokens is None
            else login.tokens.model_dump(mode="json", exclude_none=True),
            "client": None
            if login.client is None
            else login.client.model_dump(mode="json", exclude_none=True),
            "expires_at": login.expires_at,
            "issuer": login.issuer,
        }
        await self._keeper.set(key_of(self._server), msgspec.json.encode(content).decode())

    async def get_tokens(self) -> OAuthToken | None:
        """None, because a login starts without tokens and the SDK would use stored ones."""
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """What the SDK obtained."""
        login = await self.load()
        login.tokens, login.expires_at = tokens, expiry(tokens, self._wall())
        if login.client is not None:
            login.issuer = login.client.issuer or login.issuer
        await self.save(login)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """The client of the configuration, or the one that was registered."""
        return configured_client(self._server, None) or (await self.load()).client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """What the SDK registered."""
        login = await self.load()
        login.client = client_info
        await self.save(login)


def _model(kind: type[Any], value: object) -> Any:
    return None if value is None else kind.model_validate(value)


def expiry(tokens: OAuthToken, now: float) -> float | None:
    """When a token given out `now` ends, in seconds since 1970; None if unknown."""
    return None if tokens.expires_in is None else now + tokens.expires_in


def configured_client(
    server: RemoteServer, metadata: OAuthMetadata | None
) -> OAuthClientInformationFull | None:
    """The client that the configuration names; None where it names none."""
    if not server.client_id:
        return None
    offered = (metadata.token_endpoint_auth_methods_supported if metadata is not None else None) or [_BASIC]
    method = "none" if not server.client_secret else _BASIC if _BASIC in offered else _POST
    return OAuthClientInformationFull(
        client_id=server.client_id,
        client_secret=server.client_secret or None,
        token_endpoint_auth_method=method,
    )
