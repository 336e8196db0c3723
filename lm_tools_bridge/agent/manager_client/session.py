"""Keeps the agent's session at the manager: opens it, opens a new one when it is lost, and ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Final

from lm_tools_bridge.agent.manager_client.endpoint import CAPABILITIES, CLIENT_NAME
from lm_tools_bridge.agent.manager_client.failures import AnswerLost, Refused, Undelivered
from lm_tools_bridge.agent.manager_client.transport import Transport, messages, session_headers
from lm_tools_bridge.protocol import headers, jsonrpc, names
from lm_tools_bridge.protocol.names import LATEST_LEGACY

OPEN_S: Final = 60.0
"""Seconds that the manager may take for `initialize`; it may wait for a workspace server."""
_NOTIFY_S: Final = 5.0
_END_S: Final = 2.0
_FIRST_ID: Final = b'"open"'


@dataclass(frozen=True, slots=True, eq=False)
class Opened:
    """One session at the manager. Each opening is a value of its own."""

    id: str
    revision: str

    @property
    def headers(self) -> dict[str, str]:
        """What a request in this session carries."""
        return session_headers(self.id, self.revision)


class Session:
    """The session that the agent uses, over several at the manager.

    Args:
        transport: sends the requests.
        version: the agent's version, for `clientInfo`.
        renewed: called after each opening; everything may have changed then.
    """

    def __init__(self, transport: Transport, version: str, renewed: Callable[[], None]) -> None:
        self._transport = transport
        self._version = version
        self._renewed = renewed
        self._opening = asyncio.Lock()
        self.opened: Opened | None = None

    async def ensure(self) -> Opened:
        """The open session; opened now if there is none.

        Raises:
            Undelivered: the manager cannot be reached now.
            Refused: it opens no session for us.
        """
        async with self._opening:
            if self.opened is None:
                try:
                    async with asyncio.timeout(OPEN_S):
                        self.opened = await self._open()
                except TimeoutError:
                    raise Undelivered(f"the manager opened no session within {OPEN_S:g} s") from None
                except AnswerLost as lost:
                    raise Undelivered(str(lost)) from None
                self._renewed()
            return self.opened

    def forget(self, lost: Opened) -> None:
        """The manager does not know this session; the next request opens another."""
        if self.opened is lost:
            self.opened = None

    async def notify(self, body: bytes, opened: Opened) -> None:
        """Send a notification or a response, within 5 s; it is lost where that fails."""
        with suppress(Undelivered, Refused, AnswerLost, TimeoutError):
            async with (
                asyncio.timeout(_NOTIFY_S),
                self._transport.send("POST", body, opened.headers) as response,
            ):
                await response.read()

    async def end(self) -> None:
        """End the session at the manager, if that takes at most 2 s; else it expires there."""
        opened, self.opened = self.opened, None
        if opened is None:
            return
        with suppress(Undelivered, Refused, AnswerLost, TimeoutError):
            async with asyncio.timeout(_END_S), self._transport.send("DELETE", None, opened.headers):
                pass

    async def _open(self) -> Opened:
        params = {
            "protocolVersion": LATEST_LEGACY,
            "capabilities": CAPABILITIES,
            "clientInfo": {"name": CLIENT_NAME, "version": self._version},
        }
        body = jsonrpc.request(_FIRST_ID, names.INITIALIZE, params)
        async with self._transport.send("POST", body, {}) as response:
            answer = b""
            async with aclosing(messages(response)) as received:
                async for answer in received:
                    if isinstance(jsonrpc.parse(answer), jsonrpc.Response):
                        break
            opened = _opened_session(response.headers.get(headers.SESSION), answer)
        await self.notify(jsonrpc.notification(names.INITIALIZED), opened)
        return opened


def _opened_session(identity: str | None, answer: bytes) -> Opened:
    members = jsonrpc.members_of(answer)
    result = jsonrpc.members_of(members.get("result", b""))
    revision = jsonrpc.text_of(result.get("protocolVersion", b""))
    if identity is None or revision is None:
        error = jsonrpc.members_of(members.get("error", b""))
        raise Refused(jsonrpc.text_of(error.get("message", b"")) or "the manager opened no session")
    return Opened(identity, revision)
