"""Tests that messages name pages that exist; tests/test_wheel.py shows it for an installation."""

from __future__ import annotations

import re
from pathlib import Path

import manager
from manager.documentation import page

HOUSE = Path(manager.__file__).parent


def test_page_is_the_one_in_the_documentation() -> None:
    assert Path(page("clients/other.md")) == HOUSE.parent / "docs" / "clients" / "other.md"


def test_every_page_that_a_module_names_exists() -> None:
    """And nothing else of a checkout is named in a text for people."""
    sources = [file.read_text() for file in HOUSE.rglob("*.py")]
    named = {name for text in sources for name in re.findall(r"""page\(["']([^"']+)["']\)""", text)}
    assert "clients/setup.md" in named
    assert [name for name in named if not Path(page(name)).exists()] == []
