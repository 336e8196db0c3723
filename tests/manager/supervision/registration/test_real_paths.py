"""Tests of the real paths of registered folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from manager.disk.filesystem import FolderExaminer
from manager.supervision.registration import real_paths
from manager.supervision.registration.real_paths import RealPaths


async def test_links_are_resolved_once(tmp_path: Path) -> None:
    real, other, link = (tmp_path.resolve() / name for name in ("real", "other", "link"))
    real.mkdir()
    other.mkdir()
    link.symlink_to(real)
    paths = RealPaths(FolderExaminer())
    assert await paths.of(str(link)) == str(real)
    link.unlink()
    link.symlink_to(other)
    assert await paths.of(str(link)) == str(real)


async def test_a_folder_that_cannot_be_read_is_kept_as_it_is(tmp_path: Path) -> None:
    assert await RealPaths(FolderExaminer()).of(str(tmp_path / "none")) == str(tmp_path / "none")


async def test_the_number_of_folders_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(real_paths, "MAX_REAL_PATHS", 2)
    link = tmp_path.resolve() / "link"
    link.symlink_to(tmp_path)
    paths = RealPaths(FolderExaminer())
    await paths.of(str(link))
    for name in ("one", "two"):
        (tmp_path.resolve() / name).mkdir()
        await paths.of(str(tmp_path.resolve() / name))
    link.unlink()
    link.symlink_to(tmp_path / "one")
    assert await paths.of(str(link)) == str(tmp_path.resolve() / "one")
