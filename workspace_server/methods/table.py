"""The method table: what a workspace server answers, statelessly, in revision 2026-07-28.

Envelopes were checked in `protocol.inbound`; `subscriptions/listen`, which does not end, is `http/listen.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from protocol import jsonrpc, names, tasks
from protocol.inbound import Rejection
from protocol.internal import result_trim as trims
from protocol.internal.result_trim import ResultTrim
from protocol.versions import MODERN_REVISIONS
from workspace_server import log
from workspace_server.calls.dispatch import Calls
from workspace_server.calls.request import McpRequest, Outcome
from workspace_server.catalog.registry import OfferedTool
from workspace_server.catalog.view import View, mode_of
from workspace_server.methods import completion, paging, prompts, resources
from workspace_server.methods.loop_cache import LoopIterationCache
from workspace_server.methods.pass_through import PassThrough
from workspace_server.methods.tasks import TaskMethods
from workspace_server.naming import sort_key

_NO_MEMBERS: Final[Mapping[str, Any]] = {}
_UNUSUAL: Final = frozenset({"resultType", "ttlMs", "cacheScope", "_meta"})
"""Members of a result that another era knows differently."""
_UNCACHED: Final = {"ttlMs": 0, "cacheScope": "private"}
INSTRUCTIONS: Final = (
    "These are the tools of one project: some that look at its files, the project's own scripts, and the MCP"
    " servers configured for it. If tool_search is among them, there are more tools than those that"
    " are listed: find them with it, and run them by name or through execute_tool."
)
_CAPABILITIES: Final = {
    "tools": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "prompts": {"listChanged": True},
    "completions": {},
    "logging": {},
    "extensions": {tasks.EXTENSION: {}},
}


class Answer(msgspec.Struct, frozen=True):
    """What goes back: HTTP status and the JSON-RPC body, and what of it a session does not get."""

    status: int
    body: bytes
    trim: ResultTrim | None = None


class Methods:
    """Answers requests out of the workspace's toolset.

    Args:
        calls: runs the tools.
        version: version of the product, for `serverInfo`.
        page_size: the most entries of one list page.
    """

    def __init__(self, calls: Calls, version: str, page_size: int = paging.PAGE_SIZE) -> None:
        self._toolset = calls.toolset
        self._calls = calls
        self._transparent = PassThrough(calls)
        self._view = LoopIterationCache(self._toolset.current_now)
        self._page_size = page_size
        self._signature = {
            names.META_SERVER: jsonrpc.raw({"name": names.WORKSPACE_SERVER, "version": version})
        }
        meta = len(trims.META) + len(jsonrpc.dumps(self._signature))
        self._trim = ResultTrim(len(trims.TYPE), meta)
        self.tasks = TaskMethods(calls, self._finished)
        self._table: Mapping[str, Callable[[McpRequest], Awaitable[Outcome]]] = {
            names.DISCOVER: self._discover,
            names.TOOLS_LIST: self._tools_list,
            names.TOOLS_CALL: self._calls.call,
            names.RESOURCES_LIST: self._resources_list,
            names.TEMPLATES_LIST: self._templates_list,
            names.RESOURCES_READ: self._resources_read,
            names.PROMPTS_LIST: self._prompts_list,
            names.PROMPTS_GET: self._prompts_get,
            names.COMPLETE: self._complete,
            **self.tasks.table,
        }

    async def answer(self, asked: McpRequest) -> Answer:
        """The answer to one request; a fault of ours becomes -32603 and a log line."""
        try:
            outcome = await self._transparent.answer(asked)
            if outcome is None:
                outcome = await self._gathered(asked)
        except Exception as fault:  # noqa: BLE001  the caller gets an answer with its id, whatever happens
            outcome = _failed(asked, fault)
        return self._written(asked.request.id, outcome, asked.request.method)

    def view(self, method: str) -> View | None:
        """What can be called in this turn of the loop, for a call, where nobody has to be asked."""
        try:
            return self._view.get() if method == names.TOOLS_CALL else None
        except Exception:  # noqa: BLE001  whoever asks everybody hears of it
            return None

    def answer_now(self, asked: McpRequest) -> Answer | None:
        """As `answer`, for a call that waits for nothing; None where it has to be awaited."""
        if asked.view is None or self._transparent.may_answer(asked, asked.view):
            return None
        try:
            outcome = self._calls.call_now(asked, asked.view)
        except Exception as fault:  # noqa: BLE001  as in `answer`
            outcome = _failed(asked, fault)
        return None if outcome is None else self._written(asked.request.id, outcome)

    def repeatable(self, asked: McpRequest) -> tuple[View, OfferedTool] | None:
        """Under which view `answer_again` is right for calls that differ in id and arguments alone."""
        view = asked.view
        if view is None or self._transparent.may_answer(asked, view):
            return None
        offered = self._calls.repeatable(asked, view)
        return None if offered is None else (view, offered)

    def answer_again(
        self, view: View, offered: OfferedTool, identity: bytes, arguments: bytes
    ) -> Answer | None:
        """What `answer_now` gives for such a call; None where that has to be asked."""
        try:
            if self._view.get() is not view:
                return None
            outcome = self._calls.call_again(offered, identity, arguments)
        except Exception:  # noqa: BLE001  `answer_now` says what is wrong
            return None
        return None if outcome is None else self._written(identity, outcome)

    def _written(self, identity: bytes, outcome: Outcome, method: str = names.TOOLS_CALL) -> Answer:
        if isinstance(outcome, Rejection):
            return Answer(outcome.status, outcome.body())
        body = jsonrpc.result(identity, self._finished(outcome))
        return Answer(200, body, self._trim_of(outcome) if method == names.TOOLS_CALL else None)

    def _trim_of(self, outcome: Mapping[str, Any] | msgspec.Raw) -> ResultTrim | None:
        """What of the result of a tool a session does not get, where that is all there is to be said."""
        if isinstance(outcome, msgspec.Raw):
            text = jsonrpc.bytes_of(outcome)
            return trims.compute_trim(text, 0, len(text))
        is_object = isinstance(outcome.get("structuredContent", _NO_MEMBERS), Mapping)
        return self._trim if is_object and "content" in outcome and _UNUSUAL.isdisjoint(outcome) else None

    async def _gathered(self, asked: McpRequest) -> Outcome:
        """The answer of the workspace as what it gathered."""
        method = self._table.get(asked.request.method)
        if method is None:
            text = f"method not found: {asked.request.method[:100]}"
            return Rejection(404, jsonrpc.METHOD_NOT_FOUND, text, asked.request.id)
        return await method(asked)

    def _finished(self, outcome: Mapping[str, Any] | msgspec.Raw) -> Mapping[str, Any] | msgspec.Raw:
        """Every result we author says that it is complete, and whose it is."""
        if isinstance(outcome, msgspec.Raw):
            return outcome
        own = outcome.get("_meta")
        meta = {**own, **self._signature} if own else self._signature
        return {"resultType": "complete", **outcome, "_meta": meta}

    async def _discover(self, asked: McpRequest) -> Outcome:
        said = {"capabilities": _CAPABILITIES, "instructions": INSTRUCTIONS}
        return {"supportedVersions": list(MODERN_REVISIONS), **said, **_UNCACHED}

    async def _tools_list(self, asked: McpRequest) -> Outcome:
        view = await self._toolset.current()
        definitions = view.listed(mode_of(asked.header, asked.query))
        result = self._page(asked, "tools", definitions, "name")
        issues = self._toolset.issues() if asked.value("cursor") is None else []
        if isinstance(result, dict) and issues:
            result["_meta"] = {names.META_ISSUES: [issue.as_json() for issue in issues]}
        return result

    async def _resources_list(self, asked: McpRequest) -> Outcome:
        entries = resources.entries(await self._toolset.current())
        return self._page(asked, "resources", entries, "uri", resources.order)

    async def _templates_list(self, asked: McpRequest) -> Outcome:
        entries = resources.templates(await self._toolset.current())
        return self._page(asked, "resourceTemplates", entries, "uriTemplate", resources.order)

    async def _resources_read(self, asked: McpRequest) -> Outcome:
        outcome = await resources.read(self._calls, asked, await self._toolset.current())
        return {**outcome, **_UNCACHED} if isinstance(outcome, Mapping) else outcome

    async def _prompts_list(self, asked: McpRequest) -> Outcome:
        return self._page(asked, "prompts", prompts.entries(await self._toolset.current()), "name")

    async def _prompts_get(self, asked: McpRequest) -> Outcome:
        return await prompts.get(self._calls, asked, await self._toolset.current())

    async def _complete(self, asked: McpRequest) -> Outcome:
        return await completion.complete(self._calls, asked, await self._toolset.current())

    def _page(
        self, asked: McpRequest, member: str, entries: Any, key: str, order: paging.Order = sort_key
    ) -> Outcome:
        cursor = asked.value("cursor")
        found = paging.page(
            member, entries, lambda entry: str(entry[key]), cursor, self._page_size, order=order
        )
        if found is None:
            return asked.invalid("params.cursor is not a cursor of this list")
        shown, following = found
        result: dict[str, Any] = {member: list(shown), **_UNCACHED}
        return result if following is None else {**result, "nextCursor": following}


def _failed(asked: McpRequest, fault: Exception) -> Rejection:
    if isinstance(fault, msgspec.DecodeError):
        return asked.invalid(f"params cannot be read: {fault}")
    log.fault("method_failed", fault, method=asked.request.method)
    text = "the workspace server failed; its log says why"
    return Rejection(500, jsonrpc.INTERNAL_ERROR, text, asked.request.id)
