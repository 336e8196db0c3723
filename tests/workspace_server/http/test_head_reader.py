"""HeadReader at the door: what is remembered of them, what is not, and how their fields are looked up."""

from __future__ import annotations

import pytest

from http_server.refusal import AdmissionRefusal
from http_server.request_parser import RefusedHead
from protocol import headers
from workspace_server.http.admission import MAX_BODY, Admission
from workspace_server.http.head_reader import MAX_HEAD, REMEMBERED, Head, HeadReader

SECRET = "s3cret"
LINES = [
    "POST /mcp?tool_mode=a&tool_mode=b&x=%2Fy HTTP/1.1",
    "Host: 127.0.0.1:7",
    f"{headers.SECRET}: {SECRET}",
    "Content-Type: application/json",
    "Mcp-Name: grün",
]


def heads() -> HeadReader:
    return HeadReader(Admission(7, SECRET))


def raw(*more: str, lines: list[str] = LINES) -> bytes:
    return "\r\n".join([*lines, *more, "", ""]).encode()


def read(text: bytes, known: HeadReader | None = None) -> tuple[Head, int | None]:
    found = (known or heads()).read(text)
    assert not isinstance(found, RefusedHead), found
    return found


def refusal(text: bytes, known: HeadReader | None = None) -> AdmissionRefusal:
    found = (known or heads()).read(text)
    assert isinstance(found, RefusedHead)
    return found.refusal


def test_a_head_says_path_fields_and_query() -> None:
    head, length = read(raw("Content-Length: 12", "X-Two: 1", "x-two: 2"))
    assert (head.path, length) == ("/mcp", 12)
    assert dict(head.query) == {"tool_mode": "a", "x": "/y"}
    assert head.fields["MCP-NAME"] == head.fields.get("mcp-name") == "grün"
    assert "Mcp-Name" in head.fields
    assert "Mcp-Names" not in head.fields
    assert head.fields.get("X-Two") == "1"
    assert head.repeated is None


def test_heads_that_differ_in_their_length_alone_are_read_once() -> None:
    known = heads()
    first, _ = read(raw("Content-Length: 12"), known)
    second, length = read(raw("Content-Length: 3456"), known)
    other, _ = read(raw("Content-Length: 12", "traceparent: 00-1"), known)
    assert second is first
    assert length == 3456
    assert other is not first
    assert (first.is_known, other.is_known) == (True, False)


def test_a_head_is_the_same_from_the_third_time_on_with_which_its_bytes_come() -> None:
    """The first one is read, the second one found to be alike."""
    known = heads()
    one, other = raw("Content-Length: 12"), raw("Content-Length: 13")
    assert known.same(one) is None
    first, _ = read(one, known)
    assert known.same(one) is None
    read(one, known)
    read(other, known)
    assert known.same(one) == (first, 12)
    assert known.same(other) == (first, 13)
    assert known.same(one[:-1]) is None
    assert known.same(b"") is None


def test_what_is_not_let_in_is_never_the_same() -> None:
    known = heads()
    refused = raw(f"Content-Length: {MAX_BODY + 1}")
    for _ in range(3):
        refusal(refused, known)
        read(raw("Transfer-Encoding: chunked"), known)
    assert known.same(refused) is None
    assert known.same(raw("Transfer-Encoding: chunked")) is None


def test_only_so_many_heads_are_remembered() -> None:
    known = heads()
    first = raw("Content-Length: 1")
    for length in range(REMEMBERED + 2):
        read(raw(f"Content-Length: {length + 1}"), known)
    assert known.same(first) is None
    assert known.same(raw(f"Content-Length: {REMEMBERED + 2}")) is not None


@pytest.mark.parametrize(
    ("line", "status"),
    [
        (f"Content-Length: {MAX_BODY + 1}", 413),
        ("Content-Length: +1", 400),
        ("Content-Length: 1\r\nContent-Length: 1", 400),
        ("Content-Length: 1\r\nTransfer-Encoding: chunked", 400),
        ("Transfer-Encoding: gzip, chunked", 400),
        ("Expect: more", 417),
        ("Origin: null", 403),
        ("Host: 127.0.0.1:7", 403),
        (f"{headers.SECRET}: {SECRET}", 401),
        ("Content-Encoding: gzip", 415),
        (f"X: {'y' * MAX_HEAD}", 431),
        ("X : y", 400),
    ],
)
def test_a_head_that_does_not_get_in_is_refused_every_time(line: str, status: int) -> None:
    known = heads()
    read(raw("Content-Length: 12"), known)
    for _ in range(2):
        assert refusal(raw(line), known).status == status


@pytest.mark.parametrize("name", ["Mcp-Name", "MCP-Method", "mcp-param-a"])
def test_a_routing_field_that_is_sent_twice_is_noted(name: str) -> None:
    lines = [line for line in LINES if not line.startswith("Mcp-Name")]
    head, _ = read(raw(f"{name}: a", f"{name}: b", lines=lines))
    assert head.repeated == f"header {name.lower()} is sent 2 times"


def test_what_can_never_become_a_head_is_seen_at_once() -> None:
    known = heads()
    assert known.refuse_begin(b"\x16\x03\x01") is not None
    assert known.refuse_begin(raw("A: b" * MAX_HEAD)) is not None
    assert known.refuse_begin(b"POST /mc") is None
