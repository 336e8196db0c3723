"""Reading the response and the notifications of an answer, in any form and any pieces."""

from __future__ import annotations

from typing import Any, cast

import pytest

from lm_tools_bridge.protocol.errors import Reason, Refusal
from lm_tools_bridge.protocol.sse import encode
from manager.forwarding.answer import Answer, InterruptedAnswerError
from manager.forwarding.messages import (
    LARGE,
    Answered,
    answered,
    begins_as_answer,
    is_response,
    messages_of,
    response_of,
)
from support.http.scripted_body import ScriptedBody

RESPONSE = b'{"jsonrpc":"2.0","id":1,"result":{}}'
RESPONSE_2 = b'{"jsonrpc":"2.0","id":1,"result":{"content":[]}}'
NOTIFICATION = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{}}'
SERVER_REQUEST = b'{"jsonrpc":"2.0","id":9,"method":"ping"}'
DIED = Refusal(Reason.WORKSPACE_SERVER_DIED, "workspace server died during the call", delivered="unknown")


async def collected(answer: ScriptedBody, limit: int = 10_000) -> Any:
    outcome = await response_of(cast("Answer", answer), limit)
    assert answer.outcomes, "the answer was neither read to its end nor closed"
    return outcome


def reason(outcome: object) -> Reason:
    assert isinstance(outcome, Refusal), outcome
    assert outcome.delivered == "unknown"
    return outcome.reason


async def test_a_json_answer_is_the_response() -> None:
    assert await collected(ScriptedBody([RESPONSE], is_events=False)) == RESPONSE


async def test_a_response_is_found_after_the_notifications_of_a_stream() -> None:
    answer = ScriptedBody([encode(NOTIFICATION), encode(NOTIFICATION) + encode(RESPONSE)])
    assert await collected(answer) == RESPONSE
    assert answer.outcomes[0] == "ok"


async def test_a_response_in_pieces_is_joined() -> None:
    whole = encode(NOTIFICATION) + encode(RESPONSE)
    assert await collected(ScriptedBody(whole[at : at + 1] for at in range(len(whole)))) == RESPONSE


@pytest.mark.parametrize("rest", [[DIED], [encode(NOTIFICATION), encode(RESPONSE_2)], []])
async def test_data_after_the_response_is_read_and_ignored(rest: list[bytes | Refusal]) -> None:
    """A connection that was read to its end can be reused."""
    answer = ScriptedBody([encode(RESPONSE), *rest])
    assert await collected(answer) == RESPONSE
    assert (answer.outcomes[0], answer.read_to) == ("ok", 1 + len(rest))


async def test_a_stream_that_stays_open_after_its_response_is_closed() -> None:
    answer = ScriptedBody([encode(RESPONSE)], stays_open=True)
    assert await collected(answer) == RESPONSE


async def test_notifications_are_yielded_and_other_messages_dropped() -> None:
    """A server must not send requests in its answer."""
    pieces = [encode(NOTIFICATION), encode(SERVER_REQUEST), b"data: {\ndata: }\n\n", b"data: no JSON\n\n"]
    answer = ScriptedBody(
        [*pieces, b"data: " + NOTIFICATION[:1] + b"\ndata: " + NOTIFICATION[1:] + b"\n\n" + encode(RESPONSE)]
    )
    messages = [one async for one in messages_of(cast("Answer", answer), 10_000)]
    assert messages[:-1] == [NOTIFICATION, NOTIFICATION[:1] + b" " + NOTIFICATION[1:]]
    assert isinstance(messages[-1], Answered)
    assert messages[-1].body == RESPONSE


async def test_a_request_of_the_server_is_no_response() -> None:
    assert await collected(ScriptedBody([encode(SERVER_REQUEST), encode(RESPONSE)])) == RESPONSE


@pytest.mark.parametrize(
    "answer",
    [
        ScriptedBody([]),
        ScriptedBody([encode(NOTIFICATION)]),
        ScriptedBody([b"data: nonsense\n\n"]),
        ScriptedBody([encode(RESPONSE)[:-1]]),
        ScriptedBody([b"{}"], is_events=False),
        ScriptedBody([NOTIFICATION], is_events=False),
        ScriptedBody([b"<html>"], is_events=False),
        ScriptedBody([b""], is_events=False),
    ],
)
async def test_an_answer_without_a_response_is_unusable(answer: ScriptedBody) -> None:
    outcome = await collected(answer)
    assert reason(outcome) is Reason.INVALID_UPSTREAM_ANSWER
    assert outcome.details == {"httpStatus": 418}


async def test_the_refusal_of_a_stream_that_breaks_off_is_returned() -> None:
    assert await collected(ScriptedBody([encode(NOTIFICATION), DIED])) is DIED
    assert await collected(ScriptedBody([DIED], is_events=False)) is DIED


