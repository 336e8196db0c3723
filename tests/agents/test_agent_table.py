"""The table of agent programs agrees with what is installed. Nothing is run here."""

from __future__ import annotations

from pathlib import Path

import pytest

import manager
from support.clients.agent_table import AGENTS
from support.clients.agents import Agent

ROOT = Path(manager.__file__).parents[1]


@pytest.mark.parametrize("agent", AGENTS.values(), ids=AGENTS.keys())
def test_the_version_in_the_table_is_the_one_that_is_installed_and_documented(agent: Agent) -> None:
    name, version = agent.package.split()
    assert f"{name}@{version}" in (ROOT / "scripts/agents").read_text()
    assert f"`{name}` {version}" in (ROOT / "docs/build/matrix.md").read_text()
