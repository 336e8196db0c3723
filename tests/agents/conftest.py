"""Agent programs that others wrote; tested only where that is asked for: `scripts/test --clients`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.clients.agent_table import AGENTS
from support.clients.agent_workplace import Workplace, workplace_of
from support.clients.agents import InstalledAgents
from support.processes.installing import install

INSTALL_S = 400.0


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave those out that run an agent, or give them time: the first one installs the agents."""
    ours = [item for item in items if "agents" in getattr(item, "fixturenames", ())]
    if not config.getoption("--clients"):
        config.hook.pytest_deselected(items=ours)
        items[:] = [item for item in items if item not in ours]
    for item in ours:
        item.add_marker(pytest.mark.timeout(INSTALL_S + 120))


@pytest.fixture(scope="session")
def agents(tmp_path_factory: pytest.TempPathFactory) -> InstalledAgents:
    """The agents, installed."""
    # the parent is the same folder for all processes of one run
    lock = tmp_path_factory.getbasetemp().parent / "agents.lock"
    return InstalledAgents(install("agent programs", "agents", seconds=INSTALL_S, lock=lock))


@pytest.fixture(params=AGENTS)
async def workplace(
    request: pytest.FixtureRequest, agents: InstalledAgents, tmp_path: Path
) -> AsyncIterator[Workplace]:
    """Each agent in turn, with a project and a manager of its own."""
    async with workplace_of(AGENTS[request.param], agents, tmp_path.resolve()) as place:
        yield place
