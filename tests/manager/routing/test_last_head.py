"""Requests that are compared with the last one: a head is taken for the same where reading it says so, too."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from manager.routing.arrival import Arrival
from manager.routing.door import DoorRules
from manager.routing.heads import Heads, Refused
from manager.routing.last_head import LastHead

CAP = 4000
RULES = DoorRules.for_ports([4000], body_cap=CAP)
BODY = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"a":1}}}'
FIELDS = (
    b"Host: 127.0.0.1:4000\r\nContent-Type: application/json\r\nContent-Length: %b\r\n"
    b"Accept: application/json\r\nMcp-Session-Id: s-1\r\n"
)
ENDS = b"\r\n\r\n"


def head(length: bytes, fields: bytes = FIELDS, more: bytes = b"") -> bytes:
    return b"POST /mcp HTTP/1.1\r\n" + fields % length + more + b"\r\n"


def request(body: bytes = BODY, more: bytes = b"") -> bytes:
    return head(b"%d" % len(body), more=more) + body


class Reader:
    """Who reads every head, and the last head that came."""

    def __init__(self, fields: bytes = FIELDS) -> None:
        self.heads = Heads(RULES)
        first = head(b"%d" % len(BODY), fields)
        self.said = (self.of(first) or (None, None, 0))[:2]
        self.last = LastHead(first, CAP)

    def of(self, raw: bytes) -> tuple[Arrival | None, str | None, int | None] | None:
        """What a head says, its session, and the length of its body; None where it does not get in."""
        read = self.heads.read(raw)
        return None if isinstance(read, Refused) else (read.head.arrival, read.session, read.length)

    def body_at(self, data: bytes) -> int:
        """What `LastHead.body_at` should say at most."""
        end = data.find(ENDS) + len(ENDS)
        if end < len(ENDS):
            return -1
        is_whole = self.of(data[:end]) == (*self.said, len(data) - end)
        return end if is_whole else -1


@pytest.mark.parametrize("size", [0, 1, 9, 10, 99, 100, 999, 1000, CAP])
@pytest.mark.parametrize("fields", [FIELDS, FIELDS.replace(b"Content-Length", b"content-length")])
def test_a_request_with_another_length_is_the_same(fields: bytes, size: int) -> None:
    reader = Reader(fields)
    data = head(b"%d" % size, fields) + b"x" * size
    for _ in range(2):
        assert reader.last.body_at(data) == len(data) - size == reader.body_at(data)


LENGTHS = st.sampled_from(
    [b"0", b"87", b"88", b"89", b"087", b"00000087", b"+87", b"8 7", b" 87", b"87 ", b"", b"87, 87"]
)
SMUGGLED = st.sampled_from(
    [
        b"",
        b"",
        b"Content-Length: 87\r\n",
        b"Content-Length: 5\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Origin: http://evil.example\r\n",
        b"Mcp-Session-Id: s-2\r\n",
        b"Connection: close\r\n",
        b"Expect: 100-continue\r\n",
        b"\r\n",
        b"X: y\n",
        b"\n",
    ]
)


@given(
    length=LENGTHS | st.integers(0, 5000).map(b"%d".__mod__),
    more=SMUGGLED,
    body=st.sampled_from(
        [BODY, BODY[:-1], BODY + b"\r\n", BODY * 2, BODY + request(), b"", b"x" * (CAP + 1)]
    ),
    cut=st.integers(-300, 400),
    inserted=st.sampled_from([b"", b"", b"", b"\r\n", b"\r", b"\n", b" ", b"0", b"7", b"\0", b": ", b"\xe9"]),
    dropped=st.integers(0, 2),
)
@example(b"4001", b"", b"x" * 4001, 0, b"", 0)
@example(b"87", b"", BODY, 120, b"", 0)
def test_no_other_request_is_taken_for_the_same(
    length: bytes, more: bytes, body: bytes, cut: int, inserted: bytes, dropped: int
) -> None:
    """Lengths that lie, a second length, other fields, and anything inserted or left out anywhere."""
    reader = Reader()
    reader.last.body_at(request())
    whole = head(length, more=more) + body
    data = whole[:cut] + inserted + whole[cut + dropped :]
    assert reader.last.body_at(data) in (-1, reader.body_at(data))


def test_a_request_that_is_not_whole_or_not_alone_is_none() -> None:
    reader, data = Reader(), request()
    assert [reader.last.body_at(data[:size]) for size in range(len(data))] == [-1] * len(data)
    assert [reader.last.body_at(data[start:]) for start in range(1, len(data))] == [-1] * (len(data) - 1)
    assert reader.last.body_at(data * 2) == -1
    assert reader.last.body_at(data) > 0
    for other in (data[:-1], data + b"x", data[1:] + b"}", b"x" * len(data)):
        assert reader.last.body_at(other) == -1


def test_a_head_without_a_length_is_never_known() -> None:
    last = LastHead(head(b"1").replace(b"Content-Length: 1\r\n", b""), CAP)
    assert last.body_at(head(b"1") + b"x") == last.body_at(b"") == -1
