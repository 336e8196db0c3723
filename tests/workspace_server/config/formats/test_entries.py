from __future__ import annotations

import pytest

from workspace_server.config.formats import entries

EXPECTED = {"FIRST": "one", "SECOND": "two words"}
TEXT = "FIRST=one\r\nexport SECOND='two words' # both\r\n"


@pytest.mark.parametrize("coding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le"])
def test_a_byte_order_mark_is_no_part_of_the_first_name(coding: str) -> None:
    mark = b"\xff\xfe" if coding == "utf-16-le" else b""
    assert entries.parse(entries.decode(mark + TEXT.encode(coding))) == EXPECTED


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_all_usual_line_ends_are_read_and_no_others(end: str) -> None:
    text = f"A=1{end}B=x\u2028y\x0cz\x85{end}"
    assert entries.parse(text) == {"A": "1", "B": "x\u2028y\x0cz"}
