"""Windows with the real extension, in three versions, under a stub of the editor's API.

Its bundled manager is left out, as on a machine where ours has the port.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from lm_tools_bridge.editors.finder import PREFIX_VARIABLE
from lm_tools_bridge.protocol import names
from manager.client import Control
from support.projects.gateway import Gateway, Project, codes, eventually, listed, running_gateway, text_of
from support.servers.scripted.editor_window import free_range

pytestmark = pytest.mark.asyncio(loop_scope="module")
WINDOW = Path(__file__).with_name("window.js")
VERSIONS = {"1.0.76": "copilot_searchCodebase", "1.0.118": "copilot_searchCodebase",
            "1.0.167": "lm_copilot_searchCodebase"}  # fmt: skip
"""Each version, and what it calls the tool that the editor names `copilot_searchCodebase`."""
OPENS_S = 30.0
"""Old versions wait for their manager for some seconds before they serve."""
NOWHERE = 65_530
PREFIX = f"lmtb-test-{os.getpid()}."
SOME = {"severity": 0, "message": "no b here", "source": "ts", "code": 2304, "line": 0, "from": 8, "to": 9}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(PREFIX_VARIABLE, PREFIX)
        patch.setenv("TMPDIR", "/tmp")
        async with running_gateway(tmp_path_factory.mktemp("editors")) as running:
            yield running
    for left in Path("/tmp").glob(f"{PREFIX}*"):
        left.unlink()


@asynccontextmanager
async def window(extension: Path, version: str, root: Path, port: int, **members: Any) -> AsyncIterator[None]:
    """A window with this folder, which tries this port first."""
    settings = {"lmToolsBridge.server.autoStart": True, "lmToolsBridge.server.port": port,
                "lmToolsBridge.manager.httpPort": NOWHERE}  # fmt: skip
    config = {"folders": [str(root)], "version": version, "settings": settings, **members}
    config.setdefault("tools", ["copilot_searchCodebase"])
    environ = {**os.environ, "HOME": str(root.parent), PREFIX_VARIABLE: PREFIX, "TMPDIR": "/tmp"}
    bundle = extension / f"out-{version}" / "extension.js"
    node = shutil.which("node") or "node"
    process = await asyncio.create_subprocess_exec(
        node, str(WINDOW), str(bundle), json.dumps(config), env=environ, cwd=root,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.fixture
def port(gateway: Gateway) -> int:
    first = free_range()
    gateway.configure(f"[editors]\nport = {first}\n")
    return first


@pytest.fixture
def project(gateway: Gateway, request: pytest.FixtureRequest) -> Project:
    return gateway.project(request.node.name.replace("[", "-").replace("]", ""), **{"a.ts": "let a = b\n"})


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_window_is_found_by_its_health(
    extension: Path, version: str, project: Project, port: int
) -> None:
    tool = VERSIONS[version]
    async with window(extension, version, project.root, port):
        await project.until_listed(tool, "lm_getDiagnostics", seconds=OPENS_S)
        tools = await listed(project.modern)
        assert tools[tool]["inputSchema"]["required"] == ["query"]
        assert not [name for name in tools if "__" in name]
        assert "SCHEMA_READ_FAILED" not in await codes(project.modern)
        answer = (await project.modern.call(tool, {"query": "x"})).result
        assert answer["content"][0]["text"] == 'copilot_searchCodebase got {"query":"x"}'
        assert answer["structuredContent"] == {"tool": "copilot_searchCodebase", "input": {"query": "x"}}
        refused = (await project.modern.call(tool, {"query": 1})).result
        assert refused["isError"]
    gone = (await project.modern.call(tool, {"query": "x"})).result["structuredContent"]["error"]
    assert gone["code"] == 47109 and str(project.root) in gone["message"]
    assert tool not in await listed(project.modern)


@pytest.mark.parametrize("version", VERSIONS)
async def test_what_a_window_shows_as_problems_are_diagnostics(
    extension: Path, version: str, project: Project, port: int
) -> None:
    file = str(project.root / "a.ts")
    async with window(extension, version, project.root, port, diagnostics={file: [SOME]}):
        await project.until_listed(VERSIONS[version], "lm_getDiagnostics", seconds=OPENS_S)
        for arguments in ({}, {"filePath": file}):
            text = await text_of(project.modern, "lm_getDiagnostics", **arguments)
            assert "source: vscode.languages.getDiagnostics" in text
            assert "[error] 1:9-1:10 source=ts code=2304 no b here" in text


async def test_a_later_window_is_found_by_its_discovery_socket(
    extension: Path, gateway: Gateway, project: Project
) -> None:
    gateway.configure(f"[editors]\nport = {NOWHERE}\n")
    tool = VERSIONS["1.0.167"]
    async with window(extension, "1.0.167", project.root, free_range()):
        await project.until_listed(tool, seconds=OPENS_S)
        assert (await project.modern.call(tool, {"query": "y"})).result["structuredContent"]["input"]


async def test_a_window_of_a_workspace_file_is_found_by_its_discovery_socket(
    extension: Path, gateway: Gateway, project: Project
) -> None:
    gateway.configure(f"[editors]\nport = {NOWHERE}\n")
    file = project.root / "all.code-workspace"
    file.write_text('{"folders": [{"path": "."}]}')
    async with window(extension, "1.0.167", project.root, free_range(), workspaceFile=str(file)):
        await project.until_listed(VERSIONS["1.0.167"], seconds=OPENS_S)


async def test_two_windows_of_one_folder_and_a_port_that_moves(
    extension: Path, project: Project, port: int
) -> None:
    tool = VERSIONS["1.0.118"]
    client = await project.legacy()
    async with window(extension, "1.0.118", project.root, port):
        await project.until_listed(tool, seconds=OPENS_S)
        assert (await client.call(tool, {"query": "1"})).result["content"]
        async with window(extension, "1.0.76", project.root, port, sessionId="other"):
            await eventually(lambda: _has_two(project), OPENS_S)
            assert (await client.call(tool, {"query": "2"})).result["content"]
    await eventually(lambda: _is_gone(project, tool), 10)
    async with window(extension, "1.0.118", project.root, port + 7):
        await project.until_listed(tool, seconds=OPENS_S)
        called = await client.call(names.CALL_TOOL, {"name": tool, "arguments": {"query": "3"}})
        assert called.result["structuredContent"]["input"] == {"query": "3"}
    await eventually(lambda: _is_gone(project, tool), 10)


async def _has_two(project: Project) -> bool:
    """Whether the other window is known; that is looked for when the sources are refreshed."""
    await project.modern.ask(names.TOOLS_LIST)
    control = Control(project.gateway.manager.paths.control_socket, 30.0)
    await asyncio.to_thread(control.post, "/refresh", {"cwd": str(project.root)})
    source = next(one for one in (await project.inspect())["sources"] if one["kind"] == "editor")
    return bool(source["otherWindows"])


async def _is_gone(project: Project, tool: str) -> bool:
    return tool not in await listed(project.modern)
