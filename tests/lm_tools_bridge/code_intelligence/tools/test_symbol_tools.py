"""The tools about symbols: by name or position, with context, pages and freshness."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.code_intelligence.freshness import Freshness
from lm_tools_bridge.code_intelligence.server import RequestTimedOut, ServerGone, Unavailable
from lm_tools_bridge.code_intelligence.tools import references
from lm_tools_bridge.code_intelligence.tools.definitions import MODULES
from lm_tools_bridge.code_intelligence.tools.listing import UNSURE
from lm_tools_bridge.code_intelligence.wire.document_uris import to_uri
from support.projects.file_tree import write_tree
from support.servers.language_servers.in_memory import (
    CONTEXT,
    InMemoryServer,
    InMemoryServers,
    at,
    kind,
    workplace_of,
)
from support.servers.language_servers.python_symbols import python_server, word_at
from workspace_server.tool import InvalidArguments, ToolError, ToolResult

A = """\
class Stack:
    def push(self, x):
        return x

    def pop(self):
        return 1


def helper(s):
    s.push(2)
"""
B = """\
from a import Stack, helper

class Deep:
    class Stack:
        def pop(self):
            helper(self)


def main():
    Stack().push(1); Stack().push(2)
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_tree(Path(os.path.realpath(tmp_path)) / "proj", {"src/a.py": A, "src/b.py": B, "x.txt": "x"})


@pytest.fixture
def server(root: Path) -> InMemoryServer:
    return python_server(root)


async def run(name: str, root: Path, *servers: InMemoryServer, **arguments: Any) -> ToolResult:
    module = importlib.import_module(f"lm_tools_bridge.code_intelligence.tools.{MODULES[name]}")
    result: ToolResult = await module.call(name, workplace_of(root, *servers), arguments, CONTEXT)
    return result


async def told(name: str, root: Path, *servers: InMemoryServer, **arguments: Any) -> dict[str, Any]:
    structured = (await run(name, root, *servers, **arguments)).structured
    assert isinstance(structured, dict)
    return structured


async def test_text_and_structure_of_a_search_say_the_same(root: Path, server: InMemoryServer) -> None:
    result = await run("lm_findSymbol", root, server, query="Stack/push")
    assert result.text == "\n".join(
        [
            "Find symbol summary",
            "count: 1",
            "freshness: py: fresh",
            "---",
            "proj/src/a.py#2",
            "method Stack/push",
            "1| class Stack:",
            "2|     def push(self, x):",
            "3|         return x",
        ]
    )
    assert result.structured == {
        "total": 1,
        "count": 1,
        "capped": False,
        "nextOffset": None,
        "symbols": [{
            "name": "push",
            "namePath": "Stack/push",
            "kind": "method",
            "signature": "def push(self, x):",
            "lastLine": 3,
            "location": {
                "absolutePath": f"{root}/src/a.py", "workspacePath": "proj/src/a.py",
                "startLine": 2, "startCharacter": 9, "endLine": 2, "endCharacter": 13,
                "preview": "class Stack:\n    def push(self, x):\n        return x", "previewStartLine": 1,
            },
        }],
        "freshness": [{"provider": "py", "state": "fresh"}],
        "unavailable": [],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"query": "pop"}, ["Stack/pop", "Deep/Stack/pop"]),
        ({"query": "Stack/pop"}, ["Stack/pop", "Deep/Stack/pop"]),
        ({"query": "/Stack/pop"}, ["Stack/pop"]),
        ({"query": "Deep.Stack"}, ["Deep/Stack"]),
        ({"query": "po"}, []),
        ({"query": "P", "match": "prefix"}, ["Stack/push", "Stack/pop", "Deep/Stack/pop"]),
        ({"query": "^(push|main)$", "match": "regex"}, ["Stack/push", "main"]),
        ({"query": "hlpr", "match": "fuzzy"}, ["helper"]),
        ({"query": "Stack"}, ["Stack", "Deep/Stack"]),
        ({"query": "pop", "filePath": "src/b.py"}, ["Deep/Stack/pop"]),
        ({"query": "p", "match": "prefix", "kinds": ["class"]}, []),
        ({"query": ".", "match": "regex", "kinds": ["function"]}, ["helper", "main"]),
    ],
)
@pytest.mark.parametrize("searches", [True, False])
async def test_names_are_found_with_and_without_a_servers_own_search(
    root: Path, server: InMemoryServer, arguments: dict[str, Any], found: list[str], searches: bool
) -> None:
    if not searches:
        del server.answers["workspace/symbol"]
    symbols = (await told("lm_findSymbol", root, server, **arguments))["symbols"]
    assert [one["namePath"] for one in symbols] == found


