"""An OAuth authorization server and an MCP server that trusts it, in the test process.

The MCP server is a `ScriptedRemoteServer` at `/mcp`; a request without a valid token gets 401 and the address of the
metadata.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import secrets
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from aiohttp import web
from aiohttp.test_utils import TestServer

from support.servers.mcp_sources.remote_server import ScriptedRemoteServer


@dataclass
class OAuthServer:
    """Both servers.

    Attributes:
        valid: the access tokens in force; `refresh`: the refresh tokens.
        refused: how many messages got 401; the end of a session is none.
        page: where to sign in, if not at the origin.
    """

    url: str = ""
    origin: str = ""
    remote: ScriptedRemoteServer = field(default_factory=ScriptedRemoteServer)
    valid: set[str] = field(default_factory=set)
    refresh: set[str] = field(default_factory=set)
    clients: dict[str, str] = field(default_factory=lambda: {"robot": "hunter2"})
    codes: dict[str, str] = field(default_factory=dict)
    grants: Counter[str] = field(default_factory=Counter)
    token_requests: list[dict[str, str]] = field(default_factory=list)
    issuer: str = ""
    page: str = ""
    expires_in: int | None = 3600
    broken: bool = False
    refused: int = 0

    async def mcp(self, request: web.Request) -> web.StreamResponse:
        """The resource."""
        if request.headers.get("Authorization", "").removeprefix("Bearer ") in self.valid:
            return await self.remote.handle(request)
        self.refused += request.method == "POST"
        named = f'Bearer resource_metadata="{self.origin}/.well-known/oauth-protected-resource/mcp"'
        return web.Response(status=401, headers={"WWW-Authenticate": named})

    async def resource(self, _request: web.Request) -> web.Response:
        """RFC 9728."""
        return web.json_response(
            {"resource": self.url, "authorization_servers": [self.issuer or self.origin]}
        )

    async def metadata(self, _request: web.Request) -> web.Response:
        """RFC 8414."""
        return web.json_response(
            {
                "issuer": self.issuer or self.origin,
                "authorization_endpoint": self.page or f"{self.origin}/authorize",
                "token_endpoint": f"{self.origin}/token",
                "registration_endpoint": f"{self.origin}/register",
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["client_secret_basic", "none"],
            }
        )

    async def register(self, request: web.Request) -> web.Response:
        """RFC 7591."""
        wanted = await request.json()
        self.clients["registered"] = ""
        return web.json_response({**wanted, "client_id": "registered"}, status=201)

    def authorize(self, query: dict[str, str]) -> str:
        """What the person at the browser agrees to: where the browser goes next."""
        code = secrets.token_hex(8)
        self.codes[code] = query["code_challenge"]
        answer = {"code": code, "state": query["state"], "iss": self.issuer or self.origin}
        return f"{query['redirect_uri']}?{urlencode(answer)}"

    async def token(self, request: web.Request) -> web.Response:
        """RFC 6749."""
        form = {key: str(value) for key, value in (await request.post()).items()}
        self.token_requests.append(form)
        grant = form.get("grant_type", "")
        self.grants[grant] += 1
        if self.broken:
            return web.Response(status=503)
        if not self._allows(grant, form, request.headers.get("Authorization", "")):
            return web.json_response({"error": "invalid_grant"}, status=400)
        access, fresh = secrets.token_hex(8), secrets.token_hex(8)
        self.valid.add(access)
        answer: dict[str, Any] = {
            "access_token": access,
            "token_type": "bearer",
            "expires_in": self.expires_in,
        }
        if grant != "client_credentials":
            self.refresh.add(fresh)
            answer["refresh_token"] = fresh
        return web.json_response({key: value for key, value in answer.items() if value is not None})

    def _allows(self, grant: str, form: dict[str, str], authorization: str) -> bool:
        if grant == "refresh_token":
            known = form["refresh_token"] in self.refresh
            self.refresh.discard(form["refresh_token"])
            return known
        if grant == "client_credentials":
            name, _, secret = base64.b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
            return bool(secret) and self.clients.get(name) == secret
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        return self.codes.pop(form.get("code", ""), None) == challenge


class MemorySecretStore:
    """A secret store in memory."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    async def get(self, key: str) -> str | None:
        return self.values.get(key)

    async def set(self, key: str, value: str) -> None:
        self.values[key] = value


@contextlib.asynccontextmanager
async def fake_oauth() -> AsyncIterator[OAuthServer]:
    """Both servers on one port of this machine."""
    fake = OAuthServer()
    app = web.Application()
    app.router.add_route("*", "/mcp", fake.mcp)
    app.router.add_get("/.well-known/oauth-protected-resource/mcp", fake.resource)
    app.router.add_get("/.well-known/oauth-authorization-server", fake.metadata)
    app.router.add_post("/register", fake.register)
    app.router.add_post("/token", fake.token)
    async with TestServer(app, host="127.0.0.1", shutdown_timeout=0.1) as server:
        fake.origin = f"http://127.0.0.1:{server.port}"
        fake.url = f"{fake.origin}/mcp"
        yield fake
