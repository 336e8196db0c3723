"""Sends one request to a workspace's server and hands its answer back as it comes.

Whose fault a failure is decides what may be done:

    could not connect, or somebody else answered    nothing was sent: try the new instance once
    broke off after the first byte was written      may have been delivered: never sent again, 47103
    deadline reached                                cancelled upstream, 47104
    answered, with whatever status                  passed on; the server is well
    the client went away                            nobody's fault; closing cancels upstream
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import msgspec

from manager.forwarding.answer import RETRY_MS, Answer, refusal_of
from manager.forwarding.in_flight import Slot, Total, Wait
from manager.settings import Settings
from manager.supervision.instance import Figures, Instance
from manager.supervision.workspaces import Workspace, Workspaces
from manager.upstream.response import Blame, ResponseTooLarge, UpstreamFailure, UpstreamResponse
from protocol import names
from protocol.errors import Reason, Refusal


class Outgoing(msgspec.Struct, frozen=True, gc=False):
    """A request as the workspace server shall get it. `timed` is False for streams that stay open.

    `identity` is the request's id as JSON text, which its response must have; empty for a notification.
    `begun` is when the work for a client's call began (monotonic), None where its time does not count.
    """

    method: str
    headers: Sequence[tuple[bytes, bytes]]
    body: bytes
    identity: bytes
    target: bytes = b"/mcp"
    timed: bool = True
    begun: float | None = None


class Underway(msgspec.Struct, frozen=True, gc=False):
    """A request that is sent, whose answer has not begun; it may take so many `seconds` from `since` on."""

    response: UpstreamResponse
    slot: Slot
    since: float
    seconds: float

    def refuse(self, refusal: Refusal) -> None:
        """What came is of no use: note the failure, and close the connection."""
        self.slot.fail(refusal)
        self.response.reject()

    def give_up(self, outcome: str = "cancelled") -> None:
        """Let go of it, and cancel it upstream if it is not answered yet. Idempotent."""
        self.slot.release(outcome)
        self.response.abandon()


class Forwarder:
    """The way out of the manager: admission, the right server, one attempt, honest blame."""

    def __init__(self, workspaces: Workspaces, settings: Settings) -> None:
        self._workspaces = workspaces
        self._settings = settings
        self.total = Total()

    async def send(self, workspace: Workspace, outgoing: Outgoing) -> Answer | Refusal:
        """Send to the workspace's server, starting it if need be."""
        figures = workspace.supervisor.figures
        if outgoing.timed and self._is_full(figures):
            full = Refusal(Reason.OVERLOADED, "overloaded", delivered="no", retry_after_ms=RETRY_MS)
            figures.failed(full)
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
        now = time.monotonic()
        instance = None if self._is_full(figures) else self._workspaces.ready_now(workspace, now)
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
        figures.calls += outgoing.method == names.TOOLS_CALL
        return Slot(
            figures,
            self.total,
            identity=outgoing.identity,
            is_stream=not outgoing.timed,
            begun=outgoing.begun,
        )

    def _is_full(self, figures: Figures) -> bool:
        settings = self._settings
        return (
            figures.in_flight >= settings.workspace_in_flight_limit
            or self.total.in_flight >= settings.in_flight_limit
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
        """Refuse at once what announces to be too large, or is no MCP answer at all."""
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
