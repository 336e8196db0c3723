"""Servers that run without trust execute nothing of a hostile project; those that wait would have."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from lm_tools_bridge.code_intelligence.kinds.available_kinds import AvailableKinds, KindChoices, Trusts
from lm_tools_bridge.code_intelligence.server import RequestFailed, RequestTimedOut
from lm_tools_bridge.code_intelligence.server_process.fence import Fence
from lm_tools_bridge.code_intelligence.server_process.launch import Launch
from lm_tools_bridge.code_intelligence.server_process.running_server import RunningServer
from lm_tools_bridge.code_intelligence.server_process.server_supervisor import ServerSupervisor
from lm_tools_bridge.code_intelligence.session.pool import PoolContext, ServerPool
from lm_tools_bridge.code_intelligence.sync.project_sync import make_sync
from lm_tools_bridge.code_intelligence.wire.document_uris import to_uri
from support.projects.canary_project import TRIED, CanaryProject, executed_directly, shim
from support.servers.language_servers.real_language_servers import environment
from workspace_server.processes.child_process import Command

WOULD_SING: Final = {
    "bash": "shellcheck",
    "basedpyright": "python",
    "pyright": "python3",
    "typescript-language-server": "tsserver.js",
}
"""Servers that wait for trust, and a canary that each executes once it is trusted."""
MAX_WAITS: Final = 4
"""Node can take longer to start on a busy machine than a call waits: 30 s."""
PLACE: Final = {"start": {"line": 0, "character": 0}, "end": {"line": 2, "character": 0}}
ASKED_OF_FILES: Final[Mapping[str, Mapping[str, Any]]] = {
    "textDocument/documentSymbol": {},
    "textDocument/diagnostic": {},
    "textDocument/hover": {"position": {"line": 1, "character": 7}},
    "textDocument/definition": {"position": {"line": 1, "character": 7}},
    "textDocument/completion": {"position": {"line": 1, "character": 7}},
    "textDocument/references": {
        "position": {"line": 1, "character": 7},
        "context": {"includeDeclaration": True},
    },
    "textDocument/codeAction": {"range": PLACE, "context": {"diagnostics": []}},
    "textDocument/formatting": {"options": {"tabSize": 2, "insertSpaces": True}},
    "textDocument/documentLink": {},
}


def untrusted(digests: Mapping[str, str]) -> Mapping[str, Any]:
    return dict.fromkeys(digests, "never")


def trusted(digests: Mapping[str, str]) -> Mapping[str, Any]:
    return dict.fromkeys(digests, "trusted")


def variables(
    project: CanaryProject, installed: Path, folder: Path, *, is_careless: bool
) -> Mapping[str, str]:
    """Those of a user of a version manager; the PATH of a careless one leads into projects as well."""
    (folder / "home").mkdir()
    env = environment(installed, folder / "home")
    shims = folder / "shims"
    shims.mkdir()
    for name in ("python3", "python", "shellcheck", *(["node"] if is_careless else [])):
        (shims / name).write_text(shim(name, shutil.which(name) or "/bin/false"))
        (shims / name).chmod(0o755)
    into = ["node_modules/.bin", ".", "", str(project.root / "tools"), str(project.root / ".venv/bin")]
    folders = [
        *(into if is_careless else []),
        str(shims),
        env["PATH"],
        str(installed / "npm/node_modules/.bin"),
    ]
    return {**env, "PATH": ":".join(folders)}


@asynccontextmanager
async def pooled(project: CanaryProject, env: Mapping[str, str], trusts: Trusts) -> AsyncIterator[ServerPool]:
    async def variables() -> Mapping[str, str]:
        return env

    kinds = AvailableKinds([project.root], KindChoices(lambda: env["PATH"], project.root, trusts))
    follow = make_sync([project.root])
    context = PoolContext((project.root,), variables, "1")
    pool = ServerPool(kinds, context, lambda name: ServerSupervisor(name, follow))
    try:
        yield pool
    finally:
        await pool.close()


async def ask_everything(server: RunningServer, files: Sequence[Path]) -> None:
    """All that a tool could ask of these files, and more."""
    await server.ready(10)
    for file in files:
        await server.open(file)
        document = {"textDocument": {"uri": to_uri(file)}}
        for method, more in ASKED_OF_FILES.items():
            with suppress(RequestFailed, RequestTimedOut):
                await server.request(method, {**document, **more}, timeout_s=10)
    with suppress(RequestFailed, RequestTimedOut):
        await server.request("workspace/symbol", {"query": "greet"}, timeout_s=10)
    await server.diagnostics(files, 10)
    await server.diagnostics(None, 5)


async def sang(project: CanaryProject, env: Mapping[str, str], trusts: Trusts, name: str) -> list[str]:
    """The canaries that a server executed, which ran and answered."""
    async with pooled(project, env, trusts) as pool:
        for _ in range(MAX_WAITS):
            server = await pool.server_named(name)
            if isinstance(server, RunningServer):
                break
        assert isinstance(server, RunningServer), server
        suffixes = server.specification.languages
        files = [
            file for file in sorted(project.root.glob("*")) if file.suffix in suffixes and file.is_file()
        ]
        assert files
        await ask_everything(server, files)
        assert server.ended is None, server.ended
    return project.sang()


def without_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel without Landlock: only the part of the fence that needs none."""
    around = Fence.around

    def unconfined(self: Fence, launch: Launch) -> Command:
        return replace(around(self, launch), confinement=None)

    monkeypatch.setattr(Fence, "around", unconfined)


@pytest.mark.parametrize("canary", list(executed_directly()))
def test_canaries_sing_when_they_are_executed(canary: str, tmp_path: Path) -> None:
    project = CanaryProject.hatched(tmp_path)
    subprocess.run(executed_directly()[canary](project), check=True)
    assert project.sang() == [canary]


@pytest.mark.parametrize("kernel", ["with Landlock", "without Landlock"])
@pytest.mark.parametrize("name", TRIED)
async def test_a_server_that_runs_without_trust_executes_nothing_of_the_project(
    name: str, kernel: str, installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kernel == "without Landlock":
        without_kernel(monkeypatch)
    project = CanaryProject.hatched(tmp_path)
    env = variables(project, installed, tmp_path, is_careless=True)
    assert await sang(project, env, untrusted, name) == []


@pytest.mark.parametrize("name", WOULD_SING)
async def test_a_server_that_waits_for_trust_would_have_executed_a_canary(
    name: str, installed: Path, tmp_path: Path
) -> None:
    project = CanaryProject.hatched(tmp_path)
    env = variables(project, installed, tmp_path, is_careless=False)
    songs = await sang(project, env, trusted, name)
    assert any(song.endswith(WOULD_SING[name]) for song in songs), songs
