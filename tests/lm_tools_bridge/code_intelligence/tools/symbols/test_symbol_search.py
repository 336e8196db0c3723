"""Declarations by name, where servers list only some, or write names in their own way."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.code_intelligence.tools import find_symbol, references
from lm_tools_bridge.code_intelligence.tools.symbols.symbol_names import name_query
from lm_tools_bridge.code_intelligence.tools.symbols.symbols import found_path
from lm_tools_bridge.code_intelligence.wire.document_uris import to_uri
from support.projects.file_tree import write_tree
from support.servers.language_servers.in_memory import CONTEXT, InMemoryServer, at, kind, workplace_of

GO = """\
package mux

type Route struct {
\tname string
}

func (r *Route) Match(x int) bool { return true }
"""


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("Route.Match", ("Route", "Match")),
        ("Flag.Name", ("Flag", "Name")),
        ("Match", ("Match",)),
        ("path.Match", ("path", "Match")),
        ("vendor/golang.org/x/text/unicode/bidi.bracketPairer.pairs", ("bidi", "bracketPairer", "pairs")),
    ],
)
def test_names_of_go_are_paths_without_their_package(name: str, path: tuple[str, ...]) -> None:
    location = {"uri": "file:///x/route.go", "range": at(0, 0)}
    raw = {"name": name, "kind": 6, "location": location, "containerName": "github.com/gorilla/mux"}
    assert found_path(raw) == path


def test_a_dot_in_other_languages_is_part_of_a_name() -> None:
    raw = {"name": "a.b", "kind": 6, "location": {"uri": "file:///x/a.json", "range": at(0, 0)}}
    assert found_path(raw) == ("a.b",)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_tree(
        Path(os.path.realpath(tmp_path)), {"proj/route.go": GO, "library/flag.go": "package flag\n"}
    )


def go_server(root: Path, listed: list[dict[str, Any]]) -> InMemoryServer:
    """A server that lists these symbols for any query, and knows the outline of `route.go`."""
    server = InMemoryServer(kind("gopls", ".go", exact_query="{name}$"))
    outline = [
        {
            "name": "Route",
            "kind": 23,
            "range": at(2, 5, 4, 1),
            "selectionRange": at(2, 5, 2, 10),
            "children": [
                {"name": "name", "kind": 8, "range": at(3, 1, 3, 5), "selectionRange": at(3, 1, 3, 5)}
            ],
        },
        {
            "name": "(*Route).Match",
            "kind": 6,
            "range": at(6, 0, 6, 40),
            "selectionRange": at(6, 16, 6, 21),
        },
    ]
    server.answers = {
        "workspace/symbol": lambda params: listed,
        "textDocument/documentSymbol": lambda params: (
            outline if params["textDocument"]["uri"].endswith("route.go") else []
        ),
    }
    return server


def listed(root: Path, name: str, file: str, line: int, column: int) -> dict[str, Any]:
    place = {"uri": to_uri(root / file), "range": at(line, column, line, column + 5)}
    return {"name": name, "kind": 6, "location": place, "containerName": "example.org/x"}


async def names(root: Path, server: InMemoryServer, query: str) -> list[str]:
    result = await find_symbol.call("lm_findSymbol", workplace_of(root, server), {"query": query}, CONTEXT)
    assert isinstance(result.structured, dict)
    return [symbol["namePath"] for symbol in result.structured["symbols"]]


@pytest.mark.parametrize("query", ["Match", "Route/Match", "Route.Match"])
async def test_a_method_of_go_is_found_beside_a_library_with_that_name(root: Path, query: str) -> None:
    server = go_server(
        root,
        [
            listed(root, "Match", "library/flag.go", 0, 0),
            listed(root, "Route.Match", "proj/route.go", 6, 16),
        ],
    )
    assert "Route/Match" in await names(root / "proj", server, query)
    assert server.asked[0] == ("workspace/symbol", {"query": "Match$"})


async def test_the_project_is_searched_where_a_server_lists_only_a_library(root: Path) -> None:
    server = go_server(root, [listed(root, "FlagSet.name", "library/flag.go", 0, 0)])
    assert await names(root / "proj", server, "Route/name") == ["Route/name"]


MACROS = "#define OBJ_LISTPACK 11\n#define UNUSED(V) ((void) V)\n"
APP = """\
class App:
    def __init__(self):
        self.extensions = {}


