"""Runs calls that can outlive their requests, because their sources may ask the client for input.

Each request runs the call until it is done or asks something; the client answers with its next request. A
source with a session asks while its call runs, so the call stays open here. A source of MCP 2026-07-28 ends
its call with input requests, so the call is repeated; the source's `requestState` travels inside ours. The
client sees no difference: a result with `resultType: input_required`.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from lm_tools_bridge.protocol import inbound, input_requests, jsonrpc, names
from lm_tools_bridge.protocol.errors import Reason, Refusal
from lm_tools_bridge.protocol.internal import request_state
from workspace_server.budgets import MAX_SUSPENDED_CALLS
from workspace_server.call_context import CALL_ENDED, CallContext, OpenRequests, input_request, refuse_request
from workspace_server.calls.request_state import OPEN_URL, REPEAT, SUSPENDED, RequestStates, StateBinding
from workspace_server.tool import CallOutcome, RpcError

GATHER_S: Final = 0.01
"""How long the first open input request waits for others, so that the client gets them together."""
MAX_QUEUED: Final = 64
"""Notifications kept between two requests of the client; the oldest are dropped."""
MAX_QUEUED_BYTES: Final = 64 * 1024
"""Size of one notification that is kept; larger ones are dropped."""

_CANCELLED: Final = RpcError(jsonrpc.INTERNAL_ERROR, "the call this is about was cancelled")

Work = Callable[[CallContext], Awaitable[CallOutcome]]


class SuspendedCall:
    """A running call, in a task of its own.

    Attributes:
        state: the `requestState` with which the client resumes it; empty while a request is being served.
        failure: the error that its caller gets instead of the outcome.
    """

    def __init__(self, context: CallContext, work: Work) -> None:
        self.state = ""
        self.failure: RpcError | None = None
        self._context = context
        self._is_served = False
        self._queued: deque[tuple[str, Mapping[str, Any]]] = deque(maxlen=MAX_QUEUED)
        self._open = OpenRequests(self._wake)
        self._wakeup: asyncio.Future[None] | None = None
        own = replace(context, notify=self._notify, ask=self._ask, is_suspended=self._is_suspended)
        self._task = asyncio.ensure_future(work(own))
        self._task.add_done_callback(self._note_end)

    @cached_property
    def id(self) -> str:
        """A random id, made only for calls that are suspended."""
        return os.urandom(16).hex()

    @property
    def is_done(self) -> bool:
        """Whether the call has ended."""
        return self._task.done()

    @property
    def was_cancelled(self) -> bool:
        """Whether the call was cancelled, so that it has no outcome."""
        return self._task.cancelled()

    def outcome(self) -> CallOutcome:
        """The outcome of a call that is done. Raises what the work raised."""
        return self._task.result()

    def input_requests(self) -> Mapping[str, msgspec.Raw]:
        """The open input requests by key, as `inputRequests`."""
        return self._open.by_key()

    async def serve(self, context: CallContext) -> None:
        """Serve one request of the client, until the call is done or has open input requests.

        If this is cancelled, or a notification cannot be sent, the call is cancelled too.
        """
        self._context = context
        answers = jsonrpc.members_of(context.params.get("inputResponses", b""))
        self._open.take({key: _answer(raw) for key, raw in answers.items()})
        try:
            while self._queued:
                await self._send(*self._queued.popleft())
            self._is_served = True
            await self._until_done_or_asking()
        except BaseException:
            await self.cancel()
            raise
        finally:
            self._is_served = False

    async def cancel(self) -> None:
        """Cancel the call; open input requests get an error. Idempotent."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _until_done_or_asking(self) -> None:
        while not self._task.done():
            if not self._open:
                self._wakeup = asyncio.get_running_loop().create_future()
                await self._wakeup
                continue
            await asyncio.wait([self._task], timeout=GATHER_S)
            if self._open:  # the source may have withdrawn its requests
                return

    async def _ask(self, method: str, params: msgspec.Raw) -> msgspec.Raw | RpcError:
        """As `source.Ask`. A client that leaves an answer out is asked again with its next request."""
        needed = input_requests.required_capabilities(method, params)
        if needed is None:
            return await refuse_request(method, params)
        if self._task.done():
            return self._end_error()
        if not input_requests.declares(self._context.capabilities, needed):
            return await self._undeclared(method, needed)
        return await self._open.ask(input_request(method, params))

    async def _undeclared(self, method: str, needed: Mapping[str, Any]) -> RpcError:
        """The source of a session client gets an error and continues; the call of a stateless client ends."""
        if not self._context.caller:
            data = jsonrpc.raw({"requiredCapabilities": needed})
            text = f"this call needs a client that declares {input_requests.format_capabilities(needed)}"
            self.failure = RpcError(inbound.MISSING_CAPABILITY, text, data)
            self._task.cancel()
            # the source learns of the cancellation before it gets the error, or it would finish the call
            await asyncio.wait([self._task], timeout=GATHER_S)
        return RpcError(jsonrpc.METHOD_NOT_FOUND, f"{method} is not offered by the client of this call")

    def _is_suspended(self) -> bool:
        return bool(self._open) and not self._is_served

    async def _notify(self, method: str, params: Mapping[str, Any]) -> None:
        if self._is_served:
            await self._send(method, params)
        elif len(jsonrpc.dumps(params)) <= MAX_QUEUED_BYTES:
            self._queued.append((method, params))

    async def _send(self, method: str, params: Mapping[str, Any]) -> None:
        """Notify the client on its current request, with that request's progress token and log level."""
        meta = self._context.meta
        if method == names.PROGRESS:
            if (token := meta.get("progressToken")) is None:
                return
            params = {**params, "progressToken": token}
        elif method == names.MESSAGE and names.META_LOG_LEVEL not in meta:
            return
        await self._context.notify(method, params)

    def _note_end(self, task: asyncio.Task[CallOutcome]) -> None:
        self._open.end(self._end_error())
        self._wake()

    def _end_error(self) -> RpcError:
        return _CANCELLED if self.was_cancelled else CALL_ENDED

    def _wake(self) -> None:
        if self._wakeup is not None and not self._wakeup.done():
            self._wakeup.set_result(None)


