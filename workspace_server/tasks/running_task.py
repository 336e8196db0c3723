"""The work behind one call that may become a task: what it asks, what it tells, and whom.

Until it is a task, all of that goes to the call's client as with any call. Afterwards nobody is there:
questions wait here for `tasks/update`, progress becomes a sentence, everything else goes nowhere, as the
extension has no place for it. When it becomes a task is `tasks.py`.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from protocol import inbound, input_requests, jsonrpc, names, tasks
from workspace_server.call_context import CallContext
from workspace_server.results import clean_text
from workspace_server.tasks.record import MAX_MESSAGE, Status
from workspace_server.tool import CallOutcome, RpcError

Work = Callable[[CallContext], Awaitable[CallOutcome]]
"""Runs the call; a second time where it asked for input with its result. Raises nothing."""
MAX_ROUNDS: Final = 100
PAUSE_S: Final = 0.5
"""How long a source waits that wants its call repeated and asks for nothing."""
MOMENT_S: Final = 0.01
"""What a call that is cancelled gets to tell its source."""
_ANY: Final = "task"
"""What stands for the progress token of a client that wants no progress."""


@dataclass(frozen=True, slots=True)
class _Question:
    request: msgspec.Raw
    answer: asyncio.Future[msgspec.Raw]


class RunningTask:
    """One call at work.

    Args:
        context: the context of the call.
        changed: called when something can be seen of the task that is new.
    """

    def __init__(self, context: CallContext, changed: Callable[[], None]) -> None:
        self._given = context
        self._changed = changed
        self._questions: dict[str, _Question] = {}
        self._keys = (f"q{number}" for number in itertools.count(1))
        self._asking = 0
        self._is_task = False
        self._decided = asyncio.Event()
        self._decided.set()
        self._failure: RpcError | None = None
        self.message: str | None = None
        self.work: asyncio.Future[CallOutcome] | None = None
        self.watch: asyncio.Task[None] | None = None

    @property
    def context(self) -> CallContext:
        """What the source gets. It does not hear of tasks: one call is one task."""
        given = self._given
        meta = {**given.meta, "progressToken": jsonrpc.raw(_ANY)} if self._is_deaf else given.meta
        return msgspec.structs.replace(
            given,
            ask=self._ask,
            is_parked=self._is_parked,
            notify=self._notify,
            capabilities=tasks.without_tasks(given.capabilities),
            params={**given.params, "_meta": jsonrpc.raw(meta)},
        )

    @property
    def is_asking(self) -> bool:
        """Whether the call's own client is being asked something now."""
        return self._asking > 0

    @property
    def status(self) -> Status:
        """The state of the task."""
        return "input_required" if self._questions else "working"

    @property
    def requests(self) -> Mapping[str, msgspec.Raw]:
        """What is asked and not answered, by key."""
        return {key: one.request for key, one in self._questions.items()}

    @contextmanager
    def becoming_task(self) -> Iterator[Callable[[], None]]:
        """While it is decided whether this is a task, questions wait. Call what this gives if it is one."""
        self._decided.clear()
        try:
            yield self._become
        finally:
            self._decided.set()

    def answer(self, responses: Mapping[str, msgspec.Raw]) -> None:
        """Take a client's answers; what answers nothing, or is no object, is ignored."""
        for key, response in responses.items():
            if key in self._questions and jsonrpc.bytes_of(response)[:1] == b"{":
                question = self._questions.pop(key)
                if not question.answer.done():  # it is, where the source takes it back at this moment
                    question.answer.set_result(response)
                self._changed()

    def stop(self) -> None:
        """Cancel the task; its watch sees to the rest. Idempotent."""
        watch, self.watch = self.watch, None
        if watch is not None:
            watch.cancel()

    async def finish(self, work: Work) -> CallOutcome:
        """The outcome in the end: a source that asks for input with its result is called again with it."""
        assert self.work is not None  # noqa: S101  narrows the type: only what runs can be a task
        outcome = await self._first(self.work)
        for _ in range(MAX_ROUNDS):
            asked = input_requests.input_required_members(outcome)
            if asked is None:
                return outcome
            outcome = await work(self._with(asked, await self._answers(asked)))
        return RpcError(jsonrpc.INTERNAL_ERROR, f"the source asked for input more than {MAX_ROUNDS} times")

    async def _first(self, work: asyncio.Future[CallOutcome]) -> CallOutcome:
        try:
            return await work
        except asyncio.CancelledError:
            if self._failure is None:
                raise
            return self._failure

    def _become(self) -> None:
        self._is_task = True

    @property
    def _is_deaf(self) -> bool:
        return "progressToken" not in self._given.meta

    def _is_parked(self) -> bool:
        return bool(self._questions) if self._is_task else self._given.is_parked()

    async def _ask(self, method: str, params: msgspec.Raw) -> msgspec.Raw | RpcError:
        await self._decided.wait()
        if not self._is_task:
            self._asking += 1
            try:
                return await self._given.ask(method, params)
            finally:
                self._asking -= 1
        wanted = input_requests.required_capabilities(method, params)
        if wanted is None:
            return RpcError(jsonrpc.METHOD_NOT_FOUND, f"{method[:100]} is not offered here")
        if not input_requests.declares(self._given.capabilities, wanted):
            return await self._undeclared(wanted)
        request = {"method": method, "params": params} if jsonrpc.bytes_of(params) else {"method": method}
        return await self._put(jsonrpc.raw(request))

    async def _undeclared(self, wanted: Mapping[str, Any]) -> RpcError:
        """A client without the capability for a question gets the error that the call would have got."""
        text = f"this call needs a client that declares {input_requests.format_capabilities(wanted)}"
        self._failure = RpcError(
            inbound.MISSING_CAPABILITY, text, jsonrpc.raw({"requiredCapabilities": wanted})
        )
        if self.work is not None:
            self.work.cancel()
            await asyncio.wait([self.work], timeout=MOMENT_S)  # the source is told before it is answered
        return RpcError(jsonrpc.METHOD_NOT_FOUND, text)

    async def _put(self, request: msgspec.Raw) -> msgspec.Raw:
        """Let a question wait for its answer. A key is never used again."""
        key, question = next(self._keys), _Question(request, asyncio.get_running_loop().create_future())
        self._questions[key] = question
        self._changed()
        try:
            return await question.answer
        finally:
            self._questions.pop(key, None)

    async def _notify(self, method: str, params: Mapping[str, Any]) -> None:
        if method == names.PROGRESS:
            self.message = _sentence(params) or self.message
        if not self._is_task and not (method == names.PROGRESS and self._is_deaf):
            await self._given.notify(method, params)

    async def _answers(self, asked: Mapping[str, msgspec.Raw]) -> dict[str, msgspec.Raw]:
        requests = jsonrpc.members_of(asked.get("inputRequests", b"{}"))
        if not requests:
            await asyncio.sleep(PAUSE_S)
        answers = await asyncio.gather(*(self._put(request) for request in requests.values()))
        return dict(zip(requests, answers, strict=True))

    def _with(self, asked: Mapping[str, msgspec.Raw], answers: dict[str, msgspec.Raw]) -> CallContext:
        context = self.context
        params = {key: raw for key, raw in context.params.items() if key != "requestState"}
        params["inputResponses"] = jsonrpc.raw(answers)
        if "requestState" in asked:
            params["requestState"] = asked["requestState"]
        return msgspec.structs.replace(context, params=params)


def _sentence(params: Mapping[str, Any]) -> str | None:
    """What progress says to a person."""
    told = msgspec.json.decode(jsonrpc.dumps(params))
    message, done, total = told.get("message"), told.get("progress"), told.get("total")
    if isinstance(message, str) and message.strip():
        return clean_text(message)[:MAX_MESSAGE]
    if isinstance(done, int | float) and isinstance(total, int | float):
        return f"{done:g} of {total:g}"
    return None
