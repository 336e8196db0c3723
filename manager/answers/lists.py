"""Answers list requests at `/mcp`: the manager's own entries first, then those of the bound workspace.

The bytes of a workspace's definitions are passed on unchanged. At a workspace's own URL, the workspace
server's list is forwarded instead.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from lm_tools_bridge.protocol import apps_extension, jsonrpc, names
from lm_tools_bridge.protocol import skills_extension as skills
from lm_tools_bridge.protocol.errors import Refusal
from manager.answers import replies
from manager.answers.catalog import Catalog
from manager.answers.exchange import Exchange, Located
from manager.answers.list_adaptation import ListAdaptation
from manager.answers.replies import Plain
from manager.answers.upstream_request import upstream_request
from manager.configuration.settings import Settings
from manager.forwarding.answer import COLLECTED, Answer, response_of
from manager.forwarding.forward import Forwarder
from manager.routing.discovery import (
    CALL_TOOL,
    MANAGER_RESOURCES,
    MANAGER_TEMPLATES,
    MANAGER_TOOLS,
    make_issue,
    usable_entries,
)
from manager.routing.legacy_result import convert_definitions
from manager.routing.resolution import issues_of

_OWN: Final[Mapping[str, tuple[str, Sequence[Mapping[str, Any]]]]] = {
    names.TOOLS_LIST: ("tools", MANAGER_TOOLS),
    names.RESOURCES_LIST: ("resources", MANAGER_RESOURCES),
    names.TEMPLATES_LIST: ("resourceTemplates", MANAGER_TEMPLATES),
    names.PROMPTS_LIST: ("prompts", ()),
    skills.LIST: ("skills", ()),
}
LIST_METHODS: Final = frozenset(_OWN)
_DEMANDED: Final[Mapping[str, Any]] = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
"""Members without which clients refuse a list of MCP 2026-07-28."""


def own_list(exchange: Exchange, problem: Refusal | None = None) -> Plain:
    """The manager's own list, for clients without a workspace; the problem that they have is its issue."""
    member, entries = _own_entries(exchange)
    remember_shown(exchange, [])
    value: dict[str, Any] = {member: list(entries) if _is_first_page(exchange) else []}
    issues = issues_of(exchange.claims)
    if problem is not None:
        issues.append(make_issue("WORKSPACE_NOT_FOUND", details=problem.text))
    if issues:
        value["_meta"] = {names.META_ISSUES: [issue.as_json() for issue in issues]}
    return Plain(replies.result(exchange, value))


def _own_entries(exchange: Exchange) -> tuple[str, Sequence[Mapping[str, Any]]]:
    """The member of the list, and the manager's own entries under names that the client takes."""
    member, entries = _OWN[exchange.message.method]
    if exchange.has_plain_names:
        entries = [{**tool, "name": names.PLAIN[tool["name"]]} for tool in entries]
    return member, entries


def _is_first_page(exchange: Exchange) -> bool:
    """Whether the list begins here; a client adds later pages to it, so that they must repeat nothing."""
    return "cursor" not in exchange.params


def remember_shown(exchange: Exchange, entries: Sequence[bytes]) -> None:
    """Note which tools the session was shown last, so that a handshake knows whether they changed."""
    if exchange.session is not None and exchange.message.method == names.TOOLS_LIST:
        exchange.session.shown = fingerprint(entries)


def fingerprint(entries: Sequence[bytes]) -> bytes:
    """A short digest of a list of definitions."""
    return hashlib.sha256(b"\n".join(entries)).digest()[:16]


