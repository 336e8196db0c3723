"""A failed answer: which connection is closed, and which refusal is returned and counted."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any, cast

import pytest

from lm_tools_bridge.protocol.errors import Reason, Refusal
from lm_tools_bridge.protocol.sse import encode
from manager.forwarding import answer
from manager.forwarding.answer import Answer, messages_of, response_of
from manager.forwarding.forwarded_call import (
    Answered,
    InterruptedAnswerError,
    begins_as_answer,
)
from support.http.arriving_answer import ArrivingAnswer
from support.http.scripted_body import ScriptedBody

OTHER = Refusal(Reason.INVALID_UPSTREAM_ANSWER, "of another request", delivered="unknown")


class FullSink:
    """A client that does not read."""

    def put(self, data: object) -> bool:
        return False

    def when_writable(self, call: object) -> None:
        pass


async def test_a_cancellation_after_the_last_byte_keeps_the_connection_in_use() -> None:
    arriving = ArrivingAnswer()
    arriving.response.receive_body(b"{")
    streaming = asyncio.create_task(arriving.answer.stream_to(FullSink()))
    await asyncio.sleep(0)
    arriving.complete(b"}", is_reused=True)
    streaming.cancel()
    with pytest.raises(asyncio.CancelledError):
        await streaming
    assert arriving.carrier.closed is None


@pytest.mark.parametrize("is_reused", [False, True])
async def test_a_wrong_id_closes_its_connection_unless_another_call_uses_it(is_reused: bool) -> None:
    arriving = ArrivingAnswer()
    arriving.complete(b"{}", is_reused=is_reused)
    arriving.answer.refuse(OTHER)
    assert arriving.carrier.closed == (None if is_reused else "malformed_response")


async def test_an_answer_is_freed_without_the_garbage_collector() -> None:
    arriving = ArrivingAnswer()
    arriving.complete(b"{}")
    assert await arriving.answer.read() == b"{}"
    freed = weakref.ref(arriving.answer)
    gc.disable()
    try:
        del arriving
        assert freed() is None
    finally:
        gc.enable()


async def test_a_timeout_before_the_first_byte_stays_a_timeout() -> None:
    arriving = ArrivingAnswer(timeout_s=0.05)
    with pytest.raises(InterruptedAnswerError):
        begins_as_answer(await arriving.answer.begin(), b"1")
    refusal = await response_of(arriving.answer, 10_000)
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.CALL_TIMED_OUT
    assert arriving.figures.failures == {"call_timed_out": 1}


async def test_an_answer_without_a_response_counts_as_a_failure() -> None:
    arriving = ArrivingAnswer(kind=b"text/event-stream")
    arriving.complete(b"")
    assert isinstance(await response_of(arriving.answer, 10_000), Refusal)
    assert arriving.figures.failures == {"invalid_upstream_answer": 1}


async def test_an_event_beyond_the_limit_counts_as_a_failure() -> None:
    arriving = ArrivingAnswer(kind=b"text/event-stream")
    arriving.response.receive_body(b"data: " + b"x" * 200)
    assert isinstance(await response_of(arriving.answer, 100), Refusal)
    assert arriving.figures.failures == {"response_too_large": 1}
    assert arriving.figures.last_outcome == "response_too_large"


@pytest.mark.parametrize(("fault", "is_logged"), [(ValueError(), True), (ConnectionResetError(), False)])
async def test_an_error_in_a_sink_is_logged_unless_the_client_has_left(
    fault: Exception, is_logged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class BrokenSink(FullSink):
        def put(self, data: object) -> bool:
            raise fault

    logged: list[BaseException] = []
    ended: list[Refusal | None] = []
    monkeypatch.setattr(answer, "log_fault", logged.append)
    arriving = ArrivingAnswer(kind=b"text/event-stream")
    arriving.answer.follow(BrokenSink(), ended.append)
    arriving.response.receive_body(b"data: 1")
    assert (logged, len(ended)) == ([fault] if is_logged else [], 1)


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


async def test_the_response_to_another_request_is_refused_at_once() -> None:
    """The end of the stream is not awaited."""
    answer = ScriptedBody([encode(NOTIFICATION), encode(RESPONSE)], stays_open=True, identity=b"2")
    assert reason(await collected(answer)) is Reason.INVALID_UPSTREAM_ANSWER
    assert answer.outcomes[0] == "invalid_upstream_answer"
