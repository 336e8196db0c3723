"""Serves `/team/{offer}` on the port: a stateless MCP endpoint for an offer of another member."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from manager.admin.request_body import read_body
from manager.http import lazy_aiohttp as web
from manager.routing.request_heads.admission import AdmissionRefusal
from manager.team.calls.caller import Calls, NoHost
from manager.team.calls.exposed_lists import ListedTool, listed_tools, marked
from manager.team.calls.exposure import METHODS, parameter
from manager.team.calls.remote_call import AnswerLost, Head, RemoteCall, Unknown
from manager.team.membership import Use
from protocol import jsonrpc, names, sse
from protocol.errors import Reason, Refusal

if TYPE_CHECKING:
    from manager.team.connection import Connection

BODY_S: Final = 30.0
CALL_S: Final = 600.0
"""Seconds that a call may take; the workspace's own limits for its servers are usually shorter."""
LIST_S: Final = 30.0
READY_S: Final = 3.0
"""Seconds that a call waits for the connection to the team."""
_TYPES: Final = ("application/json", "text/event-stream")
_BUSY: Final = frozenset({"full", "busy", "too_many", "draining"})
_LACKS: Final[Mapping[str, str]] = {
    "unknown": "no host of the team that you accepted offers it now",
    "dead": "none of its hosts is there",
    "gone": "its host has just left",
    "silent": "its hosts do not answer",
    "draining": "its hosts are shutting down",
    "full": "its hosts are busy",
    "busy": "its hosts are busy",
    "too_many": "too many calls are under way",
    "unknown_offer": "its host no longer offers it",
    "registry": "the registry of the team does not answer",
    "not_carried": "its host does not offer this method",
}


class Gateway:
    """The endpoints of the offers that this user uses."""

    def __init__(self, connection: Connection, calls: Calls, ready: asyncio.Event) -> None:
        """`ready` is set while the team can be reached."""
        self._connection = connection
        self._calls = calls
        self._ready = ready
        self._tools: dict[str, dict[str, ListedTool]] = {}

    async def serve(self, request: web.Request, use: Use) -> web.StreamResponse:
        """Answer a POST."""
        cap = int(self._connection.client.max_payload) - 8192 if self._connection.is_up else 1024 * 1024
        body = await read_body(request, cap, BODY_S)
        if isinstance(body, AdmissionRefusal):
            text = f"{body.reason}; a request to a member of the team has at most {cap} bytes"
            return _json(body.status, jsonrpc.error(None, jsonrpc.INVALID_REQUEST, text))
        message = jsonrpc.parse(body)
        if isinstance(message, jsonrpc.Malformed):
            return _json(400, jsonrpc.error(message.id, message.code, message.message))
        if not isinstance(message, jsonrpc.Request):
            return web.Response(status=202)
        if message.method not in METHODS:
            text = f"{message.method[:100]} is not carried between members of a team"
            return _json(404, jsonrpc.error(message.id, jsonrpc.METHOD_NOT_FOUND, text))
        if not await self._is_ready():
            return _refusal(message, Reason.SOURCE_UNAVAILABLE, "the team cannot be reached", "no")
        return await self._forward(request, message, use)

    async def _is_ready(self) -> bool:
        """Whether the team can be reached; after the start and after a short loss this waits for it."""
        try:
            async with asyncio.timeout(READY_S):
                await self._ready.wait()
        except TimeoutError:
            return False
        return self._connection.is_up

    async def _forward(self, request: web.Request, message: jsonrpc.Request, use: Use) -> web.StreamResponse:
        is_call = message.method == names.TOOLS_CALL
        tool = self._tools.get(use.offer, {}).get(parameter(message, "name")) if is_call else None
        may_repeat = not is_call or (tool is not None and tool.may_repeat)
        deadline_s = CALL_S if is_call else LIST_S
        client = self._connection.client
        async with self._calls.call(
            client, use, message.body, may_repeat=may_repeat, deadline_s=deadline_s
        ) as answer:
            if isinstance(answer, NoHost):
                return _no_host(message, use, answer.reason)
            if isinstance(answer, Unknown):
                return _lost(message, use, answer.reason)
            call, head = answer
            if message.method == names.TOOLS_LIST:
                return await self._list(message, use, call)
            return await _relay(request, message, use, call, head)

    async def _list(self, message: jsonrpc.Request, use: Use, call: RemoteCall) -> web.Response:
        body = bytearray()
        try:
            async for chunk in call.body():
                body += chunk
        except AnswerLost as lost:
            return _lost(message, use, str(lost))
        if message.method == names.TOOLS_LIST and (tools := listed_tools(bytes(body))) is not None:
            known = self._tools.setdefault(use.offer, {})
            if b'"cursor"' not in message.params:
                known.clear()
            known.update(tools)
        return _json(200, marked(message.method, bytes(body), call.host, use.offer))


async def _relay(
    request: web.Request, message: jsonrpc.Request, use: Use, call: RemoteCall, head: Head
) -> web.StreamResponse:
    """Pass the answer on as it arrives. One that breaks off is not ended: nobody takes it for whole."""
    if head.content_type not in _TYPES:
        return _lost(message, use, "the host answered with something else than MCP")
    headers = {"Content-Type": head.content_type, "Cache-Control": "no-store", "X-Team-Host": call.host}
    response = web.StreamResponse(status=head.status, headers=headers)
    await response.prepare(request)
    try:
        async for chunk in call.body():
            await response.write(chunk)
    except AnswerLost as lost:
        refusal = _lost_refusal(use, str(lost)).as_error(message.id)
        if head.content_type == "text/event-stream":
            await response.write(sse.encode(refusal))
        elif request.transport is not None:
            request.transport.abort()
            return response
    except ConnectionError:
        return response  # the client is gone
    await response.write_eof()
    return response


def _no_host(message: jsonrpc.Request, use: Use, reason: str) -> web.Response:
    said = _LACKS.get(reason, "no host could take the call")
    text = f"the team's {use.offer} cannot be called: {said}"
    if reason in _BUSY:
        return _refusal(message, Reason.OVERLOADED, text, "no", retry_after_ms=2000)
    return _refusal(message, Reason.SOURCE_UNAVAILABLE, text, "no")


def _lost(message: jsonrpc.Request, use: Use, reason: str) -> web.Response:
    if reason == "timed_out":
        text = f"the team's {use.offer} did not answer in time"
        return _refusal(message, Reason.CALL_TIMED_OUT, text, "unknown")
    return _json(200, _lost_refusal(use, reason).as_error(message.id))


def _lost_refusal(use: Use, reason: str) -> Refusal:
    text = f"the answer of the team's {use.offer} was lost: {reason}"
    return Refusal(Reason.ANSWER_LOST, text, delivered="unknown")


def _refusal(
    message: jsonrpc.Request, reason: Reason, text: str, delivered: Any, retry_after_ms: int | None = None
) -> web.Response:
    step = "look at the team with: lmtb team status" if reason is Reason.SOURCE_UNAVAILABLE else None
    refusal = Refusal(reason, text, next_step=step, delivered=delivered, retry_after_ms=retry_after_ms)
    return _json(200, refusal.as_error(message.id))


def _json(status: int, body: bytes) -> web.Response:
    return web.Response(status=status, body=body, content_type="application/json")
