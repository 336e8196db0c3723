"""Routes HTTP requests: `POST /mcp`, and health, lifeline and more for the manager.

`/mcp` serves MCP 2026-07-28 only and keeps no state between requests. A `tools/call` is answered in the
quickest way that it allows (`calls/call.py`). One that differs from an earlier call only in id and arguments,
of a tool that only computes, is answered without parsing it (`RepeatedCalls`): bodies are compared with
patterns (`lm_tools_bridge/protocol/call_pattern.py`).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.http_server.request_head import MAX_CACHED_HEADS
from lm_tools_bridge.protocol import headers, inbound, jsonrpc, names
from lm_tools_bridge.protocol.call_pattern import Pattern, derive_pattern
from lm_tools_bridge.protocol.errors import Reason, Refusal
from lm_tools_bridge.protocol.inbound import Inbound, Rejection
from lm_tools_bridge.protocol.internal.launch import LaunchInstructions
from lm_tools_bridge.protocol.internal.request_state import approval_id
from lm_tools_bridge.protocol.jsonrpc import Notification, Request, Response
from lm_tools_bridge.protocol.names import MODERN_REVISIONS, Era
from workspace_server import log
from workspace_server.calls.dispatch import Calls
from workspace_server.calls.pending_approvals import PendingApprovals
from workspace_server.calls.request import McpRequest
from workspace_server.catalog.registry import OfferedTool
from workspace_server.catalog.view import View
from workspace_server.http import listen
from workspace_server.http.connections import Connections, HttpRequest, Stream, trim_fields
from workspace_server.http.listen import wait
from workspace_server.http.request_head import ManagerHead, knows_secret
from workspace_server.lifetime import Lifetime
from workspace_server.methods.inspection import inspection
from workspace_server.methods.table import PAGE_SIZE, Answer, Methods
from workspace_server.tasks.tasks import EndedTasks
from workspace_server.tool_search.definitions import KeptMetaTools

MAX_PATTERNS: Final = 4
"""Patterns kept per request head, for programs that send the same head with different bodies."""
LEARN_EVERY: Final = 64
"""Once a head had more unmatched calls than `MAX_PATTERNS`, only one in so many is learned.

Some programs write something new into every call; learning each of them would cost more than it saves.
"""


class _KnownCalls:
    """The known calls that come with one request head. The head names their tool.

    Attributes:
        view: the view under which they were learned.
        offered: the tool.
        patterns: their patterns.
        unmatched: how many calls matched no pattern.
    """

    __slots__ = ("offered", "patterns", "unmatched", "view")

    def __init__(self, view: View, offered: OfferedTool) -> None:
        self.view = view
        self.offered = offered
        self.patterns: tuple[Pattern, ...] = ()
        self.unmatched = 0


class RepeatedCalls:
    """Learns patterns of calls and answers calls that match one.

    Args:
        methods: answers the calls.
    """

    def __init__(self, methods: Methods) -> None:
        self._methods = methods
        self._by_head: dict[ManagerHead, _KnownCalls] = {}

    def answer(self, head: ManagerHead, body: bytes) -> Answer | None:
        """Answer a call that matches a known pattern; None for any other request."""
        known_calls = self._by_head.get(head)
        if known_calls is None:
            return None
        for pattern in known_calls.patterns:
            match = pattern.match(body)
            if match is not None:
                return self._methods.answer_repeated(
                    known_calls.view, known_calls.offered, match[0], match[1]
                )
        return None

    def learn(self, head: ManagerHead, request: McpRequest) -> None:
        """Learn the pattern of a call that was answered without a task, if its head has come before."""
        repeatable = self._methods.repeatable(request)
        if repeatable is None:
            return
        known_calls = self._by_head.get(head)
        if known_calls is None or known_calls.view is not repeatable[0]:
            if len(self._by_head) >= MAX_CACHED_HEADS:
                self._by_head.clear()
            known_calls = self._by_head[head] = _KnownCalls(*repeatable)
        known_calls.unmatched += 1
        if known_calls.unmatched <= MAX_PATTERNS or not known_calls.unmatched % LEARN_EVERY:
            pattern = _pattern(head, request)
            if pattern is not None:
                known_calls.patterns = (*known_calls.patterns[1 - MAX_PATTERNS :], pattern)


def _pattern(head: ManagerHead, request: McpRequest) -> Pattern | None:
    """The pattern of a call; None if a call with other values would not be read as the same request."""
    derived_pattern = derive_pattern(request.message.body)
    if derived_pattern is None:
        return None
    pattern, probe = derived_pattern
    other = inbound.classify(head.fields, probe)
    return pattern if isinstance(other, Inbound) and _constant(other) == _constant(request.inbound) else None


def _constant(message: Inbound) -> tuple[object, ...]:
    """The parts of a message that must be equal in all calls of a pattern."""
    return message.era, message.revision, message.name, set(message.params), set(message.meta)


# As the manager's own streams: proxies and lines to other hosts close a stream that is silent for longer.
KEEP_ALIVE_S: Final = 15.0
_LISTS: Final = "lists"
"""Folder below the user's state folder for what is remembered of lists."""


