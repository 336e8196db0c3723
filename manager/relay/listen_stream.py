"""Serves a stateless client's listen stream (`subscriptions/listen`), without a task.

What comes on it is a workspace server's, passed on as it comes, or nothing at all. It ends with its client,
with its server, or with the manager; then, and only where the client is there, with a response.
"""

from __future__ import annotations

import contextlib

from manager.answers.exchange import Ending
from manager.forwarding.answer import Answer
from manager.forwarding.body_flow import Flow
from manager.forwarding.messages import unusable
from manager.http.event_response import EventResponse
from manager.http.request import HttpRequest
from manager.relay.event_relay import EventRelay
from protocol import sse
from protocol.errors import Refusal


class ListenStream:
    """One such stream, open already, from when it is made on.

    Args:
        identity: of the request, as JSON text.
        answer: the workspace server's, where there is one.
        limit: largest event in bytes.
    """

    __slots__ = ("_answer", "_end", "_ending", "_flow", "_identity", "_out", "_passing")

    def __init__(
        self,
        http_request: HttpRequest,
        out: EventResponse,
        ending: Ending,
        identity: bytes,
        *,
        answer: Answer | None = None,
        limit: int = 0,
    ) -> None:
        self._out = out
        self._ending = ending
        self._identity = identity
        self._answer = answer
        self._flow: Flow | None = None
        self._passing: EventRelay | None = None
        self._end = self._say_farewell  # one object, to be found again
        http_request.on_disconnect = self._client_left
        http_request.release_input()
        ending.endings.add(self._end)
        if answer is not None and self._answer is not None:
            self._passing = EventRelay(out, identity, limit)
            self._flow = answer.follow(self._passing, self._server_ended)

    def _server_ended(self, problem: Refusal | None) -> None:
        status = self._answer.status if self._answer is not None else 0
        self._finish((problem or unusable(status)).as_error(self._identity))

    def _say_farewell(self) -> None:
        self._finish(self._ending.farewell)

    def _finish(self, last: bytes) -> None:
        """End it, with this word where no response was among what passed."""
        self._let_go("ok")
        events = self._passing.events if self._passing is not None else None
        with contextlib.suppress(ConnectionError):
            if events is not None and events.is_open:
                self._out.abort()  # a part of an event is out, and nothing can be put in its place
                return
            if events is None or not events.is_answered:
                self._out.put(sse.encode(sse.single_line(last)))
            self._out.close()

    def _client_left(self) -> None:
        """The client is gone."""
        self._out.stop_keep_alives()
        self._let_go("cancelled")

    def _let_go(self, outcome: str) -> None:
        self._ending.endings.discard(self._end)
        if self._flow is not None:
            self._flow.stop()
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.leave(outcome)
