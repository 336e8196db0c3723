"""A new user installs the wheel with each installer, makes a first call, and removes all of it again.

Tested where that is asked for (`scripts/test --clients`), because packages come from a package index.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from manager.configuration.paths import Paths
from scripts.benchmarks.startup import first_use
from support.processes.managers.manager_process import left_after_stop

STEP_S = 300


class Way(NamedTuple):
    """How a user installs, runs and removes the program; {wheel} and {home} stand for their paths."""

    installer: str | None
    install: str
    lmtb: str
    remove: str


WAYS = {
    "uv": Way("uv", "uv tool install {wheel}", "{home}/bin/lmtb", "uv tool uninstall lm-tools-bridge"),
    "pipx": Way("pipx", "pipx install {wheel}", "{home}/bin/lmtb", "pipx uninstall lm-tools-bridge"),
    "pip": Way(
        None,
        "{python} -m venv {home}/venv && {home}/venv/bin/pip install {wheel}",
        "{home}/venv/bin/lmtb",
        "{home}/venv/bin/python3 -I -m pip uninstall lm-tools-bridge",
    ),
    "uvx": Way("uv", "true", "uvx --from {wheel} lmtb", "uv cache prune"),
}


class User:
    """A user with an empty home, who has nothing but one installer."""

    def __init__(self, folder: Path, way: Way, wheel: Path) -> None:
        self.home = folder / "home"
        self.home.mkdir()
        self.project = folder / "project"
        (self.project / ".git").mkdir(parents=True)
        bins = [first_use.installer(way.installer)] if way.installer else []
        environ = first_use.environment(self.home, folder / "caches", bins)
        self.environ = {**environ, "PATH": ":".join([*map(str, bins), os.defpath])}
        self._words = {"wheel": wheel, "home": self.home, "python": Path(sys.base_prefix) / "bin/python3"}
        self._lmtb = self.filled(way.lmtb)

    def filled(self, line: str) -> str:
        """A line with the paths of this user."""
        return line.format(**self._words)

    def types(self, line: str, given: str = "") -> str:
        """Run a line of shell in the project; what it said."""
        done = subprocess.run(
            ["sh", "-c", line], cwd=self.project, env=self.environ, input=given, capture_output=True,
            text=True, timeout=STEP_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"$ {line}\n{done.stdout}{done.stderr}"
        return done.stdout

    def lmtb(self, words: str) -> str:
        """Run a verb."""
        return self.types(f"{self._lmtb} {words}")


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> Way:
    return WAYS[request.param]


@pytest.fixture
def user(way: Way, installed_wheel: Path, tmp_path: Path) -> Iterator[User]:
    try:
        one = User(tmp_path.resolve(), way, installed_wheel)
    except first_use.NotInstallable as why:
        pytest.skip(str(why))
    yield one
    left = left_after_stop(one.environ)
    for process in left:
        process.kill()
    assert not left


def test_a_new_user_installs_calls_a_tool_and_removes_everything(user: User, way: Way) -> None:
    user.types(user.filled(way.install))
    assert "the manager is ready at" in user.lmtb("up")
    assert user.lmtb('call calculator \'{"expression": "6*7"}\'') == "42\n"
    assert "lm_readFile" in user.lmtb("tools")
    user.lmtb("client add claude-code --yes")
    said = user.lmtb("uninstall --yes")
    removal = user.filled(way.remove)
    assert removal in said.replace("\n", " ")
    paths = Paths.of_user(user.environ)
    assert not paths.state_dir.exists()
    assert not (user.home / ".claude.json").exists()
    user.types(removal, given="y\n")
    assert way.installer is None or not list(user.home.glob("bin/lmtb"))