def extensions():
    pass
"""
UTILS = """\
var other = require('./other').compile;
exports.compile = function (x) { return x; };
app.handle = function handle(x) { return x; };
"""


def silent_server(name: str, suffix: str, outlines: dict[str, list[dict[str, Any]]]) -> InMemoryServer:
    """A server with these outlines by file name, whose search finds nothing."""
    server = InMemoryServer(kind(name, suffix))
    server.answers = {
        "workspace/symbol": lambda params: [],
        "textDocument/documentSymbol": lambda params: outlines.get(
            params["textDocument"]["uri"].rpartition("/")[2], []
        ),
        "textDocument/references": lambda params: [],
    }
    return server


@pytest.mark.parametrize(
    ("file", "text", "query", "kinds"),
    [
        ("server.h", MACROS, "OBJ_LISTPACK", ["constant OBJ_LISTPACK"]),
        ("server.h", MACROS, "UNUSED", ["function UNUSED"]),
        ("app.py", APP, "App/extensions", ["field App/extensions"]),
        ("utils.js", UTILS, "compile", ["function compile"]),
    ],
)
@pytest.mark.parametrize("in_file", [True, False])
async def test_what_servers_leave_out_is_found_by_name(
    tmp_path: Path, file: str, text: str, query: str, kinds: list[str], in_file: bool
) -> None:
    root = write_tree(Path(os.path.realpath(tmp_path)), {f"src/{file}": text})
    server = silent_server("server", Path(file).suffix, {})
    arguments = {"query": query} | ({"filePath": f"src/{file}"} if in_file else {})
    result = await find_symbol.call("lm_findSymbol", workplace_of(root, server), arguments, CONTEXT)
    assert isinstance(result.structured, dict)
    symbols = result.structured["symbols"]
    assert [f"{symbol['kind']} {symbol['namePath']}" for symbol in symbols] == kinds


async def test_a_property_is_asked_for_at_its_own_name_not_at_that_of_its_function(tmp_path: Path) -> None:
    root = write_tree(Path(os.path.realpath(tmp_path)), {"utils.js": UTILS})
    line = UTILS.splitlines()[2]
    inner = line.index("handle(")
    anonymous = UTILS.splitlines()[1].index("function")
    outline = [
        {
            "name": "compile",  # TypeScript 7 gives an empty range for a function without a name
            "kind": 12,
            "range": at(1, anonymous, 1, 44),
            "selectionRange": at(1, anonymous, 1, anonymous),
        },
        {
            "name": "handle",
            "kind": 12,
            "range": at(2, 13, 2, 45),
            "selectionRange": at(2, inner, 2, inner + 6),
        },
    ]
    server = silent_server("typescript", ".js", {"utils.js": outline})
    for name, place in (("compile", (1, 8)), ("handle", (2, 4))):
        await references.call("lm_references", workplace_of(root, server), {"symbol": name}, CONTEXT)
        asked = next(params for method, params in reversed(server.asked) if method.endswith("references"))
        assert (asked["position"]["line"], asked["position"]["character"]) == place


async def test_a_function_comes_before_attributes_that_are_only_assigned(tmp_path: Path) -> None:
    root = write_tree(Path(os.path.realpath(tmp_path)), {"app.py": APP})
    listed = {"name": "extensions", "kind": 12, "range": at(5, 0, 6, 8), "selectionRange": at(5, 4, 5, 14)}
    server = silent_server("ty", ".py", {"app.py": [listed]})
    workplace = workplace_of(root, server)
    result = await references.call("lm_references", workplace, {"symbol": "extensions"}, CONTEXT)
    assert isinstance(result.structured, dict)
    assert result.structured["symbol"]["kind"] == "function"


@pytest.mark.parametrize(
    ("query", "path", "fits"),
    [
        ("fmt/vformat", ("fmt", "v12", "vformat"), True),
        ("fmt::v12::vformat", ("fmt", "v12", "vformat"), True),
        ("vformat", ("fmt", "v12", "vformat"), True),
        ("/fmt/vformat", ("fmt", "v12", "vformat"), True),
        ("std/vector", ("std", "__1", "vector"), True),
        ("absl/Span", ("absl", "ABSL_NAMESPACE_BEGIN", "Span"), True),
        ("a/f", ("a", "(anonymous namespace)", "f"), True),
        ("fmt/vformat", ("fmt", "detail", "vformat"), False),
        ("v12/vformat", ("fmt", "vformat"), False),
        ("Deep/pop", ("Deep", "Stack", "pop"), False),
    ],
)
def test_namespaces_that_nobody_writes_may_be_left_out(query: str, path: tuple[str, ...], fits: bool) -> None:
    assert name_query(query).fits(path) is fits


async def test_a_macro_that_opens_a_namespace_is_no_part_of_a_name_path(tmp_path: Path) -> None:
    root = write_tree(Path(os.path.realpath(tmp_path)), {"args.h": "FMT_BEGIN_NAMESPACE\nint vformat();\n"})
    whole = at(0, 0, 1, 14)
    function = {"name": "vformat", "kind": 12, "range": at(1, 0, 1, 14), "selectionRange": at(1, 4, 1, 11)}
    first = {"range": whole, "selectionRange": at(0, 0, 0, 19)}
    inline = {"name": "v12", "kind": 3, **first, "children": [function]}
    space = {"name": "fmt", "kind": 3, **first, "children": [inline]}
    macro = {"name": "FMT_BEGIN_NAMESPACE", "kind": 21, **first, "children": [space]}
    server = silent_server("clangd", ".h", {"args.h": [macro]})
    assert await names(root, server, "fmt/vformat") == ["fmt/v12/vformat"]


async def test_what_all_can_use_comes_before_variables_of_functions(tmp_path: Path) -> None:
    text = "def other():\n    delay = 1\n\n\ndef delay():\n    pass\n"
    root = write_tree(Path(os.path.realpath(tmp_path)), {"a.py": text})
    local = {"name": "delay", "kind": 13, "range": at(1, 4, 1, 13), "selectionRange": at(1, 4, 1, 9)}
    outer = {"name": "other", "kind": 12, "range": at(0, 0, 1, 13), "selectionRange": at(0, 4, 0, 9)}
    listed = {"name": "delay", "kind": 12, "range": at(4, 0, 5, 8), "selectionRange": at(4, 4, 4, 9)}
    server = silent_server("ty", ".py", {"a.py": [{**outer, "children": [local]}, listed]})
    result = await references.call("lm_references", workplace_of(root, server), {"symbol": "delay"}, CONTEXT)
    assert isinstance(result.structured, dict)
    assert result.structured["symbol"]["location"]["startLine"] == 5


@pytest.mark.parametrize(
    "text", ["export function target() {}\n", "class Other {\n  async target(x: number) {\n  }\n}\n"]
)
async def test_a_symbol_of_a_project_that_the_server_has_not_read_is_found(tmp_path: Path, text: str) -> None:
    files = {
        "src/core.ts": "export const target = 1;\n",
        "scripts/tool.ts": text,
        "e2e/use.ts": "target();\n",
    }
    root = write_tree(Path(os.path.realpath(tmp_path)), files)
    line = next(number for number, each in enumerate(text.splitlines()) if "target" in each)
    column = text.splitlines()[line].index("target")

    def outline(name: str, line: int, column: int) -> list[dict[str, Any]]:
        place = at(line, column, line, column + 6)
        return [{"name": name, "kind": 12, "range": place, "selectionRange": place}]

    server = silent_server(
        "typescript", ".ts", {"core.ts": outline("target", 0, 13), "tool.ts": outline("target", line, column)}
    )
    server.specification = replace(server.specification, joins_open_files=True)
    server.answers["workspace/symbol"] = lambda params: [listed(root, "target", "src/core.ts", 0, 13)]
    assert await names(root, server, "target") == ["target", "target"]
    assert root / "e2e/use.ts" not in server.opened
