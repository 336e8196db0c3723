"""What a workspace server says of the time of a call: written and read."""

from __future__ import annotations

import pytest

from protocol import headers
from protocol.internal.call_timing import CallTiming


@pytest.mark.parametrize("source", ["stdio:git", "scripts", "stdio:grün", "a b\r\nX: y"])
def test_what_is_written_is_read(source: str) -> None:
    timing = CallTiming(1_234_567, 20_000, source)
    name, _, value = timing.line.partition(b": ")
    assert name.decode() == headers.TOOK
    assert b"\r" not in value
    assert b"\n" not in value
    assert CallTiming.from_header(value) == timing


@pytest.mark.parametrize(
    "value", [None, b"", b"1 2", b"-1 0 a", b"1 2 ", b"1.5 0 a", b"9" * 16 + b" 0 a", b"1 0 =?base64?!?="]
)
def test_what_is_no_timing_is_ignored(value: bytes | None) -> None:
    assert CallTiming.from_header(value) is None
