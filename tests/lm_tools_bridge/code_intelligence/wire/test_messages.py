"""Messages of a language server are told apart, whatever they look like."""

from __future__ import annotations

import contextlib
import gc
import json
from typing import Any

import msgspec
import pytest

from lm_tools_bridge.code_intelligence.server import RequestFailed
from lm_tools_bridge.code_intelligence.wire import messages
from lm_tools_bridge.code_intelligence.wire.messages import Notification, Request, Response, Unreadable


def body(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **members}).encode()


def test_the_four_kinds_are_told_apart() -> None:
    request = messages.read_message(body(id="a", method="workspace/configuration", params={"items": []}))
    assert request == Request(b'"a"', "workspace/configuration", msgspec.Raw(b'{"items": []}'))
    notified = messages.read_message(body(method="x/y"))
    assert notified == Notification("x/y", msgspec.Raw(b"null"))
    assert messages.read_message(body(id=4, result=None)) == Response(b"4", msgspec.Raw(b"null"))
    failed = messages.read_message(body(id=4, error={"code": -32601, "message": "no\x1b[31m such"}))
    assert isinstance(failed, Response)
    assert isinstance(failed.result, RequestFailed)
    assert (failed.result.code, failed.result.message) == (-32601, "no such")


def test_an_answer_with_a_null_error_beside_its_result_counts() -> None:
    assert messages.read_message(body(id=4, result=[1], error=None)) == Response(b"4", msgspec.Raw(b"[1]"))


@pytest.mark.parametrize(
    ("sent", "identity"),
    [
        (b"", None),
        (b"[]", None),
        (b"null", None),
        (b"{}", b"null"),
        (b'{"id":{},"method":"x"}', None),
        (b'{"jsonrpc":"2.0","id":12,"result":[1,', b"12"),
        (b'{"id": 12}', b"12"),
        (b"[" * 100_000, None),
        (b'{"jsonrpc":"2.0","id":12,"method":"x","params":{"a"', None),
        (b'{"id":3,"result":"\xff' + b"x" * 300, b"3"),
    ],
)
def test_what_is_no_message_fails_the_request_it_names_at_most(sent: bytes, identity: bytes | None) -> None:
    assert messages.read_message(sent) == Unreadable(identity)


@pytest.mark.parametrize("error", ["text", 5, [], {}, {"code": "x", "message": 5}, {"code": 1e400}])
def test_errors_of_any_shape_are_errors(error: Any) -> None:
    found = messages.read_message(body(id=1, error=error).replace(b"Infinity", b"1e400"))
    assert isinstance(found, Response)
    assert isinstance(found.result, RequestFailed)


def test_strings_that_are_not_utf_8_are_refused_when_they_are_read() -> None:
    found = messages.read_message(b'{"id":1,"result":"\xff"}')
    if isinstance(found, Response):
        assert isinstance(found.result, msgspec.Raw)
        with pytest.raises(RequestFailed):
            messages.value(found.result)


def test_unknown_members_of_a_result_survive() -> None:
    found = messages.read_message(body(id=1, result={"_self": 1, "range": {}}))
    assert isinstance(found, Response)
    assert isinstance(found.result, msgspec.Raw)
    assert messages.value(found.result) == {"_self": 1, "range": {}}


@pytest.mark.parametrize("text", [b"[" + b"{}," * messages.LARGE + b"{}]", b"[" + b"{}," * messages.LARGE])
def test_the_garbage_collector_works_on_after_a_large_result(text: bytes) -> None:
    with contextlib.suppress(RequestFailed):
        assert len(messages.value(msgspec.Raw(text))) == messages.LARGE + 1
    assert gc.isenabled()


def test_no_parameters_means_no_member() -> None:
    assert json.loads(messages.message("shutdown", None, 3)) == {
        "jsonrpc": "2.0",
        "id": 3,
        "method": "shutdown",
    }
    assert json.loads(messages.message("exit", None)) == {"jsonrpc": "2.0", "method": "exit"}
    assert json.loads(messages.message("x", []))["params"] == []
