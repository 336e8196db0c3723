"""Folders of libraries: those that the user's environment names, never those that a project names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from lm_tools_bridge.code_intelligence.library_folders import library_folders


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return Path(os.path.realpath(tmp_path))


def folders(home: Path, *programs: str, project: str = "proj", **variables: str) -> set[Path]:
    environ: Mapping[str, str] = {"HOME": str(home), **variables}
    found = library_folders(environ, programs, [home / project])
    return {folder for folder in found if folder.is_dir()}


def make(home: Path, *names: str) -> list[Path]:
    for name in names:
        (home / name).mkdir(parents=True)
    return [home / name for name in names]


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_variables_and_their_defaults_name_libraries(home: Path) -> None:
    usual = make(home, ".cargo/registry/src", "go/pkg/mod", ".rustup/toolchains/stable/lib/rustlib")
    named = make(home, "mods", "env/lib/python3.12", "inc")
    found = folders(home, GOMODCACHE=str(named[0]), VIRTUAL_ENV=str(home / "env"), CPATH=str(named[2]))
    assert {*usual, *named} <= found
    assert home / ".cargo" not in found


def test_a_program_brings_its_package_and_the_libraries_beside_it(home: Path) -> None:
    real = program(home / "npm/lib/node_modules/typescript/bin/tsc")
    (home / "bin").mkdir()
    (home / "bin/tsc").symlink_to(real)
    program(home / "python/bin/ty")
    make(home, "python/lib/python3.11")
    found = folders(home, "tsc", "ty", PATH=f"{home}/bin:{home}/python/bin")
    assert {home / "npm/lib/node_modules", home / "python/lib/python3.11"} <= found


def test_what_the_project_brings_names_nothing(home: Path) -> None:
    make(home, ".aws/lib/python3.11", "proj/bin")
    program(home / "proj/node_modules/x/bin/ty")
    (home / "proj/lib").symlink_to(home / ".aws")
    (home / "proj/bin/tsc").symlink_to(home / "proj/node_modules/x/bin/ty")
    found = folders(home, "ty", "tsc", PATH=f"{home}/proj/bin:{home}/proj/node_modules/x/bin:bin")
    assert not [one for one in found if one.is_relative_to(home)]


@pytest.mark.parametrize("name", ["PYTHONPATH", "CPATH", "NODE_PATH", "GOMODCACHE"])
def test_the_home_and_what_is_around_it_are_no_library(home: Path, name: str) -> None:
    for folder in (str(home), str(home.parent), "/", ".", ""):
        assert not [one for one in folders(home, **{name: folder}) if home.is_relative_to(one)]


def test_a_program_below_the_home_opens_nothing_else_of_it(home: Path) -> None:
    program(home / "bin/ty")
    make(home, "src", "lib/private", "meta")
    assert not [one for one in folders(home, "ty", PATH=f"{home}/bin") if one.is_relative_to(home)]
