"""Asks workspace servers for their tool lists, schemas and `server/discover` results; keeps the last lists.

If a server fails, its last list is shown with an issue, so that tools do not vanish silently.
`routing/discovery.py` interprets the lists.

A client at the URL of a workspace sees that server's capabilities, instructions and identity, in its
`initialize` or `server/discover` result. At `/mcp` without a workspace, or if the server does not answer in
time, the manager gives its own.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias
from urllib.parse import quote

import msgspec

from lm_tools_bridge.protocol import jsonrpc, names
from lm_tools_bridge.protocol import tasks_extension as tasks
from lm_tools_bridge.protocol.errors import Refusal
from lm_tools_bridge.protocol.issues import Issue, issues_from
from manager.answers import replies
from manager.answers.exchange import Exchange, Located, Unlocated
from manager.answers.list_adaptation import ListAdaptation
from manager.answers.upstream_request import address_headers, manager_request
from manager.answers.workspace_lookup import look_up_workspace
from manager.configuration.settings import Settings
from manager.forwarding.answer import response_of
from manager.forwarding.forward import Forwarder
from manager.routing import discovery
from manager.routing.discovery import Entry, host_mark
from manager.routing.remote_address import split_root
from manager.supervision.instance import Instance
from manager.supervision.workspace import Workspace
from manager.supervision.workspaces import Workspaces

MAX_PAGES: Final = 50
"""Pages of a list that are read. Our servers put 1,000 tools on one; a registered server may give new cursors
for ever."""
SCHEMA_READS: Final = 8
"""Schemas that are read at a time. Each takes a connection to a registered server, and leaves the others to
calls of its clients."""
SCHEMA_DEADLINE_S: Final = 5.0
"""Seconds that all schemas of a handshake may take together. The clients that were measured wait 60 s for a
call, in which the server also has to start; a tool without its schema can still be called."""

_Headers: TypeAlias = tuple[tuple[bytes, bytes], ...]


class Listing(msgspec.Struct):
    """A workspace's tool list; `failure` tells why it is the last known list instead of the current one."""

    entries: list[Entry] = msgspec.field(default_factory=list)
    issues: list[Issue] = msgspec.field(default_factory=list)
    failure: Issue | None = None


class Failure(msgspec.Struct, frozen=True):
    """A request without a result: the transport failed, or the response was an error."""

    details: str
    is_error_answer: bool