async def test_a_name_is_asked_of_servers_whose_files_have_it_and_data_of_what_no_code_has(
    root: Path, server: InMemoryServer
) -> None:
    write_tree(root, {"web/main.go": "package main\n", "conf.json": '{"push": 1, "port": 2}\n'})
    go = python_server(root)
    go.specification = kind("gopls", ".go")
    json_server = InMemoryServer(
        kind("json", ".json", is_optional=True),
        {"workspace/symbol": lambda params: []},
        state=Freshness("json", "unknown", "it gives no sign"),
    )
    found = await told("lm_findSymbol", root, go, server, json_server, query="push")
    assert [one["namePath"] for one in found["symbols"]] == ["Stack/push"]
    assert found["freshness"] == [{"provider": "py", "state": "fresh"}]
    assert go.asked == json_server.asked == []
    found = await told("lm_findSymbol", root, go, server, json_server, query="port")
    assert [part["provider"] for part in found["freshness"]] == ["gopls", "py", "json"]
    found = await told("lm_findSymbol", root, go, server, json_server, query="nowhere")
    assert [part["provider"] for part in found["freshness"]] == ["gopls", "py"]


async def test_a_server_that_still_starts_makes_an_answer_incomplete(
    root: Path, server: InMemoryServer
) -> None:
    starting = Unavailable(kind("gopls", ".go"), "starting", "gopls is still starting; ask again")
    write_tree(root, {"main.go": "func push() {}\n"})
    workplace = workplace_of(root, server, absent=[starting])
    module = importlib.import_module("lm_tools_bridge.code_intelligence.tools.find_symbol")
    result = await module.call("lm_findSymbol", workplace, {"query": "push"}, CONTEXT)
    assert "freshness: py: fresh\nfreshness: gopls: indexing: gopls is still starting" in result.text
    assert UNSURE in result.text


@pytest.mark.parametrize("query", ["(", "(a+)+b", "a*b*c*d*", "/", "x" * 500])
async def test_a_pattern_that_cannot_be_used_is_refused(
    root: Path, server: InMemoryServer, query: str
) -> None:
    with pytest.raises(InvalidArguments, match="/query"):
        await run("lm_findSymbol", root, server, query=query, match="regex")


async def test_a_file_with_two_names_has_each_symbol_once(root: Path, server: InMemoryServer) -> None:
    (root / "again.py").symlink_to("src/a.py")
    found = await told("lm_references", root, server, symbol="helper", includeDeclaration=True)
    assert found["symbol"]["location"]["workspacePath"] == "proj/src/a.py"


async def test_pages_join_to_the_whole(root: Path, server: InMemoryServer) -> None:
    found, offset = [], 0
    for _ in range(3):
        page = await told("lm_references", root, server, symbol="push", limit=1, offset=offset)
        assert (page["total"], page["count"], page["files"]) == (3, 1, 2)
        found += [(one["workspacePath"], one["startLine"]) for one in page["references"]]
        offset = page["nextOffset"]
    assert offset is None
    assert found == [("proj/src/a.py", 10), ("proj/src/b.py", 10), ("proj/src/b.py", 10)]


@pytest.mark.parametrize(
    "address", [{"symbol": "helper"}, {"filePath": "src/a.py", "line": 9, "character": 5}]
)
async def test_one_answer_needs_one_look_at_the_disk(
    root: Path, server: InMemoryServer, address: dict[str, Any]
) -> None:
    workplace = workplace_of(root, server)
    result = await references.call("lm_references", workplace, address, CONTEXT)
    assert result.structured is not None
    assert result.structured["total"] == 2
    assert isinstance(workplace.servers, InMemoryServers)
    assert len(workplace.servers.obtained) == 1


