"""The folder scripts run from, and those that dead processes left."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from lm_tools_bridge.machine.private_folder import PrivateFolder, make_tight, remove_abandoned

DIES = """
import os, sys
from pathlib import Path
from lm_tools_bridge.machine.private_folder import PrivateFolder
folder = PrivateFolder(Path(sys.argv[1]), "script")
folder.open()
(folder.path / "deep").mkdir()
(folder.path / "deep" / "file").touch()
os.kill(os.getpid(), 9)
"""


def test_the_folder_is_private_and_removed_on_close(tmp_path: Path) -> None:
    folder = PrivateFolder(tmp_path / "run", "script")
    folder.close()
    folder.open()
    folder.open()
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    folder.close()
    folder.close()
    assert list((tmp_path / "run").iterdir()) == []


def test_only_folders_of_dead_processes_are_removed(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", DIES, str(tmp_path)], check=False, cwd=Path(__file__).parents[3]
    )
    assert ended.returncode == -9
    (left,) = [path for path in tmp_path.iterdir() if path.is_dir()]
    first, second = PrivateFolder(tmp_path, "script"), PrivateFolder(tmp_path, "script")
    first.open()
    second.open()
    assert not left.exists()
    assert first.path.exists()
    first.close()
    second.close()
    assert list(tmp_path.iterdir()) == []


def test_a_link_in_the_place_of_an_abandoned_folder_is_not_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir(mode=0o755)
    (precious / "file").touch()
    runs = tmp_path / "runs"
    runs.mkdir()
    (runs / "script-0123abcd.lock").touch()
    (runs / "script-0123abcd").symlink_to(precious)
    deep = runs / "script-4567abcd"
    deep.mkdir()
    deep.with_suffix(".lock").touch()
    (deep / "link").symlink_to(precious)
    (runs / "script-89ababcd.lock").symlink_to(precious / "file")
    assert remove_abandoned(runs) == 2
    assert [path.name for path in runs.iterdir()] == ["script-89ababcd.lock"]
    assert (precious / "file").exists()
    assert stat.S_IMODE(precious.stat().st_mode) == 0o755


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_folder_of_another_user_is_left_alone(tmp_path: Path) -> None:
    lock = tmp_path / "script-0123abcd.lock"
    lock.touch()
    os.chown(lock, 65534, 65534)
    (tmp_path / "script-0123abcd").mkdir()
    assert remove_abandoned(tmp_path) == 0
    assert lock.exists()


def test_files_are_private_again_and_links_are_not_followed(tmp_path: Path) -> None:
    outside, ours = tmp_path / "outside", tmp_path / "state"
    outside.touch(0o644)
    (ours / "deep").mkdir(parents=True)
    ours.chmod(0o755)
    (ours / "key").touch()
    (ours / "key").chmod(0o644)
    (ours / "deep" / "program").touch()
    (ours / "deep" / "program").chmod(0o700)
    (ours / "deep").chmod(0)
    (ours / "link").symlink_to(outside)
    assert make_tight(ours) == 3
    found = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (ours, *sorted(ours.rglob("*")))}
    assert found == {"state": 0o700, "deep": 0o700, "key": 0o600, "program": 0o700, "link": 0o644}
    assert make_tight(ours) == 0
    assert make_tight(tmp_path / "missing") == 0
