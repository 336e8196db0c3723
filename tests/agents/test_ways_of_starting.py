"""However an agent is started, its model is answered by the project in which the agent works.

Two projects differ in a file that the model reads. The agents have the documented entry. What is known to be
impossible stands in `docs/build/ways-of-starting.md`, not here.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from support.clients.agents import InstalledAgents
from support.clients.ways.outcomes import Outcome, outcome_of
from support.clients.ways.scene import DOCUMENTED, scene
from support.clients.ways.table import WAYS

RIGHT = {Outcome.RIGHT, Outcome.BY_CALL, Outcome.NAMED}
TELLING = ("launcher", "then", "folder", "screen", "background", "worktree", "enter-worktree")


@pytest.mark.parametrize(("agent", "way"), [(agent, way) for way in TELLING for agent in WAYS[way].agents])
async def test_no_other_project_answers(agent: str, way: str, agents: InstalledAgents) -> None:
    # the usual temporary folders of tests are too long for the sockets of Claude Code's daemon
    with tempfile.TemporaryDirectory(prefix="ways-", ignore_cleanup_errors=True) as name:
        async with scene(agent, DOCUMENTED, agents, Path(name).resolve()) as here:
            await WAYS[way].run(here)
        outcomes = [outcome_of(reading, here.folders) for reading in here.readings]
    assert outcomes, "nothing was read"
    assert set(outcomes) <= RIGHT, [(one.text, one.seen) for one in here.readings]
