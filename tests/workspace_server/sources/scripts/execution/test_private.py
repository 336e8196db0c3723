"""The folder scripts run from, and those that dead processes left."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

from workspace_server.sources.scripts.execution.private import PrivateFolder

DIES = """
import os, sys
from pathlib import Path
from workspace_server.sources.scripts.execution.private import PrivateFolder
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