class Server:
    """The request handlers of one workspace server."""

    def __init__(
        self,
        launch: LaunchInstructions,
        version: str,
        calls: Calls,
        life: Lifetime,
        keep_alive_s: float,
    ) -> None:
        self._launch = launch
        self._version = version
        self._toolset = calls.toolset
        self._calls = calls
        self._tasks = calls.tasks
        self._suspended_calls = calls.suspended_calls
        self._pending_approvals = calls.pending_approvals
        self._life = life
        life.on_stop(self._pending_approvals.close)
        self._keep_alive_s = keep_alive_s
        page_size = int(launch.settings.get("page_size", PAGE_SIZE))
        self._methods = Methods(calls, version, page_size, _kept_meta_tools(launch), launch.root)
        self._repeated = RepeatedCalls(self._methods)
        self._pages: Mapping[str, Callable[[HttpRequest], Awaitable[None]]] = {
            names.HEALTH_PATH: self._health,
            names.LIFELINE_PATH: self._lifeline,
            names.INSPECT_PATH: self._inspect,
            names.REFRESH_PATH: self._refresh,
            names.RESTART_PATH: self._restart,
            names.CALLS_PATH: self._show_calls,
            names.STOP_CALL_PATH: self._stop_call,
            names.ANSWER_APPROVAL_PATH: self._answer_approval,
        }

    def serve(self, http_request: HttpRequest) -> None:
        """Answer an admitted request, in a task if the answer has to be awaited."""
        page = self._pages.get(http_request.head.path)
        if page is not None:
            http_request.run(_answered(partial(page, http_request), http_request))
            return
        answer = None if self._life.stopping else self._repeated.answer(http_request.head, http_request.body)
        if answer is not None:
            http_request.respond(answer.status, answer.body, trim_fields(answer.trim))
            return
        message = _classify(http_request.head, http_request.body)
        if isinstance(message, Rejection):
            http_request.respond(message.status, message.body())
        elif not isinstance(message.message, Request):
            http_request.run(
                _answered(partial(self._accept_message, message.message, http_request), http_request)
            )
        elif self._life.stopping:
            answer = _stopping(message.message)
            http_request.respond(answer.status, answer.body)
        else:
            self._serve_mcp(message, message.message, http_request)

    def _serve_mcp(self, inbound_message: Inbound, message: Request, http_request: HttpRequest) -> None:
        stream = Stream(http_request)
        head = http_request.head
        view = self._methods.view(message.method, head.fields)
        request = McpRequest(
            message, inbound_message, head.fields, head.query, stream.notify, view, trace=http_request.trace
        )
        answer = self._methods.answer_nowait(request)
        if answer is None:
            http_request.run(_answered(partial(self._answer_awaited, request, stream), http_request))
        else:
            http_request.respond(answer.status, answer.body, trim_fields(answer.trim))
            if http_request.is_known:
                self._repeated.learn(head, request)

    async def _health(self, http_request: HttpRequest) -> None:
        """Identity of this server, and with the secret the state of its sources. Waits for no source."""
        identity = {"ok": not self._life.stopping, "nonce": self._launch.nonce}
        is_manager = knows_secret(http_request.head.fields.get(headers.SECRET), self._launch.secret)
        _respond_json(http_request, {**identity, **self._description()} if is_manager else identity)

    def _description(self) -> dict[str, Any]:
        """Not for other users of the machine: commands, and what failed servers wrote to standard error."""
        return {
            "workspace": self._launch.workspace,
            "root": self._launch.root,
            "pid": os.getpid(),
            "version": self._version,
            "tasks": self._tasks.running + self._suspended_calls.waiting,
            "sources": self._toolset.sources(),
            "issues": [issue.as_json() for issue in self._toolset.issues()],
        }

    async def _lifeline(self, http_request: HttpRequest) -> None:
        """Keep the manager's lifeline open. It ends when the manager dies or this server stops."""
        stream = Stream(http_request)
        with self._life.lifeline():
            await stream.keep_alive()
            self._toolset.touch()  # so that health knows the number of tools before a client lists them
            await hold_lifeline(
                self._life, stream, self._pending_approvals, self._tasks.ended, self._keep_alive_s
            )
        stream.close()

    async def _inspect(self, http_request: HttpRequest) -> None:
        """All tools, hidden ones with the reason."""
        view = await self._toolset.current(with_files=True)
        _respond_json(http_request, inspection(self._toolset, view, self._launch.root))

    async def _show_calls(self, http_request: HttpRequest) -> None:
        """The calls that run and the last ones, and the state of the sources. Waits for no source."""
        _respond_json(
            http_request, {**self._calls.record.as_json(), "sources": self._toolset.sources(closely=True)}
        )

    async def _stop_call(self, http_request: HttpRequest) -> None:
        """Stop a running call by the number that `_show_calls` gave it."""
        number = http_request.head.query.get("number", "")
        stopped = number.isdecimal() and len(number) < 16 and self._calls.record.stop(int(number))
        _respond_json(http_request, {"ok": stopped})

    async def _answer_approval(self, http_request: HttpRequest) -> None:
        """Take a person's answer whether a call may run: `yes` or `no`; `end` ends its wait without one."""
        identity, _, answer = http_request.head.query.get("answer", "").partition(".")
        if answer == "end":
            self._pending_approvals.withdraw(identity)
        outcome = self._pending_approvals.answer(identity, approve=answer == "yes")
        _respond_json(http_request, {"ok": outcome in {"approved", "denied"}, "outcome": outcome})

    async def _refresh(self, http_request: HttpRequest) -> None:
        """Refresh one source, or all of them."""
        _respond_json(
            http_request, {"ok": await self._toolset.refresh(http_request.head.query.get("source"))}
        )

    async def _restart(self, http_request: HttpRequest) -> None:
        """Restart one source, or all of them, and say what was done to each."""
        done = await self._toolset.restart(http_request.head.query.get("source"))
        _respond_json(http_request, {"ok": bool(done), "restarted": done})

    async def _accept_message(self, message: Notification | Response, http_request: HttpRequest) -> None:
        """Accept a notification. `notifications/cancelled` names a call that waits by its `requestState`."""
        if isinstance(message, Notification) and message.method == names.CANCELLED:
            state = jsonrpc.text_of(jsonrpc.members_of(message.params).get("requestState", b"")) or ""
            self._pending_approvals.withdraw(approval_id(state))
            await self._suspended_calls.cancel(state)
        http_request.respond(202)

    async def _answer_awaited(self, request: McpRequest, stream: Stream) -> None:
        if request.method == names.LISTEN:
            tasks, life = self._methods.tasks, self._life
            await listen.serve(request, stream, self._toolset, tasks, life, self._keep_alive_s)
            return
        answer = await self._answer(request)
        await stream.finish(answer.status, answer.body, answer.trim, request.clock.timing)

    async def _answer(self, request: McpRequest) -> Answer:
        try:
            with self._life.call():
                return await self._methods.answer(request)
        except TimeoutError:
            text = "this workspace server stopped before the call was done"
            refusal = Refusal(Reason.WORKSPACE_SERVER_DIED, text, delivered="unknown")
            return Answer(503, refusal.as_error(request.id))


