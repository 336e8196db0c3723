"""lm_findTextInFiles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from support.projects.file_tree import ENGINES, settings_of, workspace_of, write_tree
from workspace_server.sources.builtin.tools.find_text import TOOL, call
from workspace_server.tool import InvalidArguments, ToolError
from workspace_server.workspace import Workspace

pytestmark = pytest.mark.parametrize("engine", ENGINES)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    write_tree(tmp_path / "proj", {"src/a.ts": "Hello hello\nx\n  hello:12:world\n", "b.js": "HELLO"})
    write_tree(tmp_path / "two", {"d.ts": "hello"})
    return workspace_of(tmp_path / "proj", tmp_path / "two")


async def places(engine: str, workspace: Workspace, **arguments: Any) -> list[str]:
    settings = settings_of(engine, workspace.root.parent)
    result = await call(workspace, arguments, settings=settings)
    assert result.structured is not None
    return [f"{Path(match['path']).name}:{match['line']}" for match in result.structured["matches"]]


async def test_result_says_the_same_in_text_and_structure(
    engine: str, workspace: Workspace, tmp_path: Path
) -> None:
    arguments = {"query": "hello", "includePattern": "*.ts"}
    result = await call(workspace, arguments, settings=settings_of(engine, tmp_path))
    assert result.structured == {
        "capped": False,
        "uniqueMatches": 3,
        "totalMatches": 4,
        "matches": [
            {"path": f"{tmp_path}/proj/src/a.ts", "line": 1, "preview": "Hello hello"},
            {"path": f"{tmp_path}/proj/src/a.ts", "line": 3, "preview": "  hello:12:world"},
            {"path": f"{tmp_path}/two/d.ts", "line": 1, "preview": "hello"},
        ],
    }
    assert result.text == (
        "Find text in files summary\nuniqueMatches: 3\ntotalMatches: 4\n---\n"
        f"// {tmp_path}/proj/src/a.ts:1\nHello hello\n---\n"
        f"// {tmp_path}/proj/src/a.ts:3\n  hello:12:world\n---\n"
        f"// {tmp_path}/two/d.ts:1\nhello"
    )


async def test_capped_is_said(engine: str, workspace: Workspace, tmp_path: Path) -> None:
    result = await call(
        workspace, {"query": "hello", "maxResults": 2}, settings=settings_of(engine, tmp_path)
    )
    assert result.text.startswith(
        f"Find text in files summary\nuniqueMatches: 2\ntotalMatches: 3 (capped)\n---\n// {workspace.root}/b.js:1\n"
    )
    assert result.structured is not None
    assert result.structured["capped"] is True


async def test_nothing_found_is_said_plainly(engine: str, workspace: Workspace, tmp_path: Path) -> None:
    result = await call(workspace, {"query": "nothing like it"}, settings=settings_of(engine, tmp_path))
    assert result.text == "No matches found."
    assert result.structured == {"capped": False, "uniqueMatches": 0, "totalMatches": 0, "matches": []}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"query": "hello"}, ["b.js:1", "a.ts:1", "a.ts:3", "d.ts:1"]),
        ({"query": "Hello"}, ["a.ts:1"]),
        ({"query": "hello", "caseSensitive": True}, ["a.ts:1", "a.ts:3", "d.ts:1"]),
        ({"query": "h.llo"}, []),
        ({"query": "h.llo", "querySyntax": "literal"}, []),
        ({"query": "h.llo$", "querySyntax": "regex"}, ["b.js:1", "a.ts:1", "d.ts:1"]),
        ({"query": "h.llo$", "isRegexp": True}, ["b.js:1", "a.ts:1", "d.ts:1"]),
        ({"query": "h.llo$", "isRegexp": True, "querySyntax": "regex"}, ["b.js:1", "a.ts:1", "d.ts:1"]),
        ({"query": "h.llo", "isRegexp": False, "querySyntax": "literal"}, []),
        ({"query": "hello", "includePattern": "proj/src/*.ts"}, ["a.ts:1", "a.ts:3"]),
        ({"query": "hello", "includePattern": "*.{js,rs}"}, ["b.js:1"]),
        ({"query": "hello", "includePattern": "two"}, ["d.ts:1"]),
    ],
)
async def test_arguments_mean_what_the_contract_says(
    engine: str, workspace: Workspace, arguments: dict[str, Any], expected: list[str]
) -> None:
    assert await places(engine, workspace, **arguments) == expected


async def test_invalid_regex_is_an_error_with_position_and_reason(engine: str, workspace: Workspace) -> None:
    with pytest.raises(ToolError) as caught:
        await places(engine, workspace, query="ab(", querySyntax="regex")
    assert caught.value.message.startswith("Error: invalid regular expression at character 3: ")
    assert caught.value.structured is not None
    assert (caught.value.structured["reason"], caught.value.structured["position"]) == ("invalid_regex", 3)


@pytest.mark.parametrize(
    ("arguments", "pointer"),
    [
        ({"query": "x", "includePattern": "a.ts|b.ts"}, "/includePattern"),
        ({"query": "x", "isRegexp": True, "querySyntax": "literal"}, "/isRegexp"),
        ({"query": "x", "isRegexp": False, "querySyntax": "regex"}, "/isRegexp"),
        ({"query": "a\nb"}, "/query"),
        ({"query": "a\rb", "querySyntax": "regex"}, "/query"),
        ({"query": "a\0b"}, "/query"),
        ({"query": ""}, "/query"),
    ],
)
async def test_arguments_that_make_no_sense_are_refused(
    engine: str, workspace: Workspace, arguments: dict[str, Any], pointer: str
) -> None:
    with pytest.raises(InvalidArguments) as caught:
        await places(engine, workspace, **arguments)
    assert caught.value.pointer == pointer


async def test_every_result_fits_the_output_schema(engine: str, workspace: Workspace, tmp_path: Path) -> None:
    write_tree(tmp_path / "proj", {"odd.txt": b"hello \xff\xfe\n"})
    for arguments in ({"query": "hello"}, {"query": "hello", "maxResults": 1}, {"query": "nope"}):
        result = await call(workspace, arguments, settings=settings_of(engine, tmp_path))
        jsonschema_rs.validate(TOOL.definition["outputSchema"], dict(result.structured or {}))
        result.text.encode()


def test_schema_states_its_defaults(engine: str) -> None:
    del engine
    assert TOOL.input_schema["properties"]["maxResults"]["default"] == 500
    assert not jsonschema_rs.is_valid(TOOL.input_schema, {"query": "a", "querySyntax": "glob"})
