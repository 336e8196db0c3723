"""The method table: what a workspace server answers, statelessly, in revision 2026-07-28 (M7 to M12, M19).

Envelopes were checked in `protocol.inbound`; `subscriptions/listen`, which does not end, is `listen.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from protocol import jsonrpc, names
from protocol.inbound import Rejection
from protocol.versions import MODERN_REVISIONS
from workspace_server import log
from workspace_server.calls.asked import Asked, Outcome
from workspace_server.calls.dispatch import Calls
from workspace_server.catalog.view import mode_of
from workspace_server.web import pages, resources

SERVER_NAME: Final = "lm-tools-bridge-workspace"
_UNCACHED: Final = {"ttlMs": 0, "cacheScope": "private"}
_CAPABILITIES: Final = {
    "tools": {"listChanged": True},
    "resources": {"listChanged": True},
    "prompts": {"listChanged": True},
    "completions": {},
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes back: HTTP status and the JSON-RPC body."""

    status: int
    body: bytes


class Methods:
    """Answers requests out of the workspace's toolset.

    Args:
        calls: runs the tools.
        version: version of the product, for `serverInfo`.
        page_size: the most entries of one list page (T-183).
    """

    def __init__(self, calls: Calls, version: str, page_size: int = pages.PAGE_SIZE) -> None:
        self._toolset = calls.toolset
        self._calls = calls
        self._page_size = page_size
        self._server_info = {"name": SERVER_NAME, "version": version}
        self._table: Mapping[str, Callable[[Asked], Awaitable[Outcome]]] = {
            names.DISCOVER: self._discover,
            names.TOOLS_LIST: self._tools_list,
            names.TOOLS_CALL: self._calls.call,
            names.RESOURCES_LIST: self._resources_list,
            names.TEMPLATES_LIST: self._templates_list,
            names.RESOURCES_READ: self._resources_read,
            names.PROMPTS_LIST: self._prompts_list,
            names.PROMPTS_GET: self._prompts_get,
            names.COMPLETE: self._complete,
        }

    async def answer(self, asked: Asked) -> Answer:
        """The answer to one request; a fault of ours becomes -32603 and a log line."""
        identity = asked.request.id
        method = self._table.get(asked.request.method)
        if method is None:
            text = f"method {asked.request.method} does not exist in revision {asked.inbound.revision}"
            return Answer(404, jsonrpc.error(identity, jsonrpc.METHOD_NOT_FOUND, text))
        try:
            outcome = await method(asked)
        except msgspec.DecodeError as error:
            outcome = asked.invalid(f"params cannot be read: {error}")
        except Exception as fault:  # noqa: BLE001  the caller gets an answer with its id, whatever happens
            log.fault("method_failed", fault, method=asked.request.method)
            text = "the workspace server failed; its log says why"
            outcome = Rejection(500, jsonrpc.INTERNAL_ERROR, text, identity)
        if isinstance(outcome, Rejection):
            return Answer(outcome.status, outcome.body())
        return Answer(200, jsonrpc.result(identity, self._finished(outcome)))

    def _finished(self, outcome: Mapping[str, Any] | msgspec.Raw) -> Mapping[str, Any] | msgspec.Raw:
        """Every result we author says that it is complete, and whose it is (M9, M10)."""
        if isinstance(outcome, msgspec.Raw):
            return outcome
        meta = {**outcome.get("_meta", {}), names.META_SERVER: self._server_info}
        return {"resultType": "complete", **outcome, "_meta": meta}

    async def _discover(self, asked: Asked) -> Outcome:
        return {"supportedVersions": list(MODERN_REVISIONS), "capabilities": _CAPABILITIES, **_UNCACHED}

    async def _tools_list(self, asked: Asked) -> Outcome:
        view = await self._toolset.current()
        definitions = view.listed(mode_of(asked.header, asked.query))
        result = self._page(asked, "tools", definitions, lambda entry: str(entry["name"]))
        issues = self._toolset.issues() if asked.value("cursor") is None else []
        if isinstance(result, dict) and issues:
            result["_meta"] = {names.META_ISSUES: [issue.as_json() for issue in issues]}
        return result

    async def _resources_list(self, asked: Asked) -> Outcome:
        entries = resources.entries(await self._toolset.current())
        return self._page(asked, "resources", entries, lambda entry: str(entry["uri"]))

    async def _templates_list(self, asked: Asked) -> Outcome:
        return self._page(asked, "resourceTemplates", resources.TEMPLATES, lambda entry: str(entry["name"]))

    async def _resources_read(self, asked: Asked) -> Outcome:
        outcome = resources.read(asked, await self._toolset.current())
        return {**outcome, **_UNCACHED} if isinstance(outcome, Mapping) else outcome

    async def _prompts_list(self, asked: Asked) -> Outcome:
        return self._page(asked, "prompts", (), lambda entry: str(entry["name"]))

    async def _prompts_get(self, asked: Asked) -> Outcome:
        return asked.invalid(f"Unknown prompt: {asked.inbound.name}")

    async def _complete(self, asked: Asked) -> Outcome:
        return resources.complete(asked, await self._toolset.current())

    def _page(self, asked: Asked, member: str, entries: Any, name_of: Callable[[Any], str]) -> Outcome:
        found = pages.page(member, entries, name_of, asked.value("cursor"), self._page_size)
        if found is None:
            return asked.invalid("params.cursor is not a cursor of this list")
        shown, following = found
        result: dict[str, Any] = {member: list(shown), **_UNCACHED}
        return result if following is None else {**result, "nextCursor": following}
