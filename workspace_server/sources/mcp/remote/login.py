"""Logs in to a remote server with the user at the browser (`lmtb servers login <namespace>`).

Uses the SDK's authorization code flow (discovery, registration, PKCE, state, issuer), with a redirect to a
local port that is open for this login only. Servers use the stored tokens (`oauth.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider, OAuthFlowError
from mcp.shared.auth import OAuthClientMetadata
from pydantic import AnyUrl

from lm_tools_bridge.protocol.names import LATEST_LEGACY
from workspace_server.config.model import RemoteServer
from workspace_server.sources.mcp.remote.addresses import (
    AddressRefused,
    Resolver,
    parse_origin,
    system_resolver,
)
from workspace_server.sources.mcp.remote.auth_http import AuthHttp
from workspace_server.sources.mcp.remote.failures import HttpFailure
from workspace_server.sources.mcp.remote.login_storage import LoginStorage, SecretStore

CALLBACK: Final = "/callback"
# Time for a person to find a password and a second factor.
LOGIN_TIMEOUT_S: Final = 300.0
# The browser's request has a few kilobytes and comes at once; other local programs may connect and say
# nothing.
MAX_HEAD: Final = 16 * 1024
HEAD_S: Final = 10.0
_PAGE: Final = b"<!doctype html><title>LM Tools Bridge</title><p>%s You can close this window."


class LoginFailed(Exception):
    """The login failed. The text is for a person."""


class RedirectServer:
    """The local server that the browser is redirected to. Takes the first answer only."""

    def __init__(self) -> None:
        self._answer: asyncio.Future[AuthorizationCodeResult] = asyncio.get_running_loop().create_future()
        self._server: asyncio.Server | None = None
        self.uri = ""

    async def open(self) -> None:
        """Open a local port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=MAX_HEAD)
        port = self._server.sockets[0].getsockname()[1]
        self.uri = f"http://127.0.0.1:{port}{CALLBACK}"

    async def answer(self) -> AuthorizationCodeResult:
        """The parameters of the redirect; the SDK verifies the state."""
        return await self._answer

    async def close(self) -> None:
        """Close the port."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
        self._answer.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), HEAD_S)
            status, text = self._take(head.split(b"\r\n", 1)[0].decode("ascii", "replace"))
            page = _PAGE % text
            writer.write(
                b"HTTP/1.1 %s\r\nContent-Type: text/html\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s"
                % (status, len(page), page)
            )
            await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
            return
        finally:
            writer.close()

    def _take(self, line: str) -> tuple[bytes, bytes]:
        method, _, rest = line.partition(" ")
        target = urlsplit(rest.partition(" ")[0])
        query = {key: values[0] for key, values in parse_qs(target.query).items()}
        if method != "GET" or target.path != CALLBACK or self._answer.done():
            return b"404 Not Found", b"Nothing here."
        if "code" in query:
            code_result = AuthorizationCodeResult(
                code=query["code"], state=query.get("state"), iss=query.get("iss")
            )
            self._answer.set_result(code_result)
            return b"200 OK", b"You are logged in."
        if "error" in query:
            self._answer.set_exception(LoginFailed(f"the login was refused ({query['error'][:100]})"))
            return b"200 OK", b"The login was refused."
        return b"404 Not Found", b"Nothing here."


async def login(
    server: RemoteServer,
    keeper: SecretStore,
    open_url: Callable[[str], None],
    *,
    resolver: Resolver = system_resolver,
    timeout_s: float = LOGIN_TIMEOUT_S,
) -> None:
    """Log in and store the tokens.

    Args:
        server: the entry of the configuration.
        keeper: the secret store.
        open_url: opens the page in a browser, or shows its address.
        resolver: resolves names.
        timeout_s: how long the person may take.

    Raises:
        LoginFailed: it did not work.
    """
    redirect = RedirectServer()
    await redirect.open()

    async def show(url: str) -> None:
        open_url(url)

    metadata = OAuthClientMetadata(
        redirect_uris=[AnyUrl(redirect.uri)],
        client_name="LM Tools Bridge",
        token_endpoint_auth_method="none",  # noqa: S106  says that there is none
        scope=server.scope or None,
    )
    logins = LoginStorage(server, keeper)
    try:
        parse_origin(server.url)
        async with asyncio.timeout(timeout_s):
            provider = OAuthClientProvider(server.url, metadata, logins, show, redirect.answer)
            await _trigger_login(server, provider, resolver)
    except TimeoutError:
        raise LoginFailed(f"nobody logged in within {timeout_s:g} s") from None
    except (OAuthFlowError, AddressRefused) as error:
        raise LoginFailed(f"{server.namespace}: {error}") from None
    except HttpFailure as failure:
        raise LoginFailed(f"{server.namespace} {failure.text}") from None
    finally:
        await redirect.close()
    if (await logins.load()).tokens is None:
        raise LoginFailed(f"{server.namespace} wants no login")


async def _trigger_login(server: RemoteServer, provider: OAuthClientProvider, resolver: Resolver) -> None:
    """Send a request: the response 401 starts the flow."""
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": LATEST_LEGACY,
            "capabilities": {},
            "clientInfo": {"name": "lm-tools-bridge", "version": "0"},
        },
    }
    headers = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": LATEST_LEGACY,
        **server.headers,
    }
    async with (
        httpx2.AsyncClient(transport=AuthHttp(server, resolver), auth=provider, timeout=None) as client,
        client.stream("POST", server.url, json=hello, headers=headers),
    ):
        return
