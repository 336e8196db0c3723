"""Files are read as they are meant: with byte order marks, and in encodings that they name."""

from __future__ import annotations

import codecs
from pathlib import Path

import pytest

from lm_tools_bridge.code_intelligence.tree.disk_text import read_file

LATIN = "# -*- coding: latin-1 -*-\nx = 'é'\n"


@pytest.mark.parametrize(
    ("content", "text", "encoding", "is_plain"),
    [
        (b"x = '\xc3\xa9'\n", "x = 'é'\n", "utf-8", True),
        (b"\xef\xbb\xbfx = 1\n", "x = 1\n", "utf-8", False),
        (LATIN.encode("latin-1"), LATIN, "iso8859-1", False),
        (b"#!/usr/bin/python\n# vim: set fileencoding=cp1252 :\n# \x80\n", None, "cp1252", False),
        ("é = 1\n".encode("utf-16"), "é = 1\n", "utf-16-le", False),
        (codecs.BOM_UTF16_BE + "é".encode("utf-16-be"), "é", "utf-16-be", False),
        (b"x = '\xff'\n", "x = 'ÿ'\n", "", False),
        (b"# coding: rot13\n\xff", "# coding: rot13\nÿ", "", False),
        (b"# coding: nosuch\n\xff", None, "", False),
        (b"\n\n# coding: latin-1\n\xff", None, "", False),
        (b"\xff\xfe\xff", "ÿþÿ", "", False),
    ],
)
def test_bytes_become_text(
    tmp_path: Path, content: bytes, text: str | None, encoding: str, is_plain: bool
) -> None:
    file = tmp_path / "a.py"
    file.write_bytes(content)
    read = read_file(file)
    assert (read.encoding, read.is_plain) == (encoding, is_plain)
    if text is not None:
        assert read.text == text
