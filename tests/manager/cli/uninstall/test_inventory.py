"""Tests of what is listed for removal."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from manager.cli.uninstall.inventory import groups, removal_command
from manager.client_files.editing import undo_records
from manager.client_files.editing.undo_records import UndoRecord
from manager.configuration.paths import Paths


@pytest.mark.parametrize(
    ("mark", "command"),
    [
        ("uv-receipt.toml", "uv tool uninstall lm-tools-bridge"),
        ("pipx_metadata.json", "pipx uninstall lm-tools-bridge"),
        ("pyvenv.cfg", f"{sys.executable} -m pip uninstall lm-tools-bridge"),
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
