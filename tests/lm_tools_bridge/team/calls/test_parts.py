"""The parts of an answer: lost, doubled, reordered and hostile messages."""

from __future__ import annotations

import pytest

from lm_tools_bridge.team.calls import parts
from lm_tools_bridge.team.calls.parts import Broken, Part, Received, seconds


def head(status: str = "200") -> dict[str, str]:
    return {parts.PART: "head", parts.STATUS: status, parts.CONTENT_TYPE: "application/json"}


def body(number: int) -> dict[str, str]:
    return {parts.PART: "body", parts.SEQUENCE: str(number)}


def end(number: int) -> dict[str, str]:
    return {parts.PART: "end", parts.SEQUENCE: str(number)}


def test_a_whole_answer_is_taken() -> None:
    received = Received()
    assert received.take({parts.PART: "accepted"}, b"") is Part.ACCEPTED
    assert received.take(head(), b"") is Part.HEAD
    assert received.take(body(0), b"ab") is Part.BODY
    assert received.take(body(1), b"c") is Part.BODY
    assert received.take(end(2), b"") is Part.END
    assert (received.size, received.parts) == (3, 2)


@pytest.mark.parametrize(
    "messages",
    [
        [head(), body(1)],
        [head(), body(0), body(0)],
        [head(), body(0), body(2)],
        [head(), body(0), end(2)],
        [head(), end(1)],
        [body(0)],
        [end(0)],
        [head(), head()],
        [head("100")],
        [head("1e3")],
        [head("2" * 5000)],
        [head("²00")],
        [{parts.PART: "more"}],
        [{}],
    ],
)
def test_parts_that_do_not_fit_together_are_refused(messages: list[dict[str, str]]) -> None:
    received = Received()
    for message in messages[:-1]:
        received.take(message, b"x")
    with pytest.raises(Broken):
        received.take(messages[-1], b"x")


def test_an_answer_without_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "MAX_ANSWER_BYTES", 10)
    received = Received()
    received.take(head(), b"")
    received.take(body(0), b"x" * 10)
    with pytest.raises(Broken, match="larger than 10 bytes"):
        received.take(body(1), b"x")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5.0),
        ("1e9", parts.LONGEST_CALL_S),
        ("-1", 60.0),
        ("nan", 60.0),
        ("x", 60.0),
        (None, 60.0),
        ("", 60.0),
    ],
)
def test_deadlines_of_others_are_limited(text: str | None, value: float) -> None:
    assert seconds(text, 60.0) == value


def test_a_part_larger_than_hosts_send_is_not_taken() -> None:
    received = Received()
    received.take(head(), b"")
    with pytest.raises(Broken, match="larger than"):
        received.take(body(0), b"x" * (parts.PART_BYTES + 1))


@pytest.mark.parametrize("asked", ["3600", "1e9", "inf"])
def test_no_call_takes_longer_than_ten_minutes(asked: str) -> None:
    assert seconds(asked, parts.LONGEST_CALL_S) == 600
