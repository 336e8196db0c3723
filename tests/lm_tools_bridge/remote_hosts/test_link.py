"""The line to one host, without a process: when it is made, made again, and not made any more."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from lm_tools_bridge.remote_hosts import link as link_module
from lm_tools_bridge.remote_hosts.address import Host
from lm_tools_bridge.remote_hosts.line_failures import FailureKind, LineFailure
from lm_tools_bridge.remote_hosts.link import DEAD_S, PING_S, STEADY_S, Link
from manager.configuration.settings import Settings
from manager.state_file import Store
from manager.supervision.dependencies import Dependencies
from support.servers.network.scripted_line import ScriptedLines

if TYPE_CHECKING:
    from manager.upstream.connection import Connection


class Scene:
    """A link whose clock goes on while it sleeps."""

    def __init__(self, folder: Path) -> None:
        self.now = 100.0
        self.pauses: list[float] = []
        self.lines = ScriptedLines()
        self.woken = asyncio.Event()
        store = Store(folder / "state.db", set_aside_name=lambda: "x")
        dependencies = Dependencies(
            Settings(), store, folder, {}, now=lambda: self.now, sleep=self.sleep, rng=random.Random(1)
        )
        self.link = Link(
            "build", Host("ssh", "build"), ("lmtb",), dependencies, open_line=self.lines.open_line
        )

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds
        if len(self.pauses) == 6:
            self.woken.set()
            await asyncio.Event().wait()
        await asyncio.sleep(0)


@pytest.fixture
async def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


async def test_a_closed_line_is_not_made_again(scene: Scene) -> None:
    await scene.link.ensure()
    await scene.link.close()
    assert await scene.link.ensure(urgent=True) == LineFailure(FailureKind.CUT)
    assert (len(scene.lines.commands), scene.link.is_up) == (1, False)


async def test_pauses_grow_while_a_host_cuts_the_line_at_once(scene: Scene) -> None:
    scene.lines.cuts_at_once = True
    scene.link.on_change.add(lambda: None)
    await scene.link.ensure()
    async with asyncio.timeout(10):
        await scene.woken.wait()
    assert all(scene.pauses), scene.pauses
    assert scene.pauses[4] > 4 * scene.pauses[0]
    await scene.link.close()


async def test_a_line_that_lived_is_made_again_at_once(scene: Scene) -> None:
    scene.link.on_change.add(lambda: None)
    await scene.link.ensure()
    (line,) = scene.lines.lines
    line.carrier.heard_at = scene.now = scene.now + STEADY_S
    line.close()
    async with asyncio.timeout(PING_S):
        while len(scene.lines.commands) < 2 or not scene.link.is_up:
            await asyncio.sleep(0)
    assert scene.pauses == [0.0]
    await scene.link.close()


async def test_letting_go_stops_an_attempt_under_way(scene: Scene) -> None:
    scene.lines.hangs = True
    waiting = asyncio.create_task(scene.link.ensure())
    while not scene.lines.commands:
        await asyncio.sleep(0)
    await scene.link.disconnect()
    async with asyncio.timeout(10):
        assert await waiting == LineFailure(FailureKind.CUT)
    assert scene.link.as_json()["state"] == "idle"


async def test_callers_at_one_time_share_one_attempt(scene: Scene) -> None:
    lines = await asyncio.gather(*(scene.link.ensure() for _ in range(5)))
    assert len(scene.lines.commands) == 1
    assert len(set(map(id, lines))) == 1
    await scene.link.close()


async def test_a_failure_counts_until_its_pause_is_over_unless_it_is_urgent(scene: Scene) -> None:
    refused = scene.lines.failure = LineFailure(FailureKind.NEEDS_PERSON, ("Permission denied",))
    assert await scene.link.ensure() == refused
    assert await scene.link.ensure() == refused
    assert len(scene.lines.commands) == 1
    assert await scene.link.ensure(urgent=True) == refused
    assert len(scene.lines.commands) == 2
    scene.now += scene.link.retry_after_s()
    scene.lines.failure = None
    assert not isinstance(await scene.link.ensure(), LineFailure)
    assert scene.link.as_json()["state"] == "connected"
    await scene.link.close()


async def test_a_login_that_is_refused_is_not_tried_again_by_itself(scene: Scene) -> None:
    scene.link.on_change.add(lambda: None)
    await scene.link.ensure()
    scene.lines.failure = LineFailure(FailureKind.NEEDS_PERSON)
    scene.lines.lines[0].close()
    async with asyncio.timeout(10):
        while scene.link.failure is None or scene.link.failure.kind is not FailureKind.NEEDS_PERSON:
            await asyncio.sleep(0)
    for _ in range(50):
        await asyncio.sleep(0)
    assert len(scene.lines.commands) == 2
    await scene.link.close()


async def test_silence_counts_as_a_cut(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_module, "PING_S", 0.01)
    scene.link.on_change.add(lambda: None)
    await scene.link.ensure()
    (line,) = scene.lines.lines
    line.carrier.heard_at = scene.now
    scene.now += DEAD_S + 1
    async with asyncio.timeout(10):
        await line.ended.wait()
        while not scene.link.is_up:
            await asyncio.sleep(0)
    await scene.link.close()


async def test_nothing_is_dialled_without_a_line(scene: Scene) -> None:
    with pytest.raises(ConnectionResetError):
        await scene.link.dial("mcp", lambda: cast("Connection", None))
    assert not scene.lines.commands


async def test_what_attends_a_line_ends_with_it_and_begins_with_the_next_one(scene: Scene) -> None:
    attended: list[object] = []
    ended: list[object] = []

    async def attend(_: Link, line: object) -> None:
        attended.append(line)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(line)

    scene.link.attend = attend
    await scene.link.ensure()
    scene.link.on_change.add(lambda: None)
    async with asyncio.timeout(10):
        while not attended:
            await asyncio.sleep(0)
        scene.lines.lines[0].close()
        while len(attended) < 2:
            await asyncio.sleep(0)
    assert (attended, ended) == (scene.lines.lines, scene.lines.lines[:1])
    await scene.link.close()
    assert ended == scene.lines.lines


async def test_status_tells_why_there_is_no_line(scene: Scene) -> None:
    assert scene.link.as_json()["state"] == "idle"
    scene.lines.failure = LineFailure(FailureKind.HOST_KEY_CHANGED, ("the key changed",))
    await scene.link.ensure()
    shown = scene.link.as_json()
    assert (shown["state"], shown["cause"], shown["said"]) == (
        "failed",
        "host_key_changed",
        ["the key changed"],
    )
    assert shown["retryAfterSec"] > 0
