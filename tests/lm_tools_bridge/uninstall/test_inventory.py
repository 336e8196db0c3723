"""Tests of what is listed for removal."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lm_tools_bridge.client_setup.editing import undo_records
from lm_tools_bridge.client_setup.editing.undo_records import UndoRecord
from lm_tools_bridge.uninstall.inventory import groups, own_files, removal_command
from manager.configuration.paths import Paths


@pytest.mark.parametrize(
    ("mark", "command"),
    [
        ("uv-receipt.toml", "uv tool uninstall lm-tools-bridge"),
        ("pipx_metadata.json", "pipx uninstall lm-tools-bridge"),
        ("pyvenv.cfg", f"{sys.executable} -I -m pip uninstall lm-tools-bridge"),
    ],
)
def test_program_is_removed_by_what_installed_it(tmp_path: Path, mark: str, command: str) -> None:
    (tmp_path / mark).touch()
    assert removal_command(tmp_path) == command


def test_what_uvx_runs_is_in_the_cache_of_uv(tmp_path: Path) -> None:
    assert removal_command(tmp_path / "archive-v0" / "HGVg3jOL") == "uv cache prune"


def test_files_of_others_in_the_same_folder_are_not_listed(tmp_path: Path, paths: Paths) -> None:
    paths.state_dir.mkdir(parents=True)
    for name in ("state.sqlite3", "state.sqlite3-wal", "thesis.txt"):
        (paths.state_dir / name).touch()
    (group,) = groups(paths, tmp_path)
    assert [one.name for one in group.entries] == ["state.sqlite3", "state.sqlite3-wal"]


def test_sockets_outside_the_runtime_folder_are_listed(tmp_path: Path, paths: Paths) -> None:
    (tmp_path / ".lmtb-0123456789ab").mkdir()
    (tmp_path / ".lmtb-link").symlink_to(tmp_path)
    (group,) = groups(paths, tmp_path)
    assert group.entries == (tmp_path / ".lmtb-0123456789ab",)


@pytest.mark.parametrize(
    "name",
    [".lmtb-notes", ".lmtb-0123456789abcdef0", ".lmtb-0123456789AB", ".lmtb-0123456789ab-old", ".lmtb-"],
)
def test_folders_of_the_user_with_a_similar_name_are_not_listed(
    tmp_path: Path, paths: Paths, name: str
) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "important.sock").touch()
    assert groups(paths, tmp_path) == []


OWN = (
    "logs/manager.log", "logs/manager.old.log", "logs/shop-0123456789ab.log.1", "logs/agent-audit.log",
    "lists/" + "ab" * 32 + ".json", "tasks/shop-0123456789ab/" + "ab" * 16 + ".task", "trust/lock",
    "trust/" + "ab" * 16 + ".json", "locks/" + "ab" * 8 + ".lock", "client-files/codex.json",
    "lists/shop-0123456789ab.shown", "definitions/" + "ab" * 32 + "-0123456789ab.json",
    "approvals/key", "approvals/spent/123-abcdef", "trust/.x.json.0123456789ab",
)  # fmt: skip
THEIRS = (
    "logs/diary.log.txt", "logs/apache.log", "logs/2024/manager.log", "lists/groceries.json",
    "tasks/todo.md", "tasks/shop-0123456789ab/plan.md", "trust/deed.json", "trust/fund/lock", "locks/canal.txt",
    "client-files/acme/contract.json", "approvals/keys/key", "approvals/spent/budget.xls",
)  # fmt: skip


def test_only_what_this_program_made_in_a_folder_is_its_own(tmp_path: Path, paths: Paths) -> None:
    """The state folder may be one that the user chose, with folders of the same names."""
    for name in (*OWN, *THEIRS):
        (paths.state_dir / name).parent.mkdir(parents=True, exist_ok=True)
        (paths.state_dir / name).touch()
    found = {
        file for group in groups(paths, tmp_path) for entry in group.entries for file in own_files(entry)
    }
    assert {str(file.relative_to(paths.state_dir)) for file in found} == set(OWN)


@pytest.mark.parametrize(
    "folder", ["logs", "tasks", "lists", "definitions", "trust", "secrets", "locks", "approvals"]
)
def test_a_folder_in_which_nothing_is_ours_is_not_listed(tmp_path: Path, paths: Paths, folder: str) -> None:
    (paths.state_dir / folder / "deep").mkdir(parents=True)
    (paths.state_dir / folder / "deep" / "thesis.txt").touch()
    assert groups(paths, tmp_path) == []


def test_the_caches_of_confined_programs_are_listed(tmp_path: Path, paths: Paths) -> None:
    for kind in ("scripts", "servers"):
        (tmp_path / ".cache/lm-tools-bridge" / kind / "0123").mkdir(parents=True)
    (tmp_path / ".cache/uv").mkdir()
    (group,) = groups(paths, tmp_path)
    folder = tmp_path / ".cache/lm-tools-bridge"
    assert group.entries == (folder / "scripts", folder / "servers")


def test_nothing_is_listed_where_nothing_was_made(tmp_path: Path, paths: Paths) -> None:
    assert groups(paths, tmp_path) == []


def test_undo_records_of_client_files_are_listed(tmp_path: Path, paths: Paths) -> None:
    undo_records.save(paths.state_dir, "codex", UndoRecord(tmp_path / "config.toml", None, b""))
    (group,) = groups(paths, tmp_path)
    assert group.entries == (paths.state_dir / undo_records.FOLDER,)


def test_what_is_in_the_folder_of_the_login_session_is_listed(tmp_path: Path, paths: Paths) -> None:
    session = tmp_path / "session"
    session.mkdir()
    for name in ("unsaved-state-0123456789ab", "manager.lock", "theirs"):
        (session / name).touch()
    (group,) = groups(paths._replace(former_dirs=(session, tmp_path / "none")), tmp_path)
    assert sorted(path.name for path in group.entries) == ["manager.lock", "unsaved-state-0123456789ab"]
    assert session in group.folders
