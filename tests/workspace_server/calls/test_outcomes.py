"""A note for the model joins a result, and changes nothing else of it."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from mcp_types.methods import validate_server_result

from lm_tools_bridge.protocol import headers, names
from lm_tools_bridge.protocol.inbound import Rejection
from support.clients.stateless_requests import REVISION, body_of, headers_of
from support.processes.workspace_app import serving
from support.servers.mcp_sources.tool_source import ScriptedSource, tool
from workspace_server.calls import outcomes
from workspace_server.calls.outcomes import SaidTexts, for_model, with_note
from workspace_server.calls.request import Outcome
from workspace_server.catalog.registry import OfferedTool
from workspace_server.source import SourceKind
from workspace_server.tool import Tool

BLOCK = {"type": "text", "text": "a"}
NOTE = {"type": "text", "text": "from B"}


def test_the_note_is_the_last_block_and_unknown_members_survive() -> None:
    noted = with_note(msgspec.Raw(b'{"x":1.50,"content":[{"type":"new","y":2}],"isError":true}'), "from B")
    assert isinstance(noted, msgspec.Raw)
    assert bytes(noted).startswith(b'{"x":1.50,')
    assert json.loads(bytes(noted))["content"] == [{"type": "new", "y": 2}, NOTE]


def test_a_result_of_our_own_is_noted_and_stays_one_that_the_usual_members_are_added_to() -> None:
    noted = with_note({"content": [BLOCK], "structuredContent": {"a": 1}}, "from B")
    assert noted == {"content": [BLOCK, NOTE], "structuredContent": {"a": 1}}
    nothing = {"resultType": "task"}
    assert with_note(nothing, "from B") is nothing


async def test_a_noted_answer_is_a_whole_result_of_its_revision() -> None:
    async with serving([ScriptedSource([tool("a")])]) as served:
        body = body_of(names.TOOLS_CALL, {"name": "a", "arguments": {}})
        sent = {**headers_of(body), headers.NOTE: headers.encode_value("from B")}
        async with served.session.post(f"{served.base}/mcp", data=json.dumps(body), headers=sent) as response:
            result = (await response.json())["result"]
    validate_server_result(names.TOOLS_CALL, REVISION, result)
    assert result["resultType"] == "complete"
    assert result["content"][-1] == NOTE


@pytest.mark.parametrize("result", [b'{"content":null}', b'{"content":{}}', b"{}", b'{"resultType":"task"}'])
def test_a_result_without_a_list_of_content_stays_as_it_is(result: bytes) -> None:
    assert with_note(msgspec.Raw(result), "from B") == msgspec.Raw(result)


def test_without_a_note_nothing_is_read() -> None:
    broken = msgspec.Raw(b"{")
    assert with_note(broken, "") is broken
    refused = Rejection(200, -32603, "no")
    assert with_note(refused, "from B") is refused


PLAIN = {"name": "x", "inputSchema": {"type": "object"}}
WITH_SCHEMA = {**PLAIN, "outputSchema": {"type": "object"}}
IMAGE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
FOUND = {"files": ["a", "b"], "total": 2}


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "text": content}


def embedded(content: str) -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": "a:b", "text": content}}


def link(uri: str, **members: str) -> dict[str, Any]:
    return {"type": "resource_link", "uri": uri, **members}


def raw(**members: Any) -> msgspec.Raw:
    return msgspec.Raw(json.dumps({"unknown": 12345678901234567890, **members}).encode())


def offered(definition: dict[str, Any] = PLAIN, kind: SourceKind = "stdio") -> OfferedTool:
    tool = Tool("x", definition)
    source = ScriptedSource([tool])
    source.kind = kind
    return OfferedTool("x", tool, source, definition)


def shown(result: msgspec.Raw, sees: str, definition: dict[str, Any] = PLAIN) -> dict[str, Any]:
    completed = for_model(result, offered(definition), sees)
    assert isinstance(completed, msgspec.Raw)
    members: dict[str, Any] = json.loads(bytes(completed))
    assert members.pop("unknown") == 12345678901234567890
    return members


def is_same(result: Outcome, sees: str, definition: dict[str, Any] = PLAIN) -> bool:
    return for_model(result, offered(definition), sees) is result


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
        raw(content=[text("2 files: a, b")], structuredContent=FOUND),
        raw(content=[text(json.dumps(FOUND, indent=2))], structuredContent=FOUND),
        raw(content=[embedded("a and b, 2")], structuredContent=FOUND),
        raw(content=[text("a"), text("b\n"), text("in all 2")], structuredContent=FOUND),
        raw(content=[text('["a", "b", 2]')], structuredContent={"result": ["a", "b", 2]}),
        raw(content=[text("Done.")], structuredContent={}),
        raw(content=[text("Done.")], structuredContent={"left": [], "next": None, "note": ""}),
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


@pytest.mark.parametrize("definition", [PLAIN, WITH_SCHEMA])
@pytest.mark.parametrize(
    "content",
    [[text("Two files.")], [text("a, 2")], [text("bananas: 2, a")], [embedded("a"), text("2")]],
)
def test_structured_content_that_the_text_lacks_is_a_further_text_for_a_model_that_sees_text(
    content: list[Any], definition: dict[str, Any]
) -> None:
    members = shown(raw(content=content, structuredContent=FOUND), "text", definition)
    assert members == {"content": [*content, text(json.dumps(FOUND))], "structuredContent": FOUND}


def test_the_text_of_an_error_is_completed_as_well() -> None:
    result = raw(content=[text("disk full")], structuredContent={"code": 5}, isError=True)
    assert shown(result, "text")["content"] == [text("disk full"), text('{"code": 5}')]


@pytest.mark.parametrize("meta", [{"ui": {"resourceUri": "ui://a/b"}}, {"ui/resourceUri": "ui://a/b"}])
def test_what_a_tool_sends_to_its_page_is_not_added_to_the_text_for_its_model(meta: dict[str, Any]) -> None:
    definition = {**PLAIN, "_meta": meta}
    assert is_same(raw(content=[text("A chart is shown.")], structuredContent=FOUND), "text", definition)
    alone = shown(raw(content=[], structuredContent=FOUND), "text", definition)
    assert alone["content"] == [text(json.dumps(FOUND))]


NAMED = "Resource link: report at file:///r.md (What was found)"
REPORT = link("file:///r.md", name="report", description="What was found")


@pytest.mark.parametrize("sees", ["text no-links", "both no-links"])
@pytest.mark.parametrize(
    ("content", "line"),
    [
        ([REPORT], NAMED),
        ([text("Written."), REPORT], NAMED),
        ([link("a:b", name="n")], "Resource link: n at a:b"),
        ([link("a:b", title="t")], "Resource link: a:b at a:b"),
        ([REPORT, link("a:b", name="n")], f"{NAMED}\nResource link: n at a:b"),
        ([text("Look at a:b"), link("a:b", name="n"), REPORT], NAMED),
    ],
)
def test_links_that_a_client_drops_are_named_in_a_text(content: list[Any], line: str, sees: str) -> None:
    assert shown(raw(content=content), sees) == {"content": [*content, text(line)]}


def test_of_many_links_the_first_are_named() -> None:
    links = [link(f"a:{number}", name="n") for number in range(1000)]
    lines = shown(raw(content=links), "text no-links")["content"][-1]["text"].splitlines()
    assert lines[0] == "Resource link: n at a:0"
    assert lines[-1] == "and 800 more resource links"
    assert len(lines) == 201


def test_a_link_beside_structured_content_is_named_as_well() -> None:
    result = raw(content=[REPORT], structuredContent=FOUND)
    assert shown(result, "text no-links")["content"] == [REPORT, text(json.dumps(FOUND)), text(NAMED)]


@pytest.mark.parametrize(
    ("result", "sees"),
    [
        (raw(content=[REPORT]), "text"),
        (raw(content=[REPORT]), ""),
        (raw(content=[text("It is at file:///r.md"), REPORT]), "text no-links"),
        (raw(content=[text('"resource_link"')]), "text no-links"),
    ],
)
def test_links_that_reach_the_model_are_not_named(result: Outcome, sees: str) -> None:
    assert is_same(result, sees)


OWN: dict[str, Any] = {"content": [text("2 files: a, b")], "isError": False, "structuredContent": FOUND}


@pytest.mark.parametrize("kind", ["builtin", "language-server", "script"])
def test_a_model_that_sees_both_parts_gets_the_result_of_our_own_tool_once(kind: SourceKind) -> None:
    answer = for_model(OWN, offered(WITH_SCHEMA, kind), "both no-links")
    assert answer == {"content": [text("2 files: a, b")], "isError": False}


def test_a_model_that_sees_structured_content_gets_the_shorter_text_of_language_tools() -> None:
    answer = for_model(OWN, offered(PLAIN, "language-server"), "structured")
    assert answer == {"content": [text("2 files: a, b")], "isError": False}
    failure = {**OWN, "isError": True}
    assert for_model(failure, offered(PLAIN, "language-server"), "structured") is failure


@pytest.mark.parametrize(
    ("kind", "sees"),
    [("builtin", "text"), ("builtin", "structured"), ("builtin", ""), ("editor", "both"), ("stdio", "both")],
)
def test_nobody_else_misses_a_part_of_it(kind: SourceKind, sees: str) -> None:
    assert for_model(OWN, offered(PLAIN, kind), sees) is OWN


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


@pytest.mark.parametrize(
    ("texts", "value"),
    [
        (["3 files"], {"count": 3}),
        (["lines 2-3 of 10"], [2, 3, 10]),
        (["-4.50 °C"], {"degrees": -4.5}),
        (["1e3"], 1000),
        (["found: True"], {"found": True}),
        (["größe ☕ heiß"], "größe ☕"),
        (["x = a.b(c)"], {"call": "a.b(c)"}),
        (['{"path": "a\\\\b", "size": 3}'], {"result": [{"path": "a\\b"}, 3]}),
        (["first", "second\n"], ["first", "second"]),
        (["two\nlines here"], "two\nlines"),
        ([], {"empty": "", "none": None, "nothing": [{}]}),
    ],
)
def test_what_is_in_the_texts_is_said(texts: list[str], value: Any) -> None:
    assert SaidTexts(texts).say(value)


@pytest.mark.parametrize(
    ("texts", "value"),
    [
        (["13 files"], {"count": 3}),
        (["bananas"], "banana"),
        (["found"], {"found": True}),
        (["false"], True),
        (["a"], ["a", "b"]),
        ([], 0),
        (["1"], 10**400),
        (["one", "two"], "one two"),
    ],
)
def test_parts_of_words_and_other_values_are_not_said(texts: list[str], value: Any) -> None:
    assert not SaidTexts(texts).say(value)


def test_a_string_inside_many_words_ends_the_search() -> None:
    assert not SaidTexts(["xa" * 1000 + " a"]).say("a")


def test_a_value_of_too_many_parts_counts_as_not_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcomes, "MAX_LEAVES", 10)
    assert SaidTexts(["1"]).say([1] * 10)
    assert not SaidTexts(["1"]).say([1] * 11)


def test_a_value_that_takes_too_long_to_find_counts_as_not_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcomes, "MAX_SEARCHED", 1000)
    words = [f"word{number}" for number in range(100)]
    text = " ".join(words)
    assert SaidTexts([text]).say(words[:10])
    assert not SaidTexts([text]).say(words)
