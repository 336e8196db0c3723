"""Positions keep their place between our characters and a server's units."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_tools_bridge.code_intelligence.server import PositionEncoding
from lm_tools_bridge.code_intelligence.wire.positions import (
    OutsideText,
    Position,
    Span,
    from_server,
    span_from_server,
    span_to_server,
    split_lines,
    to_server,
)

ENCODINGS: tuple[PositionEncoding, ...] = get_args(PositionEncoding)
CODECS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}
TEXTS = st.text(st.sampled_from("a\té\u0301\u2028\u20ac\U0001f600\U0001f469\u200d\ufeff"), max_size=12)


def units(text: str, encoding: PositionEncoding) -> int:
    """The definition in LSP 3.17, Position: code units of the encoding."""
    codec, size = CODECS[encoding]
    return len(text.encode(codec)) // size


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(lines=st.lists(TEXTS, min_size=1, max_size=4), data=st.data())
def test_a_position_comes_back_as_it_went(
    encoding: PositionEncoding, lines: list[str], data: st.DataObject
) -> None:
    line = data.draw(st.integers(1, len(lines)))
    column = data.draw(st.integers(1, len(lines[line - 1]) + 1))
    sent = to_server(Position(line, column), lines, encoding)
    assert sent == {"line": line - 1, "character": units(lines[line - 1][: column - 1], encoding)}
    assert from_server(sent, lines, encoding) == Position(line, column)


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(line=TEXTS, character=st.integers(-3, 60))
def test_a_position_inside_or_behind_a_character_is_moved_back(
    encoding: PositionEncoding, line: str, character: int
) -> None:
    fitting = [n for n in range(len(line) + 1) if units(line[:n], encoding) <= max(0, character)]
    found = from_server({"line": 0, "character": character}, [line], encoding)
    assert found == Position(1, fitting[-1] + 1)


@pytest.mark.parametrize(
    ("encoding", "character"), [("utf-8", 4 + 3 + 2), ("utf-16", 2 + 1 + 2), ("utf-32", 1 + 1 + 2)]
)
def test_emoji_euro_and_combining_marks_count_as_the_encoding_says(
    encoding: PositionEncoding, character: int
) -> None:
    line = "\U0001f600\u20ace\u0301x"
    extra = 1 if encoding == "utf-8" else 0  # U+0301 takes two bytes
    assert to_server(Position(1, 5), [line], encoding) == {"line": 0, "character": character + extra}


def test_lines_end_as_lsp_says() -> None:
    assert split_lines("a\r\nb\rc\n\u2028d\n") == ["a", "b", "c", "\u2028d", ""]
    assert split_lines("") == [""]
    assert split_lines("a\n\nb") == ["a", "", "b"]


@pytest.mark.parametrize(
    ("position", "reason"),
    [
        (Position(3, 1), "line 3 does not exist; the file has 2 lines"),
        (Position(0, 1), "line 0 does not exist; the file has 2 lines"),
        (Position(1, 4), "column 4 does not exist in line 1; its last is 3"),
        (Position(1, 0), "column 0 does not exist in line 1; its last is 3"),
    ],
)
def test_a_callers_position_outside_the_file_is_refused(position: Position, reason: str) -> None:
    assert to_server(position, ["\ta", ""], "utf-16") == OutsideText(reason)
    assert span_to_server(Span(Position(1, 1), position), ["\ta", ""], "utf-16") == OutsideText(reason)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({"line": 99, "character": 99}, Position(2, 3)),
        ({"line": 0, "character": 2**31 - 1}, Position(1, 2)),
        ({"line": -1, "character": -5}, Position(1, 1)),
        ({"line": 10**30, "character": 10**30}, Position(2, 3)),
        ({"line": "0", "character": 0}, None),
        ({"line": 0.0, "character": 0}, None),
        ({"line": True, "character": 0}, None),
        ({"line": 0}, None),
        ([0, 0], None),
        (None, None),
    ],
)
def test_what_a_server_invents_is_moved_into_the_file_or_no_position(
    found: Any, expected: Position | None
) -> None:
    assert from_server(found, ["é", "ab"], "utf-8") == expected


def test_without_the_text_columns_are_passed_on() -> None:
    assert from_server({"line": 4, "character": 7}, None, "utf-16") == Position(5, 8)
    assert from_server({"line": 0, "character": 0}, [], "utf-16") == Position(1, 1)


def test_spans_are_in_order() -> None:
    start, end = {"line": 0, "character": 1}, {"line": 1, "character": 0}
    lines = ["abc", "d"]
    assert span_from_server({"start": start, "end": end}, lines, "utf-8") == Span(
        Position(1, 2), Position(2, 1)
    )
    turned = span_from_server({"start": end, "end": start}, lines, "utf-8")
    assert turned == Span(Position(2, 1), Position(2, 1))
    assert span_from_server({"start": start}, lines, "utf-8") is None
    assert span_to_server(Span(Position(1, 2), Position(2, 1)), lines, "utf-8") == {
        "start": start,
        "end": end,
    }
    assert isinstance(span_to_server(Span(Position(2, 1), Position(1, 2)), lines, "utf-8"), OutsideText)
