"""lm_listDirectory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from support.projects.file_tree import settings_of, workspace_of, write_tree
from workspace_server.sources.builtin.tools.list_directory import TOOL, call
from workspace_server.tool import InvalidArguments, ToolError, ToolResult


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = write_tree(
        tmp_path / "proj",
        {
            "b.txt": "12345",
            "a.txt": "",
            "src/lib/deep/x": "",
            "src/z.ts": "z",
            "empty/": "",
            ".git/config": "",
            ".gitignore": "*.log\n/build/\n",
            "no.log": "",
            "build/out": "",
            "build/more.log": "",
        },
    )
    (root / "link").symlink_to("src")
    os.mkfifo(root / "pipe")
    return root


async def listing(*roots: Path, **arguments: Any) -> ToolResult:
    settings = settings_of("python", roots[0].parent / "home")
    result = await call(workspace_of(*roots), arguments, settings=settings)
    jsonschema_rs.validate(TOOL.definition["outputSchema"], dict(result.structured or {}))
    result.text.encode()
    return result


async def listed(*roots: Path, **arguments: Any) -> list[str]:
    text = (await listing(*roots, **arguments)).text
    return [] if text == "Directory is empty." else text.split("\n---\n")[1].split("\n")


async def test_result_says_the_same_in_text_and_structure(root: Path) -> None:
    result = await listing(root)
    assert result.text == (
        f"List directory summary\ndirectory: {root}\ncount: 7\n---\n"
        "empty/\nsrc/\n.gitignore\na.txt\nb.txt\nlink\npipe"
    )
    assert result.structured is not None
    assert (result.structured["count"], result.structured["capped"]) == (7, False)
    entries = {entry["workspacePath"]: entry for entry in result.structured["entries"]}
    assert entries["proj/b.txt"] == {
        "absolutePath": f"{root}/b.txt",
        "workspacePath": "proj/b.txt",
        "kind": "file",
        "sizeBytes": 5,
    }
    kinds = {path: (entry["kind"], entry["sizeBytes"]) for path, entry in entries.items()}
    assert kinds["proj/src"] == ("directory", None)
    assert kinds["proj/link"] == ("symlink", None)
    assert kinds["proj/pipe"] == ("other", None)


@pytest.mark.parametrize(
    ("depth", "names"),
    [
        (1, ["lib/", "z.ts"]),
        (2, ["lib/", "lib/deep/", "z.ts"]),
        (3, ["lib/", "lib/deep/", "lib/deep/x", "z.ts"]),
        (5, ["lib/", "lib/deep/", "lib/deep/x", "z.ts"]),
    ],
)
async def test_depth_looks_into_subdirectories(root: Path, depth: int, names: list[str]) -> None:
    assert await listed(root, filePath="proj/src", depth=depth) == names


async def test_cap_keeps_the_upper_levels(root: Path) -> None:
    result = await listing(root, filePath="src", depth=3, maxResults=2)
    assert result.text == f"List directory summary\ndirectory: {root}/src\ncount: 2 (capped)\n---\nlib/\nz.ts"
    assert result.structured is not None
    assert result.structured["capped"] is True
    assert "(capped)" not in (await listing(root, filePath="src", maxResults=2)).text


async def test_empty_directory_is_said_to_be_empty(root: Path) -> None:
    result = await listing(root, filePath="empty")
    assert result.text == "Directory is empty."
    assert result.structured == {"count": 0, "capped": False, "entries": []}


async def test_ignored_entries_are_shown_on_request(root: Path) -> None:
    names = await listed(root, includeIgnoredFiles=True)
    assert {"no.log", "build/"} <= set(names)
    assert ".git/" not in names


async def test_ignored_directory_that_is_named_is_shown(root: Path) -> None:
    assert await listed(root, filePath="build") == ["more.log", "out"]
    assert await listed(root, filePath=".git") == ["config"]


async def test_ignore_rules_above_the_directory_count(root: Path) -> None:
    write_tree(root, {"src/a.log": "", "src/lib/b.log": "", "src/.gitignore": "z.ts\n"})
    assert await listed(root, filePath="src", depth=2) == ["lib/", "lib/deep/", ".gitignore"]


async def test_links_are_shown_but_not_entered(root: Path) -> None:
    (root / "out").symlink_to("/")
    names = await listed(root, depth=5)
    assert "out" in names
    assert not any(name.startswith(("out/", "link/")) for name in names)


async def test_several_folders_are_the_root(root: Path, tmp_path: Path) -> None:
    two = write_tree(tmp_path / "two", {"t.txt": ""})
    assert await listed(root, two) == ["proj/", "two/"]
    assert await listed(root, two, depth=2) == [
        *["proj/", "proj/empty/", "proj/src/", "proj/.gitignore", "proj/a.txt", "proj/b.txt", "proj/link"],
        *["proj/pipe", "two/", "two/t.txt"],
    ]
    assert await listed(root, two, maxResults=1) == ["proj/"]


@pytest.mark.parametrize("path", ["b.txt", "..", "out", "/etc", "file:///etc"])
async def test_what_is_no_directory_of_the_workspace_is_refused(root: Path, path: str) -> None:
    (root / "out").symlink_to("/etc")
    with pytest.raises(InvalidArguments) as caught:
        await listing(root, filePath=path)
    assert caught.value.pointer == "/filePath"


async def test_missing_directory_is_an_error_with_its_cause(root: Path) -> None:
    with pytest.raises(ToolError, match='Error listing directory "nope": no such file or directory'):
        await listing(root, filePath="nope")


async def test_name_that_is_not_utf8_comes_out_as_json(root: Path) -> None:
    write_tree(root, {os.fsdecode(b"empty/n\xff"): ""})
    assert await listed(root, filePath="empty") == ["n\ufffd"]
