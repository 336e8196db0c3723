"""lm_findFiles."""

from __future__ import annotations

import os
from pathlib import Path

import jsonschema_rs
import pytest

from support.projects.file_tree import ENGINES, settings_of, workspace_of, write_tree
from workspace_server.sources.builtin.tools.find_files import TOOL, call
from workspace_server.tool import InvalidArguments
from workspace_server.workspace import Workspace

pytestmark = pytest.mark.parametrize("engine", ENGINES)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    write_tree(
        tmp_path / "proj", {"src/a.ts": "", "src/b.js": "", "c.ts": "", "no.log": "", ".gitignore": "*.log"}
    )
    write_tree(tmp_path / "two", {"d.ts": ""})
    return workspace_of(tmp_path / "proj", tmp_path / "two")


async def test_result_says_the_same_in_text_and_structure(
    engine: str, workspace: Workspace, tmp_path: Path
) -> None:
    result = await call(workspace, {"query": "**/*.ts"}, settings=settings_of(engine, tmp_path))
    assert result.structured == {
        "count": 3,
        "capped": False,
        "files": [f"{tmp_path}/proj/c.ts", f"{tmp_path}/proj/src/a.ts", f"{tmp_path}/two/d.ts"],
    }
    assert result.text == "\n---\n".join(["Find files summary\ncount: 3", *result.structured["files"]])
    assert not result.is_error


async def test_capped_is_said(engine: str, workspace: Workspace, tmp_path: Path) -> None:
    arguments = {"query": "", "maxResults": 2.0}
    result = await call(workspace, arguments, settings=settings_of(engine, tmp_path))
    assert result.structured is not None
    assert (result.structured["count"], result.structured["capped"]) == (2, True)
    assert result.text.startswith("Find files summary\ncount: 2 (capped)\n---\n")


async def test_nothing_found_is_said_plainly(engine: str, workspace: Workspace, tmp_path: Path) -> None:
    for query in ("*.rs", "/etc/**", "../**"):
        result = await call(workspace, {"query": query}, settings=settings_of(engine, tmp_path))
        assert result.text == "No files found."
        assert result.structured == {"count": 0, "capped": False, "files": []}


async def test_nothing_found_in_time_is_not_called_nothing(
    engine: str, workspace: Workspace, tmp_path: Path
) -> None:
    settings = settings_of(engine, tmp_path, deadline=0)
    result = await call(workspace, {"query": ""}, settings=settings)
    assert result.structured == {"count": 0, "capped": True, "files": []}
    assert "capped" in result.text


async def test_ignored_files_are_found_on_request(engine: str, workspace: Workspace, tmp_path: Path) -> None:
    settings = settings_of(engine, tmp_path)
    nothing = await call(workspace, {"query": "*.log"}, settings=settings)
    assert nothing.text == f"No files found.\nnote: {(nothing.structured or {})['note']}"
    assert "includeIgnoredFiles" in nothing.text
    arguments = {"query": "*.log", "includeIgnoredFiles": True}
    assert (await call(workspace, arguments, settings=settings)).text.endswith(
        f"---\n{workspace.root}/no.log"
    )


async def test_bar_is_refused_with_braces_suggested(
    engine: str, workspace: Workspace, tmp_path: Path
) -> None:
    with pytest.raises(InvalidArguments) as caught:
        await call(workspace, {"query": "*.ts|*.js"}, settings=settings_of(engine, tmp_path))
    assert caught.value.pointer == "/query"
    assert "{*.ts,*.js}" in caught.value.message


@pytest.mark.parametrize(
    ("arguments", "valid"),
    [
        ({"query": ""}, True),
        ({"query": "*", "maxResults": 10_000}, True),
        ({"query": "*", "maxResults": 3.0}, True),
        ({}, False),
        ({"query": "*", "maxResults": 0}, False),
        ({"query": "*", "maxResults": 10_001}, False),
        ({"query": "*", "maxResults": 1.5}, False),
        ({"query": "*", "maxResults": "5"}, False),
        ({"query": "*", "glob": "*"}, False),
    ],
)
def test_schema_takes_what_the_contract_takes(engine: str, arguments: dict[str, object], valid: bool) -> None:
    del engine
    assert jsonschema_rs.is_valid(TOOL.input_schema, arguments) is valid
    assert TOOL.input_schema["properties"]["maxResults"]["default"] == 200


async def test_every_result_fits_the_output_schema(engine: str, workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "proj" / os.fsdecode(b"n\xff.ts")).write_text("")
    for arguments in ({"query": ""}, {"query": "*.ts", "maxResults": 1}, {"query": "nope"}):
        result = await call(workspace, arguments, settings=settings_of(engine, tmp_path))
        jsonschema_rs.validate(TOOL.definition["outputSchema"], dict(result.structured or {}))
        result.text.encode()


async def test_a_name_with_a_line_end_is_found(engine: str, tmp_path: Path) -> None:
    write_tree(tmp_path / "proj", {"a\nb.ts": "", "in\nner/c.ts": ""})
    workspace = workspace_of(tmp_path / "proj")
    for query in ("**", "*.ts", "**/*b.ts"):
        result = await call(workspace, {"query": query}, settings=settings_of(engine, tmp_path))
        assert f"{tmp_path}/proj/a\nb.ts" in result.structured["files"]
