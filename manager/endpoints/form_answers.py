"""Admits answers to forms, which a person gives: not from programs that workspace servers started.

A model could otherwise approve its own calls through a program of its own that is an MCP client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

import msgspec

from host.own_children import is_own_child_tcp_peer
from host.peer_uid import Address
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


async def is_from_own_child(ends: tuple[Address, Address] | None) -> bool:
    """Whether a program that a workspace server started is at the other end of a connection.

    Args:
        ends: our address and the client's; None if it did not connect over TCP.
    """
    return ends is not None and await asyncio.to_thread(is_own_child_tcp_peer, *ends)
