"""What the user decides about the sandboxes of a project's servers, written to the user's file."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from support.projects.command_home import Home


@pytest.fixture
def boxed(home: Home) -> Home:
    """A project with a server in a sandbox, and one outside of any."""
    servers = {"boxed": {"command": "x", "sandbox": "project"}, "free": {"command": "y"}}
    home.write(".mcp.json", json.dumps({"mcpServers": servers}))
    return home


def choices(home: Home) -> dict[str, Any]:
    text = (home.config_dir / "workspace.toml").read_text()
    return dict(tomllib.loads(text).get("sandbox", {}).get(str(home.root), {}))


def test_a_server_is_let_write_to_further_places(boxed: Home, tmp_path: Path) -> None:
    for name, place in (("boxed", "a"), ("stdio:boxed", "b"), ("boxed", "a")):
        done = boxed.run("sandbox", "allow-write", "--root", boxed.root, name, tmp_path / place)
        assert done.exit_code == 0, done.output
    assert choices(boxed) == {"boxed": [str(tmp_path / "a"), str(tmp_path / "b")]}
    assert "lmtb servers restart boxed" in done.output


def test_programs_are_told_what_was_chosen(boxed: Home, tmp_path: Path) -> None:
    root = str(boxed.root)
    place = str(tmp_path / "a")
    assert boxed.json("sandbox", "allow-write", "--root", root, "boxed", place) == {
        "ok": True, "server": "boxed", "write": place, "root": root,
    }  # fmt: skip
    assert boxed.json("sandbox", "choose", "--root", root, "boxed", "off") == {
        "ok": True, "server": "boxed", "sandbox": "off", "root": root,
    }  # fmt: skip


def test_a_server_is_taken_out_of_its_sandbox_and_put_back(boxed: Home) -> None:
    assert boxed.run("sandbox", "choose", "--root", boxed.root, "boxed", "off").exit_code == 0
    assert choices(boxed) == {"boxed": "off"}
    assert boxed.run("sandbox", "choose", "--root", boxed.root, "boxed", "default").exit_code == 0
    assert choices(boxed) == {}


def test_putting_a_server_into_a_sandbox_keeps_what_it_may_write(boxed: Home, tmp_path: Path) -> None:
    boxed.run("sandbox", "choose", "--root", boxed.root, "free", "project")
    boxed.run("sandbox", "allow-write", "--root", boxed.root, "free", tmp_path / "a")
    boxed.run("sandbox", "choose", "--root", boxed.root, "free", "project")
    assert choices(boxed) == {"free": [str(tmp_path / "a")]}


def test_a_server_without_a_sandbox_needs_no_permission(boxed: Home, tmp_path: Path) -> None:
    done = boxed.run("sandbox", "allow-write", "--root", boxed.root, "free", tmp_path)
    assert done.exit_code == 1
    assert "lmtb servers sandbox free project" in done.output
    assert not boxed.config_dir.exists()


@pytest.mark.parametrize(
    "name", [".", "..", ".ssh", ".ssh/id_ed25519", ".bashrc", ".config/systemd/user", ".config"]
)
def test_keys_and_what_other_programs_start_with_are_never_let_in(
    boxed: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    done = boxed.run("sandbox", "allow-write", "--root", boxed.root, "boxed", tmp_path / "me" / name)
    assert done.exit_code == 1
    assert "name a folder for this server alone" in done.output
    assert not boxed.config_dir.exists()


def test_a_link_to_keys_counts_as_keys(boxed: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    (tmp_path / "me" / ".ssh").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "me" / ".ssh")
    done = boxed.run("sandbox", "allow-write", "--root", boxed.root, "boxed", tmp_path / "link")
    assert done.exit_code == 1


def test_an_unknown_server_is_answered_with_the_nearest(boxed: Home, tmp_path: Path) -> None:
    done = boxed.run("sandbox", "choose", "--root", boxed.root, "boxd", "off")
    assert done.exit_code == 1
    assert "did you mean boxed?" in done.output
