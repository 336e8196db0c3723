"""The language tools as agents use them: through a manager, on a language server that runs as a program."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import mcp
import psutil
import pytest
import pytest_asyncio

from lm_tools_bridge.code_intelligence.tools.definitions import GET_DIAGNOSTICS, MODULES, SYMBOL_TOOLS
from lm_tools_bridge.protocol import names
from support.projects.gateway import (
    FORMS,
    Gateway,
    Project,
    codes,
    eventually,
    listed,
    running_gateway,
    text_of,
)
from support.servers.language_servers.python_language_server import put_on_path

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.processes]
FILES = {
    "a.py": "class Stack:\n    def push(self):\n        return 1\n",
    "b.py": "from a import Stack\n\nStack().push()\n",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    folder = tmp_path_factory.mktemp("languages").resolve()
    programs = put_on_path(folder / "bin")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
        async with running_gateway(folder) as running:
            yield running


@pytest.fixture
def project(gateway: Gateway, request: pytest.FixtureRequest) -> Project:
    return gateway.project(request.node.name, **FILES)


async def test_a_project_with_code_has_all_tools(project: Project) -> None:
    tools = [tool.name for tool in (GET_DIAGNOSTICS, *SYMBOL_TOOLS) if not tool.unlisted]
    await project.until_listed(*tools)
    assert set(MODULES) & (await listed(await project.legacy())).keys() == set(tools)
    assert await codes(project.modern) == []


async def test_a_project_without_code_lists_none_of_them_but_answers_that_nothing_checks_it(
    gateway: Gateway,
) -> None:
    project = gateway.project("empty", **{"README.md": "x"})
    await project.until_listed("lm_readFile")
    assert not (await listed(project.modern)).keys() & set(MODULES)
    text = await text_of(project.modern, "lm_getDiagnostics")
    assert "note: Nothing checks this project" in text
    assert await codes(project.modern) == ["NO_DIAGNOSTICS_SOURCE"]
    assert not (await listed(project.modern)).keys() & set(MODULES)


async def test_a_setting_removes_them(gateway: Gateway) -> None:
    project = gateway.project("off", **FILES)
    (project.root / ".lm-tools-bridge").mkdir()
    (project.root / ".lm-tools-bridge/workspace.toml").write_text("[language_servers]\nenabled = false\n")
    assert not (await listed(project.modern)).keys() & set(MODULES)


async def test_diagnostics_follow_edits_of_others(project: Project) -> None:
    for client in (project.modern, await project.legacy()):
        (project.root / "b.py").write_text("x = 1\nwrong\n")
        text = await text_of(client, "lm_getDiagnostics")
        assert "[error] 2:1-2:6 source=fake this is wrong" in text
        assert f"file: {project.root.name}/b.py" in text
        (project.root / "b.py").write_text(FILES["b.py"])
        assert "diagnostics: 0/0\nfreshness: ty, ruff: fresh" in await text_of(client, "lm_getDiagnostics")


def git(root: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "core.hooksPath=/dev/null")
    subprocess.run(["git", *identity, *arguments], cwd=root, check=True, capture_output=True)


async def test_a_checkout_of_2000_files_is_seen_by_the_next_answers(gateway: Gateway) -> None:
    project = gateway.project("checkout", **FILES)
    git(project.root, "init", "-q", "-b", "main")
    for text, branch in (("", "first"), ("# Stack\n# wrong\n", "second")):
        for number in range(2_000):
            (project.root / f"m{number}.py").write_text(text)
        git(project.root, "checkout", "-q", "-b", branch)
        git(project.root, "add", ".")
        git(project.root, "commit", "-q", "-m", branch)
    stack = {"filePath": "a.py", "line": 1, "character": 7, "limit": 1}
    for branch, count in (("first", 0), ("second", 2_000), ("first", 0)):
        git(project.root, "checkout", "-q", branch)
        assert f"count: 1/{2 + count}\n" in await text_of(project.modern, "lm_references", **stack)
        text = await text_of(project.modern, "lm_getDiagnostics", maxResults=1)
        assert f"diagnostics: {min(count, 1)}/{count}" in text


async def test_an_unknown_severity_is_refused_with_its_place(project: Project) -> None:
    asked = {"severities": ["error", "fatal"]}
    refused = (await project.modern.call("lm_getDiagnostics", asked)).result
    assert refused["isError"]
    (error,) = refused["structuredContent"]["error"]["details"]["errors"]
    assert error["pointer"] == "/severities/1"


async def test_the_official_client_gets_text_and_structure(project: Project) -> None:
    async with mcp.Client(project.url, read_timeout_seconds=30) as client:
        answer = await client.call_tool("lm_references", {"symbol": "Stack/push"})
        assert not answer.is_error, answer
        assert answer.structured_content is not None
        (place,) = answer.structured_content["references"]
        assert (place["workspacePath"], place["startLine"]) == (f"{project.root.name}/b.py", 3)
        assert "3: Stack().push()" in answer.content[0].text
        found = await client.call_tool("lm_findSymbol", {"query": "nothing"})
        assert found.structured_content is not None
        assert found.structured_content["total"] == 0
        outline = await client.call_tool("lm_fileOutline", {"filePath": "a.py"})
        assert "2-3 method push: def push(self):" in outline.content[0].text


async def test_a_change_of_files_needs_approval_and_a_look_at_it_does_not(project: Project) -> None:
    arguments = {"symbol": "Stack", "newName": "Pile"}
    shown = await text_of(project.modern, "lm_renameSymbol", apply=False, **arguments)
    assert "-from a import Stack\n+from a import Pile" in shown
    refused = (await project.modern.call("lm_renameSymbol", arguments)).result
    assert refused["structuredContent"]["error"]["reason"] == "approval_required"
    assert (project.root / "b.py").read_text() == FILES["b.py"]
    asked = (await project.modern.call("lm_renameSymbol", arguments, meta=FORMS)).result
    assert asked["inputRequests"]["approval"]["method"] == names.ELICIT


async def test_an_allowed_rename_changes_all_files(gateway: Gateway, project: Project) -> None:
    gateway.configure('[approvals]\nlm_renameSymbol = "allow"\n')
    try:
        text = await text_of(project.modern, "lm_renameSymbol", symbol="push", newName="add")
        assert "applied: true\nfiles: 2" in text
        assert (project.root / "b.py").read_text() == "from a import Stack\n\nStack().add()\n"
        assert "add(self)" in (project.root / "a.py").read_text()
    finally:
        (gateway.config / "workspace.toml").unlink()


async def test_status_tells_of_the_server_and_it_ends_with_the_workspace(tmp_path: Path) -> None:
    programs = put_on_path(tmp_path.resolve() / "bin")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
        async with running_gateway(tmp_path) as gateway:
            project = gateway.project("proj", **FILES)
            await text_of(project.modern, "lm_getDiagnostics")
            sources = {one["id"]: one for one in (await project.inspect())["sources"]}
            (status,) = (one for one in sources["language_servers"]["languageServers"] if one["name"] == "ty")
            assert (status["state"], status["restarts"]) == ("ready", 0)
            process = psutil.Process(status["pid"])
            assert process.is_running()

    async def has_ended() -> bool:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE

    await eventually(has_ended)
