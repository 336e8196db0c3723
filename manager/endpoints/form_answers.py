"""Admits answers to forms, which a person gives: not from programs that workspace servers started.

A model could otherwise approve its own calls through a program of its own that is an MCP client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

import msgspec

from host.peers.own_children import is_own_child_tcp_peer
from manager.answers import result_format
from manager.answers.exchange import AnyReply, Exchange
from manager.http.request import HttpRequest
from protocol import jsonrpc
from protocol.errors import Reason, Refusal

NOT_A_PERSON: Final = Refusal(
    Reason.APPROVAL_REQUIRED,
    "programs that a workspace server or an agent started may not answer for the user",
    "the user answers in a client of theirs, on the page (lmtb ui), or in a terminal with: lmtb approvals",
    delivered="no",
)
_ACTION: Final = b'"action"'
"""A member of every answer to a form, and of no answer to a request for roots or a completion."""


def answers_form(params: Mapping[str, msgspec.Raw]) -> bool:
    """Whether the parameters of a stateless request bring the answer to a form."""
    responses = params.get("inputResponses")
    return responses is not None and _ACTION in jsonrpc.bytes_of(responses)


async def admit_answer(
    http_request: HttpRequest, exchange: Exchange, answer: Callable[[], Coroutine[Any, Any, AnyReply]]
) -> AnyReply:
    """The reply to a stateless request that brings a person's answer; a refusal where no person gave it."""
    if await _is_from_own_child(http_request):
        return result_format.refuse(exchange, NOT_A_PERSON)
    return await answer()


async def take_answer(hear: Callable[[], None], http_request: HttpRequest) -> None:
    """Take the answer that a session client posted with `hear`; refuse it where no person gave it."""
    if await _is_from_own_child(http_request):
        http_request.respond(403, NOT_A_PERSON.as_error(None))
        return
    hear()
    http_request.respond(202)


async def _is_from_own_child(http_request: HttpRequest) -> bool:
    ends = http_request.ends()
    return ends is not None and await asyncio.to_thread(is_own_child_tcp_peer, *ends)
