"""Tests that files are replaced atomically with mode and links kept, and which files are refused."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from lm_tools_bridge.client_setup.change import Change
from lm_tools_bridge.client_setup.editing import file_access
from lm_tools_bridge.client_setup.editing.file_access import MAX_BYTES, FileState, unusable_state
from lm_tools_bridge.client_setup.refusals import Refusal
from lm_tools_bridge.machine.private_files import UnsafePathError


def read(path: Path) -> FileState:
    state = file_access.read(path)
    assert isinstance(state, FileState), state
    return state


def write(path: Path, content: bytes) -> list[Path]:
    state = read(path)
    made = file_access.replace(state, Change(state.content, content))
    assert isinstance(made, list), made
    return made


def refusal(path: Path) -> Refusal:
    state = file_access.read(path)
    assert isinstance(state, Refusal), state
    return state


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o640])
def test_a_replaced_file_keeps_its_mode_and_leaves_nothing_beside_it(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"old")
    file.chmod(mode)
    inode = file.stat().st_ino
    write(file, b"new")
    assert file.read_bytes() == b"new"
    assert stat.S_IMODE(file.stat().st_mode) == mode
    assert file.stat().st_ino != inode
    assert os.listdir(tmp_path) == ["f"]


def test_a_link_stays_a_link_and_its_target_changes(tmp_path: Path) -> None:
    target, link = tmp_path / "dotfiles" / "f", tmp_path / "link"
    target.parent.mkdir()
    target.write_bytes(b"old")
    link.symlink_to("dotfiles/f")
    write(link, b"new")
    assert link.readlink() == Path("dotfiles/f")
    assert target.read_bytes() == b"new"


def test_a_new_file_is_private_and_its_folders_are_made(tmp_path: Path) -> None:
    file = tmp_path / "a" / "b" / "f"
    made = write(file, b"new")
    assert made == [tmp_path / "a", tmp_path / "a" / "b"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file_access.delete(read(file), made) is None
    assert os.listdir(tmp_path) == []


def test_folders_that_are_used_by_others_are_not_deleted(tmp_path: Path) -> None:
    file = tmp_path / "a" / "f"
    made = write(file, b"new")
    (tmp_path / "a" / "other").touch()
    file_access.delete(read(file), made)
    assert os.listdir(tmp_path / "a") == ["other"]


def test_a_file_that_changed_since_it_was_read_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"old")
    state = read(file)
    file.write_bytes(b"theirs")
    refused = file_access.replace(state, Change(b"old", b"ours"))
    assert isinstance(refused, Refusal)
    assert refused.reason == "changed_meanwhile"
    deleted = file_access.delete(state, [])
    assert deleted is not None
    assert deleted.reason == "changed_meanwhile"
    assert file.read_bytes() == b"theirs"


def test_a_file_that_appeared_since_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "f"
    state = read(file)
    file.write_bytes(b"theirs")
    assert isinstance(file_access.replace(state, Change(None, b"ours")), Refusal)
    assert file.read_bytes() == b"theirs"


def test_a_dangling_link_and_a_loop_are_refused(tmp_path: Path) -> None:
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    assert refusal(tmp_path / "dangling").reason == "dangling_link"
    assert refusal(tmp_path / "loop").reason == "unreadable"


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert refusal(tmp_path / "pipe").reason == "not_a_file"
    assert refusal(tmp_path).reason == "not_a_file"


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b" " * MAX_BYTES)
    assert len(read(file).content or b"") == MAX_BYTES
    file.write_bytes(b" " * (MAX_BYTES + 1))
    assert refusal(file).reason == "too_large"


def test_a_file_without_permission_to_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"{}")
    file.chmod(0)
    assert refusal(file).reason == "unreadable"


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser can give files away")
def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"{}")
    os.chown(file, 12345, -1)
    assert refusal(file).reason == "other_user"


def test_a_read_only_file_or_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    file = folder / "f"
    file.write_bytes(b"old")
    file.chmod(0o444)
    found = file_access.replace(read(file), Change(b"old", b"new"))
    assert isinstance(found, Refusal)
    assert (found.reason, str(file) in found.message) == ("read_only", True)
    file.chmod(0o644)
    folder.chmod(0o555)
    try:
        for state in (read(file), read(folder / "new"), read(folder / "a" / "new")):
            refused = file_access.writable(state)
            assert refused is not None
            assert (refused.reason, str(folder) in refused.message) == ("read_only", True)
    finally:
        folder.chmod(0o755)
    assert file.read_bytes() == b"old"


def test_a_file_in_the_place_of_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    state = file_access.read(tmp_path / "f" / "g")
    refused = state if isinstance(state, Refusal) else file_access.replace(state, Change(None, b"x"))
    assert isinstance(refused, Refusal)


def test_an_unusable_state_folder_has_one_next_step() -> None:
    refused = unusable_state(UnsafePathError(Path("/state"), "is a link", "remove /state"))
    assert (refused.message, refused.next_step) == (
        "the state folder cannot be used: /state is a link",
        "remove /state",
    )
