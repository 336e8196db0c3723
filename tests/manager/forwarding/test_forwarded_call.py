"""A forwarded call ends once, with its counters and timings."""

from __future__ import annotations

import time

import pytest

from lm_tools_bridge.protocol.errors import Reason, Refusal
from manager.configuration.settings import Settings
from manager.forwarding import forwarded_call
from manager.forwarding.forwarded_call import Admission, ForwardedCall, Wait
from manager.supervision.instance import Figures


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
