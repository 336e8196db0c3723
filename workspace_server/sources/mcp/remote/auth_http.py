"""Sends HTTP requests to authorization servers, which a remote server names, not the configuration.

Hence: only allowed addresses, TLS except on this machine, no redirects, answers of at most 1 MiB, 10 s.
`oauth.py` and `login.py` decide which credentials are sent.
"""

from __future__ import annotations

from typing import Final

import anyio
import httpcore2
import httpx2

from workspace_server.config.model import RemoteServer
from workspace_server.sources.mcp.remote.addresses import AddressRefused, Origin, Resolver, parse_origin
from workspace_server.sources.mcp.remote.failures import HttpFailure
from workspace_server.sources.mcp.remote.network import (
    BROKEN,
    CONNECTING,
    BadEncoding,
    CheckedBackend,
    TooLarge,
    collected,
    decoded,
    tls,
    why,
)

# Metadata and tokens have some kilobytes, and the call that needs them waits.
MAX_BODY: Final = 1024 * 1024
DEADLINE_S: Final = 10.0


class AuthHttp(httpx2.AsyncBaseTransport):
    """One exchange at a time with whoever is named. Raises `HttpFailure`.

    A configured server on this machine may name an authorization server on this machine.
    """

    def __init__(self, server: RemoteServer, resolver: Resolver) -> None:
        local = parse_origin(server.url).is_literal_loopback
        self._local = local
        self._own = parse_origin(server.url)
        backend = CheckedBackend(
            allow_private=server.allow_private,
            is_literal=lambda origin: local and origin.is_literal_loopback,
            resolver=resolver,
        )
        self._pool = httpcore2.AsyncConnectionPool(ssl_context=tls(), network_backend=backend)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """One exchange."""
        try:
            origin = parse_origin(str(request.url))
            self._check(origin)
            with anyio.fail_after(DEADLINE_S):
                return await self._exchange(request)
        except AddressRefused as refused:
            raise HttpFailure(
                "unreachable", f"wants a login at an address that is not allowed: {refused}"
            ) from None
        except CONNECTING as error:
            raise HttpFailure(
                "unreachable", f"wants a login at a server that cannot be reached{why(error)}"
            ) from None
        except (TooLarge, BadEncoding, TimeoutError, *BROKEN) as error:
            raise HttpFailure(
                "failing", f"wants a login at a server that does not answer{why(error)}"
            ) from None

    async def aclose(self) -> None:
        """Close every connection."""
        await self._pool.aclose()

    def _check(self, origin: Origin) -> None:
        if (
            origin.scheme != "https"
            and origin != self._own
            and not (self._local and origin.is_literal_loopback)
        ):
            raise AddressRefused("credentials are only sent over https")

    async def _exchange(self, request: httpx2.Request) -> httpx2.Response:
        url = request.url
        target = httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
        headers = httpx2.Headers(request.headers)
        headers["accept-encoding"] = "gzip"
        sent = httpcore2.Request(request.method, target, headers=headers.raw, content=await request.aread())
        response = await self._pool.handle_async_request(sent)
        try:
            kept = httpx2.Headers(response.headers)
            body = await collected(decoded(response, kept.pop("content-encoding", "identity")), MAX_BODY)
        finally:
            await response.aclose()
        kept.pop("content-length", None)
        return httpx2.Response(response.status, headers=kept, content=body)
