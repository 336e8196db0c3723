"""The environment of a project in Python is found by its files, and never this program's own."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from lm_tools_bridge.code_intelligence.python_projects.environments import (
    EnvironmentFinder,
    hatch_name,
    pipenv_name,
    poetry_prefix,
)


@dataclass
class Scene:
    """A project, and the home of its user."""

    folder: Path

    def __post_init__(self) -> None:
        self.root, self.home = self.folder / "shop", self.folder / "home"
        for folder in (self.root, self.home):
            folder.mkdir()

    def put(self, path: str, text: str) -> None:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def environment(self, path: str) -> Path:
        """An environment; nothing of it can be run."""
        folder = self.folder / path
        (folder / "lib/python3.12/site-packages").mkdir(parents=True)
        (folder / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.12\n")
        return folder

    def finder(self, setting: Path | None = None, **variables: str) -> EnvironmentFinder:
        known: Mapping[str, str] = {"HOME": str(self.home), **variables}
        return EnvironmentFinder([self.root], lambda: known, setting)

    def found(self, setting: Path | None = None, **variables: str) -> tuple[str, str] | None:
        environment = self.finder(setting, **variables).current()
        if environment is None:
            return None
        return str(environment.path.relative_to(self.folder)), environment.origin


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


@pytest.mark.parametrize("name", [".venv", "venv", "env", ".conda", ".pixi/envs/default"])
def test_it_is_found_in_the_project(scene: Scene, name: str) -> None:
    scene.environment(f"shop/{name}")
    assert scene.found() == (f"shop/{name}", name)


def test_it_is_found_where_poetry_hatch_and_pipenv_keep_theirs(scene: Scene) -> None:
    root = str(scene.root)
    scene.put("shop/pyproject.toml", "[project]\nname = 'My_Shop'\n[tool.poetry]\n")
    hatch = f"home/.local/share/hatch/env/virtual/{hatch_name(root, 'My_Shop')}"
    poetry = f"home/.cache/pypoetry/virtualenvs/{poetry_prefix(root, 'My_Shop')}3.12"
    pipenv = f"home/.local/share/virtualenvs/{pipenv_name(root)}"
    scene.environment(pipenv)
    assert scene.found() is None
    scene.put("shop/Pipfile", "")
    assert scene.found() == (pipenv, "pipenv")
    scene.environment(hatch)
    assert scene.found() == (hatch, "hatch")
    scene.environment(poetry)
    assert scene.found() == (poetry, "poetry")


def test_the_names_are_those_that_the_tools_give() -> None:
    assert poetry_prefix("/srv/ann/shop", "Shop") == "shop-ROqVffX2-py"
    assert hatch_name("/srv/ann/shop", "My_Shop") == "my-shop/ROqVffX2/my-shop"
    assert pipenv_name("/srv/ann/shop") == "shop-neQufumh"


def test_pdm_names_it_in_a_file_that_cannot_lead_anywhere_else(scene: Scene) -> None:
    inside = scene.environment("home/.local/share/pdm/venvs/shop-1-3.12")
    scene.put("shop/.pdm-python", f"{inside}/bin/python")
    assert scene.found() == ("home/.local/share/pdm/venvs/shop-1-3.12", "pdm")
    elsewhere = scene.environment("home/.secret")
    for text in (f"{elsewhere}/bin/python", f"{inside}/../../../../../.secret/bin/python", "bin/python"):
        scene.put("shop/.pdm-python", text)
        assert scene.found() is None


def test_conda_names_it_in_its_file(scene: Scene) -> None:
    scene.environment("home/miniforge3/envs/shop-env")
    scene.put("shop/environment.yml", "channels: [conda-forge]\nname: shop-env  # ours\ndependencies: []\n")
    assert scene.found() == ("home/miniforge3/envs/shop-env", "conda")
    scene.put("shop/environment.yml", "name: ../../other\n")
    assert scene.found() is None


def test_a_member_of_a_workspace_of_uv_has_that_of_the_workspace(scene: Scene) -> None:
    scene.environment(".venv")
    assert scene.found() is None
    scene.put("pyproject.toml", "[tool.uv.workspace]\nmembers = ['shop']\n")
    assert scene.found() == (".venv", "uv workspace")


def test_an_active_one_counts_after_those_of_the_project(scene: Scene) -> None:
    active = str(scene.environment("home/envs/a"))
    assert scene.found(VIRTUAL_ENV=active) == ("home/envs/a", "VIRTUAL_ENV")
    conda = str(scene.environment("home/envs/c"))
    assert scene.found(CONDA_PREFIX=conda, CONDA_DEFAULT_ENV="c") == ("home/envs/c", "CONDA_PREFIX")
    scene.environment("shop/.venv")
    assert scene.found(VIRTUAL_ENV=active) == ("shop/.venv", ".venv")


def test_neither_our_own_nor_that_of_another_project_counts(scene: Scene) -> None:
    assert scene.found(VIRTUAL_ENV=sys.prefix) is None
    other = str(scene.environment("other/.venv"))
    assert scene.found(VIRTUAL_ENV=other) is not None
    scene.put("other/pyproject.toml", "")
    assert scene.found(VIRTUAL_ENV=other) is None
    base = str(scene.environment("home/miniconda3"))
    assert scene.found(CONDA_PREFIX=base, CONDA_DEFAULT_ENV="base") is None


def test_what_is_configured_comes_first(scene: Scene) -> None:
    scene.environment("shop/.venv")
    mine = scene.environment("shop/tools/env")
    assert scene.found(UV_PROJECT_ENVIRONMENT="tools/env") == ("shop/tools/env", "UV_PROJECT_ENVIRONMENT")
    assert scene.found(mine) == ("shop/tools/env", "workspace.toml")
    assert scene.found(scene.root / "nothing") == ("shop/.venv", ".venv")


def test_one_that_comes_or_goes_counts_at_once(scene: Scene) -> None:
    finder = scene.finder()
    assert finder.current() is None
    (scene.root / ".venv/lib/python3.12").mkdir(parents=True)
    assert finder.current() is None, "it has no place for libraries yet"
    (scene.root / ".venv/lib/python3.12/site-packages").mkdir()
    found = finder.current()
    assert found is not None and finder.current() is found
    (scene.root / ".venv").rename(scene.root / "venv")
    moved = finder.current()
    assert moved is not None and moved.origin == "venv"


@pytest.mark.parametrize("text", ["not TOML", "project = 3\n", "[tool]\nuv = 'x'\npoetry = 1\n", "\0"])
def test_a_strange_configuration_is_no_reason_to_fail(scene: Scene, text: str) -> None:
    for name in ("pyproject.toml", ".pdm-python", "environment.yml", "Pipfile"):
        scene.put(f"shop/{name}", text)
    scene.environment("shop/.venv")
    assert scene.found() == ("shop/.venv", ".venv")
