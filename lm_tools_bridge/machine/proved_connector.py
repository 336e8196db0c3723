"""Connections of aiohttp over which nothing goes to a program of another user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import aiohttp

from lm_tools_bridge.machine.proved_server import ServedByOthers, require_own_server

if TYPE_CHECKING:
    from aiohttp.client_proto import ResponseHandler
    from aiohttp.connector import Connection


class ProvedConnector(aiohttp.TCPConnector):
    """Proves for each request who serves its connection, before a byte of it is sent.

    Args:
        always: whether the server must be of this user for every request; else only for those with
            `Authorization`.
        options: as for `aiohttp.TCPConnector`.
    """

    def __init__(self, *, always: bool, **options: Any) -> None:
        super().__init__(**options)
        self._always = always

    async def connect(
        self,
        req: aiohttp.ClientRequest,
        traces: list[Any],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109  the signature is aiohttp's
    ) -> Connection:
        """Connect as `aiohttp.TCPConnector` does.

        Raises:
            aiohttp.ClientConnectorError: there is no connection, or a program of another user serves it.
        """
        connection = await super().connect(req, traces, timeout)
        has_secret = "Authorization" in req.headers
        if self._always or has_secret:
            try:
                _prove(connection.protocol, has_secret=has_secret)
            except ServedByOthers as error:
                connection.close()
                raise aiohttp.ClientConnectorError(req.connection_key, error) from error
        return connection


def _prove(protocol: ResponseHandler | None, *, has_secret: bool) -> None:
    transport = None if protocol is None else protocol.transport
    ends = [] if transport is None else [transport.get_extra_info(name) for name in ("sockname", "peername")]
    if not ends or not all(ends):
        raise ServedByOthers("the connection was closed, so nothing was sent")
    require_own_server(ends[0], ends[1], has_secret=has_secret)
