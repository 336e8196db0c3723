"""A project on a disk that never answers: a real file system whose every request waits."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path

from aiohttp import ClientSession

from support.clients.raw_clients import SessionClient, StatelessClient
from support.processes.managers.manager_home import ManagerHome
from support.processes.managers.manager_in_process import make_project
from support.processes.mounts import needs_hanging_disks, on_a_hanging_disk
from support.processes.timeouts import within

SUM = {"expression": "6*7"}
REFUSED_S = 4.0
"""A folder that does not answer is given up after two seconds."""
CALLERS = 12


@needs_hanging_disks
async def test_a_disk_that_hangs_delays_its_own_callers_only(
    home: ManagerHome, http: ClientSession, tmp_path: Path
) -> None:
    """They are refused in time, calls of another project go on meanwhile, and the manager can be stopped."""
    hung = tmp_path / "hung"
    hung.mkdir()
    manager = await home.start(prefix=on_a_hanging_disk(hung))
    good = await SessionClient.connect(http, manager.address)
    await good.handshake(make_project(tmp_path / "good"))
    assert (await good.call("calculator", SUM)).payload == {"value": 42}

    began = time.monotonic()
    callers = [
        asyncio.create_task(
            StatelessClient(http, f"{manager.address}?cwd={hung / str(number)}").call("calculator", SUM)
        )
        for number in range(CALLERS)
    ]
    client = await SessionClient.connect(http, manager.address)
    shaking = asyncio.create_task(client.handshake(hung))
    answered = 0
    while not shaking.done():
        assert (await good.call("calculator", SUM)).payload == {"value": 42}
        answered += 1
    assert answered > 1
    refusal = (await shaking).refusal
    assert refusal["reason"] in {"invalid_cwd", "overloaded"}
    assert refusal["details"]["problem"] in {"no_answer", "busy"}
    assert refusal["retryAfterMs"] == 2000
    for answer in await asyncio.gather(*callers):
        assert answer.refusal["reason"] in {"invalid_cwd", "overloaded", "workspace_not_set"}
    assert time.monotonic() - began < within(REFUSED_S)

    manager.send(signal.SIGTERM)
    assert await manager.ended() == 0
