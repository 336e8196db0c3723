"""One call of this member to a host of the team: its delivery, answer and cancellation, and silent hosts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from lm_tools_bridge.team.calls import parts
from lm_tools_bridge.team.calls.parts import Broken, Control, Part, Received
from lm_tools_bridge.team.names import CallSubject, call_subject, control_subject

_QUEUE: Final = 4 * parts.WINDOW
_ACKNOWLEDGE: Final = parts.WINDOW // 4
TIMED_OUT: Final = "timed_out"
_FAILURES: Final[Mapping[str, str]] = {
    "stopped": "its host stopped",
    "no_answer": "its host got no answer from its own workspace",
    "too_large": f"its answer is larger than {parts.MAX_ANSWER_BYTES} bytes",
    "unusable": "the workspace of its host gave no list",
}
"""What hosts say of failures; texts of hosts themselves are not shown."""
Clock = Callable[[], float]
Message = tuple[Mapping[str, str], bytes]


@dataclass(frozen=True, slots=True)
class Undelivered:
    """The call certainly did not run at this host; another one may get it."""

    reason: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """The call may have run, and there is no answer."""

    reason: str


@dataclass(frozen=True, slots=True)
class Head:
    """The beginning of the answer."""

    status: int
    content_type: str


class AnswerLost(Exception):
    """The rest of an answer does not come; the text says why."""


class RemoteCall:
    """One attempt of a call, at one host.

    Attributes:
        identity: its id, which is used for this attempt only.
        host: where it goes.
    """

    def __init__(
        self,
        client: Any,
        to: CallSubject,
        identity: str,
        *,
        at_once: bool,
        deadline_s: float,
        now: Clock = time.monotonic,
    ) -> None:
        self.identity, self.host = identity, to.host
        self._client, self._to = client, to
        self._at_once, self._deadline_s = at_once, deadline_s
        self._now = now
        self._heard = self._begun = now()
        self._received = Received()
        self._queue: asyncio.Queue[Message | None] = asyncio.Queue(_QUEUE)
        self._whole: bytes | None = None
        self._is_over = self._is_flooded = self._is_late = False

    def take(self, headers: Mapping[str, str], payload: bytes) -> None:
        """A message of the host arrived."""
        self._heard = self._now()
        if headers.get(parts.PART) == Part.ALIVE.value:
            return
        if len(payload) > parts.PART_BYTES:  # not kept: a server may let messages of many megabytes through
            payload = payload[: parts.PART_BYTES + 1]
        try:
            self._queue.put_nowait((headers, payload))
        except asyncio.QueueFull:  # more than it was allowed to send
            self._is_flooded = True

    async def beat(self) -> None:
        """Tell the host that the caller is there, and notice a host that is silent."""
        now = self._now()
        self._is_late = now - self._begun > self._deadline_s
        if self._is_late or now - self._heard > parts.SILENCE_S:
            if self._queue.empty():
                self._queue.put_nowait(None)
        elif self._received.is_accepted:
            await self._control(Control.SEEN)

    async def begin(self, body: bytes, reply: str) -> Head | Undelivered | Unknown:
        """Send the call, confirm it, and wait for the beginning of the answer.

        Args:
            body: the JSON-RPC request.
            reply: the subject for the answer.
        """
        headers = {parts.CALL: self.identity, parts.DEADLINE: f"{self._deadline_s:.1f}"}
        if self._at_once:
            headers[parts.AT_ONCE] = "1"
        try:
            await self._client.publish(call_subject(self._to), body, reply=reply, headers=headers)
        except Exception as error:  # noqa: BLE001  not connected, or larger than the server takes
            return Undelivered(str(error) or type(error).__name__)
        refused = await self._accepted()
        if refused is not None:
            return refused
        if not self._at_once:
            await self._control(Control.GO)
        return await self._head()

    async def body(self) -> AsyncIterator[bytes]:
        """The body of the answer, as it arrives.

        Raises:
            AnswerLost: the rest does not come.
        """
        if self._whole is not None:
            if self._whole:
                yield self._whole
            return
        while True:
            part, headers, payload = await self._next()
            if part is Part.END:
                self._is_over = True
                return
            if part is Part.FAILED:
                self._is_over = True
                raise AnswerLost(failed(headers))
            if part is Part.BODY:
                if self._received.parts % _ACKNOWLEDGE == 0:
                    await self._control(Control.SEEN)
                yield payload

    async def cancel(self) -> None:
        """Tell the host that nobody waits for the answer, unless it is complete."""
        if not self._is_over:
            self._is_over = True
            await self._control(Control.CANCEL)

    async def _accepted(self) -> Undelivered | Unknown | None:
        try:
            async with asyncio.timeout(parts.ACCEPT_S):
                while True:
                    message = await self._queue.get()
                    if message is None:
                        continue
                    headers, payload = message
                    if headers.get("Status") == "503":
                        self._is_over = True
                        return Undelivered("gone")
                    part = self._received.take(headers, payload)
                    if part is Part.REFUSED:
                        self._is_over = True
                        return Undelivered(_reason(headers))
                    if part is Part.ACCEPTED:
                        return None
                    raise Broken("the host answered before it accepted the call")
        except TimeoutError:
            await self.cancel()
            return Unknown("its host does not answer") if self._at_once else Undelivered("silent")
        except Broken as fault:
            await self.cancel()
            # what needs no confirmation may run without an acceptance that arrives
            return Unknown(str(fault)) if self._at_once else Undelivered(str(fault))

    async def _head(self) -> Head | Undelivered | Unknown:
        try:
            async with asyncio.timeout(self._deadline_s):
                while True:
                    part, headers, payload = await self._next()
                    if part is Part.WHOLE:
                        self._is_over, self._whole = True, payload
                    if part in {Part.HEAD, Part.WHOLE}:
                        return Head(int(headers[parts.STATUS]), headers.get(parts.CONTENT_TYPE, "")[:100])
                    if part is Part.REFUSED:  # it stops, and the confirmation came too late
                        self._is_over = True
                        return Unknown(failed(headers)) if self._at_once else Undelivered(_reason(headers))
                    if part is Part.FAILED:
                        self._is_over = True
                        reason = _reason(headers)
                        return Unknown(reason if reason == TIMED_OUT else failed(headers))
        except TimeoutError:
            await self.cancel()
            return Unknown(TIMED_OUT)
        except AnswerLost as lost:
            return Unknown(str(lost))

    async def _next(self) -> tuple[Part, Mapping[str, str], bytes]:
        message = await self._queue.get()
        try:
            if self._is_late:
                raise Broken("it was not complete in time")
            if message is None:
                raise Broken("the host no longer answers")
            if self._is_flooded:
                raise Broken("the host sent more than it may")
            return self._received.take(*message), *message
        except Broken as fault:
            await self.cancel()
            raise AnswerLost(str(fault)) from fault

    async def _control(self, what: Control) -> None:
        headers = {
            parts.CALL: self.identity,
            parts.DO: what.value,
            parts.SEEN: str(self._received.parts),
        }
        try:
            subject = control_subject(self.host, self._to.caller)
            await self._client.publish(subject, b"", headers=headers)
        except Exception:  # noqa: BLE001, S110  the silence of the other end is noticed anyway
            pass


def failed(headers: Mapping[str, str]) -> str:
    """Why a host has no answer, for people."""
    return _FAILURES.get(_reason(headers), "its host could not complete the answer")


def _reason(headers: Mapping[str, str]) -> str:
    return headers.get(parts.REASON, "")[:100]
