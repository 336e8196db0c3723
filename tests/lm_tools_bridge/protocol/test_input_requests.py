"""Tests of the capabilities that input requests need, and of errors as input responses."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from lm_tools_bridge.protocol import input_requests, jsonrpc, names
from lm_tools_bridge.protocol.input_requests import MAX_ROOTS, MAX_URI, roots_in


@pytest.mark.parametrize(
    ("method", "params", "expected"),
    [
        (names.ELICIT, {}, {"elicitation": {"form": {}}}),
        (names.ELICIT, {"mode": "form"}, {"elicitation": {"form": {}}}),
        (names.ELICIT, {"mode": "url"}, {"elicitation": {"url": {}}}),
        (names.ELICIT, {"mode": 5}, {"elicitation": {"form": {}}}),
        (names.SAMPLE, {"messages": []}, {"sampling": {}}),
        (names.SAMPLE, {"tools": []}, {"sampling": {"tools": {}}}),
        (names.SAMPLE, {"toolChoice": {}}, {"sampling": {"tools": {}}}),
        (names.ROOTS_LIST, {}, {"roots": {}}),
        ("ping", {}, None),
        ("", {}, None),
    ],
)
def test_each_input_request_needs_a_capability(method: str, params: dict[str, Any], expected: object) -> None:
    """In the format of `requiredCapabilities`."""
    assert input_requests.required_capabilities(method, jsonrpc.dumps(params)) == expected
    if not params:
        assert input_requests.required_capabilities(method, b"") == expected


@pytest.mark.parametrize(
    ("declared", "wanted", "expected"),
    [
        ({"elicitation": {}}, {"elicitation": {"form": {}}}, True),
        ({"elicitation": {}}, {"elicitation": {"url": {}}}, False),
        ({"elicitation": {"url": {}}}, {"elicitation": {"form": {}}}, False),
        ({"elicitation": {"url": {}, "form": {}}}, {"elicitation": {"url": {}}}, True),
        ({"sampling": {}}, {"sampling": {}}, True),
        ({"sampling": {}}, {"sampling": {"tools": {}}}, False),
        ({"sampling": True}, {"sampling": {}}, False),
        ({"roots": {"listChanged": True}}, {"roots": {}}, True),
        ({}, {"roots": {}}, False),
        ({}, {}, True),
    ],
)
def test_only_declared_capabilities_count(declared: Any, wanted: Any, expected: bool) -> None:
    """An empty `elicitation` means forms (MCP 2025-06-18, before there were modes)."""
    assert input_requests.declares(declared, wanted) is expected


def test_capabilities_have_readable_names() -> None:
    assert (
        input_requests.format_capabilities({"elicitation": {"url": {}}, "sampling": {}})
        == "elicitation.url, sampling"
    )
    assert input_requests.format_capabilities({}) == ""


def test_an_error_sent_as_input_response_survives_encoding() -> None:
    error = msgspec.Raw(b'{"code":-1,"message":"User rejected","data":{"n":1.10}}')
    assert jsonrpc.bytes_of(error) in jsonrpc.bytes_of(input_requests.error_response(error))
    found = input_requests.error_in(input_requests.error_response(error))
    assert found is not None
    assert (found[:2], jsonrpc.bytes_of(found[2] or b"")) == ((-1, "User rejected"), b'{"n":1.10}')
    assert input_requests.error_in(input_requests.error_response(msgspec.Raw(b'"broken"'))) == (
        jsonrpc.INTERNAL_ERROR,
        "",
        None,
    )


@pytest.mark.parametrize("answer", [{}, {"action": "accept"}, {"_meta": {}}, {"_meta": 5}, []])
def test_other_input_responses_contain_no_error(answer: object) -> None:
    assert input_requests.error_in(msgspec.Raw(json.dumps(answer).encode())) is None


@pytest.mark.parametrize(
    ("outcome", "is_interim"),
    [
        (msgspec.Raw(b'{"resultType": "input_required", "inputRequests": {"q": {"n": 1.50}}}'), True),
        (msgspec.Raw(b'{"resultType": "complete", "content": ["input_required"]}'), False),
        (msgspec.Raw(b'{"content": {"resultType": "input_required"}}'), False),
        (msgspec.Raw(b'["input_required"]'), False),
        (b'{"resultType": "input_required"}', False),
        (None, False),
    ],
)
def test_a_result_asks_for_input_only_by_its_own_type(outcome: object, is_interim: bool) -> None:
    members = input_requests.input_required_members(outcome)
    assert (members is not None) is is_interim
    if members is not None:
        assert bytes(members["inputRequests"]) == b'{"q": {"n": 1.50}}'


WS = "file:///ws"


@pytest.mark.parametrize(
    ("roots", "kept"),
    [
        ([{"uri": WS, "name": "n"}], (WS,)),
        ([{"uri": "FILE:///ws"}], ("FILE:///ws",)),
        ([{"uri": "https://ws"}, {"uri": WS}, {"uri": 7}, {}, 7, None], (WS,)),
        ([{"uri": WS}] * (MAX_ROOTS + 1), (WS,) * MAX_ROOTS),
        ([{"uri": "file:///" + "x" * MAX_URI}, {"uri": WS}], (WS,)),
        ("file:///ws", ()),
        (None, ()),
    ],
)
def test_roots_are_limited_in_number_and_length(roots: Any, kept: tuple[str, ...]) -> None:
    assert roots_in(json.dumps({"roots": roots}).encode()) == kept


@pytest.mark.parametrize("result", [b"{}", b"7", b"", b'{"roots":[{"uri":"\xff"}]}', b"[" * 10_000])
def test_invalid_results_contain_no_roots(result: bytes) -> None:
    assert roots_in(result) == ()
