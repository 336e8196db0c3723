"""Packages as npm and uv tell them, with the user's own settings of both."""

from __future__ import annotations

import shutil

import pytest

from lm_tools_bridge.published_servers.package_index import PublishedPackage, look_up
from lm_tools_bridge.published_servers.pinned_servers import is_newer
from lm_tools_bridge.published_servers.server_names import PackageName, Refusal

EVERYTHING = "@modelcontextprotocol/server-everything"
OLD = {"npm": ("@modelcontextprotocol/server-memory", "2025.4.25"), "pypi": ("mcp-server-time", "2025.7.1")}


@pytest.mark.parametrize("index", ["npm", "pypi"])
def test_an_old_version_is_found_as_it_is_and_the_newest_is_newer(index: str) -> None:
    if shutil.which("npm" if index == "npm" else "uv") is None:
        pytest.skip(f"the program that asks {index} is not installed")
    name, version = OLD[index]
    old = look_up(PackageName(index, name, version))  # type: ignore[arg-type]  # one of the two words
    newest = look_up(PackageName(index, name))  # type: ignore[arg-type]  # the same
    assert isinstance(old, PublishedPackage), old
    assert isinstance(newest, PublishedPackage), newest
    assert old.package.version == version
    assert is_newer(newest.package.version, version)


def test_a_package_says_which_server_it_is_and_a_missing_one_is_refused() -> None:
    everything = look_up(PackageName("npm", EVERYTHING))
    assert isinstance(everything, PublishedPackage), everything
    assert everything.server_name == "io.github.modelcontextprotocol/server-everything"
    missing = look_up(PackageName("npm", "@modelcontextprotocol/there-is-no-such-server"))
    assert isinstance(missing, Refusal)
    assert "Not Found" in missing.message
