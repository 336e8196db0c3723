"""Requests to a session client: ids, responses, cancellation."""

from __future__ import annotations

import asyncio
import json

import pytest

from manager.sessions.pending_requests import PendingRequests
from protocol import jsonrpc, names
from protocol.jsonrpc import Request, Response


def answer(identity: str, result: str = "{}") -> Response:
    parsed = jsonrpc.parse(f'{{"jsonrpc":"2.0","id":{json.dumps(identity)},"result":{result}}}'.encode())
    assert isinstance(parsed, Response)
    return parsed


async def test_a_request_carries_its_parameters_unchanged() -> None:
    questions = PendingRequests()
    put = questions.create(names.ELICIT, b'{"message":"?","n":1.10}')
    message = jsonrpc.parse(put.message)
    assert isinstance(message, Request)
    assert (message.method, message.params) == (names.ELICIT, b'{"message":"?","n":1.10}')
    assert json.loads(message.id) == put.id
    assert b"params" not in questions.create(names.ROOTS_LIST).message


async def test_request_ids_are_unique_over_restarts() -> None:
    """A response to a request of an earlier manager must not match another request."""
    ids = {PendingRequests().create(names.ROOTS_LIST).id for _ in range(100)}
    assert len(ids) == 100
    assert min(map(len, ids)) >= 20


async def test_a_response_resolves_its_request_once() -> None:
    questions = PendingRequests()
    first, second = questions.create(names.ROOTS_LIST), questions.create(names.ROOTS_LIST)
    response = answer(second.id, '{"roots":[]}')
    assert questions.resolve(response)
    assert second.answer.result() is response
    assert not first.answer.done()
    assert not questions.resolve(answer(second.id)), "it is out no more"
    assert len(questions) == 1


@pytest.mark.parametrize("identity", ["1", '"lmtb-"', '"another"', "-5"])
async def test_an_unexpected_response_is_dropped(identity: str) -> None:
    questions = PendingRequests()
    put = questions.create(names.ROOTS_LIST)
    parsed = jsonrpc.parse(f'{{"jsonrpc":"2.0","id":{identity},"result":{{}}}}'.encode())
    assert isinstance(parsed, Response)
    assert not questions.resolve(parsed)
    assert not put.answer.done()


async def test_a_response_counts_only_in_its_own_session() -> None:
    ours, theirs = PendingRequests(), PendingRequests()
    put = ours.create(names.ROOTS_LIST)
    assert not theirs.resolve(answer(put.id))
    assert not put.answer.done()


async def test_a_cancelled_request_cannot_be_answered() -> None:
    questions = PendingRequests()
    put, answered = questions.create(names.ELICIT), questions.create(names.ELICIT)
    questions.resolve(answer(answered.id))
    told = questions.cancel(put)
    assert told is not None
    assert json.loads(told)["method"] == names.CANCELLED
    assert json.loads(told)["params"] == {"requestId": put.id}
    assert questions.cancel(put) is None, "it is told once"
    assert questions.cancel(answered) is None, "what was answered needs no taking back"
    assert not questions.resolve(answer(put.id))
    with pytest.raises(asyncio.CancelledError):
        await put.answer


async def test_at_shutdown_all_requests_complete_with_none() -> None:
    questions = PendingRequests()
    put, answered = questions.create(names.ELICIT), questions.create(names.ELICIT)
    response = answer(answered.id)
    questions.resolve(response)
    questions.abandon()
    assert (put.answer.result(), answered.answer.result()) == (None, response)
    assert not questions.resolve(answer(put.id)), "it comes too late"
