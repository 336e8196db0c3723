"""A hostile project: whatever it brings, none of it runs before the user trusts it."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lm_tools_bridge.code_intelligence.assembly import make_servers
from lm_tools_bridge.code_intelligence.server import Unavailable
from lm_tools_bridge.code_intelligence.session.pool import ServerPool
from lm_tools_bridge.code_intelligence.settings import LanguageServerEntry
from support.projects.language_project import LanguageProject, npm_tool
from workspace_server.sources.dependencies import Dependencies


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LanguageProject:
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    monkeypatch.setattr("lm_tools_bridge.code_intelligence.kinds.programs.OWN_SCRIPTS", str(scripts))
    return LanguageProject(tmp_path)


@asynccontextmanager
async def servers_of(project: LanguageProject, *entries: LanguageServerEntry) -> AsyncIterator[ServerPool]:
    """The servers as the workspace server makes them. The project has the user's PATH before its own programs."""
    environ = {"PATH": f"{project.bin}:{os.defpath}", "HOME": str(project.folder), "SHELL": "/nonexistent"}
    state = project.folder
    dependencies = Dependencies("p-1", str(project.root), "1", environ, state, state, state)
    pool = make_servers([project.root], dependencies, project.trusts, entries)
    try:
        yield pool
    finally:
        await pool.close()
        await dependencies.close()


def python_programs(project: LanguageProject) -> None:
    project.put("a.py", text="x: int = ''\n")
    for name in ("ty", "ruff", "basedpyright-langserver", "pyright-langserver", "pyrefly", "python"):
        project.program(f".venv/bin/{name}")


def node_programs(project: LanguageProject) -> None:
    project.put("a.ts", "a.yaml", "a.json", "a.sh", "a.css", "eslint.config.js")
    link = npm_tool(project.root, "typescript", "7.0.2")
    project.program(link.resolve())
    for name in ("vtsls", "vscode-eslint-language-server", "yaml-language-server", "bash-language-server"):
        project.program(f"node_modules/.bin/{name}")


def compiled_programs(project: LanguageProject) -> None:
    project.put("a.cpp", "a.rs", "a.go", "a.zig", "A.java", "A.cs", "Cargo.toml", "go.mod")
    driver = project.program("gcc")
    command = {"directory": str(project.root), "command": f"{driver} -c a.cpp", "file": "a.cpp"}
    project.put("compile_commands.json", text=json.dumps([command]))
    for name in ("clangd", "rust-analyzer", "gopls", "zls", "jdtls", "csharp-ls"):
        project.program(f".venv/bin/{name}")


PROJECTS = [python_programs, node_programs, compiled_programs]


async def ask_for_everything(pool: ServerPool) -> list[Unavailable]:
    found = [*await pool.for_project("symbols"), *await pool.for_project("diagnostics")]
    return [one for one in found if isinstance(one, Unavailable)]


@pytest.mark.parametrize("bring", PROJECTS)
async def test_programs_of_the_project_do_not_run(
    project: LanguageProject, bring: Callable[[LanguageProject], None]
) -> None:
    bring(project)
    async with servers_of(project) as pool:
        unavailable = await ask_for_everything(pool)
        assert {one.state for one in unavailable} >= {"untrusted"}
    assert not project.ran.exists()


@pytest.mark.parametrize("bring", PROJECTS)
async def test_the_mark_is_left_once_they_are_trusted(
    project: LanguageProject, bring: Callable[[LanguageProject], None]
) -> None:
    bring(project)
    project.trust_all(project.kinds())
    async with servers_of(project) as pool:
        await ask_for_everything(pool)
    assert project.ran.exists()


@pytest.mark.parametrize(
    ("program", "files"),
    [
        ("rust-analyzer", ("a.rs", "Cargo.toml", "build.rs")),
        ("lua-language-server", ("a.lua", ".luarc.json", "third/x/config.lua")),
        ("pyright-langserver", ("a.py", ".python-version")),
        ("bash-language-server", ("a.sh", ".tool-versions")),
        ("mypy", ("a.py", "mypy.ini")),
        ("tsc", ("a.ts", "tsconfig.json")),
        ("go", ("a.go", "go.mod")),
        ("eslint", ("a.js", "eslint.config.js")),
    ],
)
async def test_programs_of_the_user_do_not_run_in_a_strange_project_that_may_lead_them(
    project: LanguageProject, program: str, files: tuple[str, ...]
) -> None:
    project.put(*files)
    project.on_path(program)
    async with servers_of(project) as pool:
        assert "untrusted" in [one.state for one in await ask_for_everything(pool)]
    assert not project.ran.exists()
    project.trust_all(project.kinds())
    async with servers_of(project) as pool:
        for part in (*await pool.for_project("symbols"), *await pool.for_project("diagnostics")):
            if not isinstance(part, Unavailable):
                await part.diagnostics(None, 5)
    assert project.ran.exists()


async def test_a_server_that_the_user_added_waits_in_a_strange_project(project: LanguageProject) -> None:
    project.put("a.foo")
    program = project.on_path("foo-server")
    entry = project.entry("foo", command=(str(program),), languages={".foo": "foo"})
    async with servers_of(project, entry) as pool:
        await ask_for_everything(pool)
        named = await pool.server_named("foo")
        assert isinstance(named, Unavailable)
        assert f"lmtb trust {project.root}" in named.reason
    assert not project.ran.exists()


async def test_commands_that_the_project_configures_do_not_run(project: LanguageProject) -> None:
    project.put("a.py", "a.foo")
    project.program("evil")
    entries = [
        project.entry("ty", "workspace", command=("./evil",)),
        project.entry("foo", "workspace", command=("./evil",), languages={".foo": "foo"}),
        project.entry("ruff", "workspace", command=("/bin/sh", "./evil")),
    ]
    async with servers_of(project, *entries) as pool:
        await ask_for_everything(pool)
        named = await pool.server_named("foo")
        assert isinstance(named, Unavailable)
        assert named.state == "untrusted"
    assert not project.ran.exists()


async def test_a_server_stops_when_its_trust_is_withdrawn(project: LanguageProject) -> None:
    project.put("a.py")
    project.program(".venv/bin/ty")
    project.trust_all(project.kinds())
    async with servers_of(project) as pool:
        await pool.server_named("ty")
        assert project.ran.exists()
        project.ran.unlink()
        project.store.untrust(project.root)
        named = await pool.server_named("ty")
        assert isinstance(named, Unavailable)
        assert named.state == "untrusted"
    assert not project.ran.exists()
