"""Tests of lines that are written from a thread."""

from __future__ import annotations

import threading

from lm_tools_bridge.machine.line_queue import LineQueue

BOUND = 10


def test_lines_are_written_in_their_order_before_the_end() -> None:
    written: list[str] = []
    lines = LineQueue(written.append, lambda count: None)
    for number in range(100):
        lines.put(str(number))
    lines.close()
    lines.put("after the end")
    assert written == [*(str(number) for number in range(100)), "after the end"]


def test_lines_that_nobody_takes_are_dropped_and_counted_once_they_go_out_again() -> None:
    go_on, began = threading.Event(), threading.Event()
    written: list[str] = []
    told: list[int] = []

    def write(line: str) -> None:
        began.set()
        assert go_on.wait(BOUND)
        written.append(line)

    lines = LineQueue(write, told.append, most_waiting=2)
    lines.put("first")
    assert began.wait(BOUND)
    for number in range(7):
        lines.put(str(number))
    assert lines.dropped == 5
    go_on.set()
    lines.close()
    assert (written, told) == (["first", "0", "1"], [5])


def test_a_closed_stream_ends_nothing() -> None:
    written: list[str] = []

    def write(line: str) -> None:
        if line == "bad":
            raise ValueError("I/O operation on closed file")
        written.append(line)

    lines = LineQueue(write, lambda count: None)
    for line in ("bad", "good"):
        lines.put(line)
    lines.close()
    assert written == ["good"]
