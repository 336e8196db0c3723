"""Calls whose source asks back, over the rounds their clients need to answer.

The questions of a source of the older era hold its call open here, and the client's repeated call finds it
again by its sealed state (`request_state.py`). A source of the newer era ends its call with its questions;
its own state travels inside ours. Both look the same to the client: a result that says `input_required`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from protocol import inbound, input_requests, jsonrpc, names
from protocol.errors import Reason, Refusal
from protocol.internal import request_state
from workspace_server.call_context import CallContext
from workspace_server.calls.request_state import HELD, OPEN, RUN, RequestStates, StateBinding
from workspace_server.calls.suspended_call import SuspendedCall, Work
from workspace_server.tool import CallOutcome, RpcError

MAX_SUSPENDED: Final = 64
"""Calls that wait for their clients at once."""
URL_REQUIRED: Final = -32042
"""A code of 2025-11-25: the call can be made once its user has opened a page."""
_PAGES: Final[Mapping[str, Any]] = {"elicitation": {"url": {}}}
_LOST: Final = RpcError(
    jsonrpc.INVALID_PARAMS,
    "requestState is not of this call, was used before, or its call is over; call again without it",
    jsonrpc.raw({"reason": request_state.INVALID_STATE}),
)
_ANSWERS: Final = ("requestState", "inputResponses")


class SuspendedCalls:
    """The calls that are under way.

    Args:
        states: seals what goes out and opens what comes back.
        wall: seconds of a clock that all runs of this server share.
        most: how many may wait for their clients at once.
    """

    def __init__(
        self, states: RequestStates, *, wall: Callable[[], float] = time.time, most: int = MAX_SUSPENDED
    ) -> None:
        self._states = states
        self._wall = wall
        self._most = most
        self._held: dict[str, tuple[SuspendedCall, asyncio.TimerHandle]] = {}
        self._ends: set[asyncio.Task[None]] = set()

    @property
    def waiting(self) -> int:
        """How many calls wait for their clients."""
        return len(self._held)

    async def run(self, bound: StateBinding, context: CallContext, work: Work) -> CallOutcome:
        """One round of a call: its outcome, or a result that asks the client for input.

        Cancelling it cancels the call; between rounds nothing is cancelled for as long as a state is good.

        Args:
            bound: which call it is; a state is good for the same one only.
            context: of this request. If it brings a state, the call goes on; with one that does not fit
                nothing runs (-32602).
            work: makes the call, with the context it is given. What it raises is raised here.
        """
        state = state_of(context)
        if state is None:
            return await self._round(SuspendedCall(context, work), bound, context)
        if self._states.kind_of(state) == HELD:
            conversation = await self._find(bound, state)
            return _LOST if conversation is None else await self._round(conversation, bound, context)
        again = await self._reopened(bound, context, state)
        if isinstance(again, CallContext):
            return await self._round(SuspendedCall(again, work), bound, again)
        return again

    async def let_go(self, state: str) -> None:
        """End the call that waits with this state, where there is one: its client will not come back."""
        for conversation, timer in list(self._held.values()):
            if state and conversation.state == state:
                del self._held[conversation.id]
                timer.cancel()
                await conversation.end()

    async def close(self) -> None:
        """End all calls that wait. Idempotent."""
        held, self._held = self._held, {}
        for _, timer in held.values():
            timer.cancel()
        await asyncio.gather(*(conversation.end() for conversation, _ in held.values()), *self._ends)

    async def _round(
        self, conversation: SuspendedCall, bound: StateBinding, context: CallContext
    ) -> CallOutcome:
        await conversation.round(context)
        if conversation.failure is not None:
            await conversation.end()
            return conversation.failure
        if not conversation.is_over:
            return await self._hold(conversation, bound)
        if conversation.was_ended:
            text = "the call was ended before it was done"
            return Refusal(Reason.WORKSPACE_SERVER_DIED, text, delivered="unknown")
        return await self._settled(bound, context, conversation.outcome())

    async def _hold(self, conversation: SuspendedCall, bound: StateBinding) -> CallOutcome:
        if len(self._held) >= self._most:
            await conversation.end()
            text = f"{self._most} calls of this workspace wait for answers of their users already"
            return Refusal(Reason.OVERLOADED, text, "answer or cancel some of them", delivered="unknown")
        timer = asyncio.get_running_loop().call_later(self._states.ttl_s, self._expire, conversation)
        self._held[conversation.id] = conversation, timer  # its place is taken before anything is awaited
        try:
            conversation.state = await self._seal(HELD, bound, conversation.id)
        except BaseException:
            timer.cancel()
            self._held.pop(conversation.id, None)
            await conversation.end()
            raise
        return _input_required(conversation.questions(), conversation.state)

    async def _find(self, bound: StateBinding, state: str) -> SuspendedCall | None:
        """The call that goes on with this state, which is good for that once."""
        opened = await asyncio.to_thread(self._states.open, state, bound, self._wall())
        held = None if opened is None or opened.inner is None else self._held.get(opened.inner)
        if held is None or held[0].state != state:
            return None
        conversation, timer = self._held.pop(held[0].id)
        timer.cancel()
        conversation.state = ""
        return conversation

    def _expire(self, conversation: SuspendedCall) -> None:
        self._held.pop(conversation.id, None)
        task = asyncio.create_task(conversation.end(), name="held-call-expired")
        self._ends.add(task)
        task.add_done_callback(self._ends.discard)

    async def _reopened(
        self, bound: StateBinding, context: CallContext, state: str
    ) -> CallContext | CallOutcome:
        """The context with which a call is made anew that ended with questions."""
        now = self._wall()
        opened = await asyncio.to_thread(self._states.open, state, bound, now)
        if opened is None or not await asyncio.to_thread(self._states.spend, opened, now):
            return _LOST
        if opened.kind == RUN:
            own = {} if opened.inner is None else {"requestState": jsonrpc.raw(opened.inner)}
            params = {key: raw for key, raw in context.params.items() if key != "requestState"}
            return replace(context, params={**params, **own})
        if opened.kind != OPEN:
            return _LOST
        answers = jsonrpc.members_of(context.params.get("inputResponses", b""))
        if not all(_is_accepted(answer) for answer in answers.values()):
            text = f"User did not open the page that {bound.name} asks for"
            return Refusal(Reason.APPROVAL_DENIED, text, delivered="no")
        return without_answers(context)

    async def _settled(self, bound: StateBinding, context: CallContext, outcome: CallOutcome) -> CallOutcome:
        """An outcome as its client gets it: the state of a source that asks goes inside ours."""
        if isinstance(outcome, RpcError) and outcome.code == URL_REQUIRED and not context.caller:
            return await self._to_open(bound, context, outcome)
        members = input_requests.input_required_members(outcome)
        if members is None:
            return outcome
        inner = jsonrpc.text_of(members["requestState"]) if "requestState" in members else None
        state = await self._seal(RUN, bound, inner)
        return jsonrpc.raw({**members, "requestState": jsonrpc.raw(state)})

    async def _to_open(self, bound: StateBinding, context: CallContext, outcome: RpcError) -> CallOutcome:
        """2026-07-28 has no such error: the pages are questions, and the call is made anew after them."""
        pages = _pages(outcome)
        if not pages:
            return outcome  # somebody's own use of the number
        if not input_requests.declares(context.capabilities, _PAGES):
            data = jsonrpc.raw({"requiredCapabilities": _PAGES})
            return RpcError(inbound.MISSING_CAPABILITY, outcome.message, data)
        asked = {f"q{n}": {"method": names.ELICIT, "params": page} for n, page in enumerate(pages, 1)}
        return _input_required(asked, await self._seal(OPEN, bound, None))

    async def _seal(self, kind: str, bound: StateBinding, inner: str | None) -> str:
        return await asyncio.to_thread(self._states.seal, kind, bound, self._wall(), inner)


def state_of(context: CallContext) -> str | None:
    """The `requestState` a request brought; empty for one that is no text."""
    raw = context.params.get("requestState")
    return None if raw is None else jsonrpc.text_of(raw) or ""


def without_answers(context: CallContext) -> CallContext:
    """The context without state and answers, which are not for the source."""
    return replace(context, params={key: raw for key, raw in context.params.items() if key not in _ANSWERS})


def _input_required(requests: Mapping[str, Any], state: str) -> msgspec.Raw:
    return jsonrpc.raw({"resultType": "input_required", "inputRequests": requests, "requestState": state})


def _is_accepted(answer: msgspec.Raw) -> bool:
    return jsonrpc.text_of(jsonrpc.members_of(answer).get("action", b"")) == "accept"


def _pages(error: RpcError) -> list[msgspec.Raw]:
    """The elicitations in the data of such an error."""
    named = jsonrpc.members_of(error.data or b"").get("elicitations", msgspec.Raw(b"[]"))
    try:
        found = msgspec.json.decode(named, type=list[msgspec.Raw])
    except msgspec.DecodeError:
        return []
    return [one for one in found if jsonrpc.members_of(one)]
