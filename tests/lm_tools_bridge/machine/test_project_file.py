"""Files of projects are read and written through their folders, and no link is followed."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.machine import project_file
from lm_tools_bridge.machine.private_files import UnsafePathError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "project/sub").mkdir(parents=True)
    (tmp_path / "project/sub/file").write_bytes(b"content")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/file").write_bytes(b"secret")
    return tmp_path / "project"


def test_a_file_is_read_and_a_missing_one_is_none(root: Path) -> None:
    assert project_file.read(root / "sub/file", 100) == b"content"
    assert project_file.read(root / "sub/other", 100) is None
    assert project_file.read(root / "nowhere/file", 100) is None


@pytest.mark.parametrize("linked", ["project", "project/sub", "project/sub/file"])
def test_a_link_in_any_component_is_refused(root: Path, linked: str) -> None:
    place = root.parent / linked
    place.rename(place.with_name("aside"))
    place.symlink_to(place.with_name("aside"))
    with pytest.raises(UnsafePathError, match="is a symbolic link") as refused:
        project_file.read(root / "sub/file", 100)
    assert refused.value.path == place
    assert str(place) in refused.value.hint


def test_a_dangling_link_is_no_missing_file(root: Path) -> None:
    (root / "sub/dangling").symlink_to("nowhere")
    with pytest.raises(UnsafePathError, match="is a symbolic link"):
        project_file.read(root / "sub/dangling", 100)


def test_what_is_no_plain_file_is_refused_without_waiting(root: Path) -> None:
    os.mkfifo(root / "pipe")
    with pytest.raises(UnsafePathError, match="is not a regular file") as refused:
        project_file.read(root / "pipe", 100)
    assert refused.value.path == root / "pipe"
    with pytest.raises(UnsafePathError, match="is not a folder"):
        project_file.read(root / "sub/file/below", 100)
    with pytest.raises(UnsafePathError, match="is larger than 3 bytes"):
        project_file.read(root / "sub/file", 3)


def test_a_held_folder_stays_what_it_was_when_a_link_takes_its_place(root: Path) -> None:
    with project_file.held(root / "sub") as folder:
        (root / "sub").rename(root / "aside")
        (root / "sub").symlink_to(root.parent / "secret")
        assert folder.read("file", 100) == b"content"
        folder.write("file", b"new")
        folder.write("more", b"x")
        folder.move("more", "other")
        folder.link("other", "another")
        folder.remove("other")
    assert (root.parent / "secret/file").read_bytes() == b"secret"
    assert sorted(os.listdir(root.parent / "secret")) == ["file"]
    assert sorted(os.listdir(root / "aside")) == ["another", "file"]
    assert (root / "aside/file").read_bytes() == b"new"


def test_missing_folders_are_made_with_the_mode_and_told(root: Path) -> None:
    with project_file.held(root / "a/b", make=0o700) as folder:
        assert folder.made == (root / "a", root / "a/b")
        folder.write("file", b"x", 0o640)
    assert stat.S_IMODE((root / "a").stat().st_mode) == 0o700
    assert stat.S_IMODE((root / "a/b/file").stat().st_mode) == 0o640
    with pytest.raises(FileNotFoundError), project_file.held(root / "c"):
        pass


def test_folders_are_made_behind_no_link(root: Path) -> None:
    (root / "a").symlink_to(root.parent / "secret")
    with pytest.raises(UnsafePathError), project_file.held(root / "a/b", make=0o700):
        pass
    assert os.listdir(root.parent / "secret") == ["file"]


def test_a_folder_that_another_program_makes_at_the_same_time_is_used(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = os.mkdir

    def make_twice(*arguments: Any, **options: Any) -> None:
        make(*arguments, **options)
        make(*arguments, **options)

    monkeypatch.setattr(os, "mkdir", make_twice)
    with project_file.held(root / "a" / "b", make=0o700) as folder:
        assert folder.made == ()
    assert (root / "a" / "b").is_dir()


def test_only_an_empty_folder_is_removed_and_none_behind_a_link(root: Path) -> None:
    project_file.remove_if_empty(root / "sub")
    assert (root / "sub/file").exists()
    (root / "sub/file").unlink()
    project_file.remove_if_empty(root / "sub")
    assert not (root / "sub").exists()
    (root.parent / "secret/empty").mkdir()
    (root / "sub").symlink_to(root.parent / "secret")
    project_file.remove_if_empty(root / "sub/empty")
    project_file.remove_if_empty(root / "sub")
    assert (root.parent / "secret/empty").is_dir()
    assert (root / "sub").is_symlink()


def test_no_descriptor_stays_open(root: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    (root / "link").symlink_to("sub")
    for place in ("sub/file", "nowhere/file", "link/file"):
        with pytest.raises(UnsafePathError) if place.startswith("link") else open(os.devnull):
            project_file.read(root / place, 100)
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may list every folder")
def test_a_folder_above_that_may_only_be_entered_is_passed(root: Path) -> None:
    root.chmod(0o111)
    try:
        assert project_file.read(root / "sub/file", 100) == b"content"
    finally:
        root.chmod(0o755)
