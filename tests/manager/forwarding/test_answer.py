"""A failed answer: which connection is closed, and which refusal is returned and counted."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from lm_tools_bridge.protocol.errors import Reason, Refusal
from manager.forwarding import answer
from manager.forwarding.answer import InterruptedAnswerError
from manager.forwarding.messages import begins_as_answer, response_of
from support.http.arriving_answer import ArrivingAnswer

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