def _answer(raw: msgspec.Raw) -> msgspec.Raw | RpcError:
    """An entry of `inputResponses`; the manager marks errors in it (`input_requests.error_response`)."""
    error = input_requests.error_in(raw)
    return raw if error is None else RpcError(*error)


URL_REQUIRED: Final = -32042
"""Error code of MCP 2025-11-25: the call works after the user has opened a page."""
_URL_ELICITATION: Final[Mapping[str, Any]] = {"elicitation": {"url": {}}}
_INVALID_STATE: Final = RpcError(
    jsonrpc.INVALID_PARAMS,
    "requestState is not of this call, was used before, or its call is over; call again without it",
    jsonrpc.raw({"reason": request_state.INVALID_STATE}),
)
_RESUMING: Final = ("requestState", "inputResponses")


class SuspendedCalls:
    """The suspended calls of one workspace.

    Args:
        states: seals and opens `requestState` values.
        wall: seconds since 1970, from a clock that later runs of this server share.
        most: how many calls can wait for their clients at the same time.
    """

    def __init__(
        self, states: RequestStates, *, wall: Callable[[], float] = time.time, most: int = MAX_SUSPENDED_CALLS
    ) -> None:
        self._states = states
        self._wall = wall
        self._most = most
        self._waiting: dict[str, tuple[SuspendedCall, asyncio.TimerHandle]] = {}
        self._cancelling: set[asyncio.Task[None]] = set()

    @property
    def waiting(self) -> int:
        """How many calls wait for their clients."""
        return len(self._waiting)

    async def run(self, binding: StateBinding, context: CallContext, work: Work) -> CallOutcome:
        """Serve one request of a call: start the call, or resume the one that the request's state names.

        Cancelling this cancels the call. A suspended call is cancelled when its state expires.

        Args:
            binding: identifies the call; a state is valid only for the call it was made for.
            context: of this request. With an invalid state nothing runs (-32602).
            work: makes the call, with the context it is given. What it raises is raised here.

        Returns:
            The outcome, or a result that asks the client for input.
        """
        state = state_of(context)
        if state is None:
            return await self._serve(SuspendedCall(context, work), binding, context)
        if self._states.kind_of(state) == SUSPENDED:
            suspended = await self._take(binding, state)
            return _INVALID_STATE if suspended is None else await self._serve(suspended, binding, context)
        repeated = await self._context_to_repeat(binding, context, state)
        if isinstance(repeated, CallContext):
            return await self._serve(SuspendedCall(repeated, work), binding, repeated)
        return repeated

    async def cancel(self, state: str) -> None:
        """Cancel the call that waits with this state, if there is one: its client will not resume it."""
        for suspended, timer in list(self._waiting.values()):
            if state and suspended.state == state:
                del self._waiting[suspended.id]
                timer.cancel()
                await suspended.cancel()

    async def close(self) -> None:
        """Cancel all suspended calls. Idempotent."""
        waiting, self._waiting = self._waiting, {}
        for _, timer in waiting.values():
            timer.cancel()
        await asyncio.gather(*(suspended.cancel() for suspended, _ in waiting.values()), *self._cancelling)

    async def _serve(
        self, suspended: SuspendedCall, binding: StateBinding, context: CallContext
    ) -> CallOutcome:
        await suspended.serve(context)
        if suspended.failure is not None:
            await suspended.cancel()
            return suspended.failure
        if not suspended.is_done:
            return await self._suspend(suspended, binding)
        if suspended.was_cancelled:
            text = "the call was ended before it was done"
            return Refusal(Reason.WORKSPACE_SERVER_DIED, text, delivered="unknown")
        return await self._for_client(binding, context, suspended.outcome())

    async def _suspend(self, suspended: SuspendedCall, binding: StateBinding) -> CallOutcome:
        if len(self._waiting) >= self._most:
            await suspended.cancel()
            text = f"{self._most} calls of this workspace wait for their users already (fixed limit)"
            return Refusal(Reason.OVERLOADED, text, "answer or cancel some of them", delivered="unknown")
        timer = asyncio.get_running_loop().call_later(self._states.ttl_s, self._expire, suspended)
        self._waiting[suspended.id] = suspended, timer  # reserves the place before anything is awaited
        try:
            suspended.state = await self._seal(SUSPENDED, binding, suspended.id)
        except BaseException:
            timer.cancel()
            self._waiting.pop(suspended.id, None)
            await suspended.cancel()
            raise
        return _input_required(suspended.input_requests(), suspended.state)

    async def _take(self, binding: StateBinding, state: str) -> SuspendedCall | None:
        """The call that this state resumes. A state can be used once."""
        opened = await asyncio.to_thread(self._states.open, state, binding, self._wall())
        waiting_call = None if opened is None or opened.inner is None else self._waiting.get(opened.inner)
        if waiting_call is None or waiting_call[0].state != state:
            return None
        suspended, timer = self._waiting.pop(waiting_call[0].id)
        timer.cancel()
        suspended.state = ""
        return suspended

    def _expire(self, suspended: SuspendedCall) -> None:
        self._waiting.pop(suspended.id, None)
        task = asyncio.create_task(suspended.cancel(), name="suspended-call-expired")
        self._cancelling.add(task)
        task.add_done_callback(self._cancelling.discard)

    async def _context_to_repeat(
        self, binding: StateBinding, context: CallContext, state: str
    ) -> CallContext | CallOutcome:
        """The context in which a call that ended with input requests is repeated with the answers."""
        now = self._wall()
        opened = await asyncio.to_thread(self._states.open, state, binding, now)
        if opened is None or not await asyncio.to_thread(self._states.spend, opened, now):
            return _INVALID_STATE
        if opened.kind == REPEAT:
            own = {} if opened.inner is None else {"requestState": jsonrpc.raw(opened.inner)}
            params = {key: raw for key, raw in context.params.items() if key != "requestState"}
            return replace(context, params={**params, **own})
        if opened.kind != OPEN_URL:
            return _INVALID_STATE
        answers = jsonrpc.members_of(context.params.get("inputResponses", b""))
        if not all(_is_accepted(answer) for answer in answers.values()):
            text = f"User did not open the page that {binding.name} asks for"
            return Refusal(Reason.APPROVAL_DENIED, text, delivered="no")
        return without_answers(context)

    async def _for_client(
        self, binding: StateBinding, context: CallContext, outcome: CallOutcome
    ) -> CallOutcome:
        """The outcome for the client: the source's `requestState` is sealed inside one of ours."""
        if isinstance(outcome, RpcError) and outcome.code == URL_REQUIRED and not context.caller:
            return await self._ask_to_open(binding, context, outcome)
        members = input_requests.input_required_members(outcome)
        if members is None:
            return outcome
        inner = jsonrpc.text_of(members["requestState"]) if "requestState" in members else None
        state = await self._seal(REPEAT, binding, inner)
        return jsonrpc.raw({**members, "requestState": jsonrpc.raw(state)})

    async def _ask_to_open(
        self, binding: StateBinding, context: CallContext, outcome: RpcError
    ) -> CallOutcome:
        """MCP 2026-07-28 has no `URL_REQUIRED`: ask the user to open the pages, then repeat the call."""
        pages = _pages(outcome)
        if not pages:
            return outcome  # the server uses this code for something else
        if not input_requests.declares(context.capabilities, _URL_ELICITATION):
            data = jsonrpc.raw({"requiredCapabilities": _URL_ELICITATION})
            return RpcError(inbound.MISSING_CAPABILITY, outcome.message, data)
        requests = {f"q{n}": {"method": names.ELICIT, "params": page} for n, page in enumerate(pages, 1)}
        return _input_required(requests, await self._seal(OPEN_URL, binding, None))

    async def _seal(self, kind: str, binding: StateBinding, inner: str | None) -> str:
        return await asyncio.to_thread(self._states.seal, kind, binding, self._wall(), inner)


def state_of(context: CallContext) -> str | None:
    """The `requestState` of a request: None if it has none, empty if it is no string."""
    raw = context.params.get("requestState")
    return None if raw is None else jsonrpc.text_of(raw) or ""


def without_answers(context: CallContext) -> CallContext:
    """The context without `requestState` and `inputResponses`, which are not meant for the source."""
    return replace(context, params={key: raw for key, raw in context.params.items() if key not in _RESUMING})


def _input_required(requests: Mapping[str, Any], state: str) -> msgspec.Raw:
    return jsonrpc.raw({"resultType": "input_required", "inputRequests": requests, "requestState": state})


def _is_accepted(answer: msgspec.Raw) -> bool:
    return jsonrpc.text_of(jsonrpc.members_of(answer).get("action", b"")) == "accept"


def _pages(error: RpcError) -> list[msgspec.Raw]:
    """The URL elicitations in the data of a `URL_REQUIRED` error."""
    elicitations = jsonrpc.members_of(error.data or b"").get("elicitations", msgspec.Raw(b"[]"))
    try:
        requests = msgspec.json.decode(elicitations, type=list[msgspec.Raw])
    except msgspec.DecodeError:
        return []
    return [request for request in requests if jsonrpc.members_of(request)]
