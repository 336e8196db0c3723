"""The table of clients: complete, and told to readers as it is. Nothing is run here."""

from __future__ import annotations

from pathlib import Path

import pytest

import manager
from support.clients.client_table import ABILITIES, CANNOT, CLIENTS, as_markdown

ROOT = Path(manager.__file__).parents[1]


def test_readers_are_shown_the_table_that_is_tested() -> None:
    assert as_markdown() in (ROOT / "docs/build/matrix.md").read_text()


def test_what_a_client_cannot_do_is_about_a_client_and_an_ability() -> None:
    assert {client for client, _ in CANNOT} <= set(CLIENTS)
    assert {ability for _, ability in CANNOT} <= set(ABILITIES)


@pytest.mark.parametrize("package", sorted({kind.package for kind in CLIENTS.values()}))
def test_the_version_in_the_table_is_the_one_that_is_installed(package: str) -> None:
    name, version = package.split()
    if package == "mcp 2.3":
        assert '"mcp>=2.3,<3"' in (ROOT / "pyproject.toml").read_text()
    else:
        pins = (ROOT / "scripts/clients").read_text()
        assert f"{name}@{version}" in pins or f"{name}=={version}" in pins
