"""Answers calls of other members: admits them, runs them in the offered workspace, and sends the answers.

An answer is sent in parts, not faster than its caller takes them.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

from lm_tools_bridge.protocol import jsonrpc, names
from lm_tools_bridge.team.calls import parts
from lm_tools_bridge.team.calls.exposure import METHODS, ListedTool, parameter
from lm_tools_bridge.team.calls.gate import Gate
from lm_tools_bridge.team.calls.parts import MAX_ANSWER_BYTES, PART_BYTES, WINDOW, Control, Part
from lm_tools_bridge.team.membership import Membership, OwnOffer
from lm_tools_bridge.team.names import CallSubject, controlling_caller, inbox_prefix, parsed_call
from lm_tools_bridge.team.own_manager import OwnManager, Unusable
from lm_tools_bridge.text.redaction import redacted
from manager.log import logger

STALLED_S: Final = 120.0
"""Seconds that a caller may take nothing of an answer that waits for it."""
JSON: Final = "application/json"
Respond = Callable[..., Awaitable[None]]
"""`respond(payload, headers)` sends one message to the caller."""


class CallerGone(Exception):
    """The caller takes nothing any more."""


class AnswerTooLarge(Exception):
    """The answer exceeds what is sent."""


class AnswerSender:
    """The answer to one call."""

    def __init__(self, respond: Respond) -> None:
        self._respond = respond
        self._sent = self._seen = self._bytes = 0
        self._moved = asyncio.Event()

    async def send(self, part: Part, payload: bytes = b"", **headers: str) -> None:
        """Send one message; `headers` are given with `_` for `-`.

        Raises:
            CallerGone: nothing can be sent.
        """
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            await self._respond(payload, headers={parts.PART: part.value, **fields})
        except Exception as error:
            raise CallerGone from error

    async def refuse(self, reason: str) -> None:
        """Say that the call does not run."""
        with suppress(CallerGone):
            await self.send(Part.REFUSED, Lmtb_Reason=reason)

    async def fail(self, reason: str) -> None:
        """Say that there is no answer, though the call may have run."""
        with suppress(CallerGone):
            await self.send(Part.FAILED, Lmtb_Reason=reason)

    async def head(self, status: int, content_type: str) -> None:
        """Begin the answer."""
        await self.send(Part.HEAD, Lmtb_Status=str(status), Lmtb_Type=content_type)

    async def body(self, chunk: bytes) -> None:
        """Send a piece of the body, when the caller has room.

        Raises:
            CallerGone: it takes nothing any more.
            AnswerTooLarge: the answer exceeds `MAX_ANSWER_BYTES`.
        """
        self._bytes += len(chunk)
        if self._bytes > MAX_ANSWER_BYTES:
            raise AnswerTooLarge
        for start in range(0, len(chunk), PART_BYTES):
            await self._room()
            await self.send(Part.BODY, chunk[start : start + PART_BYTES], Lmtb_Seq=str(self._sent))
            self._sent += 1

    async def end(self) -> None:
        """The answer is complete."""
        await self.send(Part.END, Lmtb_Seq=str(self._sent))

    async def whole(self, answer: bytes) -> None:
        """Send a JSON answer."""
        await self.relay(200, JSON, _once(answer))

    async def relay(self, status: int, content_type: str, chunks: AsyncIterator[bytes]) -> None:
        """Send an answer as it arrives. A small one of JSON, of no use before its end, is one part.

        Raises:
            CallerGone, AnswerTooLarge: as `body`.
        """
        begun = b""
        if content_type == JSON:
            async for chunk in chunks:
                begun += chunk
                if len(begun) > PART_BYTES:
                    break
            else:
                await self.send(Part.WHOLE, begun, Lmtb_Status=str(status), Lmtb_Type=content_type)
                return
        await self.head(status, content_type)
        await self.body(begun)
        async for chunk in chunks:
            await self.body(chunk)
        await self.end()

    def seen(self, count: str) -> None:
        """The caller has taken this many parts."""
        if count.isascii() and count.isdigit() and len(count) < 10:
            self._seen = max(self._seen, min(int(count), self._sent))
            self._moved.set()

    async def _room(self) -> None:
        while self._sent - self._seen >= WINDOW:
            self._moved.clear()
            try:
                async with asyncio.timeout(STALLED_S):
                    await self._moved.wait()
            except TimeoutError:
                raise CallerGone from None


async def _once(chunk: bytes) -> AsyncIterator[bytes]:
    yield chunk


TOOLS_S: Final = 20.0
"""Seconds for which a list of exposed tools decides which calls are let through."""
MOST_LISTS: Final = 128
"""Lists of tools that are kept: of each offer, one for each caller."""
MOST_CALLERS: Final = 1000
"""Callers that are counted by name: without permissions at the server a member may take many names."""
_OTHERS: Final = "(others)"
Clock = Callable[[], float]


class HostCalls:
    """The calls of other members at this host.

    Attributes:
        gate: which of them are admitted.
        answered: how many ended, by caller; of at most `MOST_CALLERS`.
    """

    def __init__(self, membership: Membership, own: OwnManager, now: Clock = time.monotonic) -> None:
        self.gate = Gate(membership.capacity)
        self.answered: dict[str, int] = {}
        self.membership = membership
        self._own = own
        self._now = now
        self._senders: dict[str, AnswerSender] = {}
        self._waiting: dict[str, tuple[CallSubject, jsonrpc.Request, OwnOffer, float]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._tools: OrderedDict[tuple[OwnOffer, str], tuple[float, dict[str, ListedTool]]] = OrderedDict()

    async def on_call(self, request: Any) -> None:
        """A call, as a request to the micro service.

        Only one whose answer goes to its caller's own inbox counts: JetStream publishes stored messages to
        every subject that a member names as the one for its answer, so a subject alone proves no sender.
        """
        headers = request.headers or {}
        identity, subject = headers.get(parts.CALL, ""), parsed_call(request.subject)
        if subject is None or not _answers_to(request, subject.caller):
            return
        sender = AnswerSender(request.respond)
        refusal = self._refusal(identity, subject, request, at_once=parts.AT_ONCE in headers)
        if isinstance(refusal, str):
            await sender.refuse(refusal)
            return
        message, offer = refusal
        deadline = parts.seconds(headers.get(parts.DEADLINE), parts.LONGEST_CALL_S)
        self._senders[identity] = sender
        self._waiting[identity] = (subject, message, offer, deadline)
        try:
            await sender.send(Part.ACCEPTED)
        except CallerGone:
            self._cancel(identity)
            return
        if parts.AT_ONCE in headers and identity in self._waiting:  # it may be cancelled meanwhile
            self._start(identity)

    async def on_control(self, message: Any) -> None:
        """A confirmation, acknowledgement or cancellation of a caller."""
        headers = message.headers or {}
        identity, caller = headers.get(parts.CALL, ""), controlling_caller(message.subject)
        what = headers.get(parts.DO)
        if caller is None:
            return
        if what == Control.GO.value:
            if self.gate.go(identity, caller, self._now()):
                self._start(identity)
        elif self.gate.hear(identity, caller, self._now()):
            if what == Control.CANCEL.value:
                self._cancel(identity)
            elif what == Control.SEEN.value and identity in self._senders:
                self._senders[identity].seen(headers.get(parts.SEEN, ""))

    async def beat(self) -> None:
        """Tell callers that their calls still run, and drop calls whose callers are gone. Never ends."""
        while True:
            await asyncio.sleep(parts.BEAT_S)
            for identity in self.gate.abandoned(self._now()):
                self._cancel(identity)
            for identity in list(self._tasks):
                if (sender := self._senders.get(identity)) is not None:  # it may have ended meanwhile
                    with suppress(CallerGone):
                        await sender.send(Part.ALIVE)

    async def drained(self, wait_s: float) -> None:
        """Wait until the calls that run have ended."""
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()), timeout=wait_s)

    async def close(self) -> None:
        """Cancel all calls, tell their callers, and take no more."""
        self.gate.is_draining = True
        tasks = list(self._tasks.values())
        unconfirmed = [self._senders[call_id] for call_id in self._waiting if call_id not in self._tasks]
        # all of them before anything is awaited: none may be confirmed meanwhile
        for identity in list(self._waiting):
            self._cancel(identity)
        for sender in unconfirmed:
            await sender.refuse("draining")
        await asyncio.gather(*tasks, return_exceptions=True)

    def _refusal(
        self, identity: str, subject: CallSubject, request: Any, *, at_once: bool
    ) -> str | tuple[jsonrpc.Request, OwnOffer]:
        """Why a call does not run, or what it asks."""
        offer = self.membership.offer(subject.offer)
        if offer is None or subject.host != self.membership.name:
            return "unknown_offer"
        message = jsonrpc.parse(request.data)
        if not isinstance(message, jsonrpc.Request):
            return "invalid"
        if message.method not in METHODS:
            return "not_carried"
        return self.gate.admit(identity, subject.caller, self._now(), at_once=at_once) or (message, offer)

    def _start(self, identity: str) -> None:
        task = asyncio.create_task(self._run(identity), name=f"team call {identity[:8]}")
        self._tasks[identity] = task
        # not in the task: one that is cancelled before it began runs nothing
        task.add_done_callback(lambda _: self._ended(identity))

    def _cancel(self, identity: str) -> None:
        if (task := self._tasks.get(identity)) is not None:
            task.cancel()
        else:
            self._ended(identity)

    def _ended(self, identity: str) -> None:
        self._tasks.pop(identity, None)
        self._waiting.pop(identity, None)
        self._senders.pop(identity, None)
        self.gate.end(identity, self._now())

    async def _run(self, identity: str) -> None:
        subject, request, offer, deadline = self._waiting[identity]
        sender = self._senders[identity]
        began, outcome = self._now(), "answered"
        try:
            async with asyncio.timeout(deadline):
                await self._answer(request, offer, subject.caller, sender)
        except TimeoutError:
            outcome = "timed_out"
            await sender.fail(outcome)
        except CallerGone:
            outcome = "caller_gone"
        except asyncio.CancelledError:
            outcome = "cancelled"
            await sender.fail("stopped")
            raise
        except Exception as error:  # noqa: BLE001  the caller waits for an answer in any case
            outcome = redacted(f"{type(error).__name__}: {error}")[:300]
            await sender.fail(_word_of(error))
        finally:
            self._count(subject.caller)
            tell = logger().debug if outcome == "answered" else logger().info
            tell(
                "team.call_answered",
                call=identity,
                caller=subject.caller,
                offer=offer.name,
                method=request.method,
                name=parameter(request, "name") or None,
                outcome=outcome,
                ms=round((self._now() - began) * 1000),
            )

    async def _answer(
        self, request: jsonrpc.Request, offer: OwnOffer, caller: str, sender: AnswerSender
    ) -> None:
        if request.method != names.TOOLS_CALL:
            answer = await self._own.exposed(request, offer, caller)
            await sender.whole(answer)
        elif not await self._is_exposed(request, offer, caller):
            name = parameter(request, "name")
            text = f"Tool not found or not offered: {name[:100]}"
            await sender.whole(jsonrpc.error(request.id, jsonrpc.INVALID_PARAMS, text))
        else:
            async with self._own.call(request, offer, caller) as response:
                await sender.relay(response.status, response.content_type, response.content.iter_any())

    async def _is_exposed(self, request: jsonrpc.Request, offer: OwnOffer, caller: str) -> bool:
        """Whether a tool is in the list of what is offered; the list is read again if it is old."""
        of = (offer, caller)  # policies of the workspace may differ by client
        entry = self._tools.get(of)
        name = parameter(request, "name")
        now = self._now()
        age = now - entry[0] if entry is not None else TOOLS_S
        if entry is None or age >= TOOLS_S or (name not in entry[1] and age >= 1.0):
            entry = (now, await self._own.tools(offer, caller))
            self._tools[of] = entry
            self._tools.move_to_end(of)
            if len(self._tools) > MOST_LISTS:
                self._tools.popitem(last=False)
        return name in entry[1]

    def _count(self, caller: str) -> None:
        if caller not in self.answered and len(self.answered) >= MOST_CALLERS:
            caller = _OTHERS
        self.answered[caller] = self.answered.get(caller, 0) + 1

    def forget_tools(self) -> None:
        """Offers changed: their tools are listed anew."""
        self._tools.clear()


def _answers_to(request: Any, caller: str) -> bool:
    """Whether the answer of a call goes to the inbox of its caller."""
    reply = request._msg.reply  # the request itself does not say it
    return isinstance(reply, str) and reply.startswith(f"{inbox_prefix(caller)}.")


def _word_of(error: Exception) -> str:
    """What the caller is told of a failure. Texts of errors stay here: they name folders."""
    if isinstance(error, AnswerTooLarge):
        return "too_large"
    return "unusable" if isinstance(error, Unusable) else "no_answer"
