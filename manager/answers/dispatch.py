"""Decides who answers a request: the manager itself, or the workspace server that it is forwarded to.

It handles session requests and stateless requests alike. `endpoints/session_requests.py` and
`endpoints/stateless.py` answer what only one of them has: initialize, server/discover, listen streams.

`lmToolsBridge.callTool` is unwrapped into the call of the tool that its arguments name. The ids of tasks name
their workspace (SEP-2663).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from lm_tools_bridge.protocol import jsonrpc, names
from lm_tools_bridge.protocol import skills_extension as skills
from lm_tools_bridge.protocol import tasks_extension as tasks
from lm_tools_bridge.protocol.errors import Reason, Refusal
from lm_tools_bridge.protocol.tasks_extension import METHODS as TASK_METHODS
from manager.answers import replies
from manager.answers.exchange import OBSERVED_METHODS, Exchange, Located, Unlocated
from manager.answers.handshake import Handshakes, read_own
from manager.answers.lists import LIST_METHODS, Lists, own_list
from manager.answers.replies import Plain, Reply, observed_reply
from manager.answers.roots import RootsRequests
from manager.answers.upstream_request import PreparedCall
from manager.answers.workspace_lookup import (
    look_up_by_paths,
    look_up_workspace,
    tell_callers_apart,
    workspace_not_set,
)
from manager.forwarding.forward import Forwarder
from manager.routing.resolution import Claims, WorkspaceSource
from manager.supervision.workspaces import Workspaces


class Unwrapped(msgspec.Struct, frozen=True):
    """The wrapped call: parameters of the `tools/call`, and claims that include `workspace` and `cwd`."""

    params: dict[str, msgspec.Raw]
    claims: Claims


def unwrap_call(exchange: Exchange) -> Unwrapped | Refusal:
    """Read the wrapped call. All parameters but `name` and `arguments` are kept unchanged."""
    arguments = jsonrpc.members_of(exchange.params.get("arguments", b"{}"))
    name = (jsonrpc.text_of(arguments["name"]) or "").strip() if "name" in arguments else ""
    if not name:
        return _invalid("expected name (string)")
    if name in names.MANAGER_TOOL_NAMES:
        return _invalid(f"tool name is not allowed: {name}")
    inner = arguments.get("arguments", msgspec.Raw(b"{}"))
    if jsonrpc.bytes_of(inner)[:1] != b"{":
        return _invalid("expected arguments (object)")
    workspace, cwd = _text(arguments, "workspace"), _text(arguments, "cwd")
    if isinstance(workspace, Refusal):
        return workspace
    if isinstance(cwd, Refusal):
        return cwd
    claims = replace(exchange.claims, argument_workspace=workspace, argument_cwd=cwd)
    return Unwrapped({**exchange.params, "name": jsonrpc.raw(name), "arguments": inner}, claims)


def names_workspace(exchange: Exchange) -> bool:
    """Whether this is a wrapped call whose arguments name the workspace, or are invalid."""
    if not (exchange.is_tool_call and exchange.inbound.name in names.CALL_TOOL_NAMES):
        return False
    call = unwrap_call(exchange)
    return isinstance(call, Refusal) or call.claims.names_workspace()


def _text(arguments: Mapping[str, msgspec.Raw], member: str) -> str | Refusal | None:
    if member not in arguments or jsonrpc.bytes_of(arguments[member]) == b"null":
        return None
    text = jsonrpc.text_of(arguments[member])
    if text is None:
        return _invalid(f"expected {member} (string)")
    return text if text.strip() else None


def _invalid(message: str) -> Refusal:
    return Refusal(
        Reason.INVALID_ARGUMENTS,
        message,
        "write the call as { name: string, arguments?: object, workspace?: string, cwd?: string }",
        delivered="no",
    )


def workspace_of_task(exchange: Exchange, workspaces: Workspaces, claimed: object) -> Located | None:
    """The workspace that the task id names; None if it names no known one.

    The id counts as an explicit claim, like an argument. Below `/w/` the URL decides instead, and the
    workspace server judges the id. A manager on another host names the workspace as it is known there.

    Args:
        claimed: the workspace that the request names otherwise (`Located`), if any.
    """
    named = tasks.workspace_of(exchange.inbound.name or "")
    if named is None or exchange.claims.path is not None:
        return None
    if isinstance(claimed, Located) and (remote := claimed.workspace.remote) and remote.far_id == named:
        return claimed
    found = workspaces.get(named) or workspaces.remote_hosts.with_far_id(named)
    return None if found is None else Located(found, WorkspaceSource.ARGUMENT)


def refuse_unknown_task(exchange: Exchange) -> Plain:
    """The reply if no workspace is known, so that the task cannot exist."""
    rejection = tasks.unknown_task(exchange.message.id, exchange.inbound.name or "")
    return refuse_undeclared_tasks(exchange, exchange.message.method) or Plain(
        rejection.body(), rejection.status
    )


def refuse_undeclared_tasks(exchange: Exchange, what: str) -> Plain | None:
    """The error for a request that does not declare the tasks extension; None if it does."""
    if tasks.is_declared(msgspec.json.decode(exchange.inbound.meta[names.META_CAPABILITIES])):
        return None
    rejection = tasks.missing_capability(exchange.message.id, what)
    return Plain(rejection.body(), rejection.status)


KNOWN_METHODS: Final = (
    LIST_METHODS | frozenset(names.NAMED_PARAM) | {names.COMPLETE, skills.GET, skills.READ_DIRECTORY}
)

_NO_ARGUMENTS: Final = msgspec.Raw(b"{}")


class Dispatch:
    """Routes requests to the manager's own answers or to workspace servers."""

    def __init__(
        self,
        workspaces: Workspaces,
        forwarder: Forwarder,
        lists: Lists,
        handshakes: Handshakes,
        roots: RootsRequests,
    ) -> None:
        self.workspaces = workspaces
        self.forwarder = forwarder
        self._lists = lists
        self._handshakes = handshakes
        self._roots = roots

    async def answer(self, exchange: Exchange) -> Reply:
        """The reply to a request of either era. The observer is told of calls answered here."""
        reply = await self._answer(exchange)
        if self.forwarder.is_observed and exchange.message.method in OBSERVED_METHODS:
            return observed_reply(self.forwarder.admission.observe_call, exchange, reply)
        return reply

    async def _answer(self, exchange: Exchange) -> Reply:
        accepted = self._roots.accept_answer(exchange)
        if isinstance(accepted, Plain):
            return accepted
        exchange = accepted
        asked = None if names_workspace(exchange) else self._roots.input_required(exchange)
        if asked is not None:
            exchange.decided(Unlocated())
            return asked
        if exchange.is_tool_call and exchange.inbound.name in names.HANDSHAKE_NAMES:
            return await self.handshake(exchange, jsonrpc.members_of(exchange.params.get("arguments", b"{}")))
        if exchange.is_tool_call and exchange.inbound.name in names.CALL_TOOL_NAMES:
            return await self._call_tool(exchange)
        if exchange.message.method in TASK_METHODS:
            return await self._task_method(exchange)
        located = await look_up_workspace(self.workspaces, exchange.claims)
        if isinstance(located, Located) and exchange.is_tool_call and not exchange.claims.names_workspace():
            arguments = exchange.params.get("arguments", _NO_ARGUMENTS)
            located = await tell_callers_apart(self.workspaces, exchange, located, arguments)
        if isinstance(located, Refusal):
            return replies.refuse(exchange, located)
        exchange.decided(located)
        if isinstance(located, Located) and located.is_pure:
            if exchange.message.method in LIST_METHODS:
                listed = await self._lists.alone(exchange, located)
                if isinstance(listed, Plain):
                    return listed
                return PreparedCall(self.forwarder, exchange, located).reply_to(listed)
            return await self.forward(exchange, located)
        return await self._at_shared_url(exchange, located)

    async def handshake(
        self, exchange: Exchange, arguments: dict[str, msgspec.Raw], *, bare: bool = False
    ) -> Reply:
        """The reply to a handshake, called as a tool or as a bare method."""
        exchange.decided(Unlocated())
        cwd = jsonrpc.text_of(arguments["cwd"]) if "cwd" in arguments else None
        return await self._handshakes.answer(exchange, cwd, bare=bare)

    async def _call_tool(self, exchange: Exchange) -> Reply:
        exchange.decided(Unlocated())
        call = unwrap_call(exchange)
        if isinstance(call, Refusal):
            return replies.refuse(exchange, call)
        located = await look_up_workspace(self.workspaces, call.claims)
        if isinstance(located, Refusal):
            return replies.refuse(exchange, located)
        if located == Unlocated():
            located = await look_up_by_paths(self.workspaces, call.params["arguments"]) or located
        if isinstance(located, Located) and not call.claims.names_workspace():
            located = await tell_callers_apart(self.workspaces, exchange, located, call.params["arguments"])
        if isinstance(located, Refusal):
            return replies.refuse(exchange, located)
        exchange.decided(located)
        if isinstance(located, Unlocated):
            return self._without_workspace(exchange, located)
        return await self.forward(exchange, located, call.params)

    async def _task_method(self, exchange: Exchange) -> Reply:
        """The reply to a task method of MCP 2026-07-28; tasks of 2025-11-25 are a different protocol."""
        if not exchange.is_modern:
            return replies.method_not_found(exchange)
        claimed = await look_up_workspace(self.workspaces, exchange.claims)
        located = workspace_of_task(exchange, self.workspaces, claimed) or claimed
        if isinstance(located, Refusal):
            return replies.refuse(exchange, located)
        exchange.decided(located)
        if isinstance(located, Located):
            return await self.forward(exchange, located)
        return refuse_unknown_task(exchange)

    async def _at_shared_url(self, exchange: Exchange, located: Located | Unlocated) -> Reply:
        bound = located if isinstance(located, Located) else None
        method = exchange.message.method
        if method == names.RESOURCES_READ and (own := read_own(exchange, bound, self.workspaces)):
            return own
        if isinstance(located, Unlocated):
            return self._without_workspace(exchange, located)
        if method in LIST_METHODS:
            merged = await self._lists.merged(exchange, located)
            return replies.refuse(exchange, merged) if isinstance(merged, Refusal) else merged
        return await self.forward(exchange, located)

    def _without_workspace(self, exchange: Exchange, located: Unlocated) -> Plain:
        method = exchange.message.method
        if method in LIST_METHODS:
            reply = own_list(exchange, located.problem)
        elif exchange.is_modern and method not in KNOWN_METHODS:
            return replies.method_not_found(exchange)
        else:
            reply = replies.refuse(exchange, workspace_not_set(located))
        return reply

    async def forward(
        self, exchange: Exchange, located: Located, params: dict[str, msgspec.Raw] | None = None
    ) -> Reply:
        """Send the request to its workspace server, with the given parameters if a call was unwrapped."""
        return await PreparedCall(self.forwarder, exchange, located, params).reply()


def unknown_workspace(identity: str, known: list[str]) -> Refusal:
    """The refusal for a `/w/{workspace_id}/…` path that names no known workspace."""
    return Refusal(
        Reason.WORKSPACE_NOT_MATCHED,
        f"workspace not matched: {identity[:200]}",
        f"get the id from {names.HANDSHAKE}, or use /mcp?cwd=<absolute path>",
        details={"workspace": identity[:200], "known": known[:10]},
    )
