"""Hosts, servers and lines that fail: calls that were not delivered go elsewhere, others are told."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import manager
from lm_tools_bridge.team.calls import parts
from support.projects.team_members import TeamCaller, team_caller, team_host, until_seen
from support.servers.network.cut_proxy import cut_proxy
from support.servers.network.nats_servers import NatsServer, running_cluster, running_nats

ROOT = Path(manager.__file__).parents[1]
KILLS = 20


class HostProcess:
    """A host that can be killed."""

    def __init__(self, servers: str, name: str, file: Path) -> None:
        self._arguments = (servers, name, str(file))
        self._process: Process | None = None

    async def start(self) -> None:
        """Start it, and wait until it is in the registry."""
        environ = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "support.processes.hosts.team_host_process",
            *self._arguments,
            stdout=PIPE,
            env=environ,
        )
        assert self._process.stdout is not None
        async with asyncio.timeout(60):
            assert await self._process.stdout.readline() == b"ready\n"

    async def kill(self) -> None:
        """As a crash."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.communicate()


@contextlib.asynccontextmanager
async def host_process(servers: str, name: str, file: Path) -> AsyncIterator[HostProcess]:
    host = HostProcess(servers, name, file)
    try:
        await host.start()
        yield host
    finally:
        await host.kill()


def executed(file: Path) -> Counter[str]:
    return Counter(file.read_text().split()) if file.exists() else Counter()


async def test_a_call_that_runs_on_a_host_that_dies_is_told_unknown(
    nats_program: Path, tmp_path: Path
) -> None:
    file = tmp_path / "executed"
    async with (
        running_nats(nats_program, tmp_path) as nats,
        host_process(nats.url, "h1", file) as host,
        team_caller((nats.url,)) as caller,
    ):
        await until_seen(caller.member, "h1")
        task = asyncio.create_task(caller.call("write", id="fatal", takes=60))
        async with asyncio.timeout(20):
            while not executed(file):
                await asyncio.sleep(0.02)
        await host.kill()
        begun = time.monotonic()
        answer = await task
        assert time.monotonic() - begun < parts.SILENCE_S + 2 * parts.BEAT_S + 2
    assert (answer["error"]["code"], answer["error"]["data"]["delivered"]) == (47112, "unknown")
    assert executed(file) == {"fatal": 1}


async def test_calls_that_a_dead_host_never_took_go_to_another(nats_program: Path, tmp_path: Path) -> None:
    file = tmp_path / "executed"
    async with (
        running_nats(nats_program, tmp_path) as nats,
        host_process(nats.url, "h1", file) as host,
        team_host((nats.url,), "h2") as other,
        team_caller((nats.url,)) as caller,
    ):
        await until_seen(caller.member, "h1", "h2")
        await host.kill()  # its heartbeat stays for half a minute
        answers = [await caller.call("write", id=f"n{number}") for number in range(4)]
        assert all("result" in answer for answer in answers)
        assert other.workspace.executed == {f"n{number}": 1 for number in range(4)}
    assert executed(file) == {}


async def test_a_host_that_hangs_is_left_before_the_call_ran(nats_program: Path, tmp_path: Path) -> None:
    """It is connected, so NATS delivers; but it accepts nothing, and later it may not run what it finds."""
    async with (
        running_nats(nats_program, tmp_path) as nats,
        cut_proxy(nats.port) as line,
        team_host((f"nats://127.0.0.1:{line.port}",), "far") as far,
        team_host((nats.url,), "near") as near,
        team_caller((nats.url,)) as caller,
    ):
        await until_seen(caller.member, "far", "near")
        line.cut()
        answers = await asyncio.gather(*(caller.call("write", id=f"n{number}") for number in range(4)))
        assert all("result" in answer for answer in answers)
        line.mend()
        await asyncio.sleep(parts.CONFIRM_S + parts.BEAT_S + 0.5)
        assert far.member.host_calls.gate.in_flight == 0
        assert far.workspace.executed == {}
        assert near.workspace.executed == {f"n{number}": 1 for number in range(4)}


async def test_in_a_partition_the_view_is_stale_and_calls_are_refused(
    nats_program: Path, tmp_path: Path
) -> None:
    async with (
        running_nats(nats_program, tmp_path) as nats,
        team_host((nats.url,), "h1") as host,
        team_caller((nats.url,)) as caller,
    ):
        await until_seen(caller.member, "h1")
        view = caller.member.reader.view
        await nats.kill()
        async with asyncio.timeout(20):
            while view.stale_for(time.monotonic()) is None:
                await asyncio.sleep(0.02)
        assert [one.host.host for one in view.providers("docs")] == ["h1"]
        answer = await caller.call("write", id="cut")
        assert (answer["error"]["code"], answer["error"]["data"]["delivered"]) == (47109, "no")
        await nats.start()
        async with asyncio.timeout(60):
            while "result" not in await caller.call("write", id="mended"):
                pass
        assert view.stale_for(time.monotonic()) is None
    assert host.workspace.executed["cut"] == 0


@pytest.mark.timeout(900)
async def test_twenty_kills_of_hosts_and_servers_double_no_call(nats_program: Path, tmp_path: Path) -> None:
    """kill -9 of each of five parts in turn, under load; outcomes are compared with what the hosts executed."""
    files = [tmp_path / "a", tmp_path / "b"]
    async with running_cluster(nats_program, tmp_path) as cluster:
        servers = ",".join(one.url for one in cluster)
        async with (
            host_process(servers, "a", files[0]) as one,
            host_process(servers, "b", files[1]) as two,
            team_caller(tuple(servers.split(","))) as caller,
        ):
            await until_seen(caller.member, "a", "b")
            outcomes: dict[str, str] = {}
            stop = asyncio.Event()
            load = [asyncio.create_task(_load(caller, outcomes, stop, worker)) for worker in range(4)]
            targets: list[HostProcess | NatsServer] = [one, two, *cluster]
            for number in range(KILLS):
                target = targets[number % len(targets)]
                before = len(outcomes)
                await target.kill()
                await target.start()
                await _until(outcomes, before + 4)
            stop.set()
            await asyncio.gather(*load)
            assert caller.member.calls.in_flight == Counter()
    runs = executed(files[0]) + executed(files[1])
    counted = Counter(outcomes.values())
    print(f"{KILLS} kills, {len(outcomes)} calls: {dict(counted)}, {sum(runs.values())} executed")
    assert max(runs.values()) == 1
    assert all(runs[identity] == 1 for identity, outcome in outcomes.items() if outcome == "answered")
    assert all(runs[identity] == 0 for identity, outcome in outcomes.items() if outcome == "no")
    assert counted["answered"] > len(outcomes) / 2


async def _load(caller: TeamCaller, outcomes: dict[str, str], stop: asyncio.Event, worker: int) -> None:
    chance = random.Random(worker)
    number = 0
    while not stop.is_set():
        identity = f"{worker}-{number}"
        number += 1
        answer = await caller.call("write", id=identity, takes=chance.random() * 0.1)
        outcomes[identity] = "answered" if "result" in answer else answer["error"]["data"]["delivered"]
        if "result" not in answer:
            await asyncio.sleep(0.1)


async def _until(outcomes: dict[str, str], count: int) -> None:
    """Wait until calls are answered again."""
    async with asyncio.timeout(90):
        while list(outcomes.values())[count - 4 :].count("answered") < 4:
            await asyncio.sleep(0.05)
