"""Without the file that says what belongs to a project, no answer about all of it is called complete."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.code_intelligence.kinds.compiled_languages import CLANGD as REAL_CLANGD
from lm_tools_bridge.code_intelligence.kinds.scripts_and_formats import TYPESCRIPT
from lm_tools_bridge.code_intelligence.server import FileDiagnostics, ServerOutdated
from lm_tools_bridge.code_intelligence.sync.project_definition import ProjectDefinition
from lm_tools_bridge.code_intelligence.tree.relevant_files import relevance_of
from lm_tools_bridge.code_intelligence.tree.tree_scan import scan
from support.servers.language_servers.recording_peer import ANSWER_S, CLANGD, Followed

DATABASE = "compile_commands.json"


@asynccontextmanager
async def indexed(folder: Path) -> AsyncIterator[Followed]:
    """A project that clangd has indexed."""
    followed = Followed(
        folder,
        CLANGD,
        project_files=REAL_CLANGD.project_files,
        without_project_files=REAL_CLANGD.without_project_files,
        restarts_for=REAL_CLANGD.restarts_for,
    )
    followed.publish_each_version()
    await followed.sync.begin()
    await followed.sync.tell_changes()
    for kind in ("begin", "end"):
        value = {"kind": kind, "title": "indexing"}
        followed.sync.take_notification("$/progress", {"token": "backgroundIndexProgress", "value": value})
    await followed.sync.ready(ANSWER_S)
    try:
        yield followed
    finally:
        await followed.sync.close()


async def test_typescript_without_configuration_knows_only_what_it_was_given(tmp_path: Path) -> None:
    (tmp_path / "a.ts").write_text("")
    followed = Followed(tmp_path, TYPESCRIPT)
    await followed.sync.begin()
    await followed.sync.tell_changes()
    found = followed.sync.freshness()
    assert found.state == "partial"
    assert "jsconfig.json" in found.reason
    followed.write("packages/one/tsconfig.json", "{}")
    await followed.sync.tell_changes()
    assert followed.sync.freshness().state == "fresh"
    await followed.sync.close()


async def test_clangd_is_partial_when_its_database_is_gone(tmp_path: Path) -> None:
    (tmp_path / DATABASE).write_text("[]")
    (tmp_path / "a.cpp").write_text("int x;")
    async with indexed(tmp_path) as followed:
        assert followed.sync.freshness().state == "fresh"
        (tmp_path / DATABASE).unlink()
        await followed.sync.tell_changes()
        await followed.sync.ready(ANSWER_S)
        found = followed.sync.freshness()
        assert found.state == "partial"
        assert DATABASE in found.reason


@pytest.mark.parametrize("text", ["", '[{"directory": ', '{"no": "list"}', "[1]", "\udcff"])
async def test_a_database_that_cannot_be_read_is_told_until_a_new_clangd_can(
    tmp_path: Path, text: str
) -> None:
    (tmp_path / DATABASE).write_bytes(text.encode("utf-8", "surrogateescape"))
    path = tmp_path / "a.cpp"
    path.write_text("int x;")
    async with indexed(tmp_path) as followed:
        found = followed.sync.freshness()
        assert (found.state, f"{DATABASE} cannot be read" in found.reason) == ("partial", True)
        answer = await followed.sync.diagnostics([path], ANSWER_S)
        assert "cannot be read" in answer.freshness.reason
        (tmp_path / DATABASE).write_text('[{"directory": "/", "file": "a.cpp", "command": "c++ a.cpp"}]')
        with pytest.raises(ServerOutdated, match="was mended"):
            await followed.sync.tell_changes()


async def test_errors_of_a_guess_about_headers_are_in_doubt(tmp_path: Path) -> None:
    path = tmp_path / "a.cpp"
    path.write_text('#include "x.h"')
    async with indexed(tmp_path) as followed:
        assert (await followed.sync.diagnostics([path], ANSWER_S)).freshness.state == "fresh"

        def publish(method: str, params: Any) -> None:
            document = params["textDocument"]
            error = {"message": "'x.h' file not found", "code": "pp_file_not_found"}
            told = {"uri": document["uri"], "version": document["version"], "diagnostics": [error]}
            followed.sync.take_notification("textDocument/publishDiagnostics", told)

        followed.peer.on_sent = publish
        path.write_text('#include "y/x.h"')
        await followed.sync.tell_changes()
        found = (await followed.sync.diagnostics([path], ANSWER_S)).freshness
        assert (found.state, "says where headers are" in found.reason) == ("unknown", True)


async def test_a_new_database_needs_a_new_clangd(tmp_path: Path) -> None:
    (tmp_path / "a.cpp").write_text("int x;")
    async with indexed(tmp_path) as followed:
        (tmp_path / "build").mkdir()
        (tmp_path / "build" / DATABASE).write_text("[]")
        with pytest.raises(ServerOutdated):
            await followed.sync.tell_changes()


async def test_files_that_the_database_lacks_are_guessed(tmp_path: Path) -> None:
    entry = {"directory": str(tmp_path / "build"), "file": "../src/a.cpp", "command": "c++ -c ../src/a.cpp"}
    (tmp_path / DATABASE).write_text(json.dumps([entry]))
    for name in ("src/a.cpp", "src/a.h", "tests/a.cpp"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("int x;")
    paths = [tmp_path / name for name in ("src/a.cpp", "src/a.h", "tests/a.cpp")]
    async with indexed(tmp_path) as followed:
        assert followed.sync.guessed_files(paths) == [tmp_path / "tests/a.cpp"]
        (tmp_path / DATABASE).write_text(json.dumps([entry, {**entry, "file": "../tests/a.cpp"}]))
        await followed.sync.tell_changes()
        assert followed.sync.guessed_files(paths) == []


async def test_flags_for_all_files_leave_nothing_to_guess(tmp_path: Path) -> None:
    (tmp_path / "compile_flags.txt").write_text("-Iinclude")
    (tmp_path / "a.cpp").write_text("int x;")
    async with indexed(tmp_path) as followed:
        assert followed.sync.guessed_files([tmp_path / "a.cpp"]) == []


async def test_without_a_database_all_files_are_guessed(tmp_path: Path) -> None:
    (tmp_path / "a.cpp").write_text("int x;")
    async with indexed(tmp_path) as followed:
        assert followed.sync.guessed_files([tmp_path / "a.cpp"]) == [tmp_path / "a.cpp"]


@pytest.mark.parametrize("code", ["pp_file_not_found", "fatal_too_many_errors"])
@pytest.mark.parametrize(("file", "is_doubtful"), [("tests/a.cpp", True), ("src/a.cpp", False)])
async def test_errors_are_doubtful_in_files_that_the_database_lacks(
    tmp_path: Path, code: str, file: str, is_doubtful: bool
) -> None:
    entry = {"directory": str(tmp_path), "file": "src/a.cpp", "command": "c++ -c src/a.cpp"}
    (tmp_path / DATABASE).write_text(json.dumps([entry]))
    definition = ProjectDefinition(REAL_CLANGD)
    snapshot = scan([tmp_path], relevance_of(REAL_CLANGD), 100)
    await definition.look(snapshot, None)
    found = FileDiagnostics(tmp_path / file, None, [{"severity": 1, "code": code}])
    assert bool(definition.doubt([found])) is is_doubtful


async def test_answers_are_partial_while_dependencies_are_missing(tmp_path: Path) -> None:
    (tmp_path / "tsconfig.json").write_text("{}")
    (tmp_path / "package.json").write_text('{"dependencies": {"react": "1"}}')
    followed = Followed(tmp_path, TYPESCRIPT)
    await followed.sync.begin()
    await followed.sync.tell_changes()
    freshness = followed.sync.freshness()
    assert (freshness.state, "npm install" in freshness.reason) == ("partial", True)
    followed.write("package.json", "{}")
    await followed.sync.tell_changes()
    assert followed.sync.freshness().state == "fresh"
    await followed.sync.close()
