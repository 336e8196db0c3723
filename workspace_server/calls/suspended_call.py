"""One call whose source may ask the caller something while it runs: it outlives the request that began it.

Each request of the client is one round. A round ends with the outcome of the call, or with the questions that
are out; the call stands still meanwhile, or goes on with what needs no answer. Which calls there are, and how
the client's next request finds its own, is `suspended_calls.py`.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from protocol import inbound, jsonrpc, names
from protocol import input_requests as asking
from workspace_server.call_context import CALL_ENDED, CallContext, nobody
from workspace_server.tool import CallOutcome, RpcError

GATHER_S: Final = 0.01
"""What a source gets to ask more before its first question goes out."""
MAX_QUEUED: Final = 64
"""Notifications between two rounds that the next one delivers; older ones are dropped."""
MAX_QUEUED_BYTES: Final = 64 * 1024
"""Bytes of one such notification; longer ones are not kept."""

_CANCELLED: Final = RpcError(jsonrpc.INTERNAL_ERROR, "the call this is about was cancelled")

Work = Callable[[CallContext], Awaitable[CallOutcome]]


@dataclass(frozen=True, slots=True)
class _Question:
    method: str
    params: msgspec.Raw
    answer: asyncio.Future[msgspec.Raw | RpcError]

    def as_json(self) -> Mapping[str, Any]:
        request: dict[str, Any] = {"method": self.method}
        return request | {"params": self.params} if jsonrpc.bytes_of(self.params) else request


class SuspendedCall:
    """A call under way, in a task of its own.

    Attributes:
        state: the `requestState` with which it goes on; empty while a round is under way.
        failure: what its caller gets instead of its outcome.
    """

    def __init__(self, context: CallContext, work: Work) -> None:
        self.state = ""
        self.failure: RpcError | None = None
        self._context = context
        self._is_attended = False
        self._told: deque[tuple[str, Mapping[str, Any]]] = deque(maxlen=MAX_QUEUED)
        self._questions: dict[str, _Question] = {}
        self._numbers = count(1)
        self._alarm: asyncio.Future[None] | None = None
        asking = replace(context, notify=self._notify, ask=self._ask, is_parked=self._is_parked)
        self._task = asyncio.ensure_future(work(asking))
        self._task.add_done_callback(self._over)

    @cached_property
    def id(self) -> str:
        """Names it among others that wait for their clients; most calls never do."""
        return os.urandom(16).hex()

    @property
    def is_over(self) -> bool:
        """Whether there is an outcome."""
        return self._task.done()

    @property
    def was_ended(self) -> bool:
        """Whether it was cancelled, so that there is no outcome."""
        return self._task.cancelled()

    def outcome(self) -> CallOutcome:
        """What the work gave; raises what it raised."""
        return self._task.result()

    def questions(self) -> Mapping[str, Any]:
        """What is to be answered now, as `inputRequests`."""
        return {key: question.as_json() for key, question in self._questions.items()}

    async def round(self, context: CallContext) -> None:
        """Serve one request of the client, until the call is over or has questions.

        Cancelling it, and a client that can no longer be told anything, ends the call.
        """
        self._context = context
        self._answer(jsonrpc.members_of(context.params.get("inputResponses", b"")))
        try:
            while self._told:
                await self._tell(*self._told.popleft())
            self._is_attended = True
            await self._until_news()
        except BaseException:
            await self.end()
            raise
        finally:
            self._is_attended = False

    async def end(self) -> None:
        """Cancel the call; questions that are out get an error. Idempotent."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _until_news(self) -> None:
        while not self._task.done():
            if not self._questions:
                self._alarm = asyncio.get_running_loop().create_future()
                await self._alarm
                continue
            await asyncio.wait([self._task], timeout=GATHER_S)
            if self._questions:  # the source may have taken them back
                return

    def _answer(self, answers: Mapping[str, msgspec.Raw]) -> None:
        """Pass answers on as they came, errors as errors; what is no object is asked again."""
        for key, answer in answers.items():
            if key in self._questions and jsonrpc.bytes_of(answer)[:1] == b"{":
                error = asking.error_in(answer)
                question = self._questions.pop(key)
                if not question.answer.done():  # it is, where the source takes it back at this moment
                    question.answer.set_result(answer if error is None else RpcError(*error))

    async def _ask(self, method: str, params: msgspec.Raw) -> msgspec.Raw | RpcError:
        """As `source.Ask`; takes several rounds where the client leaves answers out."""
        wanted = asking.required_capabilities(method, params)
        if wanted is None:
            return await nobody(method, params)
        if self._task.done():
            return self._at_end()
        if not asking.declares(self._context.capabilities, wanted):
            return await self._undeclared(method, wanted)
        key = f"q{next(self._numbers)}"
        answer: asyncio.Future[msgspec.Raw | RpcError] = asyncio.get_running_loop().create_future()
        self._questions[key] = _Question(method, params, answer)
        self._wake()
        try:
            return await answer
        finally:
            self._questions.pop(key, None)

    async def _undeclared(self, method: str, wanted: Mapping[str, Any]) -> RpcError:
        """In the era of sessions the source decides what to do without; since then the call ends."""
        if not self._context.caller:
            data = jsonrpc.raw({"requiredCapabilities": wanted})
            text = f"this call needs a client that declares {asking.format_capabilities(wanted)}"
            self.failure = RpcError(inbound.MISSING_CAPABILITY, text, data)
            self._task.cancel()
            # the source is told before its question is answered, or it would finish a call nobody waits for
            await asyncio.wait([self._task], timeout=GATHER_S)
        return RpcError(jsonrpc.METHOD_NOT_FOUND, f"{method} is not offered by the client of this call")

    def _is_parked(self) -> bool:
        return bool(self._questions) and not self._is_attended

    async def _notify(self, method: str, params: Mapping[str, Any]) -> None:
        if self._is_attended:
            await self._tell(method, params)
        elif len(jsonrpc.dumps(params)) <= MAX_QUEUED_BYTES:
            self._told.append((method, params))

    async def _tell(self, method: str, params: Mapping[str, Any]) -> None:
        """Notify the request of this round, which has a token and a wish for log messages of its own."""
        meta = self._context.meta
        if method == names.PROGRESS:
            if (token := meta.get("progressToken")) is None:
                return
            params = {**params, "progressToken": token}
        elif method == names.MESSAGE and names.META_LOG_LEVEL not in meta:
            return
        await self._context.notify(method, params)

    def _over(self, task: asyncio.Task[CallOutcome]) -> None:
        questions, self._questions = self._questions, {}
        for question in questions.values():
            if not question.answer.done():
                question.answer.set_result(self._at_end())
        self._wake()

    def _at_end(self) -> RpcError:
        return _CANCELLED if self.was_ended else CALL_ENDED

    def _wake(self) -> None:
        if self._alarm is not None and not self._alarm.done():
            self._alarm.set_result(None)
