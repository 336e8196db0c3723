"""Tests of the launch instructions of a workspace server, and of its health answer."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_tools_bridge.protocol.internal.launch import (
    Health,
    LaunchInstructions,
    decode,
    decode_health,
    encode,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
ORDERS = LaunchInstructions("ws-1", "/srv/a b", "i-1", "nonce", "secret", 7, 1.5, {"quiet": True})


@given(TEXT, TEXT, st.integers(0, 1 << 20), st.dictionaries(TEXT, TEXT, max_size=2))
def test_launch_instructions_survive_encoding_on_one_line(
    root: str, secret: str, descriptor: int, settings: dict[str, str]
) -> None:
    instructions = LaunchInstructions("ws-1", root, "i-1", "n", secret, descriptor, 60.0, settings)
    line = encode(instructions)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert decode(line) == instructions


@pytest.mark.parametrize(
    "line",
    [
        b"{}",
        b"[]",
        encode(ORDERS).replace(b'"root"', b'"unknown"'),
        encode(ORDERS).replace(b"{", b'{"more":1,', 1),
        encode(ORDERS).replace(b"7", b'"7"', 1),
    ],
)
def test_invalid_launch_instructions_are_refused(line: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        decode(line)


def test_unknown_members_of_a_health_answer_are_ignored() -> None:
    body = b'{"ok":true,"nonce":"n","workspace":"w","pid":5,"version":"1","tools":[],"later":{}}'
    assert decode_health(body) == Health(True, "n", "w", 5, "1")
    assert decode_health(b'{"ok":false}') == Health(False)


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", b"[]", b"null", b"{}", b'{"ok":1}', b'{"ok":true,"pid":"5"}', b'{"ok":true,"nonce":"\xff"}',
     b'{"ok":true,"a":' + b"[" * 100_000],
)  # fmt: skip
def test_an_invalid_health_answer_is_none(body: bytes) -> None:
    assert decode_health(body) is None
