"""Opens sessions with one remote server: checks its address, picks the credentials and the transport."""

from __future__ import annotations

import asyncio
import importlib
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from lm_tools_bridge.protocol.names import Era
from workspace_server.config.model import RemoteServer
from workspace_server.sources.mcp.failures import SessionFailed, Unavailable
from workspace_server.sources.mcp.invalid_output import InvalidOutput
from workspace_server.sources.mcp.remote.addresses import (
    AddressRefused,
    Origin,
    Resolver,
    parse_origin,
    refused_literal,
    system_resolver,
)
from workspace_server.sources.mcp.remote.authorization import Authorization, ConfiguredToken, ReadSecret
from workspace_server.sources.mcp.remote.failures import HttpFailure
from workspace_server.sources.mcp.session import Session

# Hosts that start a server with its first request need longer than for a call.
HANDSHAKE_S: Final = 30.0
SHOW_ALL: Final = {"X-MCP-Show-All": "true"}
_NO_STREAMABLE_HTTP: Final = frozenset({400, 404, 405, 406, 415})
"""How servers of the older transport answer a POST to the URL of their stream."""


@dataclass(frozen=True, slots=True)
class RemoteDependencies:
    """What all remote sources of a workspace share.

    Attributes:
        root: absolute path of the workspace.
        version: of this product.
        environ: where `token_env` is looked up.
        secrets: where `token_secret` is, None for nowhere.
        authorize: makes the authorization of a server with `auth = "oauth"`; None where that is not offered.
        own_manager: makes the authorization of an offer of the user's team, None for any other server.
        resolver: resolves names.
        handshake_s: how long opening a session may take, unless the entry says (`start_timeout_s`).
        side_s: how long messages nobody waits for may take.
        clock: monotonic seconds, for the breaker.
    """

    root: str
    version: str
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: ReadSecret | None = None
    authorize: Callable[[RemoteServer], Awaitable[Authorization]] | None = None
    own_manager: Callable[[RemoteServer], Authorization | None] = lambda _: None
    resolver: Resolver = system_resolver
    handshake_s: float = HANDSHAKE_S
    side_s: float = 5.0
    clock: Callable[[], float] = time.monotonic


class SessionOpener:
    """Opens sessions with one server.

    Args:
        server: the entry.
        dependencies: what it works with.
        source: id of the source, for errors.
        schema: the input schema of a tool by the server's own name, None for one it does not list.
        on_change: hears which list the server says has changed.
        on_update: hears the URI of a subscribed resource that has.
        junk: counts what is no message.

    Attributes:
        origin: where the server is, or why it may not be reached.
        authorization: as whom it is spoken to, once that is known.
    """

    def __init__(
        self,
        server: RemoteServer,
        dependencies: RemoteDependencies,
        *,
        source: str,
        schema: Callable[[str], Mapping[str, Any] | None],
        on_change: Callable[[str], None],
        on_update: Callable[[str], None],
        junk: InvalidOutput,
    ) -> None:
        self._server = server
        self._dependencies = dependencies
        self._source = source
        self._schema = schema
        self._on_change = on_change
        self._on_update = on_update
        self._junk = junk
        self.origin = _origin_of(server.url)
        self.authorization: Authorization | None = None

    async def open(self, on_end: Callable[[str], None]) -> Session:
        """Open a session over the transport that the server supports.

        Raises:
            Unavailable: there is none; as `HttpFailure` where HTTP is what failed.
        """
        if isinstance(self.origin, AddressRefused):
            raise SessionFailed(str(self.origin), final=True)
        if (refused := refused_literal(self.origin, allow_private=self._server.allow_private)) is not None:
            raise SessionFailed(f"has an address that is not allowed: {refused}", final=True)
        if self.authorization is None:
            self.authorization = await self._authorize()
        # in a thread: loading the SDK takes most of a second, in which the others are served
        sdk = await asyncio.to_thread(
            importlib.import_module, "workspace_server.sources.mcp.remote.transport"
        )
        if self._server.transport != "sse":
            try:
                return await self._open_transport(sdk, "http", on_end)
            except HttpFailure as failure:
                if self._server.transport == "http" or failure.status not in _NO_STREAMABLE_HTTP:
                    raise
                first = failure
            try:
                return await self._open_transport(sdk, "sse", on_end)
            except Unavailable:
                raise first from None
        return await self._open_transport(sdk, "sse", on_end)

    async def _open_transport(self, sdk: Any, protocol: str, on_end: Callable[[str], None]) -> Session:
        dependencies = self._dependencies
        limit_s = self._server.start_timeout_s or dependencies.handshake_s
        transport = self._make_transport(sdk, protocol)
        try:
            async with asyncio.timeout(limit_s):
                await transport.open()
            return await Session.open(
                transport,
                source=self._source,
                root=dependencies.root,
                timeout_s=limit_s,
                on_change=self._on_change,
                on_update=self._on_update,
                on_end=on_end,
                version=dependencies.version,
                junk=self._junk,
                first=Era.MODERN if protocol == "http" else Era.LEGACY,
                offers_apps=self._server.apps,
            )
        except TimeoutError:
            await transport.close()
            raise Unavailable(f"did not answer within {limit_s:g} s") from None
        except Unavailable as failure:
            await transport.close()
            cause = failure if isinstance(failure, HttpFailure) else failure.__cause__
            if isinstance(cause, HttpFailure):
                raise _for_opening(cause) from None
            raise
        except BaseException:
            await transport.close()
            raise

    def _make_transport(self, sdk: Any, protocol: str) -> Any:
        """A transport that goes to the server's origin only, and to no private address by accident."""
        dependencies, server = self._dependencies, self._server
        origin = parse_origin(server.url)
        own = (origin.host, origin.port)
        backend = sdk.CheckedBackend(
            allow_private=server.allow_private,
            is_literal=lambda other: (other.host, other.port) == own,
            resolver=dependencies.resolver,
            is_own_manager=dependencies.own_manager(server) is not None,
        )

        def guarded(on_lost: Any) -> Any:
            headers = {**SHOW_ALL, **server.headers}
            return sdk.GuardedTransport(
                origin, self.authorization, headers, backend, on_lost=on_lost, side_s=dependencies.side_s
            )

        return sdk.RemoteTransport(server.url, protocol, guarded, self._schema)

    async def _authorize(self) -> Authorization:
        own = self._dependencies.own_manager(self._server)
        if own is not None:
            return own
        if self._server.auth == "oauth" and self._dependencies.authorize is not None:
            return await self._dependencies.authorize(self._server)
        return ConfiguredToken(self._server, self._dependencies.environ, self._dependencies.secrets)


def _origin_of(url: str) -> Origin | AddressRefused:
    try:
        return parse_origin(url)
    except AddressRefused as refused:
        return refused


def _for_opening(failure: HttpFailure) -> HttpFailure:
    """The failure of a handshake: nothing was delivered, and HTTP 403 means missing credentials."""
    kind = "unauthorized" if failure.status == 403 else failure.kind
    return HttpFailure(kind, failure.text, status=failure.status, retry_after_ms=failure.retry_after_ms)
