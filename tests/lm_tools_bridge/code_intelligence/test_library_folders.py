"""Folders of libraries: those that the user's environment names, never those that a project names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from lm_tools_bridge.code_intelligence.kinds.python import RUFF, TY
from lm_tools_bridge.code_intelligence.kinds.scripts_and_formats import TYPESCRIPT
from lm_tools_bridge.code_intelligence.library_folders import YOUNG_S, InstalledLibraries, library_folders
from lm_tools_bridge.code_intelligence.server import ServerOutdated


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


OLD = YOUNG_S + 1


def environment(root: Path) -> Path:
    packages = root / ".venv/lib/python3.12/site-packages"
    packages.mkdir(parents=True)
    (root / ".venv/pyvenv.cfg").write_text("")
    return packages


async def test_a_new_virtual_environment_needs_a_new_server(tmp_path: Path) -> None:
    libraries = InstalledLibraries(TY, [tmp_path], 0.0)
    for now in (0.0, OLD):
        await libraries.look(now)
    environment(tmp_path)
    with pytest.raises(ServerOutdated, match="ty is started again, because libraries"):
        await libraries.look(OLD)


async def test_a_library_that_is_installed_or_removed_needs_a_new_server(tmp_path: Path) -> None:
    packages = environment(tmp_path)
    for change in ((packages / "attr").mkdir, (packages / "attr").rmdir):
        libraries = InstalledLibraries(TY, [tmp_path], 0.0)
        await libraries.look(0.0)
        change()
        with pytest.raises(ServerOutdated):
            await libraries.look(OLD)


async def test_packages_of_node_need_a_new_server(tmp_path: Path) -> None:
    libraries = InstalledLibraries(TYPESCRIPT, [tmp_path], 0.0)
    await libraries.look(0.0)
    (tmp_path / "node_modules/@types").mkdir(parents=True)
    with pytest.raises(ServerOutdated):
        await libraries.look(OLD)


async def test_a_young_server_is_replaced_when_it_is_older(tmp_path: Path) -> None:
    libraries = InstalledLibraries(TY, [tmp_path], 0.0)
    await libraries.look(0.0)
    packages = environment(tmp_path)
    assert await libraries.look(YOUNG_S - 1) == 1
    (packages / "attr").mkdir()
    with pytest.raises(ServerOutdated):
        await libraries.look(YOUNG_S)


async def test_a_server_without_libraries_is_left_alone(tmp_path: Path) -> None:
    libraries = InstalledLibraries(RUFF, [tmp_path], 0.0)
    await libraries.look(0.0)
    environment(tmp_path)
    assert await libraries.look(OLD) == 0
