"""Answers MCP requests: a table from methods to handlers (MCP 2026-07-28, stateless).

`lm_tools_bridge.protocol.inbound` has checked the envelopes. `subscriptions/listen` is in `http/listen.py`.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec

from lm_tools_bridge.protocol import apps_extension, headers, jsonrpc, names, skills_extension
from lm_tools_bridge.protocol import tasks_extension as tasks
from lm_tools_bridge.protocol.errors import Reason, Refusal
from lm_tools_bridge.protocol.inbound import Rejection
from lm_tools_bridge.protocol.internal import client_traits
from lm_tools_bridge.protocol.internal import result_trim as trims
from lm_tools_bridge.protocol.internal.client_traits import ClientTraits
from lm_tools_bridge.protocol.internal.result_trim import ResultTrim
from lm_tools_bridge.protocol.names import MODERN_REVISIONS
from workspace_server import log
from workspace_server.calls.call import Way
from workspace_server.calls.dispatch import Calls
from workspace_server.calls.request import McpRequest, Outcome
from workspace_server.catalog.app_addresses import server_name
from workspace_server.catalog.registry import OfferedTool
from workspace_server.catalog.server_view import find_server
from workspace_server.catalog.view import View, mode_of
from workspace_server.methods import completion, resources
from workspace_server.methods.instructions import Reader, instructions
from workspace_server.methods.pass_through import PassThrough
from workspace_server.methods.resources import SkillMethods
from workspace_server.methods.tasks import TaskMethods
from workspace_server.naming import sort_key
from workspace_server.tool_search.definitions import KeptMetaTools

Order = Callable[[str], tuple[Any, ...]]

Entry = TypeVar("Entry")
# Many clients read the first page alone, so nearly all lists must fit one. A thousand tools take about 1 MiB.
PAGE_SIZE: Final = 1000


def encode(kind: str, name: str) -> str:
    """The cursor that continues the list `kind` after the entry `name`."""
    return base64.urlsafe_b64encode(f"{kind}\n{name}".encode()).decode("ascii").rstrip("=")


def decode(kind: str, cursor: str) -> str | None:
    """The name in a cursor of this list; None if the cursor is invalid."""
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        owner, newline, name = raw.decode().partition("\n")
    except (binascii.Error, ValueError):
        return None
    return name if newline and owner == kind and encode(kind, name) == cursor else None


def page(
    kind: str,
    entries: Sequence[Entry],
    name_of: Callable[[Entry], str],
    cursor: Any,
    size: int = PAGE_SIZE,
    *,
    order: Order = sort_key,
) -> tuple[Sequence[Entry], str | None] | None:
    """One page of a list.

    Args:
        kind: names the list; cursors of other lists are invalid.
        entries: the whole list, ordered by `order` of the names.
        name_of: an entry's name.
        cursor: the request's cursor, None for the first page.
        size: the most entries on one page.
        order: the sort key.

    Returns:
        The entries and the next cursor; None if the cursor is invalid.
    """
    start = 0
    if cursor is not None:
        after = decode(kind, cursor) if isinstance(cursor, str) else None
        if after is None:
            return None
        start = bisect_right(entries, order(after), key=lambda entry: order(name_of(entry)))
    page_entries = entries[start : start + size]
    more = start + size < len(entries)
    return page_entries, encode(kind, name_of(page_entries[-1])) if more else None


MAX_NAMED: Final = 10
"""Servers that a refusal names; `lmtb servers` lists all."""
_NO_MEMBERS: Final[Mapping[str, Any]] = {}
_UNUSUAL: Final = frozenset({"resultType", "ttlMs", "cacheScope", "_meta"})
"""Members of a result that the older revisions do not have, or define differently."""
_UNCACHED: Final = {"ttlMs": 0, "cacheScope": "private"}
_EXTENSIONS: Final = {tasks.EXTENSION: {}, skills_extension.EXTENSION: skills_extension.CAPABILITY}
_CAPABILITIES: Final = {
    "tools": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "prompts": {"listChanged": True},
    "completions": {},
    "logging": {},
    "extensions": _EXTENSIONS,
}
_CAPABILITIES_WITH_APPS: Final = {
    **_CAPABILITIES,
    "extensions": {**_EXTENSIONS, apps_extension.EXTENSION: {}},
}


class Answer(msgspec.Struct, frozen=True):
    """HTTP status and JSON-RPC body of a response; `trim` marks what clients with sessions do not get."""

    status: int
    body: bytes
    trim: ResultTrim | None = None


def traits_of(header: Mapping[str, str]) -> ClientTraits:
    """What is special about the client, as the manager says."""
    return ClientTraits.decode(header.get(headers.CLIENT_TRAITS, ""))


class Methods:
    """Answers requests from the workspace's toolset.

    Args:
        calls: runs tool calls.
        version: the product's version, for `serverInfo`.
        page_size: the most entries on one page of a list.
        kept_meta_tools: which clients were shown the meta-tools.
        root: the project's folder, for the instructions.
    """

    def __init__(
        self,
        calls: Calls,
        version: str,
        page_size: int = PAGE_SIZE,
        kept_meta_tools: KeptMetaTools | None = None,
        root: str = "",
    ) -> None:
        self._root = root
        self._kept_meta_tools = kept_meta_tools or KeptMetaTools()
        self._toolset = calls.toolset
        self._calls = calls
        self._pass_through = PassThrough(calls)
        self._view = LoopIterationCache(self._toolset.current_nowait)
        self._page_size = page_size
        self._signature = {
            names.META_SERVER: jsonrpc.raw({"name": names.WORKSPACE_SERVER, "version": version})
        }
        meta = len(trims.META) + len(jsonrpc.dumps(self._signature))
        self._trim = ResultTrim(len(trims.TYPE), meta)
        self.tasks = TaskMethods(calls, self._complete_result)
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
            **SkillMethods(calls, self._page).table,
        }

    async def answer(self, request: McpRequest) -> Answer:
        """Answer one request; an exception becomes -32603 and a log line."""
        try:
            outcome: Outcome | None = None
            if headers.SERVER in request.header:
                outcome = await self._of_server(request)
            elif headers.PASS_THROUGH in request.header:
                outcome = await self._pass_through.answer(request)
            if outcome is None:
                outcome = await self._from_table(request)
        except Exception as fault:  # noqa: BLE001  every request gets an answer with its id
            outcome = _fault_error(request, fault)
        return self._write_answer(request.id, outcome, request.method)

    async def _of_server(self, request: McpRequest) -> Outcome | None:
        """What only the address of a single server answers in another way than that of the workspace."""
        view = await self._toolset.current(request.list_wait_s)
        source = find_server(view, request.server)
        if source is None:
            return request.refuse(_no_server(view, request.server))
        return (
            await self._pass_through.discover(request, view, source)
            if request.method == names.DISCOVER
            else None
        )

    def view(self, method: str, header: Mapping[str, str]) -> View | None:
        """The view for a `tools/call`, found once per loop iteration; None if finding it has to wait."""
        try:
            is_quick = method == names.TOOLS_CALL and headers.SERVER not in header
            return self._view.get() if is_quick else None
        except Exception:  # noqa: BLE001  the awaited way meets the same fault and reports it
            return None

    def answer_nowait(self, request: McpRequest) -> Answer | None:
        """Answer a call of a tool that only computes; None if the request has to be awaited."""
        if request.view is None or self._may_pass_through(request, request.view):
            return None
        try:
            outcome = self._calls.call_nowait(request, request.view)
        except Exception as fault:  # noqa: BLE001  as in `answer`
            outcome = _fault_error(request, fault)
        return None if outcome is None else self._write_answer(request.id, outcome)

    def repeatable(self, request: McpRequest) -> tuple[View, OfferedTool] | None:
        """The view and the tool under which `answer_repeated` may answer calls like this one; else None."""
        view = request.view
        if view is None or self._may_pass_through(request, view):
            return None
        if self._calls.quickest_way(request, view) is not Way.REPEATED:
            return None
        return view, view.by_name[request.inbound.name or ""]

    def _may_pass_through(self, request: McpRequest, view: View) -> bool:
        return headers.PASS_THROUGH in request.header and self._pass_through.may_answer(request, view)

    def answer_repeated(
        self, view: View, offered: OfferedTool, identity: bytes, arguments: bytes
    ) -> Answer | None:
        """Answer a call that differs in id and arguments from a repeatable one; None if it has to be read."""
        try:
            if self._view.get() is not view:
                return None
            outcome = self._calls.call_repeated(offered, identity, arguments)
        except Exception:  # noqa: BLE001  `answer_nowait` reports what is wrong
            return None
        return None if outcome is None else self._write_answer(identity, outcome)

    def _write_answer(self, identity: bytes, outcome: Outcome, method: str = names.TOOLS_CALL) -> Answer:
        if isinstance(outcome, Rejection):
            return Answer(outcome.status, outcome.body())
        body = jsonrpc.result(identity, self._complete_result(outcome))
        return Answer(200, body, self._trim_of(outcome) if method == names.TOOLS_CALL else None)

    def _trim_of(self, outcome: Mapping[str, Any] | msgspec.Raw) -> ResultTrim | None:
        """The parts of a result that clients with sessions do not get; None if only parsing can tell."""
        if isinstance(outcome, msgspec.Raw):
            text = jsonrpc.bytes_of(outcome)
            return trims.compute_trim(text, 0, len(text))
        is_object = isinstance(outcome.get("structuredContent", _NO_MEMBERS), Mapping)
        return self._trim if is_object and "content" in outcome and _UNUSUAL.isdisjoint(outcome) else None

    async def _from_table(self, request: McpRequest) -> Outcome:
        method = self._table.get(request.method)
        if method is None:
            text = f"method not found: {request.method[:100]}"
            return Rejection(404, jsonrpc.METHOD_NOT_FOUND, text, request.id)
        return await method(request)

    def _complete_result(self, outcome: Mapping[str, Any] | msgspec.Raw) -> Mapping[str, Any] | msgspec.Raw:
        """A result of our own, with `resultType` and the server's name and version."""
        if isinstance(outcome, msgspec.Raw):
            return outcome
        own = outcome.get("_meta")
        meta = {**own, **self._signature} if own else self._signature
        return {"resultType": "complete", **outcome, "_meta": meta}

    async def _discover(self, request: McpRequest) -> Outcome:
        whole = await self._toolset.current(0.0, with_files=True)  # `PassThrough` has waited for new sources
        view = request.sees(whole)
        about = {
            "capabilities": _CAPABILITIES_WITH_APPS if whole.has_apps else _CAPABILITIES,
            "instructions": instructions(view, self._root, _reader(request)),
        }
        return {"supportedVersions": list(MODERN_REVISIONS), **about, **_UNCACHED}

    async def _tools_list(self, request: McpRequest) -> Outcome:
        view = await self._list_view(request)
        mode, traits = mode_of(request.header, request.query), traits_of(request.header)
        is_kept = await self._kept_meta_tools.keeps(request.client, is_needed=view.needs_meta_tools(mode))
        own = client_traits.decode(request.header.get(headers.OWN_FILES, ""))
        definitions: Sequence[Mapping[str, Any]]
        definitions = view.listed(mode, own, traits, keeps_meta_tools=is_kept)
        if request.model_sees_both:
            definitions = _promise_text_alone(definitions, view)
        if (client_names := view.names_for(request.name_rules)) is not None:
            definitions = client_names.rename_definitions(definitions)
        result = self._page(request, "tools", definitions, "name")
        clashes = () if client_names is None else client_names.issues
        shows_issues = request.value("cursor") is None and view.server_names is None
        issues = self._toolset.issues(clashes) if shows_issues else []
        if isinstance(result, dict) and issues:
            result["_meta"] = {names.META_ISSUES: [issue.as_json() for issue in issues]}
        return result

    async def _list_view(self, request: McpRequest) -> View:
        """The view for a list request, which says how long it may wait for sources that are starting."""
        return request.sees(await self._toolset.current(request.list_wait_s))

    async def _resources_list(self, request: McpRequest) -> Outcome:
        view = request.sees(await self._toolset.current(request.list_wait_s, with_files=True))
        entries = resources.entries(view)
        return self._page(request, "resources", entries, "uri", resources.order)

    async def _templates_list(self, request: McpRequest) -> Outcome:
        entries = resources.templates(await self._list_view(request))
        return self._page(request, "resourceTemplates", entries, "uriTemplate", resources.order)

    async def _resources_read(self, request: McpRequest) -> Outcome:
        outcome = await resources.read_resource(
            self._calls, request, request.sees(await self._toolset.current(with_files=True))
        )
        return {**outcome, **_UNCACHED} if isinstance(outcome, Mapping) else outcome

    async def _prompts_list(self, request: McpRequest) -> Outcome:
        return self._page(request, "prompts", completion.entries(await self._list_view(request)), "name")

    async def _prompts_get(self, request: McpRequest) -> Outcome:
        return await completion.get(self._calls, request, request.sees(await self._toolset.current()))

    async def _complete(self, request: McpRequest) -> Outcome:
        view = request.sees(await self._toolset.current())
        return await completion.complete(self._calls, request, view)

    def _page(
        self, request: McpRequest, member: str, entries: Any, key: str, order: Order = sort_key
    ) -> Outcome:
        cursor = request.value("cursor")
        cut_list = page(member, entries, lambda entry: str(entry[key]), cursor, self._page_size, order=order)
        if cut_list is None:
            return request.invalid("params.cursor is not a cursor of this list")
        page_entries, following = cut_list
        result: dict[str, Any] = {member: list(page_entries), **_UNCACHED}
        return result if following is None else {**result, "nextCursor": following}


