"""The tools of the manager as a source: lists and calls them in one session, which survives restarts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from lm_tools_bridge.agent.manager_client.elicitation import Elicitation, RunningCall
from lm_tools_bridge.agent.manager_client.outcomes import (
    decoded,
    failed_outcome,
    late_outcome,
    outcome_of,
    progress_text,
    tools_of,
)
from lm_tools_bridge.agent.manager_client.rpc import OnMessage, Rpc
from lm_tools_bridge.agent.manager_client.server_stream import ServerRequests, ServerStream
from lm_tools_bridge.agent.manager_client.session import Opened, Session, Started, start_manager, tried
from lm_tools_bridge.agent.manager_client.transport import (
    DEFAULT,
    AnswerLost,
    Refused,
    Transport,
    Undelivered,
    address_of,
    is_loopback,
)
from lm_tools_bridge.agent.messages import Tool
from lm_tools_bridge.agent.tool_source import Outcome, SourceState
from lm_tools_bridge.protocol import names
from lm_tools_bridge.protocol.jsonrpc import Notification, Request

if TYPE_CHECKING:
    import aiohttp

LIST_S: Final = 60.0
"""Seconds that a whole list may take."""
START_WAIT_S: Final = 10.0
"""Seconds that a list waits for a manager that is just being started."""
MAX_PAGES: Final = 50
"""As many as the manager reads of a server; a list without an end must not hold the agent."""
MAX_TOOLS: Final = 5_000
"""More than any window of a model has room for; they are kept in memory with their schemas."""
ABSENT_S: Final = 15.0
"""Seconds that a call waits for a manager which is being restarted."""
_LIST_ABSENT_S: Final = 3.0
"""Shorter than `ABSENT_S`: a list is asked for again before the next turn, and a lost manager is started
again."""
MOST_STARTS: Final = 2
"""Managers that are started for one session: the first, and another if that one is gone."""
_STEP: Final = "run lmtb up"


class ManagerSource:
    """A `ToolSource`: what the manager offers in the agent's folder.

    Args:
        endpoint: the manager's address, as configured.
        cwd: the folder that the agent works in, absolute.
        elicitation: answers the questions of servers.
        http: the agent's HTTP session; not closed here.
        version: the agent's version; by default that of the installed distribution.
        discovery: whether lists hold little more than `tool_search` and `execute_tool`.
        tool_s: seconds that a call may take, without the time in which a person is asked.
        absent_s: seconds that a call waits for a manager which cannot be reached.
        start: starts a manager where none runs; None to start none.
        may_move: whether a manager that was started at another address is used there; by default only if the
            endpoint is the default one.
        own_headers: as for `Transport`.
    """

    name = "manager"
    limits_calls = True

    def __init__(
        self,
        endpoint: str,
        cwd: str,
        elicitation: Elicitation,
        http: aiohttp.ClientSession,
        *,
        version: str | None = None,
        discovery: bool = False,
        tool_s: float = 120.0,
        absent_s: float = ABSENT_S,
        start: Callable[[], Awaitable[Started]] | None = start_manager,
        may_move: bool | None = None,
        own_headers: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self._endpoint = endpoint
        self._may_move = endpoint == DEFAULT if may_move is None else may_move
        self._discovery = discovery
        self._tool_s = tool_s
        self._absent_s = absent_s
        self._start = start if is_loopback(endpoint) else None
        self._starting: asyncio.Task[Started] | None = None
        self._starts = 0
        self._tools: tuple[Tool, ...] = ()
        self._is_current = False
        self._handlers: dict[object, Callable[[], None]] = {}
        self._listing = asyncio.Lock()
        self._problem = "not connected yet"
        own = own_headers if is_loopback(endpoint) else dict
        self._transport = Transport(http, address_of(endpoint, discovery=discovery), cwd, own)
        self._session = Session(self._transport, version or _installed(), self._changed)
        self._rpc = Rpc(self._session, self._transport, absent_s)
        self._questions = ServerRequests(self._session, elicitation.answer)
        self._stream = ServerStream(self._session, self._transport, self._changed, self._on_message)
        self._tokens = 0

    async def list_tools(self) -> Sequence[Tool]:
        """See `ToolSource`. Starts a manager the first time that none is there; several may list at once."""
        async with self._listing:
            if self._is_current and self._session.opened is not None:
                return self._tools
            return await self._list_or_start()

    async def _list_or_start(self) -> tuple[Tool, ...]:
        try:
            return await self._listed()
        except Undelivered as failure:
            if await self._started():
                with suppress(Undelivered, Refused, AnswerLost, TimeoutError):
                    return await self._listed()
            self._problem = self._start_problem() or str(failure)
        except (Refused, AnswerLost) as failure:
            self._problem = str(failure)
        except TimeoutError:
            self._problem = f"the manager listed no tools within {LIST_S:g} s"
        self._stream.start()  # connects again as soon as a manager is there
        return ()

    async def call(
        self, name: str, arguments: Mapping[str, Any], on_progress: Callable[[str], None]
    ) -> Outcome:
        """See `ToolSource`."""
        self._tokens += 1
        params = {"name": name, "arguments": arguments, "_meta": {"progressToken": self._tokens}}
        limit = asyncio.timeout(self._tool_s)
        running = RunningCall(name, arguments, on_progress, limit)

        async def on_message(message: Request | Notification, opened: Opened) -> None:
            if isinstance(message, Notification) and message.method == names.PROGRESS:
                on_progress(progress_text(message.params))
            else:
                self._questions.handle(message, opened, running)

        try:
            async with limit:
                try:
                    answer = await self._call(params, on_message, on_progress)
                finally:
                    await self._questions.end_of(running)
                return outcome_of(decoded(answer))
        except TimeoutError:
            return late_outcome(self._tool_s)
        except (Undelivered, Refused, AnswerLost) as failure:
            return failed_outcome(failure)

    async def _call(
        self, params: Mapping[str, Any], on_message: OnMessage, on_progress: Callable[[str], None]
    ) -> bytes:
        """The response to a call; a manager that is gone is started, since the call was not delivered."""
        if self._may_start:
            with suppress(Undelivered):
                return await self._rpc.request(
                    names.TOOLS_CALL, params, on_message, absent_s=min(_LIST_ABSENT_S, self._absent_s)
                )
            on_progress("the manager is gone; starting it again")
            await self._started()
        return await self._rpc.request(names.TOOLS_CALL, params, on_message)

    def state(self) -> SourceState:
        """See `ToolSource`."""
        if self._starting is not None and not self._starting.done():
            return SourceState(self.name, "starting", "the manager is being started")
        if self._session.opened is not None and not self._problem:
            return SourceState(self.name, "ready", self._transport.address)
        return SourceState(self.name, "unavailable", f"{self._problem or 'not connected'}; {_STEP}")

    @property
    def session_id(self) -> str | None:
        """The id of the open session at the manager, if there is one."""
        return None if self._session.opened is None else self._session.opened.id

    async def set_discovery(self, on: bool) -> None:
        """List and call from now on with or without discovery mode, in a new session."""
        if on == self._discovery:
            return
        self._discovery = on
        await self._stream.stop()
        await self._session.end()
        self._transport.address = address_of(self._endpoint, discovery=on)
        self._is_current = False

    async def close(self) -> None:
        """See `ToolSource`. A manager that was started goes on: other clients may use it."""
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        await self._stream.stop()
        await self._questions.close()
        await self._rpc.close()
        await self._session.end()

    # -- lists -----------------------------------------------------------------------------------------

    async def _listed(self) -> tuple[Tool, ...]:
        async with asyncio.timeout(LIST_S):
            await self._session.ensure()
            self._stream.start()
            self._is_current = True  # before: a change while listing makes the list old
            try:
                tools = await self._pages()
            except BaseException:
                self._is_current = False
                raise
        return tools

    async def _pages(self) -> tuple[Tool, ...]:
        tools: list[Tool] = []
        params: dict[str, Any] = {}
        for _ in range(MAX_PAGES):
            page = decoded(await self._list_request(params))
            result = page.get("result")
            if not isinstance(result, Mapping):
                self._is_current = False
                error = page.get("error")
                members = error if isinstance(error, Mapping) else {}
                self._problem = str(members.get("message") or "the manager lists no tools")
                return self._tools  # a server that is down keeps its last list
            tools += tools_of(result)
            cursor = result.get("nextCursor")
            if not isinstance(cursor, str) or len(tools) >= MAX_TOOLS:
                break
            params = {"cursor": cursor}
        self._tools, self._problem = tuple(tools[:MAX_TOOLS]), ""
        if self._starting is not None and self._starting.done():
            self._starting = None  # it was of use; if the manager is lost later, it may be started again
        return self._tools

    async def _list_request(self, params: Mapping[str, Any]) -> bytes:
        """One page; a list has no effects, so that a lost one is simply asked for again, once."""
        try:
            return await self._rpc.request(
                names.TOOLS_LIST, params, self._handle_later, absent_s=_LIST_ABSENT_S
            )
        except AnswerLost:
            return await self._rpc.request(
                names.TOOLS_LIST, params, self._handle_later, absent_s=_LIST_ABSENT_S
            )

    def on_change(self, handler: Callable[[], None]) -> Callable[[], None]:
        """See `TellsChanges`."""
        key = object()
        self._handlers[key] = handler

        def unsubscribe() -> None:
            self._handlers.pop(key, None)

        return unsubscribe

    def _changed(self) -> None:
        self._is_current = False
        for handler in list(self._handlers.values()):
            handler()

    async def _handle_later(self, message: Request | Notification, opened: Opened) -> None:
        self._on_message(message, opened)

    def _on_message(self, message: Request | Notification, opened: Opened) -> None:
        if isinstance(message, Notification) and message.method == names.TOOLS_CHANGED:
            self._changed()
        else:
            self._questions.handle(message, opened, None)

    # -- a manager that is not there -------------------------------------------------------------------

    @property
    def _may_start(self) -> bool:
        return self._start is not None and self._starting is None and self._starts < MOST_STARTS

    async def _started(self) -> bool:
        """Whether a manager was started for us, or is being started and comes up soon enough."""
        if self._start is None or (self._starting is None and not self._may_start):
            return False
        if self._starting is None:
            self._starts += 1
            self._starting = asyncio.create_task(tried(self._start), name="start the manager")
        try:
            started = await asyncio.wait_for(asyncio.shield(self._starting), START_WAIT_S)
        except TimeoutError:
            return False
        if started.address is not None and self._may_move:
            self._endpoint = started.address  # the user's settings may name another port
            self._transport.address = address_of(started.address, discovery=self._discovery)
        return started.address is not None

    def _start_problem(self) -> str:
        """Why a start did not help; empty if none was tried."""
        if self._starting is None:
            return ""
        if not self._starting.done():
            return "the manager is being started"
        started = self._starting.result()
        if started.address is not None and started.address != self._endpoint:
            return f"a manager runs at {started.address}, but endpoint in [agent] is {self._endpoint}"
        return started.problem


def _installed() -> str:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415  quick, but not needed always

    try:
        return version("lm-tools-bridge")
    except PackageNotFoundError:
        return "0"
