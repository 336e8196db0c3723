"""Defines the context of a tool call: its caller, and how to send that caller notifications and requests.

`OpenRequests` holds the requests of one call that wait for the client's answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from typing import Any, Final, Protocol

import msgspec

from lm_tools_bridge.protocol import jsonrpc, names
from lm_tools_bridge.protocol.names import LOG_LEVELS
from workspace_server.tool import RpcError

Answer = msgspec.Raw | RpcError


def input_request(method: str, params: msgspec.Raw) -> msgspec.Raw:
    """The entry of `inputRequests` for a request; `params` is empty when absent."""
    members = {"method": method, "params": params} if jsonrpc.bytes_of(params) else {"method": method}
    return jsonrpc.raw(members)


class OpenRequests:
    """Open input requests, by keys that are never reused (`q1`, `q2` …).

    Args:
        changed: called after a request was opened or answered.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._numbers = count(1)
        self._open: dict[str, tuple[msgspec.Raw, asyncio.Future[Answer]]] = {}

    def __bool__(self) -> bool:
        return bool(self._open)

    def by_key(self) -> Mapping[str, msgspec.Raw]:
        """The open requests, as `inputRequests`."""
        return {key: request for key, (request, _) in self._open.items()}

    async def ask(self, request: msgspec.Raw) -> Answer:
        """Open a request and wait for its answer. Cancelling this withdraws the request."""
        key = f"q{next(self._numbers)}"
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._open[key] = request, answer
        self._changed()
        try:
            return await answer
        finally:
            self._open.pop(key, None)

    def take(self, answers: Mapping[str, Answer]) -> None:
        """Pass on a client's answers. Unknown keys and results that are no objects are ignored."""
        for key, answer in answers.items():
            is_valid = isinstance(answer, RpcError) or jsonrpc.bytes_of(answer)[:1] == b"{"
            if is_valid and key in self._open:
                _set(self._open.pop(key)[1], answer)
                self._changed()

    def end(self, error: RpcError) -> None:
        """Answer all open requests with this error."""
        ended, self._open = self._open, {}
        for _, answer in ended.values():
            _set(answer, error)


def _set(future: asyncio.Future[Answer], answer: Answer) -> None:
    if not future.done():  # the source may withdraw its request at this moment
        future.set_result(answer)


class Toolbox(Protocol):
    """The workspace's tools as one call may use them, with the rights of its caller."""

    async def listed(self) -> list[Mapping[str, Any]]:
        """The definitions `tools/list` would show."""

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """`{"result": …}` or `{"error": …}`, as `tools/call` would answer; also for `tool_search`."""


Notify = Callable[[str, Mapping[str, Any]], Awaitable[None]]


async def ignore_notification(method: str, params: Mapping[str, Any]) -> None:
    """Drop the notifications of a call without a listener."""


Ask = Callable[[str, msgspec.Raw], Awaitable[msgspec.Raw | RpcError]]
"""Sends a request (`elicitation/create`, `sampling/createMessage`, `roots/list`) to the caller of a call.

Takes the method and the parameters as JSON text (empty when absent). Returns the result as JSON text, or the
error."""


async def refuse_request(method: str, params: msgspec.Raw) -> msgspec.Raw | RpcError:
    """Refuse a request to a caller that cannot be asked."""
    return RpcError(jsonrpc.METHOD_NOT_FOUND, f"{method[:100]} is not offered here")


CALL_ENDED: Final = RpcError(jsonrpc.INTERNAL_ERROR, "the call this is about has ended")
"""The answer when the call already has its outcome, so the request was about another call."""


def never_suspended() -> bool:
    """For a caller that waits until there is an outcome."""
    return False


NO_ARGUMENTS: Final = msgspec.Raw(b"{}")


class CallContext(msgspec.Struct, frozen=True):
    """What a call knows besides its decoded arguments.

    Attributes:
        notify: sends one notification to the caller of exactly this call, before its result.
        ask: sends one request to the caller of exactly this call; takes as long as a person takes.
        is_suspended: whether the caller was asked something and left to find the answer; it may never return.
        arguments: the JSON text of the arguments; other servers get these bytes.
        params: the other members of the request's parameters as JSON text (`_meta`, `inputResponses`, …).
        caller: identifies the caller where that is known: the same text for all calls of one session.
        client: name of the calling program, from its `clientInfo`; may be empty.
        capabilities: what the calling client declared.
        folder: the folder of the project in which the caller works, relative to the root, not checked; empty
            for the root.
        trace: the W3C trace context outside its `_meta`; empty for none.
        toolbox: the tools a script may call; None at the maximum nesting depth.
    """

    notify: Notify = ignore_notification
    ask: Ask = refuse_request
    is_suspended: Callable[[], bool] = never_suspended
    arguments: msgspec.Raw = NO_ARGUMENTS
    params: Mapping[str, msgspec.Raw] = msgspec.field(default_factory=dict)
    caller: str = ""
    client: str = ""
    capabilities: Mapping[str, Any] = msgspec.field(default_factory=dict)
    folder: str = ""
    trace: str = ""
    toolbox: Toolbox | None = None

    @property
    def meta(self) -> Mapping[str, msgspec.Raw]:
        """The members of the request's `_meta`, each as JSON text; empty when there is none."""
        raw = self.params.get("_meta")
        return {} if raw is None else msgspec.json.decode(raw, type=dict[str, msgspec.Raw])

    async def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Send one progress notification if the caller gave a progress token."""
        token = self.meta.get("progressToken")
        if token is None:
            return
        members = {"progress": done, "total": total, "message": message}
        present = {key: value for key, value in members.items() if value is not None}
        await self.notify("notifications/progress", {"progressToken": token, **present})


class Client:
    """A client during one request.

    Attributes:
        context: its call.
        meta: the members of the request's `_meta`.
        token: its progress token as JSON text; None without one.
        level: the least severe level of log messages it wants; None for none.
    """

    def __init__(self, context: CallContext) -> None:
        self.meta = meta = context.meta
        level = jsonrpc.text_of(meta.get(names.META_LOG_LEVEL, b""))
        self.context = context
        self.token = meta.get("progressToken")
        self.level = level if level in LOG_LEVELS else None

    def wants(self, method: str, params: Mapping[str, msgspec.Raw]) -> bool:
        """Whether the client wants a notification that belongs to its request."""
        if method == names.PROGRESS:
            return self.token is not None
        if method == names.MESSAGE:
            level = jsonrpc.text_of(params.get("level", b""))
            return self.level is not None and level in LOG_LEVELS[LOG_LEVELS.index(self.level) :]
        return method == names.ELICITED and self.context.caller != ""  # not part of 2026-07-28

    async def notify(self, method: str, params: Mapping[str, msgspec.Raw]) -> None:
        """Forward a notification, progress with the client's own token."""
        own = {"progressToken": self.token} if method == names.PROGRESS else {}
        await self.context.notify(method, {**params, **own})
