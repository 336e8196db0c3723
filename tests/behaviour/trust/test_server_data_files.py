"""A stdio server that writes the database its command names keeps its trust, and only the database may change."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.projects.gateway import Gateway, Project, listed, text_of
from support.servers.mcp_sources.stdio_servers import source

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.processes]
SERVER = source("""
    import sqlite3
    database = sqlite3.connect(sys.argv[sys.argv.index("--db-path") + 1])
    database.execute("create table if not exists notes (text)")
    tools = [{"name": "add", "inputSchema": {"type": "object"}}]
    def call(m):
        with database:
            database.execute("insert into notes values ('note')")
        count = database.execute("select count(*) from notes").fetchone()[0]
        answer(m["id"], text(str(count)))
    serve(call)
""")
EVIL = "import pathlib\npathlib.Path('ran').touch()\n"


def _notes(gateway: Gateway, name: str, **members: object) -> Project:
    """A project whose server's database does not exist yet."""
    project = gateway.project(name, **{"server.py": SERVER})
    arguments = ["-I", "server.py", "--db-path", "t.db"]
    project.servers(notes={"command": sys.executable, "args": arguments, **members})
    return project


async def _lmtb(project: Project, *words: str | Path) -> None:
    paths = project.gateway.manager.paths
    folders = ["--config-dir", paths.config_dir, "--state-dir", paths.state_dir]
    line = [sys.executable, "-I", "-m", "workspace_server.command", *folders, *words]
    process = await asyncio.create_subprocess_exec(*map(str, line), stdout=asyncio.subprocess.DEVNULL)
    assert await asyncio.wait_for(process.wait(), 30) == 0


@pytest.mark.parametrize("way", ["the entry says so", "the user says so"])
async def test_a_server_that_writes_its_database_stays_trusted(gateway: Gateway, way: str) -> None:
    is_declared = way == "the entry says so"
    project = _notes(gateway, way, **({"data": ["t.db"]} if is_declared else {}))
    await _lmtb(project, "trust", project.root, "--yes", *([] if is_declared else ["--data"]))
    await project.until_listed("notes__add")
    assert [await text_of(project.modern, "notes__add") for _ in range(3)] == ["1", "2", "3"]
    assert (project.root / "t.db").stat().st_size > 0


async def test_without_that_the_refusal_names_the_line_to_add(gateway: Gateway) -> None:
    project = _notes(gateway, "undecided")
    await _lmtb(project, "trust", project.root, "--yes")
    (project.root / "t.db").touch()
    refused = (await project.modern.call("notes__add", {})).result["structuredContent"]["error"]
    assert refused["code"] == 47108
    assert 'data = ["t.db"]' in refused["message"]
    issues = [one["message"] for one in (await project.inspect())["issues"]]
    assert any("t.db changed" in message and f"{project.root} --data" in message for message in issues)


def _swap(project: Project) -> None:
    (project.root / "t.db").write_text(EVIL)
    (project.root / "t.db").replace(project.root / "server.py")


def _link(project: Project) -> None:
    (project.root / "server.py").unlink()
    (project.root / "t.db").write_text(EVIL)
    (project.root / "server.py").symlink_to("t.db")


def _entry(*arguments: str, data: tuple[str, ...]) -> Callable[[Project], None]:
    def attack(project: Project) -> None:
        for name in ("server.py", "t.db"):
            (project.root / name).write_text(EVIL)
        project.servers(notes={"command": sys.executable, "args": [*arguments], "data": [*data]})

    return attack


ATTACKS: dict[str, Callable[[Project], None]] = {
    "the data becomes the program": _swap,
    "the program becomes a link to the data": _link,
    "the data is executable": lambda project: (project.root / "t.db").chmod(0o755),
    "the program is declared to be data": _entry(
        "-I", "server.py", "--db-path", "t.db", data=("t.db", "server.py")
    ),
    "the data is run": _entry("-I", "t.db", "--db-path", "t.db", data=("t.db",)),
    "the data is a module": _entry("-m", "t.db", "--db-path", "t.db", data=("t.db",)),
}


@pytest.mark.parametrize("name", ATTACKS)
async def test_who_can_change_the_project_gets_nothing_run(gateway: Gateway, name: str) -> None:
    project = _notes(gateway, name, data=["t.db"])
    await project.trust()
    await project.until_listed("notes__add")
    assert await text_of(project.modern, "notes__add") == "1"
    ATTACKS[name](project)
    assert "notes__add" not in await listed(project.modern)
    refused = (await project.modern.call("notes__add", {})).result["structuredContent"]["error"]
    assert refused["code"] == 47108
    assert not (project.root / "ran").exists()