async def _answered(work: Callable[[], Awaitable[None]], http_request: HttpRequest) -> None:
    """Run a handler. After a fault the caller gets status 500, or the connection is closed."""
    try:
        await work()
    except ConnectionError:
        pass  # the caller has disconnected
    except Exception as fault:  # noqa: BLE001  the task has no other observer
        log.fault("request_failed", fault, path=http_request.head.path)
        if http_request.is_begun:
            http_request.abort()
        else:
            text = "the workspace server failed; its log says why"
            http_request.respond(500, jsonrpc.error(None, jsonrpc.INTERNAL_ERROR, text))


def _kept_meta_tools(launch: LaunchInstructions) -> KeptMetaTools:
    if launch.folders is None:
        return KeptMetaTools()
    return KeptMetaTools(Path(launch.folders.state) / _LISTS / f"{launch.workspace}.shown")


def _respond_json(http_request: HttpRequest, value: Any) -> None:
    http_request.respond(200, jsonrpc.dumps(value))


def _stopping(request: Request) -> Answer:
    text = "this workspace server is stopping"
    refusal = Refusal(Reason.WORKSPACE_SERVER_OFFLINE, text, delivered="no", retry_after_ms=1000)
    return Answer(503, refusal.as_error(request.id))


def _classify(head: ManagerHead, body: bytes) -> Inbound | Rejection:
    """The message in a body, or the error for a wrong revision or headers that contradict the body."""
    message = _encoding_problem(body) or inbound.classify(head.fields, body)
    if isinstance(message, Rejection):
        return message
    identity = None if isinstance(message.message, Notification) else message.message.id
    if head.repeated is not None:
        return Rejection(400, inbound.HEADER_MISMATCH, head.repeated, identity)
    if message.era is Era.LEGACY or isinstance(message.message, Response):
        data = {"supported": list(MODERN_REVISIONS), "requested": message.revision}
        text = f"only revision {MODERN_REVISIONS[0]} is served here"
        return Rejection(400, inbound.UNSUPPORTED_VERSION, text, identity, data)
    return message


