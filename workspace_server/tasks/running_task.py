"""Runs one call that may become a task, and routes its input requests and notifications.

Before the call is a task, both go to its client. Afterwards no request is open: input requests wait for
`tasks/update`, progress becomes the status message, and other notifications are dropped (SEP-2663 has none).
`tasks.py` decides when the call becomes a task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from lm_tools_bridge.protocol import inbound, input_requests, jsonrpc, names
from lm_tools_bridge.protocol import tasks_extension as tasks
from workspace_server.call_context import CallContext, OpenRequests, input_request
from workspace_server.results import clean_text
from workspace_server.tasks.store import MAX_MESSAGE, Status
from workspace_server.tool import CallOutcome, RpcError

Work = Callable[[CallContext], Awaitable[CallOutcome]]
"""Runs the call, again if its result asked for input. Raises nothing."""
# Ends the loop of a server that asks again whatever it is answered. Tasks may ask for hours, so it is more
# than for a call that waits.
MAX_REPEATS: Final = 100
PAUSE_S: Final = 0.5
"""Pause before a call is repeated whose source asked for that without any input request."""
CANCEL_S: Final = 0.01
"""How long a cancelled call may take to notify its source."""
_TOKEN: Final = "task"  # noqa: S105  no password
"""The progress token used if the client gave none."""


class RunningTask:
    """One running call.

    Args:
        context: the context of the call.
        changed: called when the visible state of the task has changed.
    """

    def __init__(self, context: CallContext, changed: Callable[[], None]) -> None:
        self._client_context = context
        self._open = OpenRequests(changed)
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
        """The context for the source, without the client's task capability: one call is one task."""
        context = self._client_context
        meta = {**context.meta, "progressToken": jsonrpc.raw(_TOKEN)} if self._lacks_token else context.meta
        return msgspec.structs.replace(
            context,
            ask=self._ask,
            is_suspended=self._is_parked,
            notify=self._notify,
            capabilities=tasks.without_tasks(context.capabilities),
            params={**context.params, "_meta": jsonrpc.raw(meta)},
        )

    @property
    def is_asking(self) -> bool:
        """Whether the call's client is being asked something now."""
        return self._asking > 0

    @property
    def status(self) -> Status:
        """The state of the task."""
        return "input_required" if self._open else "working"

    @property
    def requests(self) -> Mapping[str, msgspec.Raw]:
        """The open input requests by key."""
        return self._open.by_key()

    @contextmanager
    def becoming_task(self) -> Iterator[Callable[[], None]]:
        """Hold input requests back while it is decided whether the call becomes a task.

        Gives a function to call if it does.
        """
        self._decided.clear()
        try:
            yield self._become
        finally:
            self._decided.set()

    def answer(self, responses: Mapping[str, msgspec.Raw]) -> None:
        """Take a client's answers. Unknown keys and answers that are no objects are ignored."""
        self._open.take(responses)

    def stop(self) -> None:
        """Cancel the task; its watch stores the ending. Idempotent."""
        watch, self.watch = self.watch, None
        if watch is not None:
            watch.cancel()

    async def finish(self, work: Work) -> CallOutcome:
        """The final outcome. A source whose result asks for input is called again with the answers."""
        assert self.work is not None  # noqa: S101  narrows the type: only a running call can be a task
        outcome = await self._first(self.work)
        for _ in range(MAX_REPEATS):
            interim = input_requests.input_required_members(outcome)
            if interim is None:
                return outcome
            outcome = await work(self._repeated(interim, await self._answers(interim)))
        return RpcError(jsonrpc.INTERNAL_ERROR, f"the source asked for input more than {MAX_REPEATS} times")

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
    def _lacks_token(self) -> bool:
        return "progressToken" not in self._client_context.meta

    def _is_parked(self) -> bool:
        return bool(self._open) if self._is_task else self._client_context.is_suspended()

    async def _ask(self, method: str, params: msgspec.Raw) -> msgspec.Raw | RpcError:
        await self._decided.wait()
        if not self._is_task:
            self._asking += 1
            try:
                return await self._client_context.ask(method, params)
            finally:
                self._asking -= 1
        needed = input_requests.required_capabilities(method, params)
        if needed is None:
            return RpcError(jsonrpc.METHOD_NOT_FOUND, f"{method[:100]} is not offered here")
        if not input_requests.declares(self._client_context.capabilities, needed):
            return await self._undeclared(needed)
        return await self._open.ask(input_request(method, params))

    async def _undeclared(self, needed: Mapping[str, Any]) -> RpcError:
        """End the task with the error for a missing capability, as the call would have ended."""
        text = f"this call needs a client that declares {input_requests.format_capabilities(needed)}"
        self._failure = RpcError(
            inbound.MISSING_CAPABILITY, text, jsonrpc.raw({"requiredCapabilities": needed})
        )
        if self.work is not None:
            self.work.cancel()
            await asyncio.wait(
                [self.work], timeout=CANCEL_S
            )  # the source learns of the cancellation before it gets the error
        return RpcError(jsonrpc.METHOD_NOT_FOUND, text)

    async def _notify(self, method: str, params: Mapping[str, Any]) -> None:
        if method == names.PROGRESS:
            self.message = _sentence(params) or self.message
        if not self._is_task and not (method == names.PROGRESS and self._lacks_token):
            await self._client_context.notify(method, params)

    async def _answers(self, interim: Mapping[str, msgspec.Raw]) -> dict[str, msgspec.Raw]:
        requests = jsonrpc.members_of(interim.get("inputRequests", b"{}"))
        if not requests:
            await asyncio.sleep(PAUSE_S)
        answers = await asyncio.gather(*(self._open.ask(request) for request in requests.values()))
        # a task's client gives results only (SEP-2663)
        return {
            key: answer
            for key, answer in zip(requests, answers, strict=True)
            if isinstance(answer, msgspec.Raw)
        }

    def _repeated(
        self, interim: Mapping[str, msgspec.Raw], answers: Mapping[str, msgspec.Raw]
    ) -> CallContext:
        context = self.context
        params = input_requests.repeated(context.params, interim, answers)
        return msgspec.structs.replace(context, params=params)


def _sentence(params: Mapping[str, Any]) -> str | None:
    """A progress notification as a sentence for a person."""
    progress = msgspec.json.decode(jsonrpc.dumps(params))
    message, done, total = progress.get("message"), progress.get("progress"), progress.get("total")
    if isinstance(message, str) and message.strip():
        return clean_text(message)[:MAX_MESSAGE]
    if isinstance(done, int | float) and isinstance(total, int | float):
        return f"{done:g} of {total:g}"
    return None
