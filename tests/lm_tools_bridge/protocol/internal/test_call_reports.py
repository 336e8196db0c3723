"""What a workspace server says of the time of a call: written and read."""

from __future__ import annotations

import pytest

from lm_tools_bridge.protocol import headers
from lm_tools_bridge.protocol.internal.call_reports import LONGEST, CallTiming

TIME = b"0000000001"


@pytest.mark.parametrize("source", ["stdio:git", "scripts", "stdio:grün", "a b\r\nX: y"])
def test_what_is_written_is_read(source: str) -> None:
    timing = CallTiming(source, 1_234_567, 20_000)
    name, _, value = timing.line.partition(b": ")
    assert name.decode() == headers.TOOK
    assert b"\r" not in value
    assert b"\n" not in value
    assert CallTiming.from_value(value) == timing


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"%b %b" % (TIME, TIME),
        b" %b %b" % (TIME, TIME),
        b"a 1",
        b"gr\xfcn %b %b" % (TIME, TIME),
        b"a -%b %b" % (TIME, TIME),
        b"a %b.5 %b" % (TIME, TIME),
        b"a %b %b" % (TIME, b"9" * 16),
        b"a %b %b " % (TIME, TIME),
        b"=?base64?!?= %b %b" % (TIME, TIME),
        b" task",
        b"a %b %b tasks" % (TIME, TIME),
        b"a %b %b task task" % (TIME, TIME),
        b"a %b task" % TIME,
    ],
)
def test_what_is_no_timing_is_ignored(value: bytes) -> None:
    assert CallTiming.from_value(value) is None


def test_the_calls_of_a_tool_differ_in_digits_only() -> None:
    one, other = (
        CallTiming("stdio:git", took, waited).value for took, waited in ((7, 0), (9_999_999, 60_000_000))
    )
    assert len(one) == len(other)
    assert one.rstrip(b"0123456789 ") == other.rstrip(b"0123456789 ") == b"stdio:git"


def test_the_longest_value_of_a_task_is_not_too_long() -> None:
    timing = CallTiming("x" * 1024, 10**15 - 1, 10**15 - 1, is_task=True)
    assert CallTiming.from_value(timing.value) == timing
    assert len(timing.value) == LONGEST
