"""Tests of the clangd tools with a clangd in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.code_intelligence.clangd.calls import run
from lm_tools_bridge.code_intelligence.clangd.definitions import tools_of
from lm_tools_bridge.code_intelligence.clangd.lsp_request import METHODS
from lm_tools_bridge.code_intelligence.freshness import Freshness
from lm_tools_bridge.code_intelligence.server import RequestFailed, RequestTimedOut, ServerGone, Unavailable
from lm_tools_bridge.code_intelligence.settings import ClangdSettings
from lm_tools_bridge.code_intelligence.tools.workplace import Workplace
from support.servers.language_servers.in_memory import (
    InMemoryServer,
    InMemoryServers,
    at,
    kind,
    no_environment,
)
from workspace_server.tool import ToolResult
from workspace_server.workspace import Workspace

SOURCE = """int twice(int value) {
    return value + value;
}

int main() {
    return twice(21);
}
"""
KIND = kind("clangd", ".cpp", ".h")


@dataclass
class Clangd:
    """One project with a file, and its clangd."""

    root: Path
    server: InMemoryServer = field(default_factory=lambda: InMemoryServer(KIND, encoding="utf-8"))
    servers: InMemoryServers = field(default_factory=InMemoryServers)
    settings: ClangdSettings = field(default_factory=lambda: ClangdSettings(enabled=True))

    def __post_init__(self) -> None:
        self.file = self.root / "a.cpp"
        self.file.write_text(SOURCE)
        self.servers.running = [self.server]

    def answers(self, method: str, result: Any) -> None:
        self.server.answers[method] = lambda params: result

    def location(self, line: int, character: int = 0, to: int | None = None) -> Mapping[str, Any]:
        return {"uri": self.file.as_uri(), "range": at(line, character, line, to)}

    async def call(self, name: str, **arguments: Any) -> ToolResult:
        workplace = Workplace(Workspace.of(self.root), self.servers, 0.0, no_environment)
        return await run(f"lm_clangd_{name}", arguments, workplace, self.settings)

    async def at(self, name: str, line: int, character: int, **more: Any) -> ToolResult:
        position = {"line": line, "character": character}
        return await self.call(name, filePath="p/a.cpp", position=position, **more)


@pytest.fixture
def clangd(tmp_path: Path) -> Clangd:
    (tmp_path / "p").mkdir()
    return Clangd(tmp_path / "p")


def test_one_tool_a_name_and_none_that_sends_any_request_without_the_setting() -> None:
    settings = ClangdSettings(enabled=True)
    names = [tool.name.removeprefix("lm_clangd_") for tool in tools_of(settings)]
    assert names == [
        *("status", "switchSourceHeader", "symbolSearch", "symbolInfo", "symbolReferences"),
        *("symbolImplementations", "callHierarchy", "typeHierarchy", "symbolBundle", "lspRequest"),
    ]
    assert len(tools_of(replace(settings, passthrough=False))) == 9


async def test_references_have_places_of_the_workspace_that_count_from_1(clangd: Clangd) -> None:
    clangd.answers("textDocument/references", [clangd.location(5, 11, 16), clangd.location(0, 4, 9)])
    result = await clangd.at("symbolReferences", 1, 5)
    assert result.structured["kind"] == "symbolReferences"
    assert result.structured["counts"] == {"total": 2, "shown": 2, "truncated": False}
    assert result.structured["entries"][1] == {
        "location": {
            "absolutePath": str(clangd.file),
            "workspacePath": "p/a.cpp",
            "startLine": 6,
            "startCharacter": 12,
            "endLine": 6,
            "endCharacter": 17,
            "preview": "return twice(21);",
        },
        "summary": "return twice(21);",
    }
    assert result.text.split("\n---\n") == [
        "counts total=2 shown=2 truncated=false kind=symbolReferences",
        "p/a.cpp#1\nint twice(int value) {",
        "p/a.cpp#6\nreturn twice(21);",
    ]
    _, params = clangd.server.asked[-1]
    assert params["position"] == {"line": 0, "character": 4}
    assert params["context"] == {"includeDeclaration": False}


async def test_a_limit_cuts_the_entries_and_says_so(clangd: Clangd) -> None:
    clangd.answers("textDocument/references", [clangd.location(line) for line in range(6)])
    result = await clangd.at("symbolReferences", 1, 5, limit=2)
    assert result.structured["counts"] == {"total": 6, "shown": 2, "truncated": True}
    assert len(result.structured["entries"]) == 2


async def test_implementations_have_the_form_of_references(clangd: Clangd) -> None:
    clangd.answers("textDocument/implementation", [clangd.location(0, 4, 9), clangd.location(4, 4, 8)])
    result = await clangd.at("symbolImplementations", 1, 5, limit=1)
    assert result.structured["kind"] == "symbolImplementations"
    assert result.structured["counts"] == {"total": 2, "shown": 1, "truncated": True}
    assert [one["location"]["startLine"] for one in result.structured["entries"]] == [1]
    assert result.text.split("\n---\n")[1:] == ["p/a.cpp#1\nint twice(int value) {"]


async def test_an_answer_of_an_unfinished_index_says_so_in_both_channels(clangd: Clangd) -> None:
    clangd.server.state = Freshness("clangd", "indexing", "it still reads the project", 3, 40)
    clangd.answers("textDocument/implementation", None)
    result = await clangd.at("symbolImplementations", 1, 5)
    assert "freshness=indexing" in result.text.splitlines()[0]
    assert "[FRESHNESS]\nclangd: indexing (3 of 40): it still reads the project" in result.text
    assert result.structured["freshness"]["state"] == "indexing"


async def test_source_and_header_find_each_other(clangd: Clangd) -> None:
    header = clangd.root / "a.h"
    clangd.answers("textDocument/switchSourceHeader", header.as_uri())
    result = await clangd.call("switchSourceHeader", filePath="a.cpp")
    assert result.structured["found"] is True
    assert result.structured["paired"] == {"absolutePath": str(header), "workspacePath": "p/a.h"}
    assert "found=true" in result.text and "paired file: p/a.h" in result.text
    clangd.answers("textDocument/switchSourceHeader", None)
    result = await clangd.call("switchSourceHeader", filePath="a.cpp")
    assert (result.structured["found"], result.structured["paired"]) == (False, None)
    assert "(not found)" in result.text


def symbol(clangd: Clangd, name: str, line: int, container: str = "", number: int = 12) -> Mapping[str, Any]:
    return {"name": name, "kind": number, "containerName": container, "location": clangd.location(line, 4)}


async def test_search_takes_exact_names_with_any_part_of_their_container(clangd: Clangd) -> None:
    clangd.answers(
        "workspace/symbol",
        [symbol(clangd, "twice", 0, "a::b"), symbol(clangd, "twicely", 4), symbol(clangd, "twice", 5, "ab")],
    )
    clangd.answers("textDocument/hover", {"contents": {"value": "```cpp\nint twice(int value)\n```"}})
    result = await clangd.call("symbolSearch", query="b::twice")
    (entry,) = result.structured["entries"]
    assert (entry["name"], entry["kind"], entry["containerName"]) == ("twice", "function", "a::b")
    assert (entry["signature"], entry["signatureSource"]) == ("int twice(int value)", "hover")
    assert "function twice (a::b) | signature: int twice(int value)" in result.text
    assert "matchMode=exact" in result.text
    assert clangd.server.asked[0] == ("workspace/symbol", {"query": "twice"})


async def test_search_by_pattern_kind_and_folder(clangd: Clangd) -> None:
    clangd.answers(
        "workspace/symbol",
        [symbol(clangd, "twice", 0), symbol(clangd, "Twicely", 4, number=5), symbol(clangd, "other", 5)],
    )
    found = await clangd.call("symbolSearch", query="(?i)^twice", matchMode="regex")
    assert [one["name"] for one in found.structured["entries"]] == ["twice", "Twicely"]
    assert found.structured["entries"][0]["signatureSource"] == "definitionLine"
    found = await clangd.call("symbolSearch", query="twice", matchMode="regex", kinds=["class"])
    assert found.structured["entries"] == []
    (clangd.root / "sub").mkdir()
    found = await clangd.call("symbolSearch", query="twice", scopePath="p/sub")
    assert found.structured["entries"] == []
    bad = await clangd.call("symbolSearch", query="(", matchMode="regex")
    assert bad.is_error and bad.structured["error"]["code"] == "INVALID_INPUT"


async def test_information_about_a_function_has_signature_and_its_whole_source(clangd: Clangd) -> None:
    hover = "### function `twice`\n\n---\n```cpp\nint twice(int value)\n```"
    clangd.answers("textDocument/hover", {"contents": {"value": hover}})
    clangd.answers("textDocument/definition", [clangd.location(0, 4, 9)])
    clangd.answers("textDocument/declaration", [clangd.location(0, 4, 9)])
    outline = {"name": "twice", "kind": 12, "range": at(0, 0, 2, 1), "selectionRange": at(0, 4, 0, 9)}
    clangd.answers("textDocument/documentSymbol", [outline])
    result = await clangd.at("symbolInfo", 6, 12)
    found = result.structured
    assert [one["label"] for one in found["entries"]] == ["definition"]
    assert (found["symbolName"], found["symbolKind"], found["symbolCategory"]) == (
        "twice",
        "function",
        "callable",
    )
    assert found["snippet"] == SOURCE.split("\n\n", maxsplit=1)[0]
    assert found["snippetSource"] == "definition"
    assert [part.splitlines()[0] for part in result.text.split("\n---\n")[1:4]] == [
        "[HOVER]",
        "[SIGNATURE]",
        "[SNIPPET]",
    ]
    assert "symbolCategory=callable" in result.text


async def test_type_definition_is_asked_for_values_only(clangd: Clangd) -> None:
    clangd.answers("textDocument/hover", {"contents": {"value": "### variable `x`\n"}})
    for method in ("definition", "typeDefinition", "declaration"):
        clangd.answers(f"textDocument/{method}", [clangd.location(len(method) % 6)])
    result = await clangd.at("symbolInfo", 2, 12, includeSnippet=False)
    assert [one["label"] for one in result.structured["entries"]] == [
        "definition",
        "typeDefinition",
        "declaration",
    ]
    assert result.structured["snippetSource"] == "none"


async def test_generated_files_are_no_source_of_snippets(clangd: Clangd) -> None:
    generated = clangd.root / "a.generated.h"
    generated.write_text("int twice(int) {}\n")
    header = clangd.root / "b.h"
    header.write_text("int twice(int);\n")
    clangd.answers("textDocument/hover", {"contents": {"value": "### function `twice`\n"}})
    clangd.answers("textDocument/definition", [{"uri": generated.as_uri(), "range": at(0, 4)}])
    clangd.answers("textDocument/declaration", [{"uri": header.as_uri(), "range": at(0, 4, 0, 9)}])
    result = await clangd.at("symbolInfo", 1, 5)
    assert result.structured["snippetSource"] == "declaration"
    assert result.structured["snippetFilteredGenerated"] is True
    assert result.structured["snippet"] == "int twice(int);"


def item(clangd: Clangd, name: str, line: int) -> Mapping[str, Any]:
    return {
        "name": name,
        "kind": 12,
        "uri": clangd.file.as_uri(),
        "range": at(line, 0),
        "selectionRange": at(line, 4),
    }


async def test_call_hierarchy_follows_both_directions_within_its_limits(clangd: Clangd) -> None:
    clangd.answers("textDocument/prepareCallHierarchy", [item(clangd, "twice", 0)])
    callers = {"twice": ["main", "other"], "main": ["start"], "other": []}
    clangd.server.answers["callHierarchy/incomingCalls"] = lambda params: [
        {"from": item(clangd, name, index + 4)}
        for index, name in enumerate(callers.get(params["item"]["name"], []))
    ]
    clangd.answers("callHierarchy/outgoingCalls", [])
    result = await clangd.at("callHierarchy", 1, 5)
    assert [one["summary"] for one in result.structured["incoming"]] == [
        *("main -> twice", "other -> twice", "start -> main")
    ]
    assert result.structured["root"]["name"] == "twice"
    assert "[OUTGOING]\n(none)" in result.text
    assert result.structured["counts"]["truncated"] is False
    shallow = await clangd.at("callHierarchy", 1, 5, maxDepth=1, direction="incoming")
    assert shallow.structured["counts"] == {"total": 3, "shown": 2, "truncated": True}
    narrow = await clangd.at("callHierarchy", 1, 5, maxBreadth=1, maxDepth=6)
    assert [one["summary"] for one in narrow.structured["incoming"]] == ["main -> twice", "start -> main"]
    assert narrow.structured["counts"]["truncated"] is True


async def test_functions_that_call_each_other_end_the_search(clangd: Clangd) -> None:
    clangd.answers("textDocument/prepareCallHierarchy", [item(clangd, "twice", 0)])
    clangd.answers("callHierarchy/incomingCalls", [{"from": item(clangd, "twice", 0)}])
    result = await clangd.at("callHierarchy", 1, 5, direction="incoming", maxDepth=6)
    assert [one["summary"] for one in result.structured["incoming"]] == ["twice -> twice"]


async def test_nothing_at_the_position_is_an_empty_answer(clangd: Clangd) -> None:
    clangd.answers("textDocument/prepareCallHierarchy", None)
    clangd.answers("textDocument/prepareTypeHierarchy", None)
    calls = await clangd.at("callHierarchy", 3, 1)
    assert calls.structured["root"] is None and "[ROOT]\n(none)" in calls.text
    types = await clangd.at("typeHierarchy", 3, 1)
    assert (types.structured["ok"], types.structured["root"]) == (False, None)


async def test_type_hierarchy_says_what_its_limits_left_out(clangd: Clangd) -> None:
    clangd.answers("textDocument/prepareTypeHierarchy", [item(clangd, "Base", 0)])
    above = {"Base": ["Top"], "Top": ["Root"]}
    below = {"Base": ["A", "B"], "A": ["C"]}
    lines = {"Top": 1, "Root": 2, "A": 3, "B": 4, "C": 5}
    for method, table in (("supertypes", above), ("subtypes", below)):
        clangd.server.answers[f"typeHierarchy/{method}"] = lambda params, table=table: [
            item(clangd, name, lines[name]) for name in table.get(params["item"]["name"], [])
        ]
    whole = (await clangd.at("typeHierarchy", 1, 5)).structured
    assert [one["name"] for one in whole["supers"]] == ["Top", "Root"]
    assert {name: [one["name"] for one in found] for name, found in whole["derivedByParent"].items()} == {
        "Base": ["A", "B"],
        "A": ["C"],
    }
    assert whole["truncated"] == {"supers": False, "derivedDepth": False, "derivedBreadthByClass": {}}
    assert set(whole["sourceByClass"]) == {"Base", "Top", "Root", "A", "B", "C"}
    cut = await clangd.at("typeHierarchy", 1, 5, maxSuperDepth=1, maxSubDepth=1, maxSubBreadth=1)
    assert cut.structured["truncated"] == {
        "supers": True,
        "derivedDepth": True,
        "derivedBreadthByClass": {"Base": True},
    }
    assert "superCount=1 derivedParents=1 limits=super:1,sub:1,breadth:1" in cut.text
    none = await clangd.at("typeHierarchy", 1, 5, maxSuperDepth=0, maxSubDepth=0)
    assert none.structured["supers"] == [] and none.structured["truncated"]["supers"] is True


async def test_bundle_collects_everything_about_the_chosen_candidate(clangd: Clangd) -> None:
    clangd.answers("workspace/symbol", [symbol(clangd, "twice", 0), symbol(clangd, "twice", 4)])
    clangd.answers("textDocument/hover", {"contents": {"value": "### function `twice`\n"}})
    for method in ("definition", "declaration", "references", "implementation"):
        clangd.answers(f"textDocument/{method}", [clangd.location(0, 4, 9)])
    clangd.answers("textDocument/prepareCallHierarchy", [item(clangd, "twice", 0)])
    clangd.answers("callHierarchy/incomingCalls", [{"from": item(clangd, "main", 4)}])
    clangd.answers("callHierarchy/outgoingCalls", [])
    result = await clangd.call("symbolBundle", query="twice", candidateIndex=2)
    found = result.structured
    assert found["target"]["location"]["startLine"] == 5
    assert len(found["candidates"]) == 2
    assert found["symbolInfo"]["symbolName"] == "twice"
    assert found["callHierarchy"]["incoming"][0]["summary"] == "main -> twice"
    assert found["counts"]["total"] == 4  # a reference, an implementation, two steps of callers
    for section in ("TARGET", "CANDIDATES", "SYMBOL_INFO", "REFERENCES_TOP", "IMPLEMENTATIONS_TOP"):
        assert f"[{section}]" in result.text
    assert "[ref] int twice" in result.text and "[in] main -> twice" in result.text
    missing = await clangd.call("symbolBundle", query="twice", candidateIndex=3)
    assert missing.structured["error"]["code"] == "INVALID_INPUT"
    neither = await clangd.call("symbolBundle", candidateIndex=1)
    assert "give `query`" in neither.text


async def test_request_counts_from_1_in_both_directions(clangd: Clangd) -> None:
    clangd.answers("textDocument/definition", [clangd.location(5, 11, 16)])
    params = {"textDocument": {"filePath": "p/a.cpp"}, "position": {"line": 6, "character": 12}}
    result = await clangd.call("lspRequest", method="textDocument/definition", params=params)
    assert clangd.server.asked[-1][1] == {
        "textDocument": {"uri": clangd.file.as_uri()},
        "position": {"line": 5, "character": 11},
    }
    assert result.structured["result"][0]["range"]["start"] == {"line": 6, "character": 12}
    assert result.structured["method"] == "textDocument/definition"
    assert "[METHOD]\ntextDocument/definition" in result.text


async def test_request_sends_only_what_the_settings_allow(clangd: Clangd) -> None:
    refused = await clangd.call("lspRequest", method="workspace/executeCommand")
    assert refused.structured["error"]["code"] == "METHOD_NOT_ALLOWED"
    clangd.settings = replace(clangd.settings, allowed_methods=("textDocument/hover",))
    assert (await clangd.call("lspRequest", method="workspace/symbol")).is_error
    status = (await clangd.call("status")).structured
    assert status["allowedPassthroughMethods"] == ["textDocument/hover"]
    assert len(METHODS) == 12


@pytest.mark.parametrize(
    ("state", "code"),
    [
        ("missing", "CLANGD_NOT_FOUND"),
        ("untrusted", "WORKSPACE_UNTRUSTED"),
        ("failed", "CLANGD_CLIENT_UNAVAILABLE"),
        ("disabled", "CLANGD_START_DISABLED"),
    ],
)
async def test_a_clangd_that_does_not_run_is_an_error_with_a_code(
    clangd: Clangd, state: Any, code: str
) -> None:
    clangd.servers = InMemoryServers(absent=[Unavailable(KIND, state, "because")])
    result = await clangd.at("symbolReferences", 1, 5)
    assert result.is_error
    assert result.structured == {"error": {"code": code, "message": "because"}}
    assert result.text.startswith(f"[{code}] because\nNext step: ")


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (RequestFailed(-32602, "no"), "REQUEST_FAILED"),
        (RequestTimedOut("late"), "REQUEST_TIMEOUT"),
        (ServerGone("it died"), "REQUEST_FAILED"),
    ],
)
async def test_a_request_without_a_result_is_an_error_with_a_code(
    clangd: Clangd, fault: Exception, code: str
) -> None:
    def fail(params: Any) -> Any:
        raise fault

    clangd.server.answers["textDocument/references"] = fail
    assert (await clangd.at("symbolReferences", 1, 5)).structured["error"]["code"] == code


class NeverStarted(InMemoryServers):
    """Servers that do not come."""

    async def server_named(self, name: str) -> Any:
        await asyncio.Event().wait()


async def test_a_clangd_that_does_not_come_is_an_error_with_a_code(
    clangd: Clangd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lm_tools_bridge.code_intelligence.clangd.client.START_S", 0.05)
    clangd.servers = NeverStarted()
    result = await clangd.at("symbolReferences", 1, 5)
    assert result.is_error
    assert result.text.startswith("[CLANGD_START_TIMEOUT] clangd did not start")


async def test_calls_do_not_start_clangd_where_that_is_switched_off(clangd: Clangd) -> None:
    clangd.settings = replace(clangd.settings, auto_start=False)
    clangd.servers.running = []
    result = await clangd.at("symbolReferences", 1, 5)
    assert result.structured["error"]["code"] == "CLANGD_START_DISABLED"


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"filePath": "file:///p/a.cpp"}, "URIs are not accepted"),
        ({"filePath": "p/none.cpp"}, "no such file"),
        ({"filePath": "p/a.cpp", "position": {"line": 99, "character": 1}}, "line 99 does not exist"),
    ],
)
async def test_input_that_names_nothing_is_refused_with_the_reason(
    clangd: Clangd, arguments: dict[str, Any], word: str
) -> None:
    result = await clangd.call("symbolReferences", **{"position": {"line": 1, "character": 1}, **arguments})
    assert result.structured["error"]["code"] == "INVALID_INPUT"
    assert word in result.text


async def test_a_file_outside_the_workspace_may_be_asked_about(clangd: Clangd, tmp_path: Path) -> None:
    outside = tmp_path / "system.h"
    outside.write_text("int far;\n")
    clangd.answers("textDocument/references", [])
    result = await clangd.call(
        "symbolReferences", filePath=str(outside), position={"line": 1, "character": 5}
    )
    assert not result.is_error


async def test_status_works_with_and_without_clangd(clangd: Clangd) -> None:
    status = await clangd.call("status")
    assert status.structured["clangdFound"] is True and status.structured["clientState"] == "running"
    clangd.servers = InMemoryServers(absent=[Unavailable(KIND, "missing", "because")])
    status = await clangd.call("status")
    assert not status.is_error
    assert (status.structured["clangdFound"], status.structured["clientState"]) == (False, "stopped")
    assert status.structured["clangdVersion"] is None
    lines = status.text.splitlines()
    assert lines[0].endswith("kind=status") and "clangdFound: false" in lines