def _encoding_problem(body: bytes) -> Rejection | None:
    """Refuse other encodings than UTF-8 here: what is forwarded to sources is not decoded on the way."""
    try:
        _ = body.isascii() or body.decode()
    except UnicodeDecodeError as error:
        text = f"the body is not valid UTF-8 at byte {error.start}; send one JSON-RPC message as UTF-8 JSON"
        return Rejection(400, jsonrpc.PARSE_ERROR, text)
    return None


def make_connections(
    launch: LaunchInstructions,
    version: str,
    calls: Calls,
    life: Lifetime,
    *,
    keep_alive_s: float = KEEP_ALIVE_S,
) -> Connections:
    """The connections that serve a workspace; `keep_alive_s` is the time between comments on idle streams."""
    return Connections(launch.secret, Server(launch, version, calls, life, keep_alive_s).serve)


MIN_INTERVAL_S: Final = 0.05
"""Shortest time between notifications: each has all calls that wait, or as many tasks as have ended."""


async def hold_lifeline(
    life: Lifetime, stream: Stream, pending: PendingApprovals, ended_tasks: EndedTasks, keep_alive_s: float
) -> None:
    """Serve a lifeline until the server stops, or its manager is gone (then this is cancelled).

    Args:
        pending: the calls that wait. With the manager, those end whose clients had sessions at it.
        ended_tasks: the tasks to report.
    """
    wake = asyncio.Event()
    ends = [life.on_stop(wake.set), pending.listen(wake.set), ended_tasks.listen(wake.set)]
    reported_changes = 0
    try:
        while not life.stopping:
            if pending.changes == reported_changes and not ended_tasks:
                await wait(wake, stream, keep_alive_s)
                continue
            if pending.changes != reported_changes:
                reported_changes = pending.changes
                await stream.notify(names.APPROVALS, {"approvals": pending.as_json()})
            await ended_tasks.report(stream.notify)
            await asyncio.sleep(MIN_INTERVAL_S)
        await ended_tasks.report(stream.notify)
    finally:
        for end in ends:
            end()
        pending.withdraw_sessions()
