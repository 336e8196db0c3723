"""Sends a request to a workspace's server and returns its answer as it arrives.

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
from manager.forwarding.forwarded_call import Admission, ForwardedCall, Wait
from manager.settings import Settings
from manager.supervision.instance import Figures, Instance
from manager.supervision.workspaces import Workspace, Workspaces
from manager.upstream.response import Blame, ResponseTooLarge, UpstreamFailure
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


class Forwarder:
    """The way out of the manager: admission, the right server, one attempt, honest blame."""

    def __init__(self, workspaces: Workspaces, settings: Settings) -> None:
        self._workspaces = workspaces
        self._settings = settings
        self.admission = Admission(settings)

    async def send(self, workspace: Workspace, outgoing: Outgoing) -> Answer | Refusal:
        """Send to the workspace's server, starting it if need be."""
        figures = workspace.supervisor.figures
        if outgoing.timed and self.admission.is_full(figures):
            full = Refusal(Reason.OVERLOADED, "overloaded", delivered="no", retry_after_ms=RETRY_MS)
            figures.failed(full)
            return full
        call = self._call(figures, outgoing)
        outcome: Answer | Refusal | None = None
        try:
            outcome = await self._send(workspace, outgoing, call)
        finally:
            if isinstance(outcome, Refusal):
                call.fail(outcome)
            elif outcome is None:
                call.end("cancelled")
        return outcome

    def send_now(self, workspace: Workspace, outgoing: Outgoing) -> ForwardedCall | None:
        """Send a timed request where nothing must be waited for: server, connection, room; None otherwise."""
        figures = workspace.supervisor.figures
        is_full = self.admission.is_full(figures)
        instance = None if is_full else self._workspaces.ready_now(workspace, time.monotonic())
        if instance is None:
            return None
        head = (*outgoing.headers, instance.credentials())
        response = instance.pool.request_now(b"POST", outgoing.target, head, outgoing.body)
        if response is None:
            return None
        call = self._call(figures, outgoing)
        call.response = response
        call.sent(time.monotonic())
        return call

    def head(self, instance: Instance, outgoing: Outgoing) -> bytes:
        """The head that such requests to a server have, up to the digits of the length."""
        fields = (*outgoing.headers, instance.credentials())
        return instance.pool.lasting_head(b"POST", outgoing.target, fields)

    async def arrival(self, call: ForwardedCall) -> Answer | Refusal:
        """The answer to what was sent with `send_now`."""
        outcome: Answer | Refusal | None = None
        try:
            async with asyncio.timeout_at(call.deadline):
                await call.response.head_arrival()
            outcome = self._usable(call)
        except (TimeoutError, UpstreamFailure) as failure:
            outcome = refusal_of(failure, self._settings)
        finally:
            if isinstance(outcome, Refusal):
                call.fail(outcome)
            if not isinstance(outcome, Answer):
                call.give_up()
        return outcome

    def _call(self, figures: Figures, outgoing: Outgoing) -> ForwardedCall:
        return ForwardedCall(
            self.admission,
            figures,
            outgoing.identity,
            is_tool_call=outgoing.method == names.TOOLS_CALL,
            is_stream=not outgoing.timed,
            began=outgoing.begun,
        )

    async def _send(self, workspace: Workspace, outgoing: Outgoing, call: ForwardedCall) -> Answer | Refusal:
        if outgoing.timed:
            call.deadline = time.monotonic() + call.timeout_s
        for attempt in (1, 2):
            asked = time.monotonic()
            instance = await self._workspaces.ready(workspace)
            call.waited(Wait.START, time.monotonic() - asked)
            if isinstance(instance, Refusal):
                return instance
            workspace.supervisor.figures.last_call_at = time.monotonic()
            try:
                async with asyncio.timeout_at(call.deadline):
                    await self._request(instance, outgoing, call)
            except TimeoutError as late:
                return refusal_of(late, self._settings)
            except UpstreamFailure as failure:
                if failure.blame is Blame.NOT_DELIVERED and attempt == 1:
                    continue
                return refusal_of(failure, self._settings)
            return self._usable(call)
        raise AssertionError("two attempts always end in a return")

    async def _request(self, instance: Instance, outgoing: Outgoing, call: ForwardedCall) -> None:
        head = (*outgoing.headers, instance.credentials())
        request = (b"POST", outgoing.target, head, outgoing.body)
        response = instance.pool.request_now(*request)
        if response is None:
            asked = time.monotonic()
            response = await instance.pool.request_anew(*request)
            call.waited(Wait.CONNECTION, time.monotonic() - asked)
        call.response = response
        call.sent(time.monotonic())
        await response.head_arrival()

    def _usable(self, call: ForwardedCall) -> Answer | Refusal:
        answer = Answer(call, self._settings)
        refusal = self._unusable(answer)
        if refusal is not None:
            call.response.abandon()
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