@pytest.mark.parametrize(
    ("detail", "lines", "preview"),
    [
        ("places", ["proj/src/a.py 10:7"], None),
        ("lines", ["---", "proj/src/a.py", "10: s.push(2)"], "    s.push(2)"),
        (
            "context",
            ["---", "proj/src/a.py#10", " 9| def helper(s):", "10|     s.push(2)", "11| "],
            "def helper(s):\n    s.push(2)\n",
        ),
    ],
)
async def test_references_show_as_much_of_the_text_as_is_wanted(
    root: Path, server: InMemoryServer, detail: str, lines: list[str], preview: str | None
) -> None:
    result = await run("lm_references", root, server, symbol="Stack/push", limit=1, detail=detail)
    assert result.text.splitlines() == [
        "References summary",
        "symbol: method Stack/push at proj/src/a.py#2",
        "files: 2",
        "count: 1/3",
        "nextOffset: 1",
        "freshness: py: fresh",
        *lines,
    ]
    assert isinstance(result.structured, dict)
    assert result.structured["references"][0].get("preview") == preview


async def test_uses_are_grouped_by_file_and_by_line(root: Path, server: InMemoryServer) -> None:
    result = await run("lm_references", root, server, symbol="Stack/push")
    assert result.text.partition("fresh\n")[2].splitlines() == [
        "---",
        "proj/src/a.py",
        "10: s.push(2)",
        "---",
        "proj/src/b.py",
        "10 (2 uses): Stack().push(1); Stack().push(2)",
    ]
    result = await run("lm_references", root, server, symbol="Stack/push", detail="places")
    assert result.text.endswith("fresh\nproj/src/a.py 10:7\nproj/src/b.py 10:13, 10:30")


@pytest.mark.parametrize("bounds", [{"limit": 0}, {"limit": 1, "offset": -5}, {"limit": -1}])
async def test_bounds_that_make_no_sense_give_the_next_page_that_does(
    root: Path, server: InMemoryServer, bounds: dict[str, int]
) -> None:
    found = await told("lm_references", root, server, symbol="push", **bounds)
    assert (found["count"], found["nextOffset"], found["references"][0]["startLine"]) == (1, 1, 10)


async def test_a_kind_that_no_symbol_has_is_refused_with_those_that_there_are(
    root: Path, server: InMemoryServer
) -> None:
    with pytest.raises(InvalidArguments, match=r"/kinds.*routine is none of .*function"):
        await run("lm_findSymbol", root, server, query="push", kinds=["routine"])


@pytest.mark.parametrize(
    "address",
    [
        {"filePath": "src/a.py", "line": 2, "character": 10},
        {"filePath": "src/a.py", "line": 2},
        {"filePath": "src/b.py", "line": 10, "symbol": "push"},
        {"symbol": "push", "filePath": "src/a.py"},
    ],
)
async def test_a_symbol_is_named_by_place_or_by_name(
    root: Path, server: InMemoryServer, address: dict[str, Any]
) -> None:
    assert (await told("lm_references", root, server, **address))["total"] == 3


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ({}, "give a symbol's name"),
        ({"filePath": "src/a.py"}, "give a symbol's name"),
        ({"filePath": "src/a.py", "line": 99}, "/line"),
        ({"filePath": "src/a.py", "line": 3, "character": 99}, "/character"),
        ({"filePath": "src/a.py", "line": 3}, "declares no symbol"),
        ({"filePath": "src/a.py", "line": 3, "symbol": "push"}, "does not contain push"),
        ({"filePath": "../a.py", "line": 3}, "outside the workspace"),
        ({"symbol": "nothing"}, "no symbol has the name nothing"),
        ({"symbol": "/"}, "has no name"),
        ({"filePath": "x.txt", "line": 1, "character": 1}, "no language server is known for proj/x.txt"),
    ],
)
async def test_a_bad_address_is_refused_with_what_would_do(
    root: Path, server: InMemoryServer, address: dict[str, Any], message: str
) -> None:
    with pytest.raises((InvalidArguments, ToolError), match=message):
        await run("lm_references", root, server, **address)


async def test_an_ambiguous_name_lists_the_candidates(root: Path, server: InMemoryServer) -> None:
    del server.answers["textDocument/definition"]
    with pytest.raises(InvalidArguments) as refused:
        await run("lm_references", root, server, symbol="pop")
    assert (
        "method Stack/pop at proj/src/a.py#5 `def pop(self):`; "
        "method Deep/Stack/pop at proj/src/b.py#5 `def pop(self):`"
    ) in str(refused.value)


