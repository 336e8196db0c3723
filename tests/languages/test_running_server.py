"""Real language servers are started, asked and ended as the specification says."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from lm_tools_bridge.code_intelligence.diagnostics.file_diagnostics import PULL
from lm_tools_bridge.code_intelligence.server import RequestFailed, RequestTimedOut, ServerGone
from lm_tools_bridge.code_intelligence.server_process.hang_check import PING
from lm_tools_bridge.code_intelligence.server_process.running_server import RunningServer
from lm_tools_bridge.code_intelligence.wire.document_uris import to_path
from lm_tools_bridge.code_intelligence.wire.positions import Position, from_server, split_lines, to_server
from lm_tools_bridge.code_intelligence.wire.workspace_edits import (
    EditFile,
    apply_edits,
    read_workspace_edit,
)
from support.processes.child_processes import alive, until
from support.servers.language_servers.real_language_servers import BY_NAME, SERVERS, RealServer, opened
from support.servers.language_servers.scripted_language_server import QUICK, RecordedSync

EACH = pytest.mark.parametrize("real", SERVERS, ids=lambda real: real.name)
EACH_THAT_RENAMES = pytest.mark.parametrize(
    "real", [real for real in SERVERS if real.renames], ids=lambda real: real.name
)
QUIET_S = 60.0
"""How long a server may take that has a project of one file; Node needs several seconds on a busy machine."""


@asynccontextmanager
async def running(
    real: RealServer, installed: Path, folder: Path, sync: RecordedSync | None = None, **members: Any
) -> AsyncIterator[RunningServer]:
    launch = real.launch(installed, folder, **members)
    server = await RunningServer.start(launch, (sync or RecordedSync()).make)
    try:
        yield server
    finally:
        children = psutil.Process(server.pid).children(recursive=True) if alive(server.pid) else []
        started = asyncio.get_running_loop().time()
        await server.close()
        took = asyncio.get_running_loop().time() - started
        assert not any(alive(pid) for pid in (server.pid, *(child.pid for child in children)))
        assert took < 5


def sample(real: RealServer, server: RunningServer) -> Path:
    return server.folders[0] / real.sample.name


async def answer(server: RunningServer, method: str, params: Any) -> Any:
    """The first answer that is not empty: some servers answer before they have read the file."""
    async with asyncio.timeout(QUIET_S):
        while not (found := await server.request(method, params, timeout_s=QUIET_S)):
            await asyncio.sleep(0.05)
    return found


@EACH
async def test_a_real_server_starts_and_ends_by_itself(
    real: RealServer, installed: Path, tmp_path: Path
) -> None:
    async with running(real, installed, tmp_path) as server:
        assert server.encoding == real.encoding
        assert server.supports("textDocument/codeAction") or server.supports("textDocument/documentSymbol")
        assert server.ended is None


@EACH
async def test_a_ping_is_answered_with_a_sign_of_life(
    real: RealServer, installed: Path, tmp_path: Path
) -> None:
    """Otherwise a server that is only slow would be taken for one that hangs."""
    async with running(real, installed, tmp_path) as server:
        await opened(server, sample(real, server), real.sample.text)
        with pytest.raises(RequestFailed) as raised:
            await server.request(PING, timeout_s=QUIET_S)
        assert raised.value.code in (-32601, -32600)


@EACH_THAT_RENAMES
@pytest.mark.parametrize("line_end", ["\n", "\r\n"], ids=["lf", "crlf"])
async def test_positions_behind_an_emoji_meet_their_symbol(
    real: RealServer, installed: Path, tmp_path: Path, line_end: str
) -> None:
    async with running(real, installed, tmp_path) as server:
        path, text = sample(real, server), real.sample.text.replace("\n", line_end)
        path.write_bytes(text.encode())
        document = await opened(server, path, text)
        lines = split_lines(text)
        [line] = [number for number, one in enumerate(lines, 1) if "\U0001f600" in one]
        used = Position(line, lines[line - 1].index("greet") + 1)
        where = {"textDocument": document, "position": to_server(used, lines, server.encoding)}
        found = await answer(server, "textDocument/definition", where)
        [target] = found if isinstance(found, list) else [found]
        uri = target.get("targetUri", target.get("uri"))
        start = target.get("targetSelectionRange", target.get("range"))["start"]
        defined = Position(1, lines[0].index("greet") + 1)
        assert to_path(uri, Path) == path
        at = from_server(start, lines, server.encoding)
        assert at in (defined, Position(1, 1))  # the name, or the whole definition

        edit = await server.request("textDocument/rename", {**where, "newName": "welcome"})
        operations = read_workspace_edit(edit)
        assert isinstance(operations, list)
        [change] = operations
        assert isinstance(change, EditFile)
        assert change.path == path
        assert apply_edits(text, change.edits, server.encoding) == text.replace("greet", "welcome")


@pytest.mark.parametrize(
    ("name", "offers_pull", "pushes", "pulls"),
    [
        ("clangd", True, True, False),
        ("ty", False, True, True),
        ("ty", True, False, True),
        ("basedpyright", False, True, False),
        ("basedpyright", True, False, True),
        ("ruff", True, False, True),
        ("ruff", False, True, True),
        ("typescript", True, False, True),
        ("typescript-language-server", True, True, False),
        ("yaml-language-server", True, True, False),
        ("gopls", True, True, False),
        ("rust-analyzer", True, False, True),
    ],
)
async def test_diagnostics_come_as_was_agreed(
    name: str, offers_pull: bool, pushes: bool, pulls: bool, installed: Path, tmp_path: Path
) -> None:
    sync = RecordedSync()
    real = BY_NAME[name]
    async with running(real, installed, tmp_path, sync, offers_pull=offers_pull) as server:
        path = sample(real, server)
        document = await opened(server, path, real.sample.text + real.sample.wrong)

        def published() -> list[Any]:
            said = sync.said("textDocument/publishDiagnostics")
            return [one for one in said if one["diagnostics"] and to_path(one["uri"], Path) == path]

        if pulls:
            await until(lambda: server.supports(PULL), seconds=QUIET_S)
            async with asyncio.timeout(QUIET_S):  # rust-analyzer answers before it has read the project
                while not (await server.request(PULL, {"textDocument": document}))["items"]:
                    await asyncio.sleep(0.05)
        else:
            assert not server.supports(PULL)
        if pushes:
            await until(published, seconds=QUIET_S)
        else:
            assert published() == []


@pytest.mark.parametrize("name", ["clangd", "typescript-language-server", "gopls", "rust-analyzer"])
async def test_a_server_that_is_killed_is_told(name: str, installed: Path, tmp_path: Path) -> None:
    async with running(BY_NAME[name], installed, tmp_path) as server:
        os.kill(server.pid, signal.SIGKILL)
        await until(lambda: server.ended, seconds=QUIET_S)
        assert str(server.ended).startswith("was ended by SIGKILL")


@EACH
async def test_a_server_that_stands_still_is_noticed_and_ended(
    real: RealServer, installed: Path, tmp_path: Path
) -> None:
    launch = real.launch(installed, tmp_path)
    timeouts = replace(QUICK, start_s=QUIET_S)
    server = await RunningServer.start(launch, RecordedSync().make, timeouts=timeouts)
    os.kill(server.pid, signal.SIGSTOP)
    try:
        async with asyncio.timeout(QUIET_S):
            while server.ended is None:  # what it had sent before may be heard after the first request
                with suppress(RequestTimedOut, ServerGone):
                    await server.request("workspace/symbol", {"query": "x"}, timeout_s=0.2)
                await asyncio.sleep(0.05)
        assert "hangs" in str(server.ended)
    finally:
        await server.close()
    assert not alive(server.pid)
