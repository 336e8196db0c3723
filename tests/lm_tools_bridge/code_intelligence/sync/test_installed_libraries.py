"""A server that read other libraries than those installed now is replaced before the next answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from lm_tools_bridge.code_intelligence.kinds.python import RUFF, TY
from lm_tools_bridge.code_intelligence.kinds.scripts_and_formats import TYPESCRIPT
from lm_tools_bridge.code_intelligence.server import ServerOutdated
from lm_tools_bridge.code_intelligence.sync.installed_libraries import YOUNG_S, InstalledLibraries

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
