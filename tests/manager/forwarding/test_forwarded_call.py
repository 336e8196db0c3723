"""A forwarded call ends once, with its counters and timings."""

from __future__ import annotations

import time

import pytest

from lm_tools_bridge.protocol.errors import Reason, Refusal
from manager.configuration.settings import Settings
from manager.forwarding import forwarded_call
from manager.forwarding.forwarded_call import (
    LARGE,
    Admission,
    ForwardedCall,
    InterruptedAnswerError,
    Wait,
    answered,
    begins_as_answer,
    is_response,
)
from manager.supervision.instance import Figures

RESPONSE = b'{"jsonrpc":"2.0","id":1,"result":{}}'
NOTIFICATION = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{}}'
SERVER_REQUEST = b'{"jsonrpc":"2.0","id":9,"method":"ping"}'


def call_of(figures: Figures, began: float | None) -> ForwardedCall:
    return ForwardedCall(Admission(Settings()), figures, b"1", began=began)


def test_a_call_is_timed_once_when_it_ends() -> None:
    figures, now = Figures(), time.monotonic()
    call = call_of(figures, now - 30.0)
    call.sent_at = now - 20.0
    call.end("ok", now - 5.0)
    call.end("cancelled", now)
    assert figures.timings.server.total == pytest.approx(15.0)
    assert figures.timings.manager.total == pytest.approx(15.0, abs=0.5)
    assert sum(figures.timings.server.counts) == 1


def test_waiting_counts_neither_as_manager_nor_as_server_time() -> None:
    figures, now = Figures(), time.monotonic()
    call = call_of(figures, now - 40.0)
    call.waited(Wait.START, 10.0)
    call.waited(Wait.CONNECTION, 4.0)
    call.sent_at = now - 20.0
    call.end("ok")
    assert (figures.timings.start.total, figures.timings.connection.total) == (10.0, 4.0)
    assert figures.timings.manager.total == pytest.approx(6.0, abs=0.5)
    assert figures.timings.server.total == pytest.approx(20.0, abs=0.5)


@pytest.mark.parametrize(("begun", "sent"), [(None, 1.0), (1.0, None)])
def test_untimed_and_unsent_requests_record_no_time(begun: float | None, sent: float | None) -> None:
    figures = Figures()
    call = call_of(figures, begun)
    call.sent_at = sent
    call.end("ok")
    assert (sum(figures.timings.server.counts), sum(figures.timings.manager.counts)) == (0, 0)


def test_failures_are_counted_by_reason() -> None:
    figures = Figures()
    for reason in (Reason.CALL_TIMED_OUT, Reason.OVERLOADED, Reason.CALL_TIMED_OUT):
        call_of(figures, None).fail(Refusal(reason, "why"))
    assert figures.failures == {"call_timed_out": 2, "overloaded": 1}
    assert (figures.errors, figures.last_error, figures.in_flight) == (3, "why", 0)


@pytest.mark.parametrize(
    ("reason", "is_stream", "is_counted"),
    [
        (Reason.WORKSPACE_SERVER_DIED, True, False),
        (Reason.WORKSPACE_SERVER_DIED, False, True),
        (Reason.INVALID_UPSTREAM_ANSWER, True, True),
    ],
)
def test_a_stream_that_ends_with_its_server_is_no_failed_call(
    reason: Reason, is_stream: bool, is_counted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged: list[str] = []
    monkeypatch.setattr(forwarded_call, "logger", lambda: Lines(logged))
    figures = Figures()
    ForwardedCall(Admission(Settings()), figures, b"1", is_stream=is_stream).fail(Refusal(reason, "why"))
    assert (figures.errors, len(logged), figures.streams) == (is_counted, is_counted, 0)
    assert (figures.last_error is not None) == is_counted


class Lines:
    """A logger that keeps the events."""

    def __init__(self, logged: list[str]) -> None:
        self._logged = logged

    def warning(self, event: str, **_: object) -> None:
        self._logged.append(event)


def test_a_refusal_at_a_limit_names_the_limit_and_its_setting() -> None:
    admission = Admission(Settings(in_flight_limit=3, workspace_in_flight_limit=2))
    mine, others = Figures(), Figures()
    calls = [ForwardedCall(admission, figures, b"1") for figures in (mine, mine, others)]
    assert admission.is_full(mine)
    assert "2 requests are in flight in this project (workspace_in_flight_limit" in admission.limit_reached(
        mine
    )
    assert "3 requests are in flight in all projects together (in_flight_limit" in admission.limit_reached(
        others
    )
    calls[0].end()
    assert not admission.is_full(others)


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
        assert caught.value.refusal.reason is Reason.INVALID_UPSTREAM_ANSWER


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
