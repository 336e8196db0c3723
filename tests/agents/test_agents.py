"""Agent programs that others wrote work through the manager, as their users configure them.

Each is run headless. A scripted model decides what it does, and records which tools it was offered.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.clients.agent_table import AGENTS
from support.clients.agents import Agent, InstalledAgents, Place, run_agent
from support.processes.manager_home import ManagerHome, ManagerProcess, manager_home
from support.processes.manager_in_process import make_project
from support.servers.model_formats.steps import Call, ModelRequest, Say, Step
from support.servers.scripted_model import Script, ScriptedModel, scripted_model

NONCE = "of this project"
RUN_S = 90.0
AS_SHIPPED = {"match_wait_s": 5, "announce_hold_s": 0.4}
"""Settings that other tests make shorter."""
Deed = Callable[[], Awaitable[object]]


@dataclass
class Workplace:
    """One agent, its project, and the manager of its user."""

    agent: Agent
    installed: InstalledAgents
    home: ManagerHome
    manager: ManagerProcess
    project: Path

    async def work(self, script: Script) -> ScriptedModel:
        """Run the agent to its end; its model, with what it was asked."""
        place_home = self.home.folder / "agent"
        place_home.mkdir()
        async with scripted_model(script) as model:
            place = Place(place_home, self.project, self.manager.address, model.url)
            run = await run_agent(self.agent, self.installed, place, "Do as you like.", RUN_S)
        assert not model.errors, model.errors
        assert run.code == 0, run.output
        assert model.requests, run.output
        return model

    def offered(self, request: ModelRequest) -> set[str]:
        """Our tools in a request to the model."""
        return self.agent.ours(request.tools)

    def reads_nonce(self) -> Step:
        """The model reads a file of the project."""
        return Call(self.agent.tool("lm_readFile"), {"filePath": "nonce.txt"})


def script(*steps: Step, before: dict[int, Deed] | None = None) -> Script:
    """The model takes these steps, then ends; `before` is what happens before the answer of that number."""

    async def next_step(request: ModelRequest) -> Step:
        if deed := (before or {}).get(request.number):
            await deed()
        return steps[request.number - 1] if request.number <= len(steps) else Say("done")

    return next_step


@pytest.fixture(params=AGENTS)
async def workplace(
    request: pytest.FixtureRequest, agents: InstalledAgents, tmp_path: Path
) -> AsyncIterator[Workplace]:
    folder = tmp_path.resolve()
    async with manager_home(folder / "user", forks=True) as home:
        project = make_project(folder / "proj", **{"nonce.txt": NONCE})
        yield Workplace(AGENTS[request.param], agents, home, await home.start(**AS_SHIPPED), project)


async def test_built_in_tools_are_in_the_first_request_and_can_be_called(workplace: Workplace) -> None:
    model = await workplace.work(script(workplace.reads_nonce()))
    assert "lm_readFile" in workplace.offered(model.requests[0]), sorted(model.requests[0].tools)
    assert NONCE in model.requests[1].last_result
