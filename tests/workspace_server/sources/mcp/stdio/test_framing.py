"""Splitting the output of a server into lines."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from support.processes.timeouts import within
from workspace_server.sources.mcp.stdio.transport import Lines, one_line


@given(st.lists(st.binary().map(lambda b: b.replace(b"\n", b"").replace(b"\r", b"")), max_size=8), st.data())
def test_lines_are_the_same_however_the_bytes_are_cut(lines: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(line + data.draw(st.sampled_from([b"\n", b"\r\n"])) for line in lines) + b"rest"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    collector = Lines()
    found = [
        line
        for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)
        for line in collector.feed(stream[a:b])
    ]
    assert found == lines


def test_lines_before_one_over_the_limit_are_returned() -> None:
    lines = Lines(max_line=5)
    assert lines.feed(b"12345\n1234") == [b"12345"]
    assert not lines.overflowed
    assert lines.feed(b"56") == []
    assert lines.overflowed
    assert lines.feed(b"\nok\n") == []


def test_a_complete_line_over_the_limit_counts_as_overflow() -> None:
    lines = Lines(max_line=5)
    assert lines.feed(b"ok\n123456\nok\n") == [b"ok"]
    assert lines.overflowed


def test_time_grows_linearly_with_the_bytes() -> None:
    """A line of 32 MiB arrives in pieces of a pipe's size; quadratic time would be minutes."""
    lines, chunk = Lines(), b"x" * 65_536
    began = time.thread_time()
    for _ in range(511):
        assert lines.feed(chunk) == []
    assert len(lines.feed(b"\n")[0]) == 511 * 65_536
    assert time.thread_time() - began < within(0.5)


def test_a_message_is_one_line_whatever_its_white_space() -> None:
    assert one_line(b'{\r\n "a": "x\\ny"\n}') == b'{   "a": "x\\ny" }\n'
