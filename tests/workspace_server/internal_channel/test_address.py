"""The internal channel's socket and file are created, private and removed."""

from __future__ import annotations

import json
import os
import socket
import stat
from pathlib import Path

import pytest

from lm_tools_bridge.machine.files import private_files
from workspace_server.internal_channel import address as addresses
from workspace_server.internal_channel.address import new_address


def test_file_leads_to_a_private_socket(tmp_path: Path) -> None:
    address = new_address(tmp_path, "proj-1a2b")
    with addresses.listen(address):
        assert json.loads((tmp_path / "internal" / "proj-1a2b.json").read_text()) == {
            "socket": str(address.socket), "auth": address.auth, "pid": os.getpid(),
        }  # fmt: skip
        for path in (address.file, address.socket):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(address.socket.parent.stat().st_mode) == 0o700
    assert len(bytes.fromhex(address.auth)) == 32
    assert address.auth not in repr(address)
    addresses.withdraw(address)
    assert list((tmp_path / "internal").iterdir()) == []


def test_the_socket_is_private_from_the_start_without_a_umask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mode is right even if nothing after the bind ever ran."""
    monkeypatch.setattr(socket.socket, "listen", lambda *_: (_ for _ in ()).throw(OSError("stopped here")))
    address, modes = new_address(tmp_path, "w"), []
    bind = socket.socket.bind

    def seen(self: socket.socket, path: str) -> None:
        bind(self, path)
        modes.append(stat.S_IMODE(os.stat(path).st_mode))

    monkeypatch.setattr(socket.socket, "bind", seen)
    before = os.umask(0)
    try:
        with pytest.raises(OSError, match="stopped here"):
            addresses.listen(address)
    finally:
        assert os.umask(before) == 0
    assert modes == [0o600]
    assert list((tmp_path / "internal").iterdir()) == []


def test_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "internal").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(private_files.UnsafePathError, match="internal"):
        addresses.listen(new_address(tmp_path, "w"))
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_later_run_replaces_the_file_and_the_earlier_one_leaves_it(tmp_path: Path) -> None:
    earlier, later = new_address(tmp_path, "w"), new_address(tmp_path, "w")
    with addresses.listen(earlier), addresses.listen(later):
        addresses.withdraw(earlier)
        assert later.socket.exists()
        assert not earlier.socket.exists()
        assert json.loads(later.file.read_text())["auth"] == later.auth


def test_stale_sockets_are_removed_and_live_ones_kept(tmp_path: Path) -> None:
    dead, living, other = (new_address(tmp_path, name) for name in ("w", "w", "w-2"))
    addresses.listen(dead).close()
    addresses.listen(other).close()
    with addresses.listen(living), addresses.listen(new_address(tmp_path, "w")):
        assert not dead.socket.exists()
        assert living.socket.exists()
        assert other.socket.exists(), "another workspace's sockets are not ours to judge"


@pytest.mark.parametrize("workspace", ["../../x", "a/b", "", ".hidden", "ü", "w" * 200])
def test_an_odd_workspace_id_cannot_leave_the_folder(tmp_path: Path, workspace: str) -> None:
    address = new_address(tmp_path, workspace)
    assert address.file.parent == tmp_path / "internal"
    assert address.file == new_address(tmp_path, workspace).file
    assert len(address.file.name) < 140


def test_a_too_long_socket_path_moves_to_another_private_folder(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 90)
    home = Path("/tmp/lmtb-test-home")  # short; nothing is made
    address = new_address(deep, "w", home)
    assert address.socket.parent.parent == home
    assert len(os.fsencode(address.socket)) <= addresses.MAX_SOCKET_PATH_BYTES
    assert new_address(deep, "w", deep).socket.parent.name.startswith(f"lmtb-{os.getuid()}-")
