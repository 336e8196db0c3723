"""Adds approvals to the daemon: the board, its routes at the control socket, notifications on the desktop.

The routes are for `lmtb approvals`, and for managers on other hosts, whose people use projects here.
`manager/admin/control/decisions.py` keeps what workspace servers started from answering and reading:
a model could otherwise approve its own calls and see the arguments of others.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec

from lm_tools_bridge.approvals.board import ApprovalBoard, WaitingCall
from lm_tools_bridge.protocol import sse
from lm_tools_bridge.text.redaction import Redactor, hidden_keys
from manager.admin.control.control_messages import read_object, refusal, success
from manager.configuration.settings import Settings
from manager.features import AddedRoutes, DaemonPart, DaemonParts
from manager.http import lazy_aiohttp as web
from manager.waiting_calls import WaitingCalls

if TYPE_CHECKING:
    from manager.admin.control.services import Services


MIN_INTERVAL_S: Final = 0.05
"""Shortest time between two events: each has all calls, so the next has what changes meanwhile."""
QUIET_S: Final = 15.0
"""Longest time without an event, so that a connection that broke off is noticed."""
MOST_LISTENERS: Final = 32
"""Managers on other hosts that listen at once: each keeps a connection and gets every question."""


class ApprovalStream:
    """The route `GET /approvals/changes` of the control socket.

    Args:
        wall: seconds since 1970.
    """

    def __init__(
        self,
        board: ApprovalBoard,
        *,
        wall: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._board = board
        self._wall = wall
        self._sleep = sleep
        self._wakes: set[asyncio.Event] = set()
        self._is_closed = False

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Serve the stream until the other side leaves, or the manager stops."""
        if len(self._wakes) >= MOST_LISTENERS:
            return refusal(503, "too_many_listeners")
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        events = self.events()
        try:
            async for event in events:
                await response.write(event)
        except ConnectionError:
            pass  # the other side left
        finally:
            await events.aclose()
        return response

    async def events(self) -> AsyncGenerator[bytes]:
        """All calls at first and after each change; a keep-alive after a quiet while."""
        wake, sent_changes = asyncio.Event(), -1
        leave = self._board.listen(wake.set)
        self._wakes.add(wake)
        try:
            while not self._is_closed:
                wake.clear()
                if self._board.changes != sent_changes:
                    sent_changes = self._board.changes
                    yield sse.encode(self._event())
                    await self._sleep(MIN_INTERVAL_S)
                    continue
                with suppress(TimeoutError):
                    async with asyncio.timeout(QUIET_S):
                        await wake.wait()
                    continue
                yield sse.KEEP_ALIVE
        finally:
            self._wakes.discard(wake)
            leave()

    async def close(self, _: web.Application) -> None:
        """End all streams; none begins again."""
        self._is_closed = True
        for wake in self._wakes:
            wake.set()

    def _event(self) -> bytes:
        calls = [_as_report(waiting) for waiting in self._board.reports()]
        return msgspec.json.encode({"now": self._wall(), "approvals": calls})


def _as_report(waiting: WaitingCall) -> dict[str, object]:
    """A call as it is shown here, by its id here: secrets that are hidden here do not leave this host."""
    return {"root": waiting.root, **msgspec.structs.asdict(waiting.call)}


END_AGAIN_S: Final = 0.1
"""Seconds after which a manager that stops looks for further calls that wait."""
_ANSWERS: Final = {"yes": True, "no": False}


class ApprovalsPart(DaemonPart):
    """The board of one manager, and what shows it."""

    def __init__(self, settings: Settings) -> None:
        redactor = Redactor(hidden_keys(settings.record_hidden_keys))
        self._board = ApprovalBoard(redactor.counted_text, settings.approval_wait_s)
        self._is_told_to_desktop = settings.desktop_notifications
        self._parts: DaemonParts | None = None

    def connect(self, parts: DaemonParts) -> None:
        """Take answers to the servers of these parts."""
        self._parts = parts
        self._board.services = parts.services

    def waiting_calls(self) -> WaitingCalls:
        """The board."""
        return self._board

    async def run(self) -> None:
        """Tell the desktop what waits, if it is to be told."""
        if self._parts is None or not self._is_told_to_desktop:
            return
        # without notifications it is not loaded
        from lm_tools_bridge.approvals.notifications import notify_desktop

        await notify_desktop(self._parts.status, self._board)

    async def drain(self) -> None:
        """End all waits: they would use up the time that calls in flight have."""
        if self._parts is not None:
            await end_waiting(self._board, self._parts.services)

    def control_routes(self) -> AddedRoutes:
        """What waits, each change of it, and the answers of people."""
        stream = ApprovalStream(self._board)
        changes = web.get("/approvals/changes", stream.serve)
        return AddedRoutes([*_routes(self._board), changes], close=stream.close)


async def end_waiting(
    board: ApprovalBoard, services: Services, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> None:
    """End the waits of all calls without an answer, because the manager stops: none of them runs.

    Calls that begin to wait meanwhile end, too. Those on other hosts end with their callers, and others there
    go on. Runs until it is cancelled: at the end of the manager.
    """
    while True:
        questions = [
            services.ask_server(waiting.root, "answer_approval", f"{waiting.call.id}.end")
            for waiting in board.waiting()
            if waiting.host is None
        ]
        await asyncio.gather(*questions, return_exceptions=True)  # a server that is gone holds up no other
        await sleep(END_AGAIN_S)


def _routes(board: ApprovalBoard) -> list[web.RouteDef]:
    async def list_waiting(request: web.Request) -> web.Response:
        return success(approvals=board.questions(), ended=board.list_ended())

    async def answer(request: web.Request) -> web.Response:
        message = await read_object(request)
        if isinstance(message, web.Response):
            return message
        identity, approve = message.get("id"), message.get("approve")
        if not isinstance(identity, str) or not isinstance(approve, bool):
            return refusal(400, "invalid_answer")
        result = await board.answer(identity, approve=approve, where="in a terminal")
        return success(counts=result.ok, outcome=result.outcome, message=result.text, approval=result.call)

    async def answer_from_host(request: web.Request) -> web.Response:
        """An answer that a person gave to the manager on another host, as a workspace server gets it."""
        message = await read_object(request)
        if isinstance(message, web.Response):
            return message
        identity, _, word = str(message.get("source")).rpartition(".")
        waiting = board.find(identity)
        if word not in _ANSWERS or (waiting is not None and waiting.host is not None):
            return refusal(400, "invalid_answer")
        result = await board.answer(identity, approve=_ANSWERS[word], where="on another host")
        return success(outcome=result.outcome)

    return [
        web.get("/approvals", list_waiting),
        web.post("/approvals/answer", answer),
        web.post("/answer_approval", answer_from_host),
    ]
