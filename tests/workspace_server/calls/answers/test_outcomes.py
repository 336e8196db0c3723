"""A note for the model joins a result, and changes nothing else of it."""

from __future__ import annotations

import json

import msgspec
import pytest

from protocol.inbound import Rejection
from workspace_server.calls.answers.outcomes import with_note

BLOCK = {"type": "text", "text": "a"}
NOTE = {"type": "text", "text": "from B"}


def test_the_note_is_the_last_block_and_unknown_members_survive() -> None:
    noted = with_note(msgspec.Raw(b'{"x":1.50,"content":[{"type":"new","y":2}],"isError":true}'), "from B")
    assert isinstance(noted, msgspec.Raw)
    assert bytes(noted).startswith(b'{"x":1.50,')
    assert json.loads(bytes(noted))["content"] == [{"type": "new", "y": 2}, NOTE]


def test_a_result_of_our_own_is_noted_likewise() -> None:
    noted = with_note({"content": [BLOCK], "structuredContent": {"a": 1}}, "from B")
    assert isinstance(noted, msgspec.Raw)
    assert json.loads(bytes(noted)) == {"content": [BLOCK, NOTE], "structuredContent": {"a": 1}}


@pytest.mark.parametrize("result", [b'{"content":null}', b'{"content":{}}', b"{}", b'{"resultType":"task"}'])
def test_a_result_without_a_list_of_content_stays_as_it_is(result: bytes) -> None:
    assert with_note(msgspec.Raw(result), "from B") == msgspec.Raw(result)


def test_without_a_note_nothing_is_read() -> None:
    broken = msgspec.Raw(b"{")
    assert with_note(broken, "") is broken
    refused = Rejection(200, -32603, "no")
    assert with_note(refused, "from B") is refused
