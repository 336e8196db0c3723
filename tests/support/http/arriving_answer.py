"""An answer that is still arriving, and the call it belongs to; a test delivers its body."""

from __future__ import annotations

import time

from manager.configuration.settings import Settings
from manager.forwarding.answer import Answer
from manager.forwarding.forwarded_call import Admission, ForwardedCall
from manager.supervision.instance import Figures
from manager.upstream.response import ResponseHead, UpstreamResponse


class RecordingCarrier:
    """A connection that records why it was closed; closing it ends the response that it carries."""

    def __init__(self) -> None:
        self.response: UpstreamResponse | None = None
        self.closed: str | None = None
        self.is_reused = self.is_paused = False

    def close(self, cause: str) -> None:
        self.closed = self.closed or cause
        response, self.response = self.response, None
        if response is not None:
            response.end(cause)

    def close_idle(self, cause: str) -> None:
        if not self.is_reused:
            self.close(cause)

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def lend(self) -> None:
        pass


class ArrivingAnswer:
    """The head has arrived, the body has not; the call is in flight."""

    def __init__(
        self, *, kind: bytes = b"application/json", length: int | None = None, timeout_s: float = 20.0
    ) -> None:
        self.figures = Figures()
        self.carrier = RecordingCarrier()
        settings = Settings(call_timeout_s=timeout_s)
        self.call = ForwardedCall(Admission(settings), self.figures, b"1")
        self.response = self.call.response = self.carrier.response = UpstreamResponse(self.carrier)
        self.call.limit(time.monotonic(), "external")
        self.call.sent(time.monotonic())
        self.response.receive_head(ResponseHead(200, (), length, kind), b"")
        self.answer = Answer(self.call, settings)

    def complete(self, body: bytes, *, is_reused: bool = False) -> None:
        """Deliver the rest of the body; the connection is free, or carries another call already."""
        if body:
            self.response.receive_body(body)
        self.carrier.response = None
        self.carrier.is_reused = is_reused
        self.response.end(None)