async def test_declarations_of_one_symbol_are_one(root: Path, server: InMemoryServer) -> None:
    """As with C++: from the definition a server leads to the declaration, and back."""
    first, second = (
        {"uri": to_uri(root / name), "range": at(4, column, 4, column + 3)}
        for name, column in (("src/a.py", 8), ("src/b.py", 12))
    )
    server.answers["textDocument/definition"] = lambda params: (
        second if params["textDocument"]["uri"] == first["uri"] else first
    )
    assert (await told("lm_references", root, server, symbol="pop"))["total"] == 0
    server.answers["textDocument/definition"] = lambda params: []
    with pytest.raises(InvalidArguments, match="2 symbols"):
        await run("lm_references", root, server, symbol="pop")


async def test_info_has_all_about_a_symbol(root: Path, server: InMemoryServer) -> None:
    result = await run("lm_symbolInfo", root, server, symbol="Stack/push", maxLines=1)
    assert result.text == "\n".join(
        [
            "Symbol info summary",
            "symbol: method Stack/push",
            "location: proj/src/a.py#2",
            "definition: proj/src/a.py#2",
            "freshness: py: fresh",
            "---",
            "**push**",
            "---",
            "source: proj/src/a.py#2 (truncated)",
            "    def push(self, x):",
        ]
    )
    assert isinstance(result.structured, dict)
    assert (result.structured["source"], result.structured["hover"]) == ("    def push(self, x):", "**push**")


async def test_info_at_a_use_is_about_the_declaration(root: Path, server: InMemoryServer) -> None:
    found = await told("lm_symbolInfo", root, server, filePath="src/b.py", line=10, symbol="push")
    assert found["symbol"]["namePath"] == "Stack/push"
    assert found["source"] == "    def push(self, x):\n        return x"


async def test_an_outline_is_a_tree(root: Path, server: InMemoryServer) -> None:
    result = await run("lm_fileOutline", root, server, filePath="src/b.py")
    assert result.text == "\n".join(
        [
            "File outline summary",
            "file: proj/src/b.py",
            "count: 4",
            "freshness: py: fresh",
            "---",
            "3-6 class Deep: class Deep:",
            "  4-6 class Stack: class Stack:",
            "    5-6 method pop: def pop(self):",
            "9-10 function main: def main():",
        ]
    )
    page = await told("lm_fileOutline", root, server, filePath="src/b.py", depth=1, limit=1)
    assert (page["total"], page["nextOffset"], page["symbols"][0]["namePath"]) == (2, 1, "Deep")


def item(root: Path, name: str, line: int) -> dict[str, Any]:
    where = at(line, 4, line, 8)
    return {
        "name": name,
        "kind": 12,
        "uri": to_uri(root / "src/b.py"),
        "range": where,
        "selectionRange": where,
    }


@pytest.fixture
def calls(root: Path, server: InMemoryServer) -> InMemoryServer:
    callers = {"helper": ["pop"], "pop": ["main"], "main": ["helper", "main"]}

    def incoming(params: Any) -> list[Any]:
        names = callers[params["item"]["name"]]
        return [{"from": item(root, one, 5), "fromRanges": [at(5, 0), at(5, 3), at(7, 0)]} for one in names]

    server.answers |= {
        "textDocument/prepareCallHierarchy": lambda params: [item(root, word_at(params), 5)],
        "callHierarchy/incomingCalls": incoming,
        "callHierarchy/outgoingCalls": lambda params: None,
    }
    return server


async def test_calls_are_followed_over_several_steps_and_circles_end(
    root: Path, calls: InMemoryServer
) -> None:
    found = await told("lm_callHierarchy", root, calls, symbol="helper", depth=5, direction="incoming")
    steps = [(one["depth"], one["name"], one["via"], one["callLines"]) for one in found["entries"]]
    assert steps == [
        (1, "pop", "helper", [6, 8]),
        (2, "main", "pop", [6, 8]),
        (3, "helper", "main", [6, 8]),
        (3, "main", "main", [6, 8]),
    ]
    result = await run("lm_callHierarchy", root, calls, symbol="helper")
    assert "incoming 1: pop -> helper [function] (calls in lines 6, 8)" in result.text


