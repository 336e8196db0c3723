"""What a question needs of a client, whether the client declared it, and what stands for an answer with an error."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from protocol import input_requests, jsonrpc, names


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
def test_what_a_question_needs(method: str, params: dict[str, Any], expected: object) -> None:
    """In the words of `requiredCapabilities`."""
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
def test_a_capability_counts_only_where_it_was_declared(declared: Any, wanted: Any, expected: bool) -> None:
    """An empty `elicitation` is older than the modes and means forms."""
    assert input_requests.declares(declared, wanted) is expected


def test_capabilities_are_spelt_for_people() -> None:
    assert (
        input_requests.format_capabilities({"elicitation": {"url": {}}, "sampling": {}})
        == "elicitation.url, sampling"
    )
    assert input_requests.format_capabilities({}) == ""


def test_an_error_in_the_place_of_an_answer_is_found_again_as_it_was() -> None:
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
def test_any_other_answer_holds_no_error(answer: object) -> None:
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
def test_a_result_asks_where_its_own_type_says_so(outcome: object, is_interim: bool) -> None:
    members = input_requests.input_required_members(outcome)
    assert (members is not None) is is_interim
    if members is not None:
        assert bytes(members["inputRequests"]) == b'{"q": {"n": 1.50}}'
