"""Each part of the way to another host is killed twice under calls; `scripts/reliability/remote_kills.py` does it longer."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from scripts.reliability.remote_kills import PARTS, Scene
from scripts.reliability.remote_kills import scene as two_hosts

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]
TIMES = 2


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    async with two_hosts(tmp_path_factory.mktemp("kills") / "hosts") as made:
        yield made


@pytest.mark.parametrize("part", PARTS)
async def test_no_call_is_doubled_and_no_session_lost(scene: Scene, part: str) -> None:
    found = await scene.killed(part, TIMES, random.Random(7))
    assert not found.problems
    assert found.answered
    assert len(found.back_s) == TIMES
