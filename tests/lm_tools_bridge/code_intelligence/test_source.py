"""The source of the language tools."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from lm_tools_bridge.code_intelligence.freshness import Freshness
from lm_tools_bridge.code_intelligence.server import Unavailable
from lm_tools_bridge.code_intelligence.source import LanguageServerSource
from lm_tools_bridge.code_intelligence.tools import definitions
from lm_tools_bridge.code_intelligence.tools.definitions import MODULES
from lm_tools_bridge.machine.own_distribution import programs_folder
from support.servers.language_servers.in_memory import (
    CONTEXT,
    InMemoryServer,
    InMemoryServers,
    kind,
    no_environment,
)
from workspace_server.methods.inspection import tokens
from workspace_server.tool import ToolError
from workspace_server.workspace import Workspace

DIAGNOSTICS = ["lm_getDiagnostics"]


def source_of(root: Path, servers: InMemoryServers) -> LanguageServerSource:
    return LanguageServerSource(Workspace.of(root), servers, no_environment)


async def names(source: LanguageServerSource) -> list[str]:
    return [tool.name for tool in await source.list_tools()]


async def listed(source: LanguageServerSource) -> list[str]:
    return [tool.name for tool in await source.list_tools() if not tool.unlisted]


RUFF = kind("ruff", ".py", roles={"diagnostics"})
OUTLINE = kind("outline", ".md", roles={"symbols"}, limits="no types")


async def test_a_project_without_servers_lists_no_tools_for_symbols_though_they_can_be_called(
    tmp_path: Path,
) -> None:
    for servers in (InMemoryServers(), InMemoryServers([InMemoryServer(RUFF)])):
        source = source_of(tmp_path, servers)
        assert set(await listed(source)) <= set(DIAGNOSTICS)
        assert await names(source) == list(MODULES)


async def test_diagnostics_are_listed_where_something_can_check_the_project(tmp_path: Path) -> None:
    absent = Unavailable(RUFF, "missing", "not on the PATH")
    for servers in (
        InMemoryServers(),
        InMemoryServers([InMemoryServer(OUTLINE)]),
        InMemoryServers(absent=[absent]),
    ):
        assert "lm_getDiagnostics" not in await listed(source_of(tmp_path, servers))
    for servers in (
        InMemoryServers([InMemoryServer(RUFF)]),
        InMemoryServers([InMemoryServer(OUTLINE), InMemoryServer(kind("ty", ".py"))]),
    ):
        assert "lm_getDiagnostics" in await listed(source_of(tmp_path, servers))


async def test_diagnostics_once_listed_stay(tmp_path: Path) -> None:
    servers = InMemoryServers()
    source = source_of(tmp_path, servers)
    for running, shown in (([], []), ([InMemoryServer(RUFF)], DIAGNOSTICS), ([], DIAGNOSTICS)):
        servers.running = running
        await source.refresh()
        await source.close()  # waits for the look
        assert await listed(source) == shown


async def test_a_server_that_the_user_just_installed_brings_its_tools_with_the_next_list(
    tmp_path: Path,
) -> None:
    servers = InMemoryServers()
    source = source_of(tmp_path, servers)
    assert await listed(source) == []
    servers.running = [InMemoryServer(kind("ty", ".py"))]
    assert source.cached_tools() is not None  # nothing says that it is there
    folder = Path(programs_folder())
    folder.mkdir(parents=True)
    assert source.cached_tools() is None
    assert "lm_references" in await listed(source)
    assert source.cached_tools() is not None


async def test_an_editor_with_the_project_is_something_that_checks_it(tmp_path: Path) -> None:
    windows: list[str] = []
    source = LanguageServerSource(
        Workspace.of(tmp_path), InMemoryServers(), no_environment, has_editor=lambda: bool(windows)
    )
    assert await listed(source) == []
    windows.append("shop")
    assert [tool.name for tool in source.cached_tools() or () if not tool.unlisted] == DIAGNOSTICS
    windows.clear()
    assert await listed(source) == DIAGNOSTICS


async def test_what_waits_for_trust_is_an_issue_unless_something_does_the_same(tmp_path: Path) -> None:
    waiting = Unavailable(kind("basedpyright", ".py"), "untrusted", "basedpyright needs trust: lmtb trust /x")
    source = source_of(tmp_path, InMemoryServers(absent=[waiting]))
    await names(source)
    (issue,) = source.issues()
    assert (issue.code, issue.message) == (
        "TRUST_PENDING",
        "Language server basedpyright needs trust: lmtb trust /x",
    )
    source = source_of(tmp_path, InMemoryServers([InMemoryServer(kind("ty", ".py"))], [waiting]))
    await names(source)
    assert source.issues() == ()


async def test_a_server_for_symbols_brings_all_tools(tmp_path: Path) -> None:
    source = source_of(tmp_path, InMemoryServers([InMemoryServer(kind("ty", ".py"))]))
    assert await names(source) == list(MODULES)
    assert source.cached_tools() is await source.list_tools()


async def test_outlines_by_syntax_bring_the_tools_for_which_they_are_enough(tmp_path: Path) -> None:
    source = source_of(tmp_path, InMemoryServers([InMemoryServer(kind("outline", ".py", limits="no types"))]))
    assert await listed(source) == [*DIAGNOSTICS, "lm_findSymbol", "lm_symbolInfo", "lm_fileOutline"]


async def test_tools_can_be_called_before_a_look_has_seen_the_first_file_of_a_language(
    tmp_path: Path,
) -> None:
    servers = InMemoryServers()
    source = source_of(tmp_path, servers)
    assert "lm_findSymbol" not in await listed(source)
    file = tmp_path / "new.py"
    file.write_text("def push(): pass\n")
    servers.running = [InMemoryServer(kind("ty", ".py"))]
    with suppress(ToolError):  # this server has no outlines
        await source.call_tool("lm_fileOutline", {"filePath": str(file)}, CONTEXT)
    await source.close()  # waits for the look that the call began
    assert "lm_findSymbol" in await listed(source)


@pytest.mark.parametrize("warm", [False, True])
async def test_servers_start_after_the_first_look_only_if_they_shall_be_warm(
    tmp_path: Path, warm: bool
) -> None:
    servers = InMemoryServers([InMemoryServer(kind("ty", ".py"))])
    source = LanguageServerSource(Workspace.of(tmp_path), servers, no_environment, warm=warm)
    for _ in range(3):
        await names(source)
        await source.refresh()
    await asyncio.sleep(0)
    assert servers.obtained == ([None] if warm else [])
    await source.close()


async def test_a_project_without_servers_has_nothing_to_warm(tmp_path: Path) -> None:
    servers = InMemoryServers()
    source = LanguageServerSource(Workspace.of(tmp_path), servers, no_environment, warm=True)
    await names(source)
    assert servers.obtained == []
    servers.running = [InMemoryServer(kind("ty", ".py"))]
    await source.refresh()
    await source.list_tools()
    await source.close()
    assert servers.obtained == [None]


async def test_the_login_shell_is_asked_only_if_a_server_is_missing(tmp_path: Path) -> None:
    asked: list[int] = []
    found = InMemoryServer(kind("ty", ".py"))
    servers = InMemoryServers(absent=[Unavailable(found.specification, "missing", "not on the PATH")])

    async def shell() -> Mapping[str, str]:
        asked.append(1)
        servers.running = [found]
        return {}

    for there, times in ((InMemoryServers(), 0), (InMemoryServers([found]), 0), (servers, 1)):
        source = LanguageServerSource(Workspace.of(tmp_path), there, shell)
        shown = await listed(source)
        assert len(asked) == times
        assert ("lm_references" in shown) is bool(there.running)


async def test_refreshing_restarts_the_servers(tmp_path: Path) -> None:
    servers = InMemoryServers([InMemoryServer(kind("ty", ".py"))])
    await source_of(tmp_path, servers).refresh()
    assert servers.restarts == 1


async def test_a_restart_says_which_servers_ended(tmp_path: Path) -> None:
    for running, done in (
        ([], "no language server ran; each starts with its next use"),
        ([InMemoryServer(kind("ty", ".py"))], "ty ended; each starts with its next use"),
    ):
        servers = InMemoryServers(running)
        assert await source_of(tmp_path, servers).restart() == done
        assert servers.restarts == 1


async def test_listing_again_does_not_look_again_until_it_is_refreshed(tmp_path: Path) -> None:
    servers = InMemoryServers()
    source = source_of(tmp_path, servers)
    changes: list[int] = []
    source.watch(lambda: changes.append(servers.looks))
    await names(source)
    for _ in range(10):
        await names(source)
    assert servers.looks == 1
    servers.running = [InMemoryServer(kind("ty", ".py"))]
    await source.refresh()
    await source.close()  # waits for the look
    assert servers.looks == 2
    assert await names(source) == list(MODULES)
    assert changes[-1] == 2


async def test_a_look_that_fails_leaves_the_diagnostics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = InMemoryServers()

    def fail() -> None:
        raise OSError

    monkeypatch.setattr(servers, "runnable", fail)
    assert await listed(source_of(tmp_path, servers)) == []


async def test_nothing_to_ask_becomes_an_issue_until_there_is_something(tmp_path: Path) -> None:
    servers = InMemoryServers()
    source = source_of(tmp_path, servers)
    assert source.issues() == ()
    await source.call_tool("lm_getDiagnostics", {}, CONTEXT)
    (issue,) = source.issues()
    assert (issue.level, issue.code) == ("warning", "NO_DIAGNOSTICS_SOURCE")
    servers.running = [InMemoryServer(kind("ty", ".py"))]
    await source.call_tool("lm_getDiagnostics", {}, CONTEXT)
    assert source.issues() == ()


async def test_status_tells_of_each_server(tmp_path: Path) -> None:
    state = Freshness("ty", "indexing", "it still reads", 1, 2)
    source = source_of(tmp_path, InMemoryServers([InMemoryServer(kind("ty", ".py"), state=state)]))
    assert source.status() == {
        "languageServers": [{
            "name": "ty", "state": "running", "pid": 7, "memoryMiB": 3.0, "openDocuments": 0, "restarts": 0,
            "freshness": {"provider": "ty", "state": "indexing", "reason": "it still reads", "done": 1, "total": 2},
        }]
    }  # fmt: skip


async def test_closing_ends_the_servers(tmp_path: Path) -> None:
    servers = InMemoryServers()
    await source_of(tmp_path, servers).close()
    assert servers.closed


def test_the_definitions_of_all_language_tools_cost_little_of_a_models_context() -> None:
    listed_tools = [
        tool for tool in (definitions.GET_DIAGNOSTICS, *definitions.SYMBOL_TOOLS) if not tool.unlisted
    ]
    assert sum(tokens(tool.definition) for tool in listed_tools) <= 1_500
    assert os.linesep not in "".join(tool.description for tool in listed_tools)


async def test_references_answer_for_the_tools_that_are_not_listed(tmp_path: Path) -> None:
    source = source_of(tmp_path, InMemoryServers([InMemoryServer(kind("ty", ".py"))]))
    merged = {"lm_implementations", "lm_callHierarchy", "lm_typeHierarchy"}
    assert await names(source) == list(MODULES)
    assert set(MODULES) - set(await listed(source)) == merged
    relations = definitions.REFERENCES.input_schema["properties"]["relation"]["enum"]
    answering = [
        definitions.tool_for("lm_references", {"symbol": "f", "relation": word}) for word in relations
    ]
    assert [(name, arguments.get("direction")) for name, arguments in answering] == [
        ("lm_references", None),
        ("lm_implementations", None),
        ("lm_callHierarchy", "incoming"),
        ("lm_callHierarchy", "outgoing"),
        ("lm_typeHierarchy", "supertypes"),
        ("lm_typeHierarchy", "subtypes"),
    ]
    assert definitions.tool_for("lm_findSymbol", {"query": "f"}) == ("lm_findSymbol", {"query": "f"})


async def test_a_missing_server_lists_the_tool_that_says_how_to_get_it(tmp_path: Path) -> None:
    gopls = Unavailable(kind("gopls", ".go"), "missing", "go install gopls")
    assert await listed(source_of(tmp_path, InMemoryServers(absent=[gopls]))) == DIAGNOSTICS
    yaml = Unavailable(kind("yaml", ".yaml", is_optional=True), "missing", "npm install it")
    assert await listed(source_of(tmp_path, InMemoryServers(absent=[yaml]))) == []
