"""Calls of `tool_search`: tolerant arguments, two forms of result, one index per view."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema_rs
import pytest

from workspace_server.results import encode_result
from workspace_server.tool_search.definitions import EXECUTE_TOOL, TOOL_SEARCH
from workspace_server.tool_search.search_tool import (
    Found,
    Hit,
    Searchable,
    SearchTool,
    answer,
    merge,
    read_hits,
)

SCHEMA = {"type": "object", "properties": {"to": {"type": "string", "pattern": "a\u200db"}}}


def tool(name: str, *keywords: str, description: str = "") -> Searchable:
    definition = {"name": name, "description": description, "inputSchema": SCHEMA, "title": "not shown"}
    return Searchable(name, definition, keywords)


def many(count: int) -> list[Searchable]:
    return [tool(f"tool_{number:04}") for number in range(count)]


async def searched(tools: list[Searchable], **arguments: Any) -> Mapping[str, Any]:
    result = answer(await SearchTool().search(tools, tools, arguments))
    assert not result.is_error
    structured: Mapping[str, Any] = result.structured
    return structured


def names(found: Found) -> list[str]:
    return [hit.name for hit in found.hits]


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({}, 5), ({"max_results": 0}, 1), ({"max_results": -3}, 1), ({"max_results": 250}, 100), ({"max_results": "7"}, 7),
        ({"max_results": "x"}, 5), ({"max_results": None}, 5), ({"max_results": True}, 5), ({"max_results": 2.9}, 2),
        ({"max_results": "nan"}, 5), ({"max_results": "1e999"}, 100), ({"max_results": 10**400}, 100),
        ({"max_results": "9" * 5_000}, 100), ({"max_results": []}, 5), ({"max_results": 5, "query": None}, 5),
        ({"query": " "}, 5), ({"query": {}}, 5),
    ],
)  # fmt: skip
async def test_search_without_a_query_shows_as_many_tools_as_asked_for(
    given: dict[str, Any], shown: int
) -> None:
    structured = await searched(many(120), **given)
    assert [hit["name"] for hit in structured["results"]] == [f"tool_{n:04}" for n in range(shown)]
    assert {hit["score"] for hit in structured["results"]} == {1.0}
    assert (structured["total"], structured["truncated"]) == (120, True)


async def test_a_number_is_a_query_too() -> None:
    structured = await searched(many(30), query=17)
    assert [hit["name"] for hit in structured["results"]] == ["tool_0017"]


async def test_hits_are_the_same_as_text_and_as_structured_content() -> None:
    tools = [tool("gh__send_mail", "github", "remote", "github", description="Sends."), tool("send_fax")]
    result = answer(await SearchTool().search(tools, tools, {"query": "send mail"}))
    assert json.loads(result.text) == result.structured["results"]
    assert result.structured == {
        "results": [
            {"name": "gh__send_mail", "description": "Sends.", "score": 0.92, "inputSchema": SCHEMA, "keywords": ["github", "remote"]},
            {"name": "send_fax", "description": "", "score": 0.475, "inputSchema": SCHEMA},
        ],
        "total": 2,
        "truncated": False,
    }  # fmt: skip
    assert "a\u200db" in result.text
    assert result.verbatim


async def test_no_hit_is_no_error() -> None:
    result = answer(await SearchTool().search(many(3), "view", {"query": "zzzzqqq"}))
    assert result.text == "No tools found. Try different keywords or a broader search term."
    assert result.structured == {"results": [], "total": 0, "truncated": False}
    assert not result.is_error


async def test_hits_of_remotes_are_merged() -> None:
    tools = [tool("send_mail"), tool("gh__send"), *many(3)]
    remote = [
        Hit("gh__send_all", "", 0.94, {}),
        Hit("gh__send", "theirs", 1.0, {}),
        Hit("gh__hidden", "", 0.25, {}),
    ]
    found = await SearchTool().search(tools, tools, {"query": "send", "max_results": 2}, remote)
    assert names(found) == ["send_mail", "gh__send_all"]
    structured = answer(found).structured
    assert (structured["total"], structured["truncated"]) == (4, True)


@pytest.mark.parametrize("hits", [(), (Hit("a", "", 1.0, SCHEMA),)])
async def test_servers_that_are_still_starting_are_named_in_both_forms(hits: tuple[Hit, ...]) -> None:
    """Nobody is told to try other words for a tool that cannot be found yet."""
    result = answer(Found(hits, len(hits)), ["slow", "slo\u202ewer"])
    shown = encode_result(result)
    texts = [block["text"] for block in shown["content"]]
    assert result.structured["starting"] == ["slow", "slower"]
    assert texts[-1] == result.structured["note"]
    assert texts[-1].startswith("slow, slower are still starting, and their tools cannot be found yet.")
    assert [json.loads(text) for text in texts[:-1]] == ([result.structured["results"]] if hits else [])


async def test_index_is_built_once_per_view() -> None:
    read: list[str] = []

    def view(name: str) -> Iterator[Searchable]:
        read.append(name)
        yield from [*many(400), tool(name)]

    search, one, two = SearchTool(), object(), object()
    ask = {"query": "first second"}
    found = await asyncio.gather(*(search.search(view("first"), one, ask) for _ in range(5)))
    assert [names(one) for one in found] == [["first"]] * 5
    assert read == ["first"]
    old, new = await asyncio.gather(
        search.search(view("first"), one, ask), search.search(view("second"), two, ask)
    )
    assert (names(old), names(new)) == (["first"], ["second"])
    assert names(await search.search(view("third"), two, ask)) == ["second"]
    assert read == ["first", "second"]


async def test_a_cancelled_search_does_not_cancel_the_shared_index() -> None:
    search = SearchTool()
    tools = many(400)
    leaving = asyncio.create_task(search.search(tools, tools, {}))
    staying = asyncio.create_task(search.search(tools, tools, {}))
    await asyncio.sleep(0)
    leaving.cancel()
    assert len(names(await staying)) == 5
    assert leaving.cancelled()


async def test_others_run_while_the_index_is_built() -> None:
    search = SearchTool()
    tools = many(2_000)
    task = asyncio.create_task(search.search(tools, tools, {}))
    turns = 0
    while not task.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > 20


async def test_a_build_that_failed_is_tried_again() -> None:
    def broken() -> Iterator[Searchable]:
        yield from many(2)
        raise OSError("gone")

    search = SearchTool()
    with pytest.raises(OSError, match="gone"):
        await search.search(broken(), "view", {})
    assert names(await search.search(many(1), "view", {})) == ["tool_0000"]


async def test_closing_ends_what_is_being_built() -> None:
    search = SearchTool()
    tools = many(2_000)
    task = asyncio.create_task(search.search(tools, tools, {}))
    await asyncio.sleep(0)
    await search.close()
    with pytest.raises(asyncio.CancelledError):
        await task
    await search.close()


@pytest.mark.parametrize("definition", [TOOL_SEARCH, EXECUTE_TOOL], ids=lambda one: str(one["name"]))
def test_definitions_have_valid_schemas(definition: dict[str, Any]) -> None:
    jsonschema_rs.meta.validate(definition["inputSchema"])


def test_nothing_is_required_of_a_search_and_a_name_of_a_call() -> None:
    assert "required" not in TOOL_SEARCH["inputSchema"]
    assert TOOL_SEARCH["inputSchema"]["properties"]["max_results"]["default"] == 5
    assert EXECUTE_TOOL["inputSchema"]["required"] == ["name"]
    takes = jsonschema_rs.validator_for(EXECUTE_TOOL["inputSchema"])
    assert takes.is_valid({"name": "x", "arguments": {"any": [{"member": 1}]}})


HITS_SCHEMA = {"type": "object", "properties": {}}


def text(value: object) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": value if isinstance(value, str) else json.dumps(value)}]}


def rename(name: str) -> str:
    return f"gh__{name}"


ONE = {
    "name": "send",
    "description": "Sends\u202e.",
    "score": 0.9,
    "inputSchema": HITS_SCHEMA,
    "keywords": ["m", 5],
}
READ = Hit("gh__send", "Sends.", 0.9, HITS_SCHEMA, ("m",))


@pytest.mark.parametrize(
    "result",
    [
        {"structuredContent": {"results": [ONE], "total": 1, "truncated": False}, "content": []},
        {"structuredContent": {"result": [ONE]}},
        text([ONE]),
        text({"results": [ONE]}),
        {"structuredContent": {"results": [{**ONE, "input_schema": HITS_SCHEMA, "inputSchema": HITS_SCHEMA}, {"name": 5}, 7, {"name": ""}]}},
    ],
)  # fmt: skip
def test_hits_are_read_from_either_form(result: dict[str, Any]) -> None:
    assert read_hits(result, rename) == [READ]


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({"input_schema": HITS_SCHEMA}, Hit("gh__x", "", 0.25, HITS_SCHEMA)),
        ({"score": 7}, Hit("gh__x", "", 1.0, {"type": "object"})),
        ({"score": -1, "description": None}, Hit("gh__x", "", 0.0, {"type": "object"})),
        ({"score": float("nan"), "keywords": "a"}, Hit("gh__x", "", 0.25, {"type": "object"})),
        ({"score": True, "inputSchema": []}, Hit("gh__x", "", 0.25, {"type": "object"})),
        ({"score": 10**400}, Hit("gh__x", "", 1.0, {"type": "object"})),
    ],
)
def test_odd_members_are_put_right(given: dict[str, Any], read: Hit) -> None:
    assert read_hits({"structuredContent": {"results": [{"name": "x", **given}]}}, rename) == [read]


@pytest.mark.parametrize(
    "result",
    [{}, {"isError": True, **text([ONE])}, text("No tools found."), text("[" * 100_000), text("5"), {"content": ["x"]}, {"content": 1}],
)  # fmt: skip
def test_other_answers_are_no_hits(result: dict[str, Any]) -> None:
    assert read_hits(result, rename) == []


def test_a_remote_fills_no_more_than_one_answer() -> None:
    assert len(read_hits({"structuredContent": {"results": [ONE] * 500}}, rename)) == 100


def test_merged_hits_are_sorted_cut_and_named_once() -> None:
    own = [Hit("b", "ours", 0.9, {}), Hit("x", "", 0.5, {})]
    remote = [
        Hit("b", "theirs", 1.0, {}),
        Hit("c", "worse", 0.6, {}),
        Hit("c", "", 0.9, {}),
        Hit("A", "", 0.5, {}),
    ]
    found = merge(own, remote, 3)
    assert [(hit.name, hit.score) for hit in found.hits] == [("b", 0.9), ("c", 0.9), ("A", 0.5)]
    assert found.total == 4
