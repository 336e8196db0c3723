"""Admits answers to forms, which a person gives: not from programs that workspace servers started.

A model could otherwise approve its own calls through a program of its own that is an MCP client.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

import msgspec

from lm_tools_bridge.protocol import jsonrpc
from lm_tools_bridge.protocol.errors import Reason, Refusal
from manager.answers import result_format
from manager.answers.exchange import AnyReply, Exchange
from manager.http.request import HttpRequest

NOT_A_PERSON: Final = Refusal(
    Reason.APPROVAL_REQUIRED,
    "programs that a workspace server or an agent started may not answer for the user",
    "the user answers in a client of theirs, on the page (lmtb ui), or in a terminal with: lmtb approvals",
    delivered="no",
)
_ACTION: Final = "action"
"""A member of every answer to a form, and of no answer to a request for roots or a completion."""


def answers_form(params: Mapping[str, msgspec.Raw]) -> bool:
    """Whether the parameters of a request bring the answer to a form, however its JSON is written."""
    responses = params.get("inputResponses")
    answers = () if responses is None else jsonrpc.members_of(responses).values()
    return any(_ACTION in jsonrpc.members_of(answer) for answer in answers)


async def admit_answer(
    http_request: HttpRequest, exchange: Exchange, answer: Callable[[], Coroutine[Any, Any, AnyReply]]
) -> AnyReply:
    """The reply to a request that brings a person's answer; a refusal where no person gave it."""
    if await http_request.is_from_own_child():
        return result_format.refuse(exchange, NOT_A_PERSON)
    return await answer()


async def take_answer(hear: Callable[[], None], http_request: HttpRequest) -> None:
    """Take the answer that a session client posted with `hear`; refuse it where no person gave it."""
    if await http_request.is_from_own_child():
        http_request.respond(403, NOT_A_PERSON.as_error(None))
        return
    hear()
    http_request.respond(202)
