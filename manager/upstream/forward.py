"""Sends one request to a workspace's server and hands its answer back as it comes.

Whose fault a failure is decides what may be done (F1, F5; M-97):

    could not connect, or somebody else answered    nothing was sent: try the new instance once
    broke off after the first byte was written      may have been delivered: never sent again, 47103
    deadline reached                                cancelled upstream, 47104
    answered, with whatever status                  passed on; the server is well
    the client went away                            nobody's fault; closing cancels upstream
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from functools import partial
from typing import Final

import msgspec

from manager.settings import Settings
from manager.upstream import heap
from manager.upstream.flow import Flow, Sink
from manager.upstream.instance import Figures, Instance
from manager.upstream.response import Blame, ResponseTooLarge, UpstreamFailure, UpstreamResponse
from manager.upstream.slot import Slot, Wait
from manager.upstream.workspaces import Workspace, Workspaces
from protocol import names
from protocol.errors import Reason, Refusal

COLLECTED: Final = 256 * 1024
"""JSON answers up to this size are collected, so that a break in the middle can still be answered."""
RETRY_MS: Final = 1000


class Outgoing(msgspec.Struct, frozen=True, gc=False):
    """A request as the workspace server shall get it. `timed` is False for streams that stay open.

    `begun` is when the work for a client's call began (monotonic), None where its time does not count.
    """

    method: str
    headers: Sequence[tuple[bytes, bytes]]
    body: bytes
    target: bytes = b"/mcp"
    timed: bool = True
    begun: float | None = None


class InterruptedAnswerError(Exception):
    """The answer broke off after part of it was handed out; `refusal` says how."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class Underway(msgspec.Struct, frozen=True, gc=False):
    """A request that is sent, whose answer has not begun; it may take so many `seconds` from `since` on."""

    response: UpstreamResponse
    slot: Slot
    since: float
    seconds: float

    def give_up(self, outcome: str = "cancelled") -> None:
        """Let go of it, and cancel it upstream if it is not answered yet. Idempotent."""
        self.slot.release(outcome)
        self.response.abandon()


class Answer:
    """An answer on its way. Read it to the end or close it; closing early cancels the call upstream."""

    def __init__(
        self, response: UpstreamResponse, slot: Slot, settings: Settings, deadline: float | None
    ) -> None:
        self._response = response
        self._slot = slot
        self._settings = settings
        self._deadline = deadline
        self.status = response.head.status
        self.length = response.head.content_length
        self.is_events = response.head.content_type == b"text/event-stream"
        self.is_json = response.head.content_type == b"application/json"
        if self.length is None or self.length > COLLECTED:
            heap.keep()

    async def read(self) -> bytes | Refusal:
        """The whole body, or why there is none."""
        try:
            async with asyncio.timeout_at(self._deadline):
                body = await self._response.read(self._settings.response_limit)
            await self.aclose("ok")
        except (UpstreamFailure, ResponseTooLarge, TimeoutError) as failure:
            return self._failed(failure)
        finally:
            await self.aclose("cancelled")
        return body

    async def chunks(self) -> AsyncGenerator[bytes]:
        """The body piece by piece, as it arrives.

        Raises:
            InterruptedAnswerError: it broke off, or took too long.
        """
        iterator = self._response.chunks()
        try:
            while True:
                try:
                    async with asyncio.timeout_at(self._deadline):
                        chunk = await anext(iterator)
                except StopAsyncIteration:
                    await self.aclose("ok")
                    return
                yield chunk
        except (UpstreamFailure, TimeoutError) as failure:
            raise InterruptedAnswerError(self._failed(failure)) from failure
        finally:
            await self.aclose("cancelled")

    async def pour(self, sink: Sink) -> None:
        """Hand the body over as it arrives, piece by piece; returns when all of it is.

        Raises:
            InterruptedAnswerError: it broke off, or took too long.
            Exception: what the sink raises.
        """
        done: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        flow = Flow(self._response, sink, partial(_settle, done))
        try:
            async with asyncio.timeout_at(self._deadline):
                if (fault := await done) is not None:
                    raise fault
            await self.aclose("ok")
        except (UpstreamFailure, TimeoutError) as failure:
            raise InterruptedAnswerError(self._failed(failure)) from failure
        finally:
            flow.stop()
            await self.aclose("cancelled")

    def follow(self, sink: Sink, on_end: Callable[[Refusal | None], None]) -> Flow:
        """As `pour`, where there is no deadline, but nobody waits: `on_end` is told how it ended."""
        return Flow(self._response, sink, partial(self._followed, on_end))

    def _followed(self, on_end: Callable[[Refusal | None], None], fault: Exception | None) -> None:
        if fault is None:
            self._slot.release("ok")
        on_end(None if fault is None else self._failed(fault))

    def leave(self, outcome: str = "cancelled") -> None:
        """Let go of it. Idempotent; the first outcome counts."""
        self._slot.release(outcome)
        self._response.abandon()

    def answered(self) -> None:
        """Its response is known: the call is in flight no longer, whatever the end of the body brings."""
        self._slot.release("ok")

    async def aclose(self, outcome: str = "cancelled") -> None:
        """As `leave`."""
        self.leave(outcome)

    def _failed(self, failure: Exception) -> Refusal:
        if isinstance(failure, InterruptedAnswerError):
            refusal = failure.refusal
        else:
            refusal = refusal_of(failure, self._settings)
        self._slot.fail(refusal)
        self._response.abandon()
        return refusal


