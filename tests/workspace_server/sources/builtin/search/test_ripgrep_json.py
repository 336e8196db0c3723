"""Reading `rg --json` from any chunks."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from workspace_server.sources.builtin.search.query import HEAD_BYTES, Line
from workspace_server.sources.builtin.search.ripgrep_json import MAX_MESSAGE, RipgrepJson


def match(path: str, number: int, text: str | bytes, spans: list[tuple[int, int]]) -> dict[str, Any]:
    lines = {"text": text} if isinstance(text, str) else {"bytes": base64.b64encode(text).decode()}
    raw = text.encode() if isinstance(text, str) else text
    submatches = [
        {"match": {"text": raw[start:end].decode("utf-8", "replace")}, "start": start, "end": end}
        for start, end in spans
    ]
    data = {"path": {"text": path}, "lines": lines, "line_number": number, "absolute_offset": 0}
    return {"type": "match", "data": {**data, "submatches": submatches}}


def end(path: str, *, binary: int | None = None) -> dict[str, Any]:
    return {"type": "end", "data": {"path": {"text": path}, "binary_offset": binary}}


def encoded(*messages: dict[str, Any]) -> bytes:
    return b"".join(
        json.dumps(one, separators=(",", ":"), ensure_ascii=False).encode() + b"\n" for one in messages
    )


def read(data: bytes, chunk: int, *, keep: int = 100) -> RipgrepJson:
    reader = RipgrepJson(keep, PLACES.get)
    for at in range(0, len(data), chunk):
        reader.feed(data[at : at + chunk])
    return reader


PLACES = {name: place for place, name in enumerate(["a", "b", "binary", "open", "a b\\", "c"])}

STREAM = encoded(
    match("./a", 1, "é needle\r\n", [(3, 9)]),
    end("./a"),
    match("./b", 2, b"\xffneedle\n", [(1, 7), (7, 7)]),
    match("./b", 9, "needle", [(0, 6)]),
    end("./b"),
    match("./binary", 1, "needle\n", [(0, 6)]),
    end("./binary", binary=70),
    match("unwanted", 1, "needle\n", [(0, 6)]),
    end("unwanted"),
    match("./open", 1, "", [(0, 0)]),
)


@pytest.mark.parametrize("chunk", [1, 7, 64, 10_000])
def test_any_split_gives_the_same_lines(chunk: int) -> None:
    reader = read(STREAM, chunk)
    assert reader.in_order() == [
        Line("a", 1, "é needle".encode(), False, 3, 1),
        Line("b", 2, b"\xffneedle", False, 1, 1),
        Line("b", 9, b"needle", False, 0, 1),
        Line("open", 1, b"", False, 0, 1),
    ]
    assert (reader.finished, reader.count) == (3, 4)
    assert not reader.summary


def test_no_more_lines_are_kept_than_asked_for() -> None:
    reader = read(STREAM, 64, keep=2)
    assert ([line.relative for line in reader.in_order()], reader.count) == (["a", "b"], 4)


def test_lines_are_in_the_order_of_their_files_whatever_came_first() -> None:
    late = [match("c", 1, "x", [(0, 1)]), end("c")]
    early = [match("a", 3, "x", [(0, 1)]), match("a", 4, "x", [(0, 1)]), end("a")]
    for keep, expected in ((9, [("a", 3), ("a", 4), ("c", 1)]), (1, [("a", 3)])):
        reader = read(encoded(*late * 5, *early), 64, keep=keep)
        found = [(line.relative, line.number) for line in reader.in_order()]
        assert (found[: len(expected)], reader.count) == (expected, 7)


TRICKY = '"},"line_number":7,"absolute_offset":0,"submatches":[,"start":1,"end":2}\\'


@pytest.mark.parametrize("chunk", [1000, 4093, 65_536, 10_000_000])
@pytest.mark.parametrize("kind", ["text", "bytes"])
def test_message_beyond_the_cap_is_scanned_as_it_passes(chunk: int, kind: str) -> None:
    text = TRICKY * 10 + "é\t" * 500_000
    content = text if kind == "text" else text.encode() + b"\xff"
    spans = [(3 * n, 3 * n + n % 2) for n in range(1, 5000)]
    data = encoded(
        match("./a b\\", 12, content, spans), end("./a b\\"), match("c", 1, "x", [(0, 1)]), end("c")
    )
    assert len(data) > MAX_MESSAGE
    long, short = read(data, chunk).in_order()
    assert long == Line("a b\\", 12, text.encode()[:HEAD_BYTES], True, 3, 2500)
    assert short == Line("c", 1, b"x", False, 0, 1)


def test_preview_shows_the_match_of_a_long_line() -> None:
    line = Line("a", 1, ("x" * 3000 + "needle" + "y" * 3000).encode(), False, 3000, 1)
    assert line.preview.startswith("…x")
    assert "needle" in line.preview
    assert line.preview.endswith("y…")
    assert len(line.preview) == 502