class Catalog:
    """Requests lists and schemas from workspace servers."""

    def __init__(self, forwarder: Forwarder, settings: Settings) -> None:
        self._forwarder = forwarder
        self._limit = settings.response_limit
        self._ids = itertools.count(1)
        self._last: dict[tuple[str, _Headers], list[Entry]] = {}

    async def ask(
        self,
        workspace: Workspace,
        method: str,
        params: Mapping[str, Any],
        on_behalf: Sequence[tuple[bytes, bytes]] = (),
    ) -> Mapping[str, msgspec.Raw] | Failure:
        """Send a request of the manager's own.

        Args:
            workspace: whose server is asked.
            method: the MCP method.
            params: its parameters.
            on_behalf: headers for what the client at that address is shown, and how long it waits.

        Returns:
            The members of the result, or why there is none.
        """
        request = manager_request(method, params, f"manager-{next(self._ids)}", on_behalf)
        answer = await self._forwarder.send(workspace, request)
        body = answer if isinstance(answer, Refusal) else await response_of(answer, self._limit)
        if isinstance(body, Refusal):
            return Failure(body.message, is_error_answer=False)
        members = jsonrpc.members_of(body)
        if not members:
            return Failure("the answer is not JSON", is_error_answer=False)
        if "error" in members:
            text = jsonrpc.members_of(members["error"]).get("message", msgspec.Raw(b'"error"'))
            return Failure(jsonrpc.text_of(text) or "error", is_error_answer=True)
        result = members.get("result", msgspec.Raw(b"null"))
        if jsonrpc.bytes_of(result)[:1] != b"{":
            return Failure("the result is no object", is_error_answer=True)
        return jsonrpc.members_of(result)

    async def tools(self, workspace: Workspace, traits: _Headers = ()) -> Listing:
        """The complete tool list, over all pages; after a failure the last known list, with an issue.

        Args:
            workspace: whose server is asked.
            traits: the header that tells what is special about the client, which the list depends on.
        """
        raws: list[msgspec.Raw] = []
        issues: list[Issue] = []
        cursor: str | None = None
        seen: set[str] = set()
        for _ in range(MAX_PAGES):
            params = {} if cursor is None else {"cursor": cursor}
            page = await self.ask(workspace, names.TOOLS_LIST, params, traits)
            failure = self._page_failure(page)
            if failure is not None or isinstance(page, Failure):
                return Listing(self.last_known(workspace, traits), [], failure)
            raws += msgspec.json.decode(page["tools"], type=list[msgspec.Raw])
            issues += issues_from(_issues_in(page))
            cursor = jsonrpc.text_of(page["nextCursor"]) if "nextCursor" in page else None
            if cursor is None or cursor in seen:
                break
            seen.add(cursor)
        entries, dropped = discovery.usable_entries(raws)
        self._last[workspace.id, traits] = entries
        return Listing(entries, [*dropped, *dict.fromkeys(issues)])

    def last_known(self, workspace: Workspace, traits: _Headers) -> list[Entry]:
        """The tools of the last list for clients with these traits that was read completely."""
        return self._last.get((workspace.id, traits), [])

    async def discovery(
        self, workspace: Workspace, instance: Instance, traits: _Headers = ()
    ) -> tuple[dict[str, Any], list[Entry]]:
        """The discovery payload of a workspace for clients with these traits, and the tools it describes."""
        listing = await self.tools(workspace, traits)
        issues = [*listing.issues, *([listing.failure] if listing.failure else [])]
        gate = asyncio.Semaphore(SCHEMA_READS)
        deadline = asyncio.get_running_loop().time() + SCHEMA_DEADLINE_S

        async def one(entry: Entry) -> tuple[dict[str, str], Issue | None]:
            schema = discovery.schema_in_list(entry)
            problem: Issue | None = None
            if instance.owner == "external" and not (schema or {}).get("properties"):
                schema, problem = await self._read_schema(workspace, entry.name, gate, deadline)
            elif schema is None:
                problem = discovery.make_issue("SCHEMA_INPUT_MISSING", entry.name)
            return discovery.bridged_tool(entry, schema), problem

        described = await asyncio.gather(*(one(entry) for entry in listing.entries))
        issues += [problem for _, problem in described if problem is not None]
        return discovery.discovery_payload([tool for tool, _ in described], issues), listing.entries

    async def _read_schema(
        self, workspace: Workspace, name: str, gate: asyncio.Semaphore, deadline: float
    ) -> tuple[Mapping[str, Any] | None, Issue | None]:
        """Read one tool's schema resource. All reads of a discovery share one deadline."""
        uri = names.URI_SCHEMA + quote(name, safe="")
        try:
            async with asyncio.timeout_at(deadline), gate:
                result = await self.ask(workspace, names.RESOURCES_READ, {"uri": uri})
        except TimeoutError:
            return None, discovery.make_issue("SCHEMA_READ_REQUEST_FAILED", name, "no answer in time")
        if isinstance(result, Failure):
            code = "SCHEMA_READ_RPC_ERROR" if result.is_error_answer else "SCHEMA_READ_REQUEST_FAILED"
            return None, discovery.make_issue(code, name, result.details)
        try:
            content = msgspec.json.decode(result["contents"]) if "contents" in result else None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:  # the members were not parsed before
            return None, discovery.make_issue("SCHEMA_READ_UNEXPECTED_ERROR", name, str(error))
        schema, code_or_none = discovery.read_schema(content)
        return schema, None if code_or_none is None else discovery.make_issue(code_or_none, name)

    def _page_failure(self, page: Mapping[str, msgspec.Raw] | Failure) -> Issue | None:
        if isinstance(page, Failure):
            code = "TOOLS_LIST_INVALID_RESULT" if page.is_error_answer else "TOOLS_LIST_FETCH_FAILED"
            return discovery.make_issue(code, details=page.details)
        if "tools" not in page or jsonrpc.bytes_of(page["tools"])[:1] != b"[":
            return discovery.make_issue("TOOLS_LIST_INVALID_RESULT", details="tools is no array")
        return None