def _settle(done: asyncio.Future[Exception | None], fault: Exception | None) -> None:
    if not done.done():
        done.set_result(fault)


class Forwarder:
    """The way out of the manager: admission, the right server, one attempt, honest blame."""

    def __init__(self, workspaces: Workspaces, settings: Settings) -> None:
        self._workspaces = workspaces
        self._settings = settings
        self.figures = Figures()

    async def send(self, workspace: Workspace, outgoing: Outgoing) -> Answer | Refusal:
        """Send to the workspace's server, starting it if need be."""
        figures = workspace.supervisor.figures
        if outgoing.timed and self._is_full(figures):
            full = Refusal(Reason.OVERLOADED, "overloaded", delivered="no", retry_after_ms=RETRY_MS)
            for one in (figures, self.figures):
                one.failed(full)
            return full
        slot = self._slot(figures, outgoing)
        outcome: Answer | Refusal | None = None
        try:
            outcome = await self._send(workspace, outgoing, slot)
        finally:
            if isinstance(outcome, Refusal):
                slot.fail(outcome)
            elif outcome is None:
                slot.release("cancelled")
        return outcome

    def send_now(self, workspace: Workspace, outgoing: Outgoing) -> Underway | None:
        """Send a timed request where nothing must be waited for: server, connection, room; None otherwise."""
        figures = workspace.supervisor.figures
        instance = None if self._is_full(figures) else self._workspaces.ready_now(workspace)
        if instance is None:
            return None
        head = (*outgoing.headers, instance.credentials())
        response = instance.pool.request_now(b"POST", outgoing.target, head, outgoing.body)
        if response is None:
            return None
        now = time.monotonic()  # the loop's clock, without the system call that asking for the loop takes
        figures.last_call_at = now
        slot = self._slot(figures, outgoing)
        slot.sent = now
        return Underway(response, slot, now, self._settings.call_timeout_s)

    def head(self, instance: Instance, outgoing: Outgoing) -> bytes:
        """The head that such requests to a server have, up to the digits of the length."""
        fields = (*outgoing.headers, instance.credentials())
        return instance.pool.lasting_head(b"POST", outgoing.target, fields)

    async def arrival(self, underway: Underway) -> Answer | Refusal:
        """The answer to what was sent with `send_now`."""
        deadline = underway.since + underway.seconds
        outcome: Answer | Refusal | None = None
        try:
            async with asyncio.timeout_at(deadline):
                await underway.response.head_arrival()
            outcome = await self._usable(underway.response, underway.slot, deadline)
        except (TimeoutError, UpstreamFailure) as failure:
            outcome = refusal_of(failure, self._settings)
        finally:
            if isinstance(outcome, Refusal):
                underway.slot.fail(outcome)
            if not isinstance(outcome, Answer):
                underway.give_up()
        return outcome

    def _slot(self, figures: Figures, outgoing: Outgoing) -> Slot:
        for one in (figures, self.figures):
            one.calls += outgoing.method == names.TOOLS_CALL
        return Slot(figures, self.figures, is_stream=not outgoing.timed, begun=outgoing.begun)

    def _is_full(self, figures: Figures) -> bool:
        settings = self._settings
        return (
            figures.in_flight >= settings.workspace_in_flight_limit
            or self.figures.in_flight >= settings.in_flight_limit
        )

    async def _send(self, workspace: Workspace, outgoing: Outgoing, slot: Slot) -> Answer | Refusal:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._settings.call_timeout_s if outgoing.timed else None
        for attempt in (1, 2):
            asked = time.monotonic()
            instance = await self._workspaces.ready(workspace)
            slot.waited(Wait.START, time.monotonic() - asked)
            if isinstance(instance, Refusal):
                return instance
            workspace.supervisor.figures.last_call_at = loop.time()
            try:
                async with asyncio.timeout_at(deadline):
                    response = await self._request(instance, outgoing, slot)
            except TimeoutError as late:
                return refusal_of(late, self._settings)
            except UpstreamFailure as failure:
                if failure.blame is Blame.NOT_DELIVERED and attempt == 1:
                    continue
                return refusal_of(failure, self._settings)
            return await self._usable(response, slot, deadline)
        raise AssertionError("two attempts always end in a return")

    async def _request(self, instance: Instance, outgoing: Outgoing, slot: Slot) -> UpstreamResponse:
        head = (*outgoing.headers, instance.credentials())
        request = (b"POST", outgoing.target, head, outgoing.body)
        response = instance.pool.request_now(*request)
        if response is None:
            asked = time.monotonic()
            response = await instance.pool.request_anew(*request)
            slot.waited(Wait.CONNECTION, time.monotonic() - asked)
        slot.sent = time.monotonic()
        await response.head_arrival()
        return response

    async def _usable(
        self, response: UpstreamResponse, slot: Slot, deadline: float | None
    ) -> Answer | Refusal:
        answer = Answer(response, slot, self._settings, deadline)
        refusal = self._unusable(answer)
        if refusal is not None:
            await response.aclose()
        return refusal or answer

    def _unusable(self, answer: Answer) -> Refusal | None:
        """Refuse at once what announces to be too large, or is no MCP answer at all (M-100)."""
        if answer.length is not None and answer.length > self._settings.response_limit:
            return refusal_of(ResponseTooLarge(self._settings.response_limit), self._settings)
        if answer.is_json or answer.is_events or answer.length == 0:
            return None
        return Refusal(
            Reason.INVALID_UPSTREAM_ANSWER,
            "the workspace server answered something that is no MCP message",
            delivered="unknown",
            details={"httpStatus": answer.status},
        )


def refusal_of(failure: Exception, settings: Settings) -> Refusal:
    """What a failure means to the caller, and whether the call may have taken effect."""
    match failure:
        case TimeoutError():
            return Refusal(
                Reason.CALL_TIMED_OUT,
                f"call timed out after {settings.call_timeout_s:g} s",
                delivered="unknown",
            )
        case ResponseTooLarge():
            limit = settings.response_limit // 1024
            return Refusal(
                Reason.RESPONSE_TOO_LARGE, f"response too large: more than {limit} KiB", delivered="unknown"
            )
        case UpstreamFailure(blame=Blame.NOT_DELIVERED):
            return Refusal(
                Reason.WORKSPACE_SERVER_OFFLINE,
                f"resolved MCP server is offline: {failure.cause}",
                delivered="no",
                retry_after_ms=RETRY_MS,
                details={"cause": failure.cause},
            )
        case _:
            return Refusal(
                Reason.WORKSPACE_SERVER_DIED, "workspace server died during the call", delivered="unknown"
            )
