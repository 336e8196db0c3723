"""One request of the client, from its first sending to its one response.

Whatever happens to the manager meanwhile: what was not delivered is sent when it is there again; what may
have been delivered is answered with an error, unless asking again changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

import msgspec

from manager.stdio_bridge import listen_streams
from manager.stdio_bridge.http_requests import ModernRequests
from manager.stdio_bridge.manager_connection import PATIENCE_S, ManagerConnection, Message, Unreachable
from manager.stdio_bridge.responses import Lost, is_stream, messages_of, own_words, response_in, wait_of
from manager.stdio_bridge.session import OWN_ID, Opened, RefusedError, Session
from manager.upstream.response import UpstreamFailure, UpstreamResponse
from protocol import jsonrpc, names
from protocol.errors import Reason, Refusal
from protocol.inbound import HEADER_MISMATCH
from protocol.jsonrpc import Notification, Request, Response

_HARMLESS: Final = frozenset(
    {names.INITIALIZE, names.DISCOVER, names.PING, names.LISTEN, names.TOOLS_LIST, names.RESOURCES_LIST,
     names.TEMPLATES_LIST, names.PROMPTS_LIST}
)  # fmt: skip
"""What may be asked twice."""
_MOST_PAGES: Final = 100
_AGAIN_S: Final = 0.25
_GONE: Final = 404
_PAUSE_S: Final = 0.25
"""Before a request is made again whose answer broke off."""
_LOST: Final = Refusal(
    Reason.WORKSPACE_SERVER_DIED, "the manager went away while it was working on this", delivered="unknown"
)


@dataclass(slots=True)
class Waiting:
    """A request that the client waits for; `revision` is None for one of the legacy era."""

    request: Request
    revision: str | None
    task: asyncio.Task[None] | None = None
    cancelled: bool = False


class Relay:
    """Takes requests to the manager."""

    def __init__(
        self, link: ManagerConnection, session: Session, write: Callable[[bytes], Awaitable[None]]
    ) -> None:
        self._link = link
        self._session = session
        self._write = write
        self._modern = ModernRequests()

    async def answer(self, waiting: Waiting) -> None:
        """See that the client gets one response, unless it has cancelled the request.

        Raises:
            ClientGone: nobody reads any more.
        """
        identity = waiting.request.id
        try:
            await self._until_answered(waiting)
        except Unreachable as failure:
            answer = _unreachable(failure).as_error(identity)
        except (Lost, UpstreamFailure):
            answer = _LOST.as_error(identity)
        except RefusedError as failure:
            error = {"jsonrpc": "2.0", "id": msgspec.Raw(identity), "error": msgspec.Raw(failure.error)}
            answer = jsonrpc.dumps(error)
        else:
            return
        if not waiting.cancelled:
            await self._write(answer)

    async def _until_answered(self, waiting: Waiting) -> None:
        """Send, and send again where nothing can have happened the first time."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + PATIENCE_S
        relisted = False
        while True:
            late = loop.time() > deadline
            opened = self._session.opened
            try:
                response = await self._link.send(self._message(waiting, opened))
                again = None if late else wait_of(response)
                if again is not None:
                    await response.aclose()
                    await asyncio.sleep(again)
                elif response.head.status == _GONE and waiting.revision is None and opened and not late:
                    await response.aclose()
                    await self._renew(opened)
                elif await self._deliver(waiting, response, may_relist=not relisted):
                    return
                else:
                    relisted = True
                    await self._relist(waiting)
            except (Lost, UpstreamFailure):
                if late or waiting.request.method not in _HARMLESS:
                    raise
                await asyncio.sleep(_PAUSE_S)

    async def _renew(self, lost: Opened) -> None:
        """Open another session in place of a lost one; where that was not possible, the next try is soon.

        Nobody has the request yet, so whatever is lost here is not its answer.
        """
        try:
            await self._session.renew(lost)
        except (Lost, UpstreamFailure):
            await asyncio.sleep(_AGAIN_S)

    def _message(self, waiting: Waiting, opened: Opened | None) -> Message:
        request = waiting.request
        if waiting.revision is not None:
            return self._modern.message(request, waiting.revision)
        return self._session.message(request.body, None if request.method == names.INITIALIZE else opened)

    # -- the answer ------------------------------------------------------------------------------------

    async def _deliver(self, waiting: Waiting, response: UpstreamResponse, *, may_relist: bool) -> bool:
        """Pass an answer on; False where the call did not run because its headers did not fit.

        Raises:
            Lost: it broke off, or the stream ended, before there was a response.
        """
        request = waiting.request
        if request.method == names.LISTEN and is_stream(response):
            message = self._message(waiting, None)
            await listen_streams.listen(self._link, message, response, self._write)
            return True
        answered, data = False, b""
        async with aclosing(messages_of(response)) as messages:
            async for data in messages:
                message_or_not = jsonrpc.parse(data)
                if isinstance(message_or_not, Response) and not answered:
                    if may_relist and _is_mismatch(waiting, data):
                        return False
                    answered = True
                    self._note(waiting, response, data)
                    await self._write(data)
                elif isinstance(message_or_not, Request | Notification):
                    await self._write(data)
        if not answered and is_stream(response):
            raise Lost("the stream ended without a response")
        if not answered and not waiting.cancelled:
            await self._write(own_words(request.id, response.head.status, data))
        return True

    def _note(self, waiting: Waiting, response: UpstreamResponse, answer: bytes) -> None:
        """Remember what later requests depend on."""
        request = waiting.request
        if waiting.revision is not None:
            if request.method == names.TOOLS_LIST:
                self._modern.listed(answer, first="cursor" not in jsonrpc.members_of(request.params))
        elif request.method == names.INITIALIZE:
            self._session.initialized(request, response, answer)
        else:
            self._session.answered(request, answer)

    async def _relist(self, waiting: Waiting) -> None:
        """Read the tools anew: what they want in headers has changed, or was never read."""
        asked: dict[str, msgspec.Raw] = {"_meta": jsonrpc.members_of(waiting.request.params)["_meta"]}
        for _ in range(_MOST_PAGES):
            body = jsonrpc.request(OWN_ID, names.TOOLS_LIST, asked)
            request = Request(OWN_ID, names.TOOLS_LIST, b"", body)
            response = await self._link.send(self._modern.message(request, waiting.revision or ""))
            page = await response_in(response)
            self._modern.listed(page, first="cursor" not in asked)
            result = jsonrpc.members_of(jsonrpc.members_of(page).get("result", b"{}"))
            if "nextCursor" not in result:
                return
            asked["cursor"] = result["nextCursor"]


def _unreachable(failure: Unreachable) -> Refusal:
    return Refusal(
        Reason.WORKSPACE_SERVER_OFFLINE, str(failure), "look closer with: lmtb doctor", delivered="no"
    )


def _is_mismatch(waiting: Waiting, answer: bytes) -> bool:
    """Whether a call was refused because its mirrored headers do not fit its arguments."""
    if waiting.revision is None or waiting.request.method != names.TOOLS_CALL:
        return False
    error = jsonrpc.members_of(jsonrpc.members_of(answer).get("error", b"{}"))
    return jsonrpc.bytes_of(error.get("code", msgspec.Raw(b"0"))) == str(HEADER_MISMATCH).encode()
