"""Agent programs that others wrote; tested only where that is asked for: `scripts/test --clients`."""

from __future__ import annotations

import pytest

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
