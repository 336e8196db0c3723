"""Decides who answers a request: the manager itself, or the workspace server that it is forwarded to.

It handles session requests and stateless requests alike. `endpoints/session_requests.py` and
`endpoints/stateless.py` answer what only one of them has: initialize, server/discover, listen streams.
"""

from __future__ import annotations

from typing import Final

import msgspec

from lm_tools_bridge.protocol import jsonrpc, names
from lm_tools_bridge.protocol import skills_extension as skills
from lm_tools_bridge.protocol.errors import Reason, Refusal
from lm_tools_bridge.protocol.tasks_extension import METHODS as TASK_METHODS
from manager.answers import result_format, tasks
from manager.answers.call_origin import OBSERVED_METHODS, observed_reply
from manager.answers.call_tool import is_explicit, unwrap
from manager.answers.exchange import Exchange, Located, Plain, Reply, Unlocated
from manager.answers.handshake import Handshakes
from manager.answers.listing.lists import LIST_METHODS, Lists, own_list
from manager.answers.own_resources import read_own
from manager.answers.roots import RootsRequests
from manager.answers.sub_agents import tell_callers_apart
from manager.answers.upstream_request import PreparedCall
from manager.answers.workspace_lookup import (
    look_up_by_paths,
    look_up_cached,
    look_up_workspace,
    workspace_not_set,
)
from manager.forwarding.forward import Forwarder
from manager.supervision.workspaces import Workspaces

KNOWN_METHODS: Final = (
    LIST_METHODS | frozenset(names.NAMED_PARAM) | {names.COMPLETE, skills.GET, skills.READ_DIRECTORY}
)

_NO_ARGUMENTS: Final = msgspec.Raw(b"{}")
DIRECT: Final = frozenset({names.TOOLS_CALL, names.PROMPTS_GET, names.COMPLETE})
"""Methods that are forwarded unchanged once the workspace is known, at every URL."""


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
        asked = None if is_explicit(exchange) else self._roots.input_required(exchange)
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
            return result_format.refuse(exchange, located)
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
        call = unwrap(exchange)
        if isinstance(call, Refusal):
            return result_format.refuse(exchange, call)
        located = await look_up_workspace(self.workspaces, call.claims)
        if isinstance(located, Refusal):
            return result_format.refuse(exchange, located)
        if located == Unlocated():
            located = await look_up_by_paths(self.workspaces, call.params["arguments"]) or located
        if isinstance(located, Located) and not call.claims.names_workspace():
            located = await tell_callers_apart(self.workspaces, exchange, located, call.params["arguments"])
        if isinstance(located, Refusal):
            return result_format.refuse(exchange, located)
        exchange.decided(located)
        if isinstance(located, Unlocated):
            return self._without_workspace(exchange, located)
        return await self.forward(exchange, located, call.params)

    async def _task_method(self, exchange: Exchange) -> Reply:
        """The reply to a task method of MCP 2026-07-28; tasks of 2025-11-25 are a different protocol."""
        if not exchange.is_modern:
            return result_format.method_not_found(exchange)
        claimed = await look_up_workspace(self.workspaces, exchange.claims)
        located = tasks.owner(exchange, self.workspaces, claimed) or claimed
        if isinstance(located, Refusal):
            return result_format.refuse(exchange, located)
        exchange.decided(located)
        if isinstance(located, Located):
            return await self.forward(exchange, located)
        return tasks.unknown(exchange)

    async def _at_shared_url(self, exchange: Exchange, located: Located | Unlocated) -> Reply:
        bound = located if isinstance(located, Located) else None
        method = exchange.message.method
        if method == names.RESOURCES_READ and (own := read_own(exchange, bound, self.workspaces)):
            return own
        if isinstance(located, Unlocated):
            return self._without_workspace(exchange, located)
        if method in LIST_METHODS:
            merged = await self._lists.merged(exchange, located)
            return result_format.refuse(exchange, merged) if isinstance(merged, Refusal) else merged
        return await self.forward(exchange, located)

    def _without_workspace(self, exchange: Exchange, located: Unlocated) -> Plain:
        method = exchange.message.method
        if method in LIST_METHODS:
            reply = own_list(exchange, located.problem)
        elif exchange.is_modern and method not in KNOWN_METHODS:
            return result_format.method_not_found(exchange)
        else:
            reply = result_format.refuse(exchange, workspace_not_set(located))
        return reply

    async def forward(
        self, exchange: Exchange, located: Located, params: dict[str, msgspec.Raw] | None = None
    ) -> Reply:
        """Send the request to its workspace server, with the given parameters if a call was unwrapped."""
        return await PreparedCall(self.forwarder, exchange, located, params).reply()

    def prepare(self, exchange: Exchange) -> PreparedCall | None:
        """Prepare a request that is forwarded unchanged to a workspace that is known from memory.

        Returns:
            None if `answer` has to be called instead: something must be read, asked or answered here.
        """
        inbound = exchange.inbound
        if exchange.message.method not in DIRECT or "requestState" in inbound.params:
            return None
        if exchange.wants_roots or exchange.has_sub_agents:
            return None
        if exchange.is_tool_call and inbound.name in names.MANAGER_TOOL_NAMES:
            return None
        located = look_up_cached(self.workspaces, exchange.claims)
        if located is None:
            return None
        exchange.decided(located)
        return PreparedCall(self.forwarder, exchange, located)


def unknown_workspace(identity: str, known: list[str]) -> Refusal:
    """The refusal for a `/w/{workspace_id}/…` path that names no known workspace."""
    return Refusal(
        Reason.WORKSPACE_NOT_MATCHED,
        f"workspace not matched: {identity[:200]}",
        f"get the id from {names.HANDSHAKE}, or use /mcp?cwd=<absolute path>",
        details={"workspace": identity[:200], "known": known[:10]},
    )
