"""Defines the failures of requests to another MCP server, and the refusals that callers get for them.

Errors and error results that a server sends are ordinary outcomes, not failures.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from lm_tools_bridge.protocol.errors import RETRY_STEP, Delivered, Reason, Refusal
from workspace_server.results import clean_text
from workspace_server.source import NOT_RUNNING, not_running
from workspace_server.tool import RpcError


class TransportEnded(Exception):
    """A connection ended; requests in flight get no response.

    `too_large`: it ended because a message went over the cap.
    """

    def __init__(self, reason: str, *, too_large: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.too_large = too_large


class Unavailable(Exception):
    """One request got no answer.

    Attributes:
        text: why, in words for a person; without secrets, and without the source's name.
        delivered: whether the request may have taken effect; `no` only where that is certain.
        reason: the refusal its caller gets.
        retry_after_ms: when it is worth another try, where that is known.
    """

    undecided = False
    """Whether the server answered outside the protocol or not at all, so that another request may succeed."""
    answer: RpcError | None = None
    """What its caller gets instead of a refusal: the error by which the server refused the request."""

    def __init__(
        self,
        text: str,
        delivered: Delivered = "no",
        reason: Reason = Reason.SOURCE_UNAVAILABLE,
        retry_after_ms: int | None = None,
    ) -> None:
        super().__init__(text)
        self.text = text
        self.delivered = delivered
        self.reason = reason
        self.retry_after_ms = retry_after_ms

    def refusal(self, source: str, state: str) -> Refusal:
        """The refusal for the caller; `state` is the source's."""
        if self.delivered == "no" and self.reason is Reason.SOURCE_UNAVAILABLE and state in NOT_RUNNING:
            return not_running(source, state, self.text, self.retry_after_ms)
        error = clean_text(self.text)
        next_step = None
        if self.delivered == "unknown" and self.reason is Reason.SOURCE_UNAVAILABLE:
            next_step = "check whether the call took effect before you repeat it"
        elif self.retry_after_ms is not None:
            next_step = f"{RETRY_STEP}; lmtb servers shows the state of the source"
        text = f'Source "{source}" gave no answer: {error}'
        details = {"source": source, "state": state, "error": error}
        return Refusal(self.reason, text, next_step, self.delivered, self.retry_after_ms, details)


class SessionFailed(Unavailable):
    """A connection was not made, or its handshake failed; nothing was delivered.

    Attributes:
        final: a retry cannot help (the program is missing).
        took_s: how long the try took, in seconds.
        lines: what came instead of an answer to the handshake; None if there was an answer.
    """

    def __init__(
        self,
        text: str,
        *,
        final: bool = False,
        retry_after_ms: int | None = None,
        took_s: float = 0.0,
        lines: Sequence[bytes] | None = None,
    ) -> None:
        super().__init__(text, retry_after_ms=retry_after_ms)
        self.final = final
        self.took_s = took_s
        self.lines = lines


@asynccontextmanager
async def answered_within(method: str, seconds: float | None) -> AsyncIterator[None]:
    """Limit the block; raises `Unavailable` with `CALL_TIMED_OUT` when the time is over."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        text = f"no answer to {method} within {seconds:g} s"
        raise Unavailable(text, "unknown", Reason.CALL_TIMED_OUT) from None
