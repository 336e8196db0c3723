"""A name that no server has as a symbol: the words of the project tell whether it is there all the same."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.code_intelligence.tools import find_symbol, references
from support.projects.file_tree import write_tree
from support.servers.language_servers.in_memory import CONTEXT, InMemoryServer, at, workplace_of
from support.servers.language_servers.python_symbols import python_server
from workspace_server.tool import ToolError

FILES = {
    "src/a.py": "class A:\n    pass\nmake().extensions = {}\n",
    "src/b.py": "import library\nA().extensions\nlibrary.outer()\n# rumour\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_tree(Path(os.path.realpath(tmp_path)) / "proj", FILES)


@pytest.fixture
def server(root: Path) -> InMemoryServer:
    """A server whose search lists no attributes of values."""
    server = python_server(root)
    server.answers["textDocument/definition"] = lambda params: []
    return server


def defined_at(path: Path, line: int) -> list[dict[str, Any]]:
    return [{"uri": path.as_uri(), "range": at(line, 13, line, 23)}]


async def find(root: Path, server: InMemoryServer, query: str, **arguments: Any) -> dict[str, Any]:
    asked = {"query": query, **arguments}
    result = await find_symbol.call("lm_findSymbol", workplace_of(root, server), asked, CONTEXT)
    assert isinstance(result.structured, dict)
    return result.structured


async def test_nothing_is_fresh_only_if_no_code_has_the_word(root: Path, server: InMemoryServer) -> None:
    assert (await find(root, server, "nowhere"))["freshness"] == [{"provider": "py", "state": "fresh"}]
    assert (await find(root, server, "rumour"))["freshness"] == [{"provider": "py", "state": "fresh"}]
    answer = await find(root, server, "extensions")
    assert (answer["total"], answer["freshness"][0]["state"]) == (0, "partial")
    assert answer["freshness"][0]["reason"] == (
        "2 lines in 2 files have the word extensions: proj/src/a.py#3, proj/src/b.py#2 (in code)"
    )


async def test_where_the_server_says_that_it_is_defined_is_told(root: Path, server: InMemoryServer) -> None:
    server.answers["textDocument/definition"] = lambda params: defined_at(root / "src/a.py", 2)
    reason = (await find(root, server, "A/extensions"))["freshness"][0]["reason"]
    assert reason.endswith("; the server says that it is defined at proj/src/a.py#3")


async def test_a_name_of_a_library_is_no_missing_symbol(
    root: Path, server: InMemoryServer, tmp_path: Path
) -> None:
    server.answers["textDocument/definition"] = lambda params: defined_at(tmp_path / "library.py", 0)
    assert (await find(root, server, "outer"))["freshness"][0]["state"] == "fresh"


async def test_a_call_about_an_unknown_symbol_names_the_lines_with_the_word(
    root: Path, server: InMemoryServer
) -> None:
    with pytest.raises(
        ToolError, match=r"no symbol has the name extensions.* But 2 lines in 2 files .*src/a\.py#3"
    ):
        await references.call("lm_references", workplace_of(root, server), {"symbol": "extensions"}, CONTEXT)
    with pytest.raises(ToolError, match=r"See lm_findSymbol$"):
        await references.call("lm_references", workplace_of(root, server), {"symbol": "nowhere"}, CONTEXT)


async def test_a_symbol_that_was_found_costs_no_search_for_words(root: Path, server: InMemoryServer) -> None:
    assert (await find(root, server, "A"))["total"] == 1
    assert not any(method == "textDocument/definition" for method, _ in server.asked)


async def test_a_search_in_one_file_or_by_prefix_says_nothing_of_words(
    root: Path, server: InMemoryServer
) -> None:
    assert (await find(root, server, "extensions", filePath="src/a.py"))["freshness"][0]["state"] == "fresh"
    assert (await find(root, server, "extens", match="prefix"))["freshness"][0]["state"] == "fresh"


async def test_uses_are_those_of_what_the_server_says_that_the_words_are(
    root: Path, server: InMemoryServer
) -> None:
    """Without a second call, though no server lists it."""
    server.answers["textDocument/definition"] = lambda params: defined_at(root / "src/a.py", 2)
    result = await references.call(
        "lm_references", workplace_of(root, server), {"symbol": "extensions"}, CONTEXT
    )
    assert result.structured is not None
    files = [use["workspacePath"] for use in result.structured["references"]]
    assert files == ["proj/src/a.py", "proj/src/b.py"]


async def test_what_another_place_defines_as_well_is_not_guessed(root: Path, server: InMemoryServer) -> None:
    def definition(params: Any) -> list[dict[str, Any]]:
        is_first = params["textDocument"]["uri"].endswith("a.py")
        return defined_at(root / "src/a.py", 2) if is_first else defined_at(root / "src/b.py", 1)

    server.answers["textDocument/definition"] = definition
    with pytest.raises(ToolError, match="no symbol has the name extensions"):
        await references.call("lm_references", workplace_of(root, server), {"symbol": "extensions"}, CONTEXT)
