"""Heads of requests to a workspace server: admission, caching, and how their fields are looked up."""

from __future__ import annotations

import pytest

from lm_tools_bridge.http_server.refusal import AdmissionRefusal
from lm_tools_bridge.http_server.request_head import MAX_CACHED_HEADS, ReadHead, RefusedHead
from lm_tools_bridge.protocol import headers
from lm_tools_bridge.protocol.trace_context import make_traceparent
from workspace_server.http.request_head import (
    MAX_BODY,
    MAX_HEAD,
    Admission,
    ManagerHead,
    ManagerHeadReader,
    trace_of,
)

SECRET = "s3cret"
LINES = [
    "POST /mcp?tool_mode=a&tool_mode=b&x=%2Fy HTTP/1.1",
    "Host: 127.0.0.1:7",
    f"{headers.SECRET}: {SECRET}",
    "Content-Type: application/json",
    "Mcp-Name: grün",
]


def heads() -> ManagerHeadReader:
    return ManagerHeadReader(Admission(7, SECRET))


def raw(*more: str, lines: list[str] = LINES) -> bytes:
    return "\r\n".join([*lines, *more, "", ""]).encode()


def read(text: bytes, known: ManagerHeadReader | None = None) -> ReadHead[ManagerHead]:
    found = (known or heads()).read(text)
    assert not isinstance(found, RefusedHead), found
    return found


def refusal(text: bytes, known: ManagerHeadReader | None = None) -> AdmissionRefusal:
    found = (known or heads()).read(text)
    assert isinstance(found, RefusedHead)
    return found.refusal


def test_a_head_says_path_fields_and_query() -> None:
    head, length, *_ = read(raw("Content-Length: 12", "X-Two: 1", "x-two: 2"))
    assert (head.path, length) == ("/mcp", 12)
    assert dict(head.query) == {"tool_mode": "a", "x": "/y"}
    assert head.fields["MCP-NAME"] == head.fields.get("mcp-name") == "grün"
    assert "Mcp-Name" in head.fields
    assert "Mcp-Names" not in head.fields
    assert head.fields.get("X-Two") == "1"
    assert head.repeated is None


def test_heads_that_differ_in_their_length_alone_are_admitted_once() -> None:
    known = heads()
    first = read(raw("Content-Length: 12"), known)
    second = read(raw("Content-Length: 3456"), known)
    other = read(raw("Content-Length: 12", "traceparent: 00-1"), known)
    assert second.head is first.head
    assert second.length == 3456
    assert other.head is not first.head
    assert (first.is_known, second.is_known, other.is_known) == (False, True, False)


def test_from_the_second_time_on_a_head_is_cached_by_its_bytes() -> None:
    known = heads()
    one, other = raw("Content-Length: 12"), raw("Content-Length: 13")
    first = read(one, known)
    second = read(one, known)
    assert second is not first
    assert read(other, known) is read(other, known)
    assert read(one, known) is second
    assert (second.head, second.length) == (first.head, 12)
    assert read(other, known).length == 13
    assert read(one[:-1], known) is not second


def test_a_refused_head_is_never_cached() -> None:
    known = heads()
    refused, chunked = raw(f"Content-Length: {MAX_BODY + 1}"), raw("Transfer-Encoding: chunked")
    for _ in range(3):
        read(raw("Content-Length: 12"), known)
        assert refusal(refused, known).status == 413
        assert not read(chunked, known).is_known


def test_a_full_cache_is_emptied() -> None:
    known = heads()
    first, last = raw("Content-Length: 1"), raw(f"Content-Length: {MAX_CACHED_HEADS + 2}")
    read(first, known)
    before = read(first, known)
    for length in range(MAX_CACHED_HEADS + 2):
        read(raw(f"Content-Length: {length + 1}"), known)
    assert read(last, known) is read(last, known)
    assert read(first, known) is not before


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
    head = read(raw(f"{name}: a", f"{name}: b", lines=lines)).head
    assert head.repeated == f"header {name.lower()} is sent 2 times"


def test_what_can_never_become_a_head_is_seen_at_once() -> None:
    known = heads()
    assert known.refuse_begin(b"\x16\x03\x01") is not None
    assert known.refuse_begin(raw("A: b" * MAX_HEAD)) is not None
    assert known.refuse_begin(b"POST /mc") is None


def test_a_trace_context_at_the_end_makes_no_other_head() -> None:
    known = heads()
    plain = read(raw("Content-Length: 12"), known)
    heads_of = [raw("Content-Length: 12", f"traceparent: {make_traceparent(n).decode()}") for n in (1, 2, 3)]
    traced = [read(one, known) for one in heads_of]
    assert all(one.head is plain.head for one in traced)
    assert [trace_of(one) for one in heads_of] == [make_traceparent(n).decode() for n in (1, 2, 3)]
    assert [one.length for one in traced] == [12, 12, 12]
    assert (trace_of(raw("Content-Length: 12")), traced[0].is_known) == ("", True)
    assert traced[1] is traced[2]  # as for heads that are equal
    assert "traceparent" not in plain.head.fields


@pytest.mark.parametrize("value", ["00-1", make_traceparent(1).decode() + "0", ""])
def test_a_trace_context_of_another_length_is_an_ordinary_field(value: str) -> None:
    head = raw("Content-Length: 12", f"traceparent: {value}")
    assert (trace_of(head), read(head).head.fields["traceparent"]) == ("", value)


def test_a_head_with_a_trace_context_is_admitted_by_the_same_rules() -> None:
    lines = [line for line in LINES if headers.SECRET not in line]
    assert (
        refusal(raw("Content-Length: 2", f"traceparent: {make_traceparent(1).decode()}", lines=lines)).status
        == 401
    )
