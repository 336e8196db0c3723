"""The end of standard error is kept, and lines are logged at a bounded rate."""

from __future__ import annotations

import pytest

from workspace_server.processes.pipes import (
    CAPACITY,
    LINES_PER_S,
    MAX_LINE,
    LineLimiter,
    StderrTail,
    cause_line,
)


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        ([b"a\nb\n"], ["a", "b"]),
        ([b"a", b"b\nc"], ["ab", "c"]),
        ([b"a\r\nb\rc\n\n  \n"], ["a", "b", "c"]),
        ([b"\x1b[31mred\x1b[0m\x00\x07\n"], ["red"]),
        ([b"caf\xc3\xa9 \xff\n"], ["café \ufffd"]),
        ([b"\0" * 20_000 + b"word\n"], ["word"]),
        ([b"x" * 5000 + b"\ny"], ["x" * MAX_LINE, "y"]),
        ([], []),
    ],
)
def test_lines_are_clean_and_short(chunks: list[bytes], expected: list[str]) -> None:
    ring = StderrTail()
    for chunk in chunks:
        ring.feed(chunk)
    assert ring.lines() == expected


def test_the_oldest_bytes_are_dropped_and_a_cut_line_is_not_shown() -> None:
    ring = StderrTail()
    for number in range(20_000):
        ring.feed(b"line %d\n" % number)
    lines = ring.lines(10_000)
    assert lines == [f"line {number}" for number in range(20_000 - len(lines), 20_000)]
    assert CAPACITY - 20 < sum(len(line) + 1 for line in lines) <= CAPACITY
    assert ring.lines(2) == ["line 19998", "line 19999"]


def test_flood_without_line_end_shows_its_end() -> None:
    ring = StderrTail()
    for _ in range(10):
        ring.feed(b"x" * 50_000)
    ring.feed(b"last")
    assert ring.lines() == ["x" * (MAX_LINE - 4) + "last"]


def test_text_is_the_end_of_all_lines() -> None:
    ring = StderrTail()
    ring.feed(b"one\n\ntwo\nthree\n")
    assert ring.text(100) == "one\ntwo\nthree"
    assert ring.text(7) == "o\nthree"
    assert ring.text(0) == ""


class _Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_log_gets_100_lines_per_second_and_the_number_left_out() -> None:
    clock, heard = _Clock(), list[str]()
    limiter = LineLimiter(heard.append, clock)
    limiter.feed(b"x\n" * 10_000)
    limiter.feed(b"y\n" * 10_000 + b"be")
    assert heard == ["x"] * LINES_PER_S
    clock.now = 1.0
    limiter.feed(b"gun\nend")
    assert heard[LINES_PER_S:] == ["[19900 lines left out]", "begun"]
    limiter.end()
    assert heard[-1] == "end"


def test_log_gets_the_beginning_of_a_line_without_end() -> None:
    clock, heard = _Clock(), list[str]()
    limiter = LineLimiter(heard.append, clock)
    for _ in range(100):
        limiter.feed(b"z" * 10_000)
    limiter.feed(b"\nnext\n")
    assert heard == ["z" * MAX_LINE, "next"]


def test_line_in_pieces_is_one_line() -> None:
    heard = list[str]()
    limiter = LineLimiter(heard.append, _Clock())
    for piece in (b"a", b"b\xc3", b"\xa9\r", b"\n", b"\n", b"c"):
        limiter.feed(piece)
    assert heard == ["abé"]
    limiter.end()
    assert heard == ["abé", "c"]


LOG = "npm error A complete log of this run can be found in: /home/me/.npm/_logs/x.log"


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        ([], ""),
        (["Traceback (most recent call last):", "ValueError: no token"], "ValueError: no token"),
        (
            [
                "npm error code E404",
                "npm error 404 Not Found - GET https://registry.example/none - Not found",
                "npm error 404",
                "npm error 404  The requested resource 'none@*' could not be found",
                "npm error 404 Note that you can also install from a",
                LOG,
            ],
            "npm error 404 Not Found - GET https://registry.example/none - Not found",
        ),
        (
            [
                "npm error code ENOTFOUND",
                "npm error syscall getaddrinfo",
                "npm error errno ENOTFOUND",
                "npm error network request to https://registry.example/x failed, reason: getaddrinfo ENOTFOUND",
                "npm error network This is a problem related to network connectivity.",
                LOG,
            ],
            "npm error network request to https://registry.example/x failed, reason: getaddrinfo ENOTFOUND",
        ),
        ([LOG], LOG),
        (
            [
                "Error: Cannot find module '/srv/x.js'",
                "    at node:internal/x:1:2",
                "{",
                "}",
                "Node.js v22.1.0",
            ],
            "Error: Cannot find module '/srv/x.js'",
        ),
        (["docker: no such image", "See 'docker run --help'."], "docker: no such image"),
    ],
)
def test_the_line_that_tells_the_cause_is_chosen(lines: list[str], cause: str) -> None:
    assert cause_line(lines) == cause
