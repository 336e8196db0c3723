"""Tests of `lmtb uninstall` with a real manager: it stops first, and only what was chosen is gone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from aiohttp import ClientSession

from support.clients.raw_clients import SessionClient
from support.processes.managers.manager_home import ManagerHome
from support.processes.managers.manager_in_process import make_project


@pytest.fixture
async def used(home: ManagerHome, http: ClientSession, tmp_path: Path) -> ManagerHome:
    """A home whose manager has a project, logs and a secret."""
    manager = await home.start()
    client = await SessionClient.connect(http, manager.address)
    await client.handshake(make_project(tmp_path / "proj"))
    assert (await home.lmtb("secrets", "set", "token", "--stdin", given="hidden")).code == 0
    home.paths.config_dir.mkdir(exist_ok=True)
    (home.paths.config_dir / "workspace.toml").write_text("debug = 'off'\n")
    return home


async def test_everything_but_secrets_and_settings_is_removed(used: ManagerHome) -> None:
    done = await used.lmtb("uninstall", "--yes")
    assert done.code == 0, done.err
    await used.emptied(10)
    assert [one.name for one in used.paths.state_dir.iterdir()] == ["secrets"]
    assert not used.paths.runtime_dir.exists()
    assert (used.paths.config_dir / "workspace.toml").exists()
    assert "kept; to remove them: lmtb uninstall --secrets" in done.out
    for left in (used.paths.config_dir, used.paths.state_dir / "secrets", "pip uninstall lm-tools-bridge"):
        assert str(left) in done.out.partition("what remains:")[2]


async def test_secrets_are_removed_when_asked_for(used: ManagerHome) -> None:
    assert (await used.lmtb("uninstall", "--yes", "--secrets")).code == 0
    assert not used.paths.state_dir.exists()
    assert (await used.lmtb("secrets", "list")).out == "No secret is stored.\n"


async def test_each_group_is_asked_for(used: ManagerHome) -> None:
    """Yes to logs, no to the rest; a single yes is not enough for secrets."""
    done = await used.lmtb("uninstall", given="y\nn\nn\ny\nno\n")
    assert done.code == 0, done.err
    assert "removed: logs" in done.out
    assert "removed: state" not in done.out
    assert not used.paths.logs_dir.exists()
    assert used.paths.state_file.exists()
    assert (used.paths.state_dir / "secrets" / "secrets.sealed").exists()
    assert not used.processes("manager serve")


async def test_no_to_everything_leaves_the_manager_running(used: ManagerHome) -> None:
    done = await used.lmtb("uninstall", given="n\nn\nn\nn\n")
    assert done.code == 0, done.err
    assert "nothing was removed" in done.out
    assert used.processes("manager serve")


async def test_second_removal_finds_nothing(used: ManagerHome) -> None:
    await used.lmtb("uninstall", "--yes", "--secrets")
    done = await used.lmtb("uninstall")
    assert done.code == 0
    assert done.out.startswith("nothing was removed")


async def test_entries_of_clients_are_removed_and_the_rest_of_their_files_stays(used: ManagerHome) -> None:
    user = Path(used.environ["HOME"])
    claude, gemini = user / ".claude.json", user / ".gemini" / "settings.json"
    claude.write_text('{"mcpServers": {"other": {"url": "http://127.0.0.1:1/x"}}, "theme": "dark"}')
    gemini.parent.mkdir()
    gemini.write_text("{ broken")
    before = claude.read_text()
    added = await used.lmtb("client", "add", "claude-code", "--yes")
    assert added.code == 0, added.err
    assert "lm-tools-bridge" in claude.read_text()
    done = await used.lmtb("uninstall", "--yes")
    assert done.code == 0, done.err
    assert f"Claude Code: {claude}" in done.out
    assert "removed: the entry of Claude Code" in done.out
    assert claude.read_text() == before
    left = done.out.partition("what remains:")[2]
    assert str(gemini) in left
    assert str(claude) not in left
    assert "lmtb client remove" not in left
    assert [one.name for one in used.paths.state_dir.iterdir()] == ["secrets"]


async def test_entries_of_clients_stay_where_they_are_not_chosen(used: ManagerHome) -> None:
    claude = Path(used.environ["HOME"]) / ".claude.json"
    assert (await used.lmtb("client", "add", "claude-code", "--yes")).code == 0
    before = claude.read_text()
    done = await used.lmtb("uninstall", given="n\n" * 5)
    assert done.code == 0, done.err
    assert "nothing was removed" in done.out
    assert f"the entry of Claude Code in {claude}" in done.out.partition("what remains:")[2]
    assert claude.read_text() == before


async def test_moved_servers_go_back_to_every_file_and_what_others_wrote_stays(
    used: ManagerHome, tmp_path: Path
) -> None:
    user, project = Path(used.environ["HOME"]), make_project(tmp_path / "shop")
    claude, mine = (
        user / ".claude.json",
        '{"numStartups": 1, "mcpServers": {"notes": {"command": "notes"}}}\n',
    )
    claude.write_text(mine)
    (project / ".mcp.json").write_text(theirs := '{\n  "mcpServers": {"db": {"command": "db"}}\n}\n')
    for words in (
        ("adopt", "--move", "--yes", "--cwd", str(project)),
        ("adopt", "--user", "--yes"),
        ("client", "add", "claude-code", "--yes"),
    ):
        done = await used.lmtb(*words)
        assert done.code == 0, done.err
    claude.write_text(claude.read_text().replace('"numStartups": 1', '"numStartups": 9'))
    done = await used.lmtb("uninstall", "--yes")
    assert done.code == 0, done.err
    assert json.loads(claude.read_text()) == json.loads(mine.replace("1", "9"))
    assert (project / ".mcp.json").read_text() == theirs
    assert not (project / ".lm-tools-bridge").exists()
    assert not (used.paths.state_dir / "client-files").exists()


async def test_undo_data_stays_while_a_server_is_not_back(used: ManagerHome, tmp_path: Path) -> None:
    project = make_project(tmp_path / "shop")
    (project / ".mcp.json").write_text('{"mcpServers": {"db": {"command": "db"}}}\n')
    assert (await used.lmtb("adopt", "--move", "--yes", "--cwd", str(project))).code == 0
    (project / ".mcp.json").write_text('{"mcpServers": {"db": {"command": "another"}}}\n')
    done = await used.lmtb("uninstall", "--yes")
    assert done.code == 0, done.err
    left = done.out.partition("what remains:")[2]
    assert f"the servers of {project}" in left
    assert "somebody else changed mcpServers.db since" in left
    assert list((used.paths.state_dir / "client-files").glob("project-*.json"))