def _no_server(view: View, name: str) -> Refusal:
    servers = [
        server_name(source.id)
        for source in view.snapshot.sources
        if find_server(view, server_name(source.id))
    ]
    message = f"this workspace has no server {name[:200]}"
    step = f"use the name of a server in the address: {', '.join(servers[:MAX_NAMED]) or 'there is none'}"
    return Refusal(Reason.TOOL_NOT_FOUND, message, step, "no", details={"servers": servers[:MAX_NAMED]})


def _reader(request: McpRequest) -> Reader:
    header = request.header
    folder = headers.decode_value(header.get(headers.FOLDER, "")) or ""
    own = client_traits.decode(header.get(headers.OWN_FILES, ""))
    return Reader(traits_of(header), own, mode_of(header, request.query), folder)


def _fault_error(request: McpRequest, fault: Exception) -> Rejection:
    if isinstance(fault, msgspec.DecodeError):
        return request.invalid(f"params cannot be read: {fault}")
    log.fault("method_failed", fault, method=request.method)
    text = "the workspace server failed; its log says why"
    return Rejection(500, jsonrpc.INTERNAL_ERROR, text, request.id)


# An iteration begins when the loop learns which connections have data to read. All requests that are read in
# it were sent before, so a value found during the iteration is new enough for each of them. Only for clients
# that send one request at a time on a connection, as the manager does.