class Lists:
    """Merges a workspace's lists into the manager's."""

    def __init__(
        self, forwarder: Forwarder, catalog: Catalog, settings: Settings, adaptation: ListAdaptation
    ) -> None:
        self._forwarder = forwarder
        self._catalog = catalog
        self._adaptation = adaptation
        self._limit = settings.response_limit
        self.before_list: Callable[[Located], Awaitable[Refusal | None]] | None = None
        """Called before a session gets a list, so that it hears of later changes. A refusal is the answer."""

    async def merged(self, exchange: Exchange, located: Located) -> Plain | Refusal:
        """The manager's entries, then the workspace's in its order.

        If the workspace fails, an issue stands in their place; a later page is refused.
        """
        answer = await self.request(exchange, located)
        body = answer if isinstance(answer, Refusal) else await response_of(answer, self._limit)
        if isinstance(body, Refusal):
            if not _is_first_page(exchange):
                return body
            return self._without_workspace(exchange, located, body.message)
        message = jsonrpc.members_of(body)
        if "error" in message:
            if not _is_first_page(exchange):
                return Plain(body)
            return self._without_workspace(exchange, located, "the workspace server refused the list")
        return self._merge(exchange, jsonrpc.members_of(message.get("result", b"{}")))

    async def alone(self, exchange: Exchange, located: Located) -> Answer | Plain | Refusal:
        """The workspace's own list, for stateless clients with the members that a registered server left out.

        That concerns JSON of a usual size; larger lists and events are passed on. A client whose agents leave
        the folder of its address also gets `callTool`: only with it can they say in which folder they are.
        """
        answer = await self.request(exchange, located)
        if isinstance(answer, Refusal):
            return answer
        if exchange.message.method == names.TOOLS_LIST and self._adaptation.offers_call_tool(exchange):
            return await self._with_call_tool(exchange, answer)
        if not exchange.is_modern:
            return answer
        if not answer.is_json or not 0 < (answer.length or 0) <= COLLECTED:
            return answer
        body = await response_of(answer, self._limit)
        if isinstance(body, Refusal):
            return body
        result = jsonrpc.members_of(jsonrpc.members_of(body).get("result", b""))
        if not result or result.keys() >= _DEMANDED.keys():
            return Plain(body, answer.status)
        return Plain(jsonrpc.result(exchange.message.id, {**_DEMANDED, **result}))

    async def _with_call_tool(self, exchange: Exchange, answer: Answer) -> Plain | Refusal:
        body = await response_of(answer, self._limit)
        if isinstance(body, Refusal):
            return body
        result = jsonrpc.members_of(jsonrpc.members_of(body).get("result", b""))
        if "tools" not in result:
            return Plain(body, answer.status)
        tools = msgspec.json.decode(result["tools"], type=list[msgspec.Raw])
        own = [CALL_TOOL] if _is_first_page(exchange) else []
        value = {**result, "tools": [*_allowed(exchange, tools), *own]}
        if exchange.is_modern:
            return Plain(jsonrpc.result(exchange.message.id, {**_DEMANDED, **value}))
        return Plain(replies.result(exchange, value))

    async def request(self, exchange: Exchange, located: Located) -> Answer | Refusal:
        """Forward a list request, with the time that it may wait for sources that are starting."""
        session = exchange.session
        if session is not None and self.before_list is not None:
            refusal = await self.before_list(located)
            if refusal is not None:
                located.workspace.supervisor.figures.failed(refusal)
                return refusal
            if exchange.message.method == names.TOOLS_LIST:
                session.tools_changed = False
        adapted = await self._adaptation.headers(exchange, located.workspace)
        outgoing = upstream_request(exchange)
        outgoing = replace(outgoing, headers=(*outgoing.headers, *adapted))
        return await self._forwarder.send(located.workspace, outgoing)

    def _merge(self, exchange: Exchange, result: Mapping[str, msgspec.Raw]) -> Plain:
        member, own = _own_entries(exchange)
        theirs: list[msgspec.Raw] = []
        if member in result and jsonrpc.bytes_of(result[member])[:1] == b"[":
            theirs = msgspec.json.decode(result[member], type=list[msgspec.Raw])
        if exchange.message.method == names.TOOLS_LIST:
            theirs = [entry.raw for entry in usable_entries(theirs)[0]]
        elif exchange.message.method == names.TEMPLATES_LIST:
            theirs = _without_duplicates(theirs, {template["uriTemplate"] for template in own})
        remember_shown(exchange, [jsonrpc.bytes_of(raw) for raw in theirs if not _is_app_only(raw)])
        theirs = _allowed(exchange, theirs)
        first = list(own) if _is_first_page(exchange) else []
        value = {**result, **_with_issues(exchange, result), member: [*first, *theirs]}
        return Plain(replies.result(exchange, value))

    def _without_workspace(self, exchange: Exchange, located: Located, why: str) -> Plain:
        member, own = _own_entries(exchange)
        theirs: list[msgspec.Raw] = []
        if exchange.message.method == names.TOOLS_LIST:
            last = self._catalog.last_known(located.workspace, self._adaptation.traits_header(exchange))
            theirs = _allowed(exchange, [entry.raw for entry in last])
        problem = make_issue("TOOLS_LIST_FETCH_FAILED", details=why)
        issues = [issue.as_json() for issue in (problem, *issues_of(exchange.claims))]
        value = {member: [*own, *theirs], "_meta": {names.META_ISSUES: issues}}
        if exchange.session is not None:
            exchange.session.unannounced = True
        return Plain(replies.result(exchange, value))


def _is_app_only(definition: msgspec.Raw) -> bool:
    """Whether only apps call a tool. A handshake, whose answer is for models, does not know it."""
    if b'"visibility"' not in jsonrpc.bytes_of(definition):
        return False
    try:
        ui = apps_extension.tool_ui(msgspec.json.decode(definition, type=dict[str, Any]))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return ui is not None and ui.is_app_only


def _with_issues(exchange: Exchange, result: Mapping[str, msgspec.Raw]) -> dict[str, Any]:
    """The list's `_meta` with the issues that the request has itself; nothing if it has none."""
    issues = [issue.as_json() for issue in issues_of(exchange.claims)]
    if not issues:
        return {}
    meta = jsonrpc.members_of(result.get("_meta", b"{}"))
    theirs = msgspec.json.decode(meta.get(names.META_ISSUES, b"[]"))
    return {"_meta": {**meta, names.META_ISSUES: [*issues, *(theirs if isinstance(theirs, list) else [])]}}


def _allowed(exchange: Exchange, entries: list[msgspec.Raw]) -> list[msgspec.Raw]:
    """The entries in the form that the client's protocol revision allows."""
    if exchange.is_modern or exchange.message.method != names.TOOLS_LIST:
        return entries
    return convert_definitions(entries)


def _without_duplicates(entries: list[msgspec.Raw], taken_templates: set[str]) -> list[msgspec.Raw]:
    """The templates whose `uriTemplate` is not taken; `taken_templates` is extended."""
    kept_entries = []
    for raw in entries:
        template = jsonrpc.members_of(raw).get("uriTemplate", msgspec.Raw(b"null"))
        text = jsonrpc.text_of(template) or ""
        if text not in taken_templates:
            taken_templates.add(text)
            kept_entries.append(raw)
    return kept_entries
