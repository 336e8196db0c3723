"""Pages of results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from support.projects.file_tree import settings_of, workspace_of, write_tree
from workspace_server.sources.builtin.tools import find_files, find_text, list_directory, read_file
from workspace_server.sources.builtin.tools.pages import PAGE_CHARACTERS, Page, fitting, shown_path
from workspace_server.tool import ToolResult

TOOLS = {"lm_findFiles": find_files, "lm_findTextInFiles": find_text, "lm_listDirectory": list_directory}
ASKED: dict[str, dict[str, Any]] = {
    "lm_findFiles": {"query": "*.txt"},
    "lm_findTextInFiles": {"query": "needle"},
    "lm_listDirectory": {"filePath": "src"},
}
LONG = "long-name-" * 20


@pytest.fixture
def root(tmp_path: Path) -> Path:
    files = {f"src/{LONG}{n:04}.txt": f"{'x' * 200} needle\n" for n in range(450)}
    return write_tree(tmp_path / "proj", files)


async def ask(root: Path, name: str, **more: Any) -> ToolResult:
    settings = settings_of("rg", root.parent)
    arguments = ASKED[name] | more
    result: ToolResult = await TOOLS[name].call(workspace_of(root), arguments, settings=settings)
    schema = TOOLS[name].TOOL.definition["outputSchema"]
    jsonschema_rs.validate(schema, dict(result.structured or {}))
    return result


def items(result: ToolResult) -> list[str]:
    assert result.structured is not None
    for member in ("files", "matches", "entries"):
        if member in result.structured:
            return [json.dumps(one) for one in result.structured[member]]
    raise AssertionError(result.structured)


@pytest.mark.parametrize("name", TOOLS)
async def test_all_pages_together_have_every_result_once(root: Path, name: str) -> None:
    found: list[str] = []
    offset: int | None = 0
    while offset is not None:
        result = await ask(root, name, offset=offset)
        assert len(result.text) <= PAGE_CHARACTERS * 1.1
        assert len(json.dumps(result.structured)) <= PAGE_CHARACTERS * 1.2
        assert result.structured is not None
        assert result.structured["total"] == 450
        assert result.structured["capped"] == ("nextOffset" in result.structured)
        found += items(result)
        offset = result.structured.get("nextOffset")
        assert (f"next page: the same call with offset {offset}" in result.text) == (offset is not None)
    assert len(found) == len(set(found)) == 450


@pytest.mark.parametrize("name", TOOLS)
async def test_a_number_of_results_that_was_asked_for_is_not_cut(root: Path, name: str) -> None:
    result = await ask(root, name, maxResults=400)
    assert len(items(result)) == 400
    assert result.structured is not None
    assert (result.structured["capped"], result.structured["total"]) == (True, 450)


@pytest.mark.parametrize("name", TOOLS)
async def test_a_page_behind_the_last_one_says_so(root: Path, name: str) -> None:
    result = await ask(root, name, offset=5000)
    assert items(result) == []
    assert "450 results" in result.text


@pytest.mark.parametrize("name", TOOLS)
async def test_a_complete_result_says_nothing_of_pages(root: Path, name: str) -> None:
    for path in (root / "src").iterdir():
        if not path.name.endswith("0001.txt"):
            path.unlink()
    result = await ask(root, name)
    assert len(items(result)) == 1
    assert result.structured is not None
    assert not {"total", "nextOffset", "totalIsMinimum", "note"} & set(result.structured)
    assert "page" not in result.text


async def test_a_file_is_read_in_parts_that_fit(tmp_path: Path) -> None:
    lines = [f"line {n} {'x' * 50}\n" for n in range(1, 2001)]
    root = write_tree(tmp_path / "proj", {"f.txt": "".join(lines)})
    content, start = "", 1
    while True:
        result = await read_file.call(workspace_of(root), {"filePath": "f.txt", "startLine": start})
        assert result.structured is not None
        jsonschema_rs.validate(read_file.TOOL.definition["outputSchema"], dict(result.structured))
        assert len(result.text) <= PAGE_CHARACTERS * 1.1
        content += result.structured["content"]
        if "nextStartLine" not in result.structured:
            break
        start = result.structured["nextStartLine"]
        assert f"next: the same call with startLine {start}" in result.text
    assert content == "".join(lines)


async def test_a_line_longer_than_a_part_is_said_to_be_cut(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "proj", {"f.txt": "x" * 50_000 + "\nlast\n"})
    result = await read_file.call(workspace_of(root), {"filePath": "f.txt"})
    assert result.structured is not None
    assert (result.structured["lineIsCut"], result.structured["nextStartLine"]) == (True, 2)
    assert "next: line 1 is cut; maxBytes" in result.text


async def test_a_name_that_could_be_taken_for_more_than_one_is_quoted(tmp_path: Path) -> None:
    name = "a\n---\n/etc/passwd.txt"
    root = write_tree(tmp_path / "proj", {"src/" + name.replace("/", ""): "needle\n"})
    odd = f"{root}/src/a\n---\netcpasswd.txt"
    for tool in TOOLS:
        result = await ask(root, tool)
        assert "\netcpasswd.txt" not in result.text
        assert json.dumps(odd if tool != "lm_listDirectory" else "a\n---\netcpasswd.txt") in result.text
        assert json.dumps(odd) in " ".join(items(result))
    read = await read_file.call(workspace_of(root), {"filePath": odd})
    assert f"file: {json.dumps(odd)}\n" in read.text


@pytest.mark.parametrize(
    ("text", "shown"),
    [("/a b/é", "/a b/é"), ("a\tb", '"a\\tb"'), ('"a"', '"\\"a\\""'), ("a\u202eb", '"a\u202eb"')],
)
def test_paths_in_text(text: str, shown: str) -> None:
    assert shown_path(text) == shown


def test_a_page_has_at_least_one_result() -> None:
    assert fitting([]) == 0
    assert fitting([PAGE_CHARACTERS * 2, 1]) == 1
    assert fitting([PAGE_CHARACTERS - 1, 1, 1]) == 2


def test_a_search_that_was_stopped_has_no_next_page() -> None:
    assert Page(0, 5, 5, exact=False, late=True).next_offset is None
    assert Page(0, 5, 5, exact=False).next_offset == 5
    assert Page(0, 5, 9, exact=True).next_offset == 5
    assert Page(5, 4, 9, exact=True).next_offset is None
