"""Files of a project are read whole and within a limit, and nothing else that has a file's name."""

from __future__ import annotations

import os
from collections.abc import Callable, Sized
from pathlib import Path

import pytest

from lm_tools_bridge.code_intelligence.kinds.programs import is_typescript_7
from lm_tools_bridge.code_intelligence.kinds.project_languages import ProjectLanguages
from lm_tools_bridge.code_intelligence.tree.relevant_files import Relevance
from lm_tools_bridge.machine import regular_file

_READERS: tuple[Callable[[Path], Sized], ...] = (
    regular_file.read_text,
    regular_file.read_toml,
    regular_file.read_json,
)


@pytest.mark.parametrize("read", _READERS)
def test_a_pipe_in_the_place_of_a_file_is_empty(tmp_path: Path, read: Callable[[Path], Sized]) -> None:
    os.mkfifo(tmp_path / "settings")
    assert not read(tmp_path / "settings")


@pytest.mark.parametrize("read", _READERS)
@pytest.mark.parametrize("name", ["missing", "folder", "with\0nul", "large", "[" * 100_000])
def test_what_cannot_be_read_is_empty(tmp_path: Path, read: Callable[[Path], Sized], name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "large").write_text("x" * (regular_file.MAX_SETTINGS + 1))
    assert not read(tmp_path / name)


def test_a_deep_value_is_empty(tmp_path: Path) -> None:
    (tmp_path / "deep.json").write_text("[" * 500_000)
    assert regular_file.read_json(tmp_path / "deep.json") == {}


def test_a_file_is_read_to_its_end_and_no_further_than_the_limit(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"x" * 3_000_000)
    assert len(regular_file.read_bytes(file, 3_000_000)) == 3_000_000
    with pytest.raises(OSError, match="larger"):
        regular_file.read_bytes(file, 2_999_999)


def test_a_look_at_a_project_passes_pipes_by(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pyproject.toml")
    (tmp_path / "a.py").write_text("")
    relevance = Relevance(frozenset({".py"}), frozenset())
    assert ProjectLanguages([tmp_path], relevance).current().names == {".py"}


def test_a_compiler_beside_a_package_that_is_a_pipe_has_no_version(tmp_path: Path) -> None:
    program = tmp_path / "node_modules/typescript/bin/tsc"
    program.parent.mkdir(parents=True)
    program.touch()
    package = program.parent.parent / "package.json"
    package.write_text('{"version": "7.1.0"}')
    assert is_typescript_7(program)
    package.unlink()
    os.mkfifo(package)
    assert not is_typescript_7(program)
