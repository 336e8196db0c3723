"""Tests of the search through all files of a project."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.code_intelligence.outline import project_symbols
from lm_tools_bridge.code_intelligence.outline.project_symbols import ProjectSymbols


@pytest.fixture
def searched(tmp_path: Path) -> ProjectSymbols:
    (tmp_path / "a.py").write_text("class Shape:\n    def area(self): ...\n")
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "b.js").write_text("function shape() {}\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "c.ts").write_text("export function reshape() {}\n")
    return ProjectSymbols([tmp_path], frozenset({"python", "typescript", "javascript"}))


def names(found: list[dict[str, Any]]) -> list[str]:
    return [
        f"{one['containerName']}/{one['name']}" if "containerName" in one else one["name"] for one in found
    ]


def test_part_of_a_name_finds_symbols_of_every_language(searched: ProjectSymbols) -> None:
    assert names(searched.search("SHAPE", {})) == ["Shape", "reshape"]
    assert names(searched.search("area", {})) == ["Shape/area"]
    assert names(searched.search("", {})) == ["Shape", "Shape/area", "reshape"]


def test_changed_created_and_deleted_files_count_at_once(searched: ProjectSymbols, tmp_path: Path) -> None:
    searched.search("", {})
    (tmp_path / "a.py").write_text("class Circle: ...\n")
    (tmp_path / "new.py").write_text("def created(): ...\n")
    (tmp_path / "sub" / "c.ts").unlink()
    assert names(searched.search("", {})) == ["Circle", "created"]


def test_text_of_an_open_document_counts_instead_of_the_file(
    searched: ProjectSymbols, tmp_path: Path
) -> None:
    assert names(searched.search("typed", {str(tmp_path / "a.py"): b"def typed(): ...\n"})) == ["typed"]


def test_location_is_the_name(searched: ProjectSymbols, tmp_path: Path) -> None:
    (found,) = searched.search("area", {})
    assert found["location"]["uri"] == (tmp_path / "a.py").as_uri()
    assert found["location"]["range"]["start"] == {"line": 1, "character": 8}


def test_links_and_large_files_are_not_read(searched: ProjectSymbols, tmp_path: Path) -> None:
    outside = tmp_path.parent / "outside.py"
    outside.write_text("def secret(): ...\n")
    (tmp_path / "link.py").symlink_to(outside)
    (tmp_path / "large.py").write_bytes(b"def big(): ...\n" + b"#" * project_symbols.MAX_FILE_BYTES)
    assert names(searched.search("secret", {})) == names(searched.search("big", {})) == []


def test_folders_that_tools_made_are_not_read_whatever_their_names(
    searched: ProjectSymbols, tmp_path: Path
) -> None:
    for name, mark in (("out", "CMakeCache.txt"), ("build", None)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "made.py").write_text(f"def in_{name}(): ...\n")
        if mark is not None:
            (tmp_path / name / mark).touch()
    assert names(searched.search("in_", {})) == ["in_build"]


def test_results_are_bounded(
    searched: ProjectSymbols, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(project_symbols, "MAX_RESULTS", 5)
    (tmp_path / "many.py").write_text("".join(f"def many{number}(): ...\n" for number in range(9)))
    assert len(searched.search("many", {})) == 5


def test_a_pipe_in_the_project_is_not_waited_for(searched: ProjectSymbols, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    assert names(searched.search("area", {})) == ["Shape/area"]
