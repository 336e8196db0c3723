"""What a verb did, its counterpart takes back, whatever other programs wrote into the files between."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.processes.managers.manager_home import ManagerHome
from support.processes.managers.manager_in_process import make_project

SERVERS = {"a": {"command": "a"}, "b": {"command": "b"}}


def change(file: Path, **members: object) -> dict[str, Any]:
    """Write a file as clients do: read it, set members, write it anew."""
    value: dict[str, Any] = {**json.loads(file.read_text()), **members}
    file.write_text(json.dumps(value, indent=4))
    return value


async def done(home: ManagerHome, *words: str, cwd: Path) -> str:
    result = await home.lmtb(*words, cwd=cwd)
    assert result.code == 0, (words, result.out, result.err)
    return result.out


async def test_every_pair_leaves_what_other_programs_wrote(home: ManagerHome, tmp_path: Path) -> None:
    project = make_project(tmp_path / "shop")
    claude, servers = Path(home.environ["HOME"]) / ".claude.json", project / ".mcp.json"
    claude.write_text('{"theme": "dark", "mcpServers": {"mine": {"command": "mine"}}}')
    servers.write_text(json.dumps({"mcpServers": SERVERS}))

    await done(home, "client", "add", "claude-code", "--yes", cwd=project)
    assert list(change(claude, numStartups=1)["mcpServers"]) == ["lm-tools-bridge"]
    said = await done(home, "client", "remove", "claude-code", "--undo", "--yes", cwd=project)
    assert "To put them back: lmtb adopt --undo --user" in said
    change(claude, numStartups=2)
    await done(home, "adopt", "--undo", "--user", "--yes", cwd=project)
    await done(home, "adopt", "--undo", "--all", "--yes", cwd=project)
    assert change(claude, numStartups=2)["mcpServers"] == {"mine": {"command": "mine"}}
    assert not (project / ".claude").exists()
    await done(home, "client", "add", "claude-code", "--no-servers", "--yes", cwd=project)
    change(claude, numStartups=3)

    await done(home, "adopt", "a", "--move", "--yes", cwd=project)
    await done(home, "trust", "--yes", cwd=project)
    assert str(project) in await done(home, "trust", "--list", cwd=project)
    change(servers, note="written between")
    await done(home, "untrust", cwd=project)
    assert str(project) not in await done(home, "trust", "--list", cwd=project)
    await done(home, "adopt", "b", "--move", "--yes", cwd=project)
    change(servers, note="written after")
    await done(home, "adopt", "--undo", "--yes", cwd=project)
    assert json.loads(servers.read_text())["mcpServers"] == {"b": SERVERS["b"]}
    await done(home, "adopt", "b", "--move", "--yes", cwd=project)
    await done(home, "adopt", "--undo", "--all", "--yes", cwd=project)
    assert json.loads(servers.read_text()) == {"mcpServers": SERVERS, "note": "written after"}
    assert not (project / ".lm-tools-bridge").exists()

    await done(home, "adopt", "a", "--yes", cwd=project)
    settings = project / ".claude" / "settings.local.json"
    assert change(settings, permissions={"allow": ["Bash"]})["disabledMcpjsonServers"] == ["a"]
    await done(home, "adopt", "--all", "--yes", cwd=project)
    assert json.loads(settings.read_text())["disabledMcpjsonServers"] == ["a", "b"]
    await done(home, "adopt", "--undo", "--all", "--yes", cwd=project)
    assert json.loads(settings.read_text()) == {"permissions": {"allow": ["Bash"]}}

    await done(home, "adopt", "a", "--yes", cwd=project)
    await done(home, "adopt", "b", "--move", "--yes", cwd=project)
    change(servers, note="a week later")
    change(claude, numStartups=99)
    await done(home, "uninstall", "--yes", cwd=project)
    assert json.loads(servers.read_text()) == {"mcpServers": SERVERS, "note": "a week later"}
    assert json.loads(claude.read_text()) == {
        "theme": "dark", "mcpServers": {"mine": {"command": "mine"}}, "numStartups": 99
    }  # fmt: skip
    assert not (project / ".lm-tools-bridge").exists()
    assert json.loads(settings.read_text()) == {"permissions": {"allow": ["Bash"]}}
