"""The manager's own progress of a silent call continues that of the server and always increases."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from lm_tools_bridge.protocol import jsonrpc, names, sse
from manager.relay.call_progress import CallProgress


def params_of(event: bytes) -> dict[str, Any]:
    [found] = sse.Decoder(10_000).feed(event)
    message = json.loads(found.data)
    assert message["method"] == names.PROGRESS
    params: dict[str, Any] = message["params"]
    return params


def of_server(**params: Any) -> bytes:
    return sse.encode(jsonrpc.notification(names.PROGRESS, {"progressToken": "t", **params}))


def test_each_notification_has_the_token_as_it_came_and_more_progress() -> None:
    clock = iter([100.0, 115.0, 130.0])
    progress = CallProgress(msgspec.Raw(b'"a\\u00e9"'), clock.__next__)
    first, second = params_of(progress.event()), params_of(progress.event())
    assert first["progressToken"] == second["progressToken"] == "aé"
    assert 0 < first["progress"] < second["progress"] < 1
    assert (first["message"], second["message"]) == ("still running (15 s)", "still running (30 s)")


def test_the_servers_progress_is_continued() -> None:
    progress = CallProgress(msgspec.Raw(b"1"))
    assert progress.note_written(of_server(progress=0.1) + of_server(total=10, progress=3))
    assert progress.note_written(of_server(progress=2))
    assert 3 < params_of(progress.event())["progress"] < 4


def test_other_messages_are_no_progress() -> None:
    progress = CallProgress(msgspec.Raw(b"1"))
    assert not progress.note_written(b'data: {"result":{"progress": 50}}\n\n')
    assert params_of(progress.event())["progress"] < 1
