"""The server for files: it takes its folders from our roots."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from support.projects.gateway import Project, eventually
from support.servers.mcp_sources.real_servers import (
    Entry,
    Installed,
    asked_directly,
    gathered,
    outcome,
    same_definitions,
    same_outcome,
)
from support.servers.sdk_servers.third_party import Direct

pytestmark = pytest.mark.asyncio(loop_scope="module")
FILES = {
    "a.txt": "one\ntwo\nthree\nüñí☕\n".encode(),
    "src/deep/b.py": b"print('b')\n",
    "src/c.md": b"# c\n",
    "dot.png": bytes.fromhex("89504e470d0a1a0a0000000d49484452"),
    "raw.bin": bytes(range(256)),
}


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder outside the workspace, given to one of the servers as its argument."""
    folder = tmp_path_factory.mktemp("elsewhere").resolve()
    (folder / "secret.txt").write_text("not of this workspace")
    return folder


@pytest.fixture(scope="module")
def entries(servers: Installed, elsewhere: Path) -> dict[str, Entry]:
    return {"files": servers.node("filesystem"), "given": servers.node("filesystem", str(elsewhere))}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def project(
    entries: dict[str, Entry], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Project]:
    async with gathered(tmp_path_factory.mktemp("filesystem"), furnish, **entries) as made:
        yield made


def furnish(root: Path) -> None:
    for name, content in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)


def reading(root: Path) -> list[tuple[str, dict[str, Any]]]:
    """Calls that change nothing; the last ones fail."""
    return [
        ("read_text_file", {"path": f"{root}/a.txt"}),
        ("read_text_file", {"path": f"{root}/a.txt", "tail": 2}),
        ("read_media_file", {"path": f"{root}/dot.png"}),
        ("read_media_file", {"path": f"{root}/raw.bin"}),
        ("read_multiple_files", {"paths": [f"{root}/a.txt", f"{root}/none", f"{root}/src/c.md"]}),
        ("list_directory", {"path": str(root)}),
        ("list_directory_with_sizes", {"path": str(root), "sortBy": "size"}),
        ("directory_tree", {"path": str(root), "excludePatterns": [".git"]}),
        ("search_files", {"path": str(root), "pattern": "**/*.py"}),
        ("get_file_info", {"path": f"{root}/a.txt"}),
        ("list_allowed_directories", {}),
        ("read_text_file", {"path": f"{root}/none"}),
        ("read_text_file", {"path": "/etc/hostname"}),
        ("read_text_file", {"path": f"{root}/a.txt", "head": 1, "tail": 1}),
    ]


@contextlib.asynccontextmanager
async def directly(server: Entry, root: Path) -> AsyncIterator[Direct]:
    """The SDK's client, once the server has taken in the root: calls that come before are refused."""
    async with asked_directly(server, root) as there:

        async def knows() -> bool:
            allowed = await there.call("list_allowed_directories")
            return bool(allowed["content"][0]["text"] == f"Allowed directories:\n{root}")

        await eventually(knows)
        yield there


async def test_definitions_and_reading_are_those_of_the_server(
    project: Project, entries: dict[str, Entry]
) -> None:
    client = project.modern
    async with directly(entries["files"], project.root) as there:
        assert len(await same_definitions(client, there, "files")) == 14
        results = [
            await same_outcome(client, there, f"files__{tool}", arguments)
            for tool, arguments in reading(project.root)
        ]
    assert [bool(one.get("isError")) for one in results] == [False] * 11 + [True] * 3
    assert results[2]["content"][0]["type"] == "image"
    assert results[3]["content"][0]["type"] == "resource"


async def test_the_workspace_replaces_the_folders_given_as_arguments(
    project: Project, entries: dict[str, Entry], elsewhere: Path
) -> None:
    """So says its README of every client that has roots."""
    async with directly(entries["given"], project.root) as there:
        await same_outcome(project.modern, there, "given__list_allowed_directories", {})
        arguments = {"path": f"{elsewhere}/secret.txt"}
        refused = await same_outcome(project.modern, there, "given__read_text_file", arguments)
    assert refused["isError"] is True


async def test_writing_does_what_it_does_directly(project: Project, entries: dict[str, Entry]) -> None:
    """Also where the server calls its tool destructive, and not where the user wants to be asked."""
    client, file = project.modern, project.root / "new.txt"
    moved = project.root / "made" / "moved.txt"
    write = {"path": str(file), "content": "ä\n\tb\n"}
    edit = {"path": str(file), "edits": [{"oldText": "\tb", "newText": "\tc"}]}
    async with directly(entries["files"], project.root) as there:
        await same_outcome(client, there, "files__write_file", write)
        await same_outcome(client, there, "files__edit_file", {**edit, "dryRun": True})
        await same_outcome(client, there, "files__create_directory", {"path": str(moved.parent)})
    assert file.read_text() == write["content"]
    await outcome(client, "files__edit_file", edit)
    await outcome(client, "files__move_file", {"source": str(file), "destination": str(moved)})
    assert moved.read_text() == "ä\n\tc\n"

    project.gateway.configure('[approvals]\nfiles__write_file = "ask"\n')

    async def asks() -> bool:
        text = (await outcome(client, "files__write_file", write))["content"][0]["text"]
        return "lmtb tools allow files__write_file" in text

    await eventually(asks)
    file.unlink(missing_ok=True)
    assert await asks()
    assert not file.exists()
