"""Heads are judged once, and those that differ in the length of their body alone are judged alike."""

from __future__ import annotations

import pytest

from manager.routing import heads
from manager.routing.door import DoorRules
from manager.routing.heads import Head, Heads, Refused

RULES = DoorRules.for_ports([4000], body_cap=5_000_000)


def head(*lines: str, length: str | None = "12", target: str = "/mcp", method: str = "POST") -> bytes:
    own = [] if length is None else [f"Content-Length: {length}"]
    fixed = ["Host: 127.0.0.1:4000", "Content-Type: application/json"]
    return "\r\n".join([f"{method} {target} HTTP/1.1", *fixed, *own, *lines, "", ""]).encode()


def read(known: Heads, raw: bytes) -> tuple[Head, int | None]:
    found = known.read(raw)
    assert not isinstance(found, Refused), found
    return found


def test_a_head_with_another_length_is_known_again() -> None:
    known = Heads(RULES)
    first, twelve = read(known, head())
    second, more = read(known, head(length="3456"))
    assert (twelve, more) == (12, 3456)
    assert second is first


@pytest.mark.parametrize(
    "raw",
    [
        head(length=""),
        head(length="-1"),
        head(length="+12"),
        head(length="12, 12"),
        head("Content-Length: 12"),
        head("content-length: 13"),
        head("Transfer-Encoding: chunked"),
        head("Host: 127.0.0.1:4000"),
        head("Mcp-Session-Id: a", "Mcp-Session-Id: b"),
        head("X: a\x00b"),
        head(" folded"),
        head(length="5000001"),
        head(length="99999999999"),
        head("X: " + "y" * 20_000),
    ],
    ids=range(14),
)
def test_a_known_head_makes_no_other_one_known(raw: bytes) -> None:
    """SP1, SP2: what is refused alone is refused behind any number of good ones."""
    known = Heads(RULES)
    for _ in range(3):
        read(known, head())
        assert isinstance(known.read(raw), Refused)


def test_what_a_head_says_is_its_own() -> None:
    known = Heads(RULES)
    one, _ = read(known, head("Mcp-Session-Id: one"))
    two, _ = read(known, head("Mcp-Session-Id: two"))
    assert one.arrival is not None
    assert two.arrival is not None
    assert (one.arrival.session, two.arrival.session) == ("one", "two")


def test_without_a_length_nothing_is_remembered() -> None:
    known = Heads(RULES)
    first, nothing = read(known, head(length=None, method="GET"))
    second, _ = read(known, head(length=None, method="GET"))
    chunked, unknown = read(known, head("Transfer-Encoding: chunked", length=None))
    assert (nothing, unknown, chunked.framing.length) == (0, None, None)
    assert first is not second


def test_memory_is_bounded() -> None:
    known = Heads(RULES)
    for number in range(heads.REMEMBERED + 10):
        read(known, head(f"X: {number}"))
    assert len(known._known) <= heads.REMEMBERED
    read(known, head("X: " + "y" * heads.LONGEST))
    assert max(map(len, known._known)) <= heads.LONGEST


@pytest.mark.parametrize(
    ("line", "is_last"),
    [("Connection: close", True), ("Connection: Keep-Alive, CLOSE", True), ("Connection: keep-alive", False)],
)
def test_a_client_says_which_request_is_its_last(line: str, is_last: bool) -> None:
    assert read(Heads(RULES), head(line))[0].framing.is_last is is_last


def test_an_old_client_gets_neither_chunks_nor_a_second_answer() -> None:
    found = read(Heads(RULES), head("Expect: 100-continue").replace(b"HTTP/1.1", b"HTTP/1.0"))[0].framing
    assert (found.is_last, found.knows_chunks, found.waits) == (True, False, False)
