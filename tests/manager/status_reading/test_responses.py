"""Tests of how answers of servers are read, which other programs may have written."""

from __future__ import annotations

import pytest

from manager.status_reading.responses import json_object


@pytest.mark.parametrize(
    "answer", [b"", b"<html>", b"[1]", b"7", b'{"a": "\xff"}', b'{"a": 1} 2', b'{"a":' * 100_000]
)
def test_what_is_no_object_is_told_apart(answer: bytes) -> None:
    assert json_object(answer) is None


def test_an_object_is_read() -> None:
    assert json_object(b'{"ok": true}') == {"ok": True}
