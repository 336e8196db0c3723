"""Tests of `lmtb outdated`: which files it reads, what it compares, and that it changes nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.published_servers import outdated_verb
from lm_tools_bridge.published_servers.package_index import PublishedPackage
from lm_tools_bridge.published_servers.server_names import PackageName, Refusal
from manager.cli.output.manager_access import user_paths

ENTRY = '[[mcp.stdio_servers]]\nnamespace = "{}"\ncommand = {}\n'


@pytest.fixture
def project(environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    def look_up(package: PackageName) -> PublishedPackage | Refusal:
        assert not package.version
        if package.name == "gone":
            return Refusal("unknown_package", "npm has no package gone", "check")
        return PublishedPackage(PackageName(package.index, package.name, "2.0.0"))

    monkeypatch.setattr(outdated_verb, "look_up", look_up)
    root = tmp_path / "project"
    (root / ".lm-tools-bridge").mkdir(parents=True)
    return root


def put(file: Path, *entries: tuple[str, list[str]]) -> bytes:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(ENTRY.format(name, json.dumps(command)) for name, command in entries))
    return file.read_bytes()


def test_pinned_servers_of_both_files_are_compared_and_the_command_for_each_is_told(
    run: Any, project: Path
) -> None:
    file = project / ".lm-tools-bridge" / "workspace.toml"
    own = user_paths().config_dir / "workspace.toml"
    before = (
        put(
            file,
            ("old", ["npx", "-y", "a@1.0.0"]),
            ("current", ["npx", "-y", "b@2.0.0"]),
            ("preview", ["npx", "-y", "c@3.0.0-rc.1"]),
            ("gone", ["npx", "-y", "gone@1.0.0"]),
            ("free", ["npx", "-y", "d"]),
        ),
        put(own, ("mine", ["uvx", "e@1.0"])),
    )
    result = run("outdated", "--cwd", str(project))
    assert result.exit_code == 0, result.output
    assert "lmtb add npm:a@2.0.0 --as old" in result.stdout
    assert "lmtb add pypi:e@2.0.0 --as mine --user" in result.stdout
    rows = json.loads(run("outdated", "--json", "--cwd", str(project)).stdout)["servers"]
    assert {row["namespace"]: row["state"] for row in rows} == {
        "mine": "outdated", "old": "outdated", "current": "current", "preview": "current", "gone": "unknown",
    }  # fmt: skip
    assert (file.read_bytes(), own.read_bytes()) == before


def test_without_pinned_servers_nothing_is_looked_up(run: Any, project: Path) -> None:
    assert "No server is pinned" in run("outdated", "--cwd", str(project)).stdout


def test_a_project_with_very_many_servers_starts_few_programs(run: Any, project: Path) -> None:
    file = project / ".lm-tools-bridge" / "workspace.toml"
    put(file, *((f"s{number}", ["npx", "-y", f"a{number}@1.0.0"]) for number in range(60)))
    rows = json.loads(run("outdated", "--json", "--cwd", str(project)).stdout)["servers"]
    assert len(rows) == outdated_verb.MOST_SERVERS


@pytest.mark.parametrize("content", [b"[[", b"\xff", b"a" + b".a" * 40 + b" = 1"])
def test_a_file_that_cannot_be_read_is_named(run: Any, project: Path, content: bytes) -> None:
    file = project / ".lm-tools-bridge" / "workspace.toml"
    file.write_bytes(content)
    result = run("outdated", "--cwd", str(project))
    assert result.exit_code == 1
    assert str(file) in result.output