async def test_an_event_beyond_the_limit_is_refused() -> None:
    answer = ScriptedBody([b"data: " + b"x" * 50] * 10)
    assert reason(await collected(answer, limit=100)) is Reason.RESPONSE_TOO_LARGE
    assert answer.read_to < 10


@pytest.mark.parametrize(
    ("data", "counts"),
    [
        (RESPONSE, True),
        (b'{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":"m"}}', True),
        (b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m"}}', True),
        (b'{"jsonrpc":"2.0","error":{"code":1,"message":"m"}}', True),
        (b'{"jsonrpc":"2.0","id":null,"result":{}}', False),
        (b'{"error":"Not Found"}', False),
        (NOTIFICATION, False),
        (SERVER_REQUEST, False),
        (b"", False),
    ],
)
def test_an_error_that_could_not_name_the_id_is_a_response(data: bytes, counts: bool) -> None:
    assert is_response(data) is counts


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        (b'{"jsonrpc":"2.0","id":1,"result":{"t":"%b"}}', True),
        (b'{"jsonrpc":"2.0","id":"a b","result":{"t":"%b","u":{}}}', True),
        (b'{"jsonrpc":"2.0","id":"\\u0031","result":{"t":"%b"}}', True),
        (b'{"jsonrpc":"2.0","id":1,"result":{"t":"%b"},"x":{}}', True),
        (b'{"id":1,"jsonrpc":"2.0","result":{"t":"%b"}} ', True),
        (b'{"jsonrpc":"2.0","id":1,"result":{},"t":"%b"}', True),
        (b'{"jsonrpc":"2.0","id":1,"result":{"t":"%b"},"error":{}}', False),
        (b'{"jsonrpc":"2.0","id":1,"result":{"t":"%b"},"method":"m"}', False),
        (b'{"jsonrpc":"2.0","id":"\xff","result":{"t":"%b"}}', False),
        (b'{"jsonrpc":"2.0","id":1,"result":{"t":"%b"}}}', False),
        (b'{"jsonrpc":"2.0","id":1,"result":{"t":"%b"}', False),
        (b'{"jsonrpc":"2.0","id":1,"result":{"t":%b}}', False),
    ],
)
def test_large_responses_are_recognised_like_small_ones(text: bytes, is_one: bool) -> None:
    """A faster parser reads large responses."""
    identity = b'"a b"' if b"a b" in text else b'"1"' if b"u0031" in text else b"1"
    small, large = (answered(text % (b"x" * size), identity) for size in (1, LARGE))
    assert (small is not None, large is not None) == (is_one, is_one)
    if small is not None and large is not None:
        assert list(large.members) == list(small.members)
        assert bytes(large.members["id"]) == bytes(small.members["id"])


@pytest.mark.parametrize("size", [1, LARGE])
@pytest.mark.parametrize(
    ("written", "identity"),
    [
        (b"1", b"1"),
        (b'"a"', b'"a"'),
        (b'"\\u0061"', b'"a"'),
        (b" 1 ", b"1"),
        (b"-0", b"0"),
        (b"123456789012345678901234567890", b"123456789012345678901234567890"),
    ],
)
def test_ids_are_compared_as_json_values(written: bytes, identity: bytes, size: int) -> None:
    text = b'{"jsonrpc":"2.0","id":%b,"result":{"t":"%b"}}' % (written, b"x" * size)
    assert answered(text, identity) is not None
    for other in (b"2", b'"1"', b'"A"'):
        with pytest.raises(InterruptedAnswerError) as caught:
            answered(text, other)
        assert reason(caught.value.refusal) is Reason.INVALID_UPSTREAM_ANSWER


async def test_the_response_to_another_request_is_refused_at_once() -> None:
    """The end of the stream is not awaited."""
    answer = ScriptedBody([encode(NOTIFICATION), encode(RESPONSE)], stays_open=True, identity=b"2")
    assert reason(await collected(answer)) is Reason.INVALID_UPSTREAM_ANSWER
    assert answer.outcomes[0] == "invalid_upstream_answer"


@pytest.mark.parametrize(
    ("begin", "is_known"),
    [
        (b'{"jsonrpc":"2.0","id":1,"result":{', True),
        (b'{"jsonrpc":"2.0","id":1,"error":{', True),
        (b'\n{ "id" : 1 ,\t"jsonrpc" : "2.0" , "result" : {', True),
        (b'{"jsonrpc":"2.0","id":1.0,"result":{', False),
        (b'{"jsonrpc":"2.0","id":null,"error":{', False),
        (b'{"jsonrpc":"2.0","result":{},"id":1}', False),
        (b'{"jsonrpc":"2.0","id":1,"method":"m","result":{', False),
        (b'{"jsonrpc":"2.0","id":1', False),
        (b"", False),
    ],
)
def test_the_first_bytes_of_a_response_show_its_id(begin: bytes, is_known: bool) -> None:
    assert begins_as_answer(begin, b"1") is is_known
    if is_known:
        with pytest.raises(InterruptedAnswerError):
            begins_as_answer(begin, b"2")
