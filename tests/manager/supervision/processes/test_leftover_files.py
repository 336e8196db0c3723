"""What killed servers left in the runtime folder is removed; what others use or made stays."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from manager.supervision.processes.leftover_files import remove_leftover_files, remove_unfinished_files


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder whose path leaves room for the name of a socket."""
    with TemporaryDirectory() as folder:
        yield Path(folder)


def bound(path: Path) -> socket.socket:
    """A socket that listens at this path."""
    path.parent.mkdir(exist_ok=True, mode=0o700)
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(str(path))
    sock.listen()
    return sock


def named(folder: Path, name: str, path: Path) -> Path:
    file = folder / f"{name}.json"
    file.write_text(json.dumps({"socket": str(path), "auth": "x", "pid": 1}))
    file.chmod(0o600)
    return file


def test_only_sockets_without_a_listener_are_removed(short_folder: Path) -> None:
    internal = short_folder / "internal"
    dead, nameless = internal / "dead-0123abcd.sock", internal / "other-0123abcd.sock"
    living, outside = internal / "living-0123abcd.sock", short_folder / f".lmtb-{16 * 'a'}" / "0123abcd.sock"
    for path in (dead, nameless, outside):
        bound(path).close()
    gone = [named(internal, "dead", dead), named(internal, "outside", outside)]
    kept = [named(internal, "living", living), named(internal, "strange", short_folder / "precious.sock")]
    with bound(living), bound(short_folder / "x.sock"):
        bound(short_folder / "precious.sock").close()
        assert remove_leftover_files(short_folder) == 3
        assert not any(path.exists() for path in (*gone, dead, nameless, outside.parent))
        assert all(path.exists() for path in (*kept, living, short_folder / "precious.sock"))


def test_only_old_unfinished_files_are_removed(tmp_path: Path) -> None:
    secrets = tmp_path / "state" / "secrets"
    secrets.mkdir(parents=True)
    old, new, other = (secrets / name for name in (".a.json.0123456789ab", ".b.json.0123456789ab", ".hidden"))
    for path in (old, new, other):
        path.touch()
    for path in (old, other):
        os.utime(path, (0, 0))
    assert remove_unfinished_files(tmp_path / "state", tmp_path / "run") == 1
    assert sorted(secrets.iterdir()) == [new, other]
