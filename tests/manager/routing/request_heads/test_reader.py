"""Heads are admitted once, and heads that differ in the length of their body or the session id alone are equal."""

from __future__ import annotations

import pytest

from http_server import head_reader
from http_server.head_reader import ReadHead, RefusedHead
from manager.routing.request_heads.admission import AdmissionRules
from manager.routing.request_heads.reader import ClientHead, ClientHeadReader

RULES = AdmissionRules.for_ports([4000], body_cap=5_000_000)


def head(*lines: str, length: str | None = "12", target: str = "/mcp", method: str = "POST") -> bytes:
    own = [] if length is None else [f"Content-Length: {length}"]
    fixed = ["Host: 127.0.0.1:4000", "Content-Type: application/json"]
    return "\r\n".join([f"{method} {target} HTTP/1.1", *fixed, *own, *lines, "", ""]).encode()


def read(known: ClientHeadReader, raw: bytes) -> ReadHead[ClientHead]:
    found = known.read(raw)
    assert not isinstance(found, RefusedHead), found
    return found


def test_a_head_with_another_length_is_known_again() -> None:
    known = ClientHeadReader(RULES)
    first, twelve, *_ = read(known, head())
    second, more, *_ = read(known, head(length="3456"))
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
    """What is refused alone is refused behind any number of good ones."""
    known = ClientHeadReader(RULES)
    for _ in range(3):
        read(known, head())
        assert isinstance(known.read(raw), RefusedHead)


@pytest.mark.parametrize("order", [("one", "two"), ("two", "one"), ("one", "one")])
@pytest.mark.parametrize("name", ["Mcp-Session-Id", "mcp-session-id", "MCP-SESSION-ID"])
@pytest.mark.parametrize("is_behind", [True, False])
def test_a_head_with_another_session_is_known_again(
    order: tuple[str, str], name: str, is_behind: bool
) -> None:
    """The length may come before or behind it, and has another number of digits."""
    known = ClientHeadReader(RULES)
    found = []
    for session, length in zip(order, ["7", "12345"], strict=True):
        lines = [f"{name}: {session}", f"Content-Length: {length}"]
        found.append(read(known, head(*lines if is_behind else lines[::-1], length=None)))
    assert [(one.session, one.length) for one in found] == [(order[0], 7), (order[1], 12345)]
    if name != "MCP-SESSION-ID":
        assert found[0].head is found[1].head
        assert known.session_of(found[0].head) == ""


@pytest.mark.parametrize("session", ["", " ", "a b", "\u00e9", "x" * 129, None])
def test_an_id_that_is_none_is_read_as_it_was_sent(session: str | None) -> None:
    """Whatever was known before; which ids are well-formed is not the head's to say."""
    known = ClientHeadReader(RULES)
    line = [] if session is None else [f"Mcp-Session-Id: {session}"]
    for _ in range(2):
        read(known, head("Mcp-Session-Id: a"))
        assert read(known, head(*line)).session == (None if session is None else session.strip())


def test_a_head_of_any_length_that_is_remembered_is_short_enough_for_the_door() -> None:
    """What is left out of it before it is judged cannot have made it too long."""
    assert RULES.head_cap > head_reader.MAX_CACHED_HEAD_BYTES


def test_without_a_length_nothing_is_remembered() -> None:
    known = ClientHeadReader(RULES)
    first, nothing, *_ = read(known, head(length=None, method="GET"))
    second = read(known, head(length=None, method="GET")).head
    chunked, unknown, *_ = read(known, head("Transfer-Encoding: chunked", length=None))
    assert (nothing, unknown, chunked.framing.length) == (0, None, None)
    assert first is not second
    assert read(known, head("Mcp-Session-Id: a", length=None, method="GET")).session == "a"


def test_memory_is_bounded() -> None:
    known = ClientHeadReader(RULES)
    for number in range(head_reader.MAX_CACHED_HEADS + 10):
        read(known, head(f"X: {number}"))
        read(known, head(f"X: {number}"))
    for cache in (known._by_key, known._by_bytes):
        assert len(cache) <= head_reader.MAX_CACHED_HEADS
    read(known, head("X: " + "y" * head_reader.MAX_CACHED_HEAD_BYTES))
    assert max(map(len, [*known._by_key, *known._by_bytes])) <= head_reader.MAX_CACHED_HEAD_BYTES


@pytest.mark.parametrize(
    ("line", "is_last"),
    [("Connection: close", True), ("Connection: Keep-Alive, CLOSE", True), ("Connection: keep-alive", False)],
)
def test_a_client_says_which_request_is_its_last(line: str, is_last: bool) -> None:
    assert read(ClientHeadReader(RULES), head(line))[0].framing.is_last is is_last


def test_an_old_client_gets_neither_chunks_nor_a_second_answer() -> None:
    found = read(ClientHeadReader(RULES), head("Expect: 100-continue").replace(b"HTTP/1.1", b"HTTP/1.0"))[
        0
    ].framing
    assert (found.is_last, found.allows_chunked, found.expects_continue) == (True, False, False)
