"""Agent programs that others wrote; tested only where that is asked for: `scripts/test --clients`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.clients.agent_table import AGENTS
from support.clients.agent_workplace import Workplace, workplace_of
from support.clients.agents import InstalledAgents
from support.groups import leave_out_users
from support.processes.installations.installing import install, shared_lock

INSTALL_S = 400.0


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave those out that run an agent, or give them time: the first one installs the agents."""
    leave_out_users(config, items, "agents", "--clients", seconds=INSTALL_S + 120)


@pytest.fixture(scope="session")
def agents(tmp_path_factory: pytest.TempPathFactory) -> InstalledAgents:
    """The agents, installed."""
    lock = shared_lock(tmp_path_factory, "agents")
    return InstalledAgents(install("agent programs", "agents", seconds=INSTALL_S, lock=lock))


@pytest.fixture(params=AGENTS)
async def workplace(
    request: pytest.FixtureRequest, agents: InstalledAgents, tmp_path: Path
) -> AsyncIterator[Workplace]:
    """Each agent in turn, with a project and a manager of its own."""
    async with workplace_of(AGENTS[request.param], agents, tmp_path.resolve()) as place:
        yield place
