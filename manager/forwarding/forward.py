"""Sends a request to a workspace's server and returns its answer as it arrives.

What happens next depends on the failure:

    could not connect, or not our server answered    nothing was sent: retried once with the new instance
    broke off after the first byte was written       may have been delivered: not retried, error 47103
    deadline reached                                 cancelled upstream, error 47104
    answered, with any status                        passed on; no failure of the server
    client disconnected                              cancelled upstream by closing the connection
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import structs

from lm_tools_bridge.protocol import names
from lm_tools_bridge.protocol.errors import Reason, Refusal
from manager.call_observer import NO_OBSERVER, CallDetails, CallObserver, CallOrigin, EndedCall
from manager.configuration.settings import Settings
from manager.forwarding.answer import RETRY_MS, Answer, refusal_of
from manager.forwarding.forwarded_call import Admission, ForwardedCall, Wait
from manager.supervision.instance import Figures, Instance
from manager.supervision.workspace import Workspace
from manager.supervision.workspaces import Workspaces
from manager.upstream.failures import Blame, ResponseTooLarge, UpstreamFailure
from manager.upstream.pool import trace_line


class Outgoing(msgspec.Struct, frozen=True, gc=False):
    """A request to send to a workspace server.

    Attributes:
        identity: The request's id as JSON text, which its response must have; empty for a notification.
        target: The request target of the HTTP request line.
        timed: False for a stream that stays open.
        is_pure: Whether the URL or a header names the workspace alone (`Workspaces.ready`).
        begun: Monotonic time when the work for a client's call began; None if it is not timed.
        origin: What the observer of calls is told of it; None if the call is not observed.
        made_trace: The number of the trace context to send with it
        (`lm_tools_bridge/protocol/trace_context.py`); 0 for none.
        needs_ours: Whether only a workspace server of this program keeps what the client's URL says.
    """

    method: str
    headers: Sequence[tuple[bytes, bytes]]
    body: bytes
    identity: bytes
    target: bytes = b"/mcp"
    timed: bool = True
    is_pure: bool = False
    begun: float | None = None
    origin: CallOrigin | None = None
    made_trace: int = 0
    needs_ours: bool = False

    @property
    def last_line(self) -> bytes:
        """The line of its head that no other request has; empty for none."""
        return trace_line(self.made_trace) if self.made_trace else b""


_FOREIGN: Final = Refusal(
    Reason.INVALID_UPSTREAM_ANSWER,
    "a program registered itself as the server of this workspace, and has no addresses of single servers",
    "use the address of the workspace",
    delivered="no",
)


def _is_foreign(instance: Instance, outgoing: Outgoing) -> bool:
    """Whether a server would not know that the client may have one of its servers only."""
    return outgoing.needs_ours and instance.owner == "external"


class Forwarder:
    """Sends requests to workspace servers, within the limits of `Admission`."""

    def __init__(
        self, workspaces: Workspaces, settings: Settings, observer: CallObserver = NO_OBSERVER
    ) -> None:
        self._workspaces = workspaces
        self._settings = settings
        self._observer = observer
        self.admission = Admission(settings, observer)

    @property
    def is_observed(self) -> bool:
        """Whether somebody is told of calls that end."""
        return self._observer is not NO_OBSERVER

    def copies_contents(self, workspace: Workspace) -> bool:
        """Whether the observer wants arguments and results of the workspace's calls: they have to be read."""
        workspaces = self._observer.workspaces_with_contents
        return bool(workspaces) and workspace.id in workspaces

    async def send(self, workspace: Workspace, outgoing: Outgoing) -> Answer | Refusal:
        """Send a request to the workspace's server, which is started if necessary.

        Returns:
            The answer once its head has arrived, or a refusal.
        """
        figures = workspace.supervisor.figures
        if outgoing.timed and self.admission.is_full(figures):
            text = f"overloaded: {self.admission.limit_reached(figures)}"
            full = Refusal(Reason.OVERLOADED, text, delivered="no", retry_after_ms=RETRY_MS)
            figures.failed(full)
            self._tell_refused(outgoing, full)
            return full
        call = self._call(figures, outgoing)
        if outgoing.origin is not None and self.copies_contents(workspace):
            call.copy_contents(outgoing.body)
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
        """Send a timed request without waiting.

        Returns:
            None if the server is not ready, no connection is idle or the limits are reached.
        """
        figures = workspace.supervisor.figures
        if self.admission.is_full(figures) or self.copies_contents(workspace):
            return None
        instance = self._workspaces.ready_now(workspace, time.monotonic(), is_pure=outgoing.is_pure)
        if instance is None or _is_foreign(instance, outgoing):
            return None
        head = (*outgoing.headers, instance.credentials())
        request = (b"POST", outgoing.target, head, outgoing.body, outgoing.last_line)
        response = instance.pool.request_now(*request)
        if response is None:
            return None
        call = self._call(figures, outgoing)
        now = time.monotonic()
        call.response = response
        call.limit(now, instance.owner)
        call.sent(now)
        return call

    async def arrival(self, call: ForwardedCall) -> Answer | Refusal:
        """Wait for the answer to a request that was sent with `send_now`."""
        outcome: Answer | Refusal | None = None
        try:
            async with asyncio.timeout_at(call.deadline):
                await call.response.head_arrival()
            outcome = self._usable(call)
        except (TimeoutError, UpstreamFailure) as failure:
            outcome = refusal_of(failure, self._settings, call)
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
            origin=outgoing.origin,
        )

    def _tell_refused(self, outgoing: Outgoing, refusal: Refusal) -> None:
        if outgoing.origin is not None:
            reason = refusal.reason
            details = CallDetails(code=reason.code)
            ended = EndedCall(outgoing.origin, None, None, time.monotonic(), reason.word, details=details)
            self.admission.observe_call(ended)

    async def _send(self, workspace: Workspace, outgoing: Outgoing, call: ForwardedCall) -> Answer | Refusal:
        began = time.monotonic()
        for attempt in (1, 2):
            started = time.monotonic()
            instance = await self._workspaces.ready(workspace, is_pure=outgoing.is_pure)
            call.waited(Wait.START, time.monotonic() - started)
            if isinstance(instance, Refusal):
                return instance
            if _is_foreign(instance, outgoing):
                return _FOREIGN
            call.limit(began, instance.owner)
            if call.deadline is not None and time.monotonic() >= call.deadline:
                return structs.replace(refusal_of(TimeoutError(), self._settings, call), delivered="no")
            workspace.supervisor.figures.last_call_at = time.monotonic()
            try:
                async with asyncio.timeout_at(call.deadline):
                    await self._request(instance, outgoing, call)
            except TimeoutError as timeout:
                return refusal_of(timeout, self._settings, call)
            except UpstreamFailure as failure:
                if failure.blame is Blame.NOT_DELIVERED and attempt == 1:
                    call.detailed().retries += 1
                    continue
                return refusal_of(failure, self._settings, call)
            return self._usable(call)
        raise AssertionError("two attempts always end in a return")

    async def _request(self, instance: Instance, outgoing: Outgoing, call: ForwardedCall) -> None:
        head = (*outgoing.headers, instance.credentials())
        request = (b"POST", outgoing.target, head, outgoing.body, outgoing.last_line)
        response = instance.pool.request_now(*request)
        if response is None:
            started = time.monotonic()
            response = await instance.pool.request_anew(*request)
            call.waited(Wait.CONNECTION, time.monotonic() - started)
        call.response = response
        call.sent(time.monotonic())
        await response.head_arrival()

    def _usable(self, call: ForwardedCall) -> Answer | Refusal:
        answer = Answer(call, self._settings)
        refusal = self._unusable(answer, call)
        if refusal is not None:
            call.response.abandon()
        return refusal or answer

    def _unusable(self, answer: Answer, call: ForwardedCall) -> Refusal | None:
        """Refuse an answer whose announced length is too large or whose media type is not of MCP."""
        if answer.length is not None and answer.length > self._settings.response_limit:
            return refusal_of(ResponseTooLarge(self._settings.response_limit), self._settings, call)
        if answer.is_json or answer.is_events or answer.length == 0:
            return None
        return Refusal(
            Reason.INVALID_UPSTREAM_ANSWER,
            "the workspace server answered something that is no MCP message",
            delivered="unknown",
            details={"httpStatus": answer.status},
        )