def _issues_in(page: Mapping[str, msgspec.Raw]) -> object:
    meta = jsonrpc.members_of(page["_meta"]) if "_meta" in page else {}
    try:
        return msgspec.json.decode(meta[names.META_ISSUES]) if names.META_ISSUES in meta else None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


WAIT_S: Final = 8.0
"""Seconds to wait for a workspace server that is starting; clients give up after 10 s."""
_CODEX: Final[Mapping[str, Any]] = {names.CODEX_SANDBOX: {}}
_NOTHING: Final = msgspec.Raw(b"{}")
_OURS: Final = jsonrpc.raw(names.WORKSPACE_SERVER)

DiscoverResult = Mapping[str, msgspec.Raw]
"""The members of a `server/discover` result."""


class ServerDiscover:
    """Requests `server/discover` from workspace servers. Nothing is cached."""

    def __init__(self, workspaces: Workspaces, catalog: Catalog, adaptation: ListAdaptation) -> None:
        self._workspaces = workspaces
        self._catalog = catalog
        self._adaptation = adaptation

    async def result(self, exchange: Exchange) -> DiscoverResult | None:
        """The result of the workspace server at this URL; None if the manager has to give its own."""
        located = await look_up_workspace(self._workspaces, exchange.claims)
        if not isinstance(located, Located):
            exchange.decided(Unlocated())
            return None
        exchange.decided(located)
        if not located.is_pure:
            return None
        try:
            async with asyncio.timeout(WAIT_S):
                adapted = await self._adaptation.discover_headers(exchange, located.workspace)
                on_behalf = [*address_headers(exchange), *adapted]
                result = await self._catalog.ask(located.workspace, names.DISCOVER, {}, on_behalf)
        except TimeoutError:
            return None
        if isinstance(result, Failure) or "capabilities" not in result:
            return None
        place = split_root(located.workspace.root)
        return result if place is None else _marked(result, host_mark(place))


def _marked(result: DiscoverResult, mark: str) -> DiscoverResult:
    """The result with instructions that begin with the mark of another host."""
    own = jsonrpc.text_of(result["instructions"]) if "instructions" in result else None
    return {**result, "instructions": jsonrpc.raw(f"{mark}\n\n{own}" if own else mark)}


def initialize_result(revision: str, discovered: DiscoverResult) -> dict[str, Any]:
    """Translate a `server/discover` result into the `initialize` result of a session of this revision."""
    meta = jsonrpc.members_of(discovered.get("_meta", _NOTHING))
    server = jsonrpc.members_of(meta.get(names.META_SERVER, _NOTHING)) or replies.SERVER_INFO
    capabilities = legacy_capabilities(discovered["capabilities"])
    if server.get("name") == _OURS:
        own = jsonrpc.members_of(capabilities.get("experimental", _NOTHING))
        capabilities["experimental"] = {**own, **_CODEX}
    result = {"protocolVersion": revision, "capabilities": capabilities, "serverInfo": server}
    return {**result, "instructions": discovered["instructions"]} if "instructions" in discovered else result


def legacy_capabilities(capabilities: msgspec.Raw) -> dict[str, Any]:
    """The capabilities without the tasks extension (SEP-2663), which session clients do not have."""
    members: dict[str, Any] = dict(jsonrpc.members_of(capabilities))
    extensions = jsonrpc.members_of(members.get("extensions", _NOTHING))
    if tasks.EXTENSION in extensions:
        members["extensions"] = {name: raw for name, raw in extensions.items() if name != tasks.EXTENSION}
    return members
