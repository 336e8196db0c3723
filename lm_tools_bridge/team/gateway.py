"""Serves `/team/{offer}` on the port: a stateless MCP endpoint for an offer of another member.

A call without an answer is refused with the reason and the next step.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from lm_tools_bridge.protocol import jsonrpc, names, sse
from lm_tools_bridge.protocol.errors import Reason, Refusal
from lm_tools_bridge.team.calls.caller import Calls, NoHost
from lm_tools_bridge.team.calls.exposure import (
    MAX_LIST_BYTES,
    METHODS,
    ListedTool,
    listed_tools,
    marked,
    parameter,
)
from lm_tools_bridge.team.calls.remote_call import TIMED_OUT, AnswerLost, Head, RemoteCall, Unknown
from lm_tools_bridge.team.membership import Use
from manager.admin.control.control_messages import read_body
from manager.http import lazy_aiohttp as web
from manager.routing.admission import AdmissionRefusal

if TYPE_CHECKING:
    from lm_tools_bridge.team.connection import Connection

_STATUS: Final = "look at the team with: lmtb team status"
_BUSY: Final = frozenset({"full", "busy", "too_many", "draining"})
_RETRY_MS: Final = 2000
"""As long as hosts have to accept a call (`ACCEPT_S`): sooner, the same ones would be asked again."""
_LACKS: Final[Mapping[str, str]] = {
    "unknown": "no host of the team offers it now",
    "not_accepted": "the hosts that offer it now are not accepted",
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
    "repeated": "its host has had a call of this id",
    "invalid": "its host does not understand the call",
}


def unreachable(problem: str | None) -> Refusal:
    """The team's servers cannot be reached."""
    text = "the team cannot be reached" if problem is None else f"the team cannot be reached: {problem}"
    return Refusal(Reason.SOURCE_UNAVAILABLE, text, next_step=_STATUS, delivered="no")


def no_host(offer: str, reason: str) -> Refusal:
    """No host took a call, which certainly did not run.

    Args:
        offer: its name.
        reason: a word; those of hosts may be anything.
    """
    text = f"the team's {offer} cannot be called: {_LACKS.get(reason, 'no host could take the call')}"
    if reason in _BUSY:
        return Refusal(Reason.OVERLOADED, text, delivered="no", retry_after_ms=_RETRY_MS)
    step = f"see its hosts with `lmtb team status`, and accept one with: lmtb team use {offer} --host HOST"
    step = step if reason == "not_accepted" else _STATUS
    return Refusal(Reason.SOURCE_UNAVAILABLE, text, next_step=step, delivered="no")


def lost_answer(offer: str, reason: str) -> Refusal:
    """A call may have run, and there is no answer.

    Args:
        offer: its name.
        reason: `TIMED_OUT`, or what happened, for people.
    """
    if reason == TIMED_OUT:
        text = f"the team's {offer} did not answer in time"
        return Refusal(Reason.CALL_TIMED_OUT, text, delivered="unknown")
    text = f"the answer of the team's {offer} was lost: {reason}"
    return Refusal(Reason.ANSWER_LOST, text, delivered="unknown")


BODY_S: Final = 30.0
"""As for all bodies on the port (`Limits.body_s`)."""
CALL_S: Final = 600.0
"""Seconds that a call may take; the workspace's own limits for its servers are usually shorter."""
LIST_S: Final = 30.0
"""The host may have to start the server of the offer, which may take 30 s."""
READY_S: Final = 3.0
"""Seconds that a call waits for the connection to the team."""
_TYPES: Final = ("application/json", "text/event-stream")
_MOST_TOOLS: Final = 20_000
"""Tools of one host that are remembered, whatever number it lists."""
_MOST_HOSTS: Final = 256
"""Pairs of an offer and a host whose repeatable tools are known. Calls of a forgotten one run at one host
alone until it is listed again."""
_AT_ONCE_BYTES: Final = 256 * 1024
"""Of a list that is read without a thread of its own."""


