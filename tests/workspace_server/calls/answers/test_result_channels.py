"""Results of other servers say everything to models that see only one part of a result."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from workspace_server.calls.answers.result_channels import for_model
from workspace_server.calls.request import Outcome

PLAIN = {"name": "x", "inputSchema": {"type": "object"}}
WITH_SCHEMA = {**PLAIN, "outputSchema": {"type": "object"}}
IMAGE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
FOUND = {"files": ["a", "b"], "total": 2}


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "text": content}


def raw(**members: Any) -> msgspec.Raw:
    return msgspec.Raw(json.dumps({"unknown": 12345678901234567890, **members}).encode())


def shown(result: msgspec.Raw, sees: str, definition: dict[str, Any] = PLAIN) -> dict[str, Any]:
    completed = for_model(result, definition, sees)
    assert isinstance(completed, msgspec.Raw)
    members: dict[str, Any] = json.loads(bytes(completed))
    assert members.pop("unknown") == 12345678901234567890
    return members


def is_same(result: Outcome, sees: str, definition: dict[str, Any] = PLAIN) -> bool:
    return for_model(result, definition, sees) is result


@pytest.mark.parametrize("given", [{}, {"content": []}, {"content": [text("")]}, {"content": [IMAGE]}])
def test_structured_content_without_text_is_also_text_for_a_model_that_sees_text(
    given: dict[str, Any],
) -> None:
    members = shown(raw(**given, structuredContent=FOUND), "text", WITH_SCHEMA)
    assert members["structuredContent"] == FOUND
    assert members["content"][:-1] == given.get("content", [])
    assert members["content"][-1]["type"] == "text"
    assert json.loads(members["content"][-1]["text"]) == FOUND


@pytest.mark.parametrize(
    "result",
    [
        raw(content=[text("2 files")], structuredContent=FOUND),
        raw(content=[{"type": "resource", "resource": {"uri": "a:b", "text": "x"}}], structuredContent=FOUND),
        raw(content=[text("")]),
        raw(content=[]),
        raw(structuredContent=None),
        raw(content=[text('"structuredContent"')]),
        raw(content="no list", structuredContent=FOUND),
        {"structuredContent": FOUND},
    ],
)
def test_any_other_result_stays_as_it_is_for_a_model_that_sees_text(result: Outcome) -> None:
    assert is_same(result, "text")


@pytest.mark.parametrize(
    ("content", "structured"),
    [
        ([], FOUND),
        ([text(json.dumps(FOUND, indent=2))], FOUND),
        ([text('{"total":2,"files":["a","b"]}')], FOUND),
        ([text("a"), text("b\n")], FOUND),
        ([text('{"n": 1}'), text('{"n": 2}')], {"result": [{"n": 1}, {"n": 2}]}),
        ([text("42")], {"result": 42}),
        ([text("deep")], {"a": [{"b": {"c": {"d": ["deep"]}}}]}),
    ],
)
def test_a_model_that_sees_structured_content_gets_what_repeats_it_unchanged(
    content: list[Any], structured: dict[str, Any]
) -> None:
    assert is_same(raw(content=content, structuredContent=structured), "structured")


@pytest.mark.parametrize("block", [text("There is a third file that you may not read."), IMAGE])
def test_what_structured_content_lacks_reaches_a_model_that_sees_structured_content(
    block: dict[str, Any],
) -> None:
    """Without structured content, such a client shows the content."""
    result = raw(content=[block], structuredContent=FOUND)
    members = shown(result, "structured")
    assert "structuredContent" not in members
    assert members["content"] == [block, text(json.dumps(FOUND))]
    assert is_same(result, "structured", WITH_SCHEMA), "the schema requires structured content"


def test_what_is_said_twice_is_not_added_a_third_time() -> None:
    content = [text(json.dumps(FOUND, indent=2)), IMAGE]
    assert shown(raw(content=content, structuredContent=FOUND), "structured") == {"content": content}


def test_the_text_of_an_error_reaches_a_model_that_sees_structured_content() -> None:
    result = raw(content=[text("disk full")], structuredContent={"code": 5}, isError=True)
    content = [text("disk full"), text('{"code": 5}')]
    assert shown(result, "structured", WITH_SCHEMA) == {"content": content, "isError": True}


def test_an_error_without_text_has_one_for_every_model() -> None:
    result = raw(content=[], structuredContent={"code": 5}, isError=True)
    assert shown(result, "structured")["content"] == [text('{"code": 5}')]


@pytest.mark.parametrize("sees", ["", "both", "something else"])
def test_a_result_for_anybody_else_stays_as_it_is(sees: str) -> None:
    assert is_same(raw(structuredContent=FOUND), sees)