async def test_a_hierarchy_that_a_server_lacks_is_an_error_not_nothing(
    root: Path, server: InMemoryServer
) -> None:
    with pytest.raises(ToolError, match="py offers no type hierarchies; `implementations`"):
        await run("lm_typeHierarchy", root, server, symbol="Deep")
    server.answers["textDocument/prepareTypeHierarchy"] = lambda params: None
    with pytest.raises(ToolError, match="nothing at this place"):
        await run("lm_typeHierarchy", root, server, symbol="Deep")


async def test_an_answer_that_may_not_be_all_says_so(root: Path, server: InMemoryServer) -> None:
    server.state = Freshness("py", "indexing", "it still reads the project", 1, 9)
    result = await run("lm_references", root, server, symbol="push")
    assert "freshness: py: indexing (1 of 9): it still reads the project" in result.text
    assert "note: This may not be all: see freshness." in result.text
    assert isinstance(result.structured, dict)
    assert result.structured["note"] == "This may not be all: see freshness."


async def test_a_server_without_signs_is_asked_until_two_answers_agree(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = python_server(root, ready="settled")
    server.state = Freshness("py", "unknown", "it gives no sign")
    complete = server.answers["textDocument/references"]
    address = {"textDocument": {"uri": to_uri(root / "src/a.py")}, "position": at(1, 10)["start"]}
    first = complete({**address, "context": {"includeDeclaration": False}})
    replies = iter([first[:1], first, first])
    server.answers["textDocument/references"] = lambda params: next(replies, first)
    monkeypatch.setattr("lm_tools_bridge.code_intelligence.tools.asking.SETTLE_S", 0.001)
    found = await told("lm_references", root, server, filePath="src/a.py", line=2, waitS=9)
    assert found["total"] == 3
    assert found["freshness"][0]["reason"].endswith("two answers in a row were equal")
    assert next(replies, None) is None, "it was asked three times"


async def test_a_server_that_ends_is_told_as_such(root: Path, server: InMemoryServer) -> None:
    server.fault = ServerGone("it ended with signal 9")
    found = await told("lm_references", root, server, filePath="src/a.py", line=2)
    (freshness,) = found["freshness"]
    assert (freshness["provider"], freshness["state"]) == ("py", "crashed")
    assert freshness["reason"].startswith("it ended with signal 9; 3 more lines in 2 files have the word")
    assert "note" in found


async def test_a_server_that_does_not_answer_is_no_proof_that_a_symbol_is_missing(
    root: Path, server: InMemoryServer
) -> None:
    server.fault = RequestTimedOut("py did not answer workspace/symbol within 30 s")
    with pytest.raises(ToolError, match=r"nothing is known about push, .* did not answer .* Call again"):
        await run("lm_implementations", root, server, symbol="push")


async def test_without_a_server_the_answer_says_what_to_install(root: Path) -> None:
    missing = Unavailable(kind("py", ".py"), "missing", "install it: pip install ty")
    module = importlib.import_module("lm_tools_bridge.code_intelligence.tools.references")
    with pytest.raises(ToolError, match="install it: pip install ty"):
        await module.call("lm_references", workplace_of(root, absent=[missing]), {"symbol": "push"}, CONTEXT)


async def test_what_a_lesser_server_lacks_names_the_better_one(root: Path) -> None:
    missing = Unavailable(kind("ty", ".py"), "missing", "install it: pip install ty")
    lesser = python_server(root, "tree-sitter")
    del lesser.answers["textDocument/references"]
    module = importlib.import_module("lm_tools_bridge.code_intelligence.tools.references")
    place = {"filePath": "src/a.py", "line": 2}
    with pytest.raises(ToolError, match=r"only tree-sitter runs, .* no references\. ty: install it: pip"):
        await module.call("lm_references", workplace_of(root, lesser, absent=[missing]), place, CONTEXT)


@pytest.mark.parametrize(
    "garbage", [None, 7, "x", [7, {"uri": 3}], [{"uri": "file:///etc", "range": {}}], {}]
)
async def test_garbage_of_a_server_is_left_out(root: Path, server: InMemoryServer, garbage: Any) -> None:
    address = {"filePath": "src/a.py", "line": 2, "character": 10}
    server.answers["textDocument/references"] = lambda params: garbage
    assert (await told("lm_references", root, server, **address))["total"] == 0
    server.answers["textDocument/documentSymbol"] = lambda params: garbage
    server.answers["textDocument/hover"] = lambda params: garbage
    assert (await told("lm_symbolInfo", root, server, **address))["hover"] == ""
    assert (await told("lm_fileOutline", root, server, filePath="src/a.py"))["total"] == 0


async def test_an_outline_is_asked_once_while_nothing_changes(root: Path, server: InMemoryServer) -> None:
    kept: dict[str, Any] = {}
    server.memo = lambda path: kept
    path = str(root / "src/a.py")
    for _ in range(2):
        found = await told("lm_references", root, server, filePath=path, line=2, character=9)
        assert found["symbol"]["namePath"] == "Stack/push"
    assert [method for method, _ in server.asked].count("textDocument/documentSymbol") == 1
    kept.clear()
    await told("lm_references", root, server, filePath=path, line=2, character=9)
    assert [method for method, _ in server.asked].count("textDocument/documentSymbol") == 2


HEADER = "int add(int a, int b);\nclass Sum;\nextern int total;\nint only();\n"
SOURCE = '#include "a.h"\n\nint add(int a, int b) {\n  return a + b;\n}\nclass Sum {};\nint total = 0;\n'


def c_server(root: Path) -> InMemoryServer:
    """As clangd: at a use it names both places, at each of the two only the other one, for both questions."""
    homes = {"add": (at(0, 4, 0, 7), at(2, 4, 2, 7)), "Sum": (at(1, 6, 1, 9), at(5, 6, 5, 9)),
             "total": (at(2, 11, 2, 16), at(6, 4, 6, 9)), "only": (at(3, 4, 3, 8), None)}  # fmt: skip
    header, source = to_uri(root / "a.h"), to_uri(root / "a.cpp")

    def places(params: Any, *, wants_definition: bool) -> list[dict[str, Any]]:
        name = word_at(params)
        declared, defined = homes[name]
        declaration = {"uri": header, "range": declared}
        definition = None if defined is None else {"uri": source, "range": defined}
        where = (params["textDocument"]["uri"], params["position"])
        if definition is None or where == (source, defined["start"]):
            return [declaration]
        if where == (header, declared["start"]) or wants_definition:
            return [definition]
        return [declaration]

    def outline(params: Any) -> list[dict[str, Any]]:
        number = 0 if params["textDocument"]["uri"] == header else 1
        spans = {name: span[number] for name, span in homes.items() if span[number] is not None}
        return [
            {"name": name, "kind": 12, "range": span, "selectionRange": span} for name, span in spans.items()
        ]

    return InMemoryServer(
        kind("clangd", ".cpp", ".h"),
        {
            "textDocument/documentSymbol": outline,
            "textDocument/definition": lambda params: places(params, wants_definition=True),
            "textDocument/declaration": lambda params: places(params, wants_definition=False),
        },
    )


@pytest.mark.parametrize(
    ("file", "line", "name", "definitions", "declarations"),
    [
        *(
            (file, line, "add", ["a.cpp#3"], ["a.h#1"])
            for file, line in (("a.h", 1), ("a.cpp", 3), ("b.cpp", 1))
        ),
        *(
            (file, line, "Sum", ["a.cpp#6"], ["a.h#2"])
            for file, line in (("a.h", 2), ("a.cpp", 6), ("b.cpp", 2))
        ),
        *((file, line, "total", ["a.cpp#7"], ["a.h#3"]) for file, line in (("a.h", 3), ("a.cpp", 7))),
        *((file, line, "only", [], ["a.h#4"]) for file, line in (("a.h", 4), ("b.cpp", 3))),
    ],
)
async def test_a_declaration_in_a_header_is_not_called_the_definition(
    tmp_path: Path, file: str, line: int, name: str, definitions: list[str], declarations: list[str]
) -> None:
    files = {"a.h": HEADER, "a.cpp": SOURCE, "b.cpp": "int x = add(1, 2);\nSum* sum;\nint y = only();\n"}
    root = write_tree(Path(os.path.realpath(tmp_path)) / "proj", files)
    said = await told("lm_symbolInfo", root, c_server(root), filePath=file, line=line, symbol=name)
    found = {
        label: [f"{Path(one['absolutePath']).name}#{one['startLine']}" for one in said[label]]
        for label in ("definition", "declaration")
    }
    assert found == {"definition": definitions, "declaration": declarations}