T = TypeVar("T")


class LoopIterationCache(Generic[T]):
    """Finds a value once per iteration. Call it from the loop's read callbacks only, not from tasks.

    Args:
        find: finds the value, without waiting.
    """

    __slots__ = ("_find", "_found", "_is_found")

    def __init__(self, find: Callable[[], T]) -> None:
        self._find = find
        self._found: T | None = None
        self._is_found = False

    def get(self) -> T:
        """The value of this iteration."""
        if not self._is_found:
            self._found = self._find()
            self._is_found = True
            # runs before anything is read in the next iteration
            asyncio.get_running_loop().call_soon(self._clear)
        return self._found  # type: ignore[return-value]  # it is found

    def _clear(self) -> None:
        self._found = None
        self._is_found = False


def _promise_text_alone(definitions: Sequence[Mapping[str, Any]], view: View) -> Sequence[Mapping[str, Any]]:
    """The definitions for a client whose model sees the text of results and their structured content.

    Where the text says all (`OfferedTool.repeats_itself`), it gets the text alone, so that the definition
    must not promise structured content: clients refuse results that break this promise.
    """
    return [_without_output(tool) if _repeats_itself(view, tool["name"]) else tool for tool in definitions]


def _repeats_itself(view: View, name: str) -> bool:
    offered = view.get(name)
    return offered is not None and offered.repeats_itself


def _without_output(definition: Mapping[str, Any]) -> Mapping[str, Any]:
    return {key: value for key, value in definition.items() if key != "outputSchema"}
