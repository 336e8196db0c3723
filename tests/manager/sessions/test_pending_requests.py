"""Requests to a session client: ids, responses, cancellation."""

from __future__ import annotations

import asyncio
import json

import pytest

from lm_tools_bridge.protocol import jsonrpc, names
from lm_tools_bridge.protocol.jsonrpc import Request, Response
from manager.sessions.pending_requests import PendingRequests


def answer(identity: str, result: str = "{}") -> Response:
    parsed = jsonrpc.parse(f'{{"jsonrpc":"2.0","id":{json.dumps(identity)},"result":{result}}}'.encode())
    assert isinstance(parsed, Response)
    return parsed


async def test_a_request_carries_its_parameters_unchanged() -> None:
    pending_requests = PendingRequests()
    request = pending_requests.create(names.ELICIT, b'{"message":"?","n":1.10}')
    message = jsonrpc.parse(request.message)
    assert isinstance(message, Request)
    assert (message.method, message.params) == (names.ELICIT, b'{"message":"?","n":1.10}')
    assert json.loads(message.id) == request.id
    assert b"params" not in pending_requests.create(names.ROOTS_LIST).message


async def test_request_ids_are_unique_over_restarts() -> None:
    """A response to a request of an earlier manager must not match another request."""
    ids = {PendingRequests().create(names.ROOTS_LIST).id for _ in range(100)}
    assert len(ids) == 100
    assert min(map(len, ids)) >= 20


async def test_a_response_resolves_its_request_once() -> None:
    pending_requests = PendingRequests()
    first, second = pending_requests.create(names.ROOTS_LIST), pending_requests.create(names.ROOTS_LIST)
    response = answer(second.id, '{"roots":[]}')
    assert pending_requests.resolve(response)
    assert second.answer.result() is response
    assert not first.answer.done()
    assert not pending_requests.resolve(answer(second.id)), "it is out no more"
    assert len(pending_requests) == 1


@pytest.mark.parametrize("identity", ["1", '"lmtb-"', '"another"', "-5"])
async def test_an_unexpected_response_is_dropped(identity: str) -> None:
    pending_requests = PendingRequests()
    request = pending_requests.create(names.ROOTS_LIST)
    parsed = jsonrpc.parse(f'{{"jsonrpc":"2.0","id":{identity},"result":{{}}}}'.encode())
    assert isinstance(parsed, Response)
    assert not pending_requests.resolve(parsed)
    assert not request.answer.done()


async def test_a_response_counts_only_in_its_own_session() -> None:
    ours, theirs = PendingRequests(), PendingRequests()
    request = ours.create(names.ROOTS_LIST)
    assert not theirs.resolve(answer(request.id))
    assert not request.answer.done()


async def test_a_cancelled_request_cannot_be_answered() -> None:
    pending_requests = PendingRequests()
    request, answered = pending_requests.create(names.ELICIT), pending_requests.create(names.ELICIT)
    pending_requests.resolve(answer(answered.id))
    notification = pending_requests.cancel(request)
    assert notification is not None
    assert json.loads(notification)["method"] == names.CANCELLED
    assert json.loads(notification)["params"] == {"requestId": request.id}
    assert pending_requests.cancel(request) is None, "it is notification once"
    assert pending_requests.cancel(answered) is None, "what was answered needs no taking back"
    assert not pending_requests.resolve(answer(request.id))
    with pytest.raises(asyncio.CancelledError):
        await request.answer


async def test_at_shutdown_all_requests_complete_with_none() -> None:
    pending_requests = PendingRequests()
    request, answered = pending_requests.create(names.ELICIT), pending_requests.create(names.ELICIT)
    response = answer(answered.id)
    pending_requests.resolve(response)
    pending_requests.abandon()
    assert (request.answer.result(), answered.answer.result()) == (None, response)
    assert not pending_requests.resolve(answer(request.id)), "it comes too late"