class Gateway:
    """The endpoints of the offers that this user uses."""

    def __init__(self, connection: Connection, calls: Calls, ready: asyncio.Event) -> None:
        """`ready` is set while the team can be reached."""
        self._connection = connection
        self._calls = calls
        self._ready = ready
        self._repeatable: dict[tuple[str, str], set[str]] = {}

    async def serve(self, request: web.Request, use: Use) -> web.StreamResponse:
        """Answer a POST."""
        cap = int(self._connection.client.max_payload) - 8192 if self._connection.is_up else 1024 * 1024
        body = await read_body(request, cap, BODY_S)
        if isinstance(body, AdmissionRefusal):
            text = (
                f"{body.reason}; a request to a member of the team has at most {cap} bytes. "
                "Next step: send less, for example the path of a file in place of its content."
            )
            return _json(body.status, jsonrpc.error(None, jsonrpc.INVALID_REQUEST, text))
        message = jsonrpc.parse(body)
        if isinstance(message, jsonrpc.Malformed):
            return _json(400, jsonrpc.error(message.id, message.code, message.message))
        if not isinstance(message, jsonrpc.Request):
            return web.Response(status=202)
        if message.method not in METHODS:
            text = (
                f"{message.method[:100]} is not carried between members of a team. "
                "Next step: use its tools alone, by tools/list and tools/call."
            )
            return _json(404, jsonrpc.error(message.id, jsonrpc.METHOD_NOT_FOUND, text))
        if not await self._is_ready():
            return _refused(message, unreachable(self._connection.error))
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
        name = parameter(message, "name")

        def repeats(host: str) -> bool:
            return not is_call or name in self._repeatable.get((use.offer, host), ())

        deadline_s = CALL_S if is_call else LIST_S
        client = self._connection.client
        async with self._calls.call(
            client, use, message.body, repeats=repeats, deadline_s=deadline_s
        ) as answer:
            if isinstance(answer, NoHost):
                return _refused(message, no_host(use.offer, answer.reason))
            if isinstance(answer, Unknown):
                return _refused(message, lost_answer(use.offer, answer.reason))
            call, head = answer
            if message.method == names.TOOLS_LIST:
                return await self._list(message, use, call)
            return await _relay(request, message, use, call, head)

    async def _list(self, message: jsonrpc.Request, use: Use, call: RemoteCall) -> web.Response:
        body = bytearray()
        try:
            async for chunk in call.body():
                body += chunk
                if len(body) > MAX_LIST_BYTES:
                    raise AnswerLost(f"its list is larger than {MAX_LIST_BYTES} bytes")
        except AnswerLost as error:
            return _refused(message, lost_answer(use.offer, str(error)))
        if len(body) < _AT_ONCE_BYTES:
            tools, answer = _read_answer(bytes(body), call.host, use.offer)
        else:  # takes a while, and others' calls go on meanwhile
            tools, answer = await asyncio.to_thread(_read_answer, bytes(body), call.host, use.offer)
        if tools is not None:
            self._remember((use.offer, call.host), tools, is_first=b'"cursor"' not in message.params)
        return _json(200, answer)

    def _remember(self, of: tuple[str, str], tools: Mapping[str, ListedTool], *, is_first: bool) -> None:
        repeatable = self._repeatable.setdefault(of, set())
        if is_first:
            repeatable.clear()
        repeatable.difference_update(tools)
        repeatable.update(
            [name for name, tool in tools.items() if tool.may_repeat][: _MOST_TOOLS - len(repeatable)]
        )
        if len(self._repeatable) > _MOST_HOSTS:
            del self._repeatable[next(iter(self._repeatable))]


def _read_answer(body: bytes, host: str, offer: str) -> tuple[Mapping[str, ListedTool] | None, bytes]:
    return listed_tools(body), marked(names.TOOLS_LIST, body, host, offer)


async def _relay(
    request: web.Request, message: jsonrpc.Request, use: Use, call: RemoteCall, head: Head
) -> web.StreamResponse:
    """Pass the answer on as it arrives. One that breaks off is not ended: nobody takes it for whole."""
    if head.content_type not in _TYPES:
        return _refused(message, lost_answer(use.offer, "the host answered with something else than MCP"))
    headers = {"Content-Type": head.content_type, "Cache-Control": "no-store", "X-Team-Host": call.host}
    response = web.StreamResponse(status=head.status, headers=headers)
    await response.prepare(request)
    try:
        async for chunk in call.body():
            await response.write(chunk)
    except AnswerLost as error:
        refusal = lost_answer(use.offer, str(error)).as_error(message.id)
        if head.content_type == "text/event-stream":
            await response.write(sse.encode(refusal))
        elif request.transport is not None:
            request.transport.abort()
            return response
    except ConnectionError:
        return response  # the client is gone
    await response.write_eof()
    return response


def _refused(message: jsonrpc.Request, refusal: Refusal) -> web.Response:
    return _json(200, refusal.as_error(message.id))


def _json(status: int, body: bytes) -> web.Response:
    return web.Response(status=status, body=body, content_type="application/json")
