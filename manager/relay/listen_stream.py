"""Serves a stateless client's listen stream (`subscriptions/listen`), without a task.

The stream carries a workspace server's events, or none. It ends when the client disconnects, the server ends
its stream or the manager stops; in the latter two cases the client gets a response.
"""

from __future__ import annotations

import contextlib

from lm_tools_bridge.protocol import sse
from lm_tools_bridge.protocol.errors import Refusal
from manager.answers.exchange import Ending
from manager.forwarding.answer import Answer
from manager.forwarding.body_flow import Flow
from manager.forwarding.messages import unusable
from manager.http.event_response import EventResponse
from manager.http.request import HttpRequest
from manager.relay.event_relay import EventRelay


class ListenStream:
    """Serves one listen stream, from its construction on.

    Args:
        out: the client's event stream, already open.
        ending: the stop of the manager, and the response to send then.
        identity: the id of the request as JSON text.
        answer: the workspace server's stream; None for a stream without events.
        limit: largest event in bytes.
    """

    __slots__ = ("_answer", "_ending", "_flow", "_identity", "_on_stop", "_out", "_relay")

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
        self._relay: EventRelay | None = None
        self._on_stop = self._on_manager_stop  # one bound method, so that `discard` finds it
        http_request.on_disconnect = self._client_left
        http_request.release_input()
        if ending.seen is not None:
            ending.seen.listening = True
        ending.endings.add(self._on_stop)
        if answer is not None and self._answer is not None:
            self._relay = EventRelay(out, identity, limit)
            self._flow = answer.follow(self._relay, self._server_ended)

    def _server_ended(self, problem: Refusal | None) -> None:
        assert self._answer is not None  # noqa: S101  narrows the type: only its stream ends
        assert self._relay is not None  # noqa: S101  set with the answer
        problem = problem or unusable(self._answer.status)
        if not self._relay.events.is_answered:
            self._answer.fail(problem)
        self._finish(problem.as_error(self._identity))

    def _on_manager_stop(self) -> None:
        self._finish(self._ending.farewell)

    def _finish(self, last: bytes) -> None:
        """End the stream, with the response `last` if the server sent none."""
        self._release("ok")
        events = self._relay.events if self._relay is not None else None
        with contextlib.suppress(ConnectionError):
            if events is not None and events.is_open:
                self._out.abort()  # a part of an event is written and cannot be replaced
                return
            if events is None or not events.is_answered:
                self._out.put(sse.encode(sse.single_line(last)))
            self._out.close()

    def _client_left(self) -> None:
        """Release everything after the client has disconnected."""
        self._out.stop_keep_alives()
        self._release("cancelled")

    def _release(self, outcome: str) -> None:
        self._ending.endings.discard(self._on_stop)
        if self._ending.seen is not None:
            self._ending.seen.listening = False
        if self._flow is not None:
            self._flow.stop()
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.leave(outcome)
