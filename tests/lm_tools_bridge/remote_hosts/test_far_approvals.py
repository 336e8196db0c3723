"""What a host says of calls that wait there: bounded, and about projects on that host only. No process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lm_tools_bridge.protocol import sse
from lm_tools_bridge.remote_hosts.address import Host, RemoteAddress
from lm_tools_bridge.remote_hosts.far_approvals import (
    LONGEST_S,
    MAX_EVENT,
    MOST_CALLS,
    MOST_CPU,
    PAUSE_S,
    RETRY_S,
    FarApprovals,
    projected,
    read_report,
)
from lm_tools_bridge.remote_hosts.link import Link
from manager.supervision.workspace import Workspace
from manager.upstream.failures import Blame, UpstreamFailure
from support.heard_calls import HeardCalls

HOST = Host("ssh", "build")
ROOT = "/srv/app"
ID = "a" * 20


def known(address: RemoteAddress) -> Workspace | None:
    """The only project that is used from here."""
    if str(address) != f"ssh://build{ROOT}":
        return None
    return cast("Workspace", SimpleNamespace(id="app-1", root=str(address)))


def call(identity: str = ID, **other: Any) -> dict[str, Any]:
    shown = {"id": identity, "root": ROOT, "tool": "run", "client": "c", "question": "Run run?"}
    return {**shown, "since": 90.0, "until": 160.0, "waits": True, "approved": None, **other}


def event(*calls: dict[str, Any], now: float = 100.0) -> bytes:
    return json.dumps({"now": now, "approvals": calls}).encode()


def shown(*calls: dict[str, Any], now: float = 1000.0) -> list[tuple[str, str, str]]:
    link = cast("Link", SimpleNamespace(name="build", host=HOST))
    report = read_report(event(*calls))
    assert report is not None
    return [(one.workspace, one.root, one.call.id) for one in projected(report, link, known, now)]


@pytest.mark.parametrize(
    "wrong",
    [
        {"root": "/srv/other"},
        {"root": "srv/app"},
        {"root": f"ssh://build{ROOT}"},
        {"root": "/srv/app/../app"},
        {"id": "short"},
        {"id": f"other:{ID}"},
        {"id": "A" * 20},
        {"id": "a" * 65},
        {"id": "<b>aaaaaaaa</b>"},
    ],
)
def test_a_call_of_no_project_used_from_here_or_with_no_id_is_not_shown(wrong: dict[str, Any]) -> None:
    assert shown(call(**wrong), call("b" * 20)) == [("app-1", f"ssh://build{ROOT}", "b" * 20)]


def test_a_list_without_end_is_cut_and_an_id_counts_once() -> None:
    many = [call(f"{n // 2:020}") for n in range(1000)]
    found = shown(*many)
    assert len(found) == MOST_CALLS == len(set(found))


def test_times_are_of_the_clock_here_whatever_the_host_says() -> None:
    link = cast("Link", SimpleNamespace(name="build", host=HOST))
    times = []
    for since, until in ((90.0, 160.0), (-1e300, 1e300), (1e300, -1e300)):
        report = read_report(event(call(since=since, until=until)))
        assert report is not None
        (one,) = projected(report, link, known, 1e6)
        times.append((one.call.since - 1e6, one.call.until - 1e6))
    assert times == [(-10.0, 60.0), (-LONGEST_S, LONGEST_S), (0.0, 0.0)]


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"[]",
        b'{"now":1e999,"approvals":[]}',
        b'{"now":NaN,"approvals":[]}',
        b'{"approvals":[]}',
        b'{"now":1,"approvals":[1]}',
        b'{"now":1,"approvals":[{"id":"x"}]}',
        b'{"now":1,"approvals":' + b"[" * 100_000,
        b"\xff",
    ],
)
def test_what_is_no_report_is_ignored(said: bytes) -> None:
    assert read_report(said) is None


class Stream:
    """An answer whose pieces are given."""

    def __init__(self, *pieces: bytes, status: int = 200, after: Exception | None = None) -> None:
        self.head = SimpleNamespace(status=status)
        self.pieces = list(pieces)
        self.after = after
        self.abandoned = False

    async def chunks(self) -> AsyncIterator[bytes]:
        while self.pieces:
            yield self.pieces.pop(0)
        if self.after is not None:
            raise self.after

    def take(self) -> list[bytes]:
        return []

    def abandon(self) -> None:
        self.abandoned = True


class Scene:
    """A line whose manager gives these answers, one after the other; then the line has ended."""

    def __init__(self, *streams: Stream, cpu: Callable[[], float] = lambda: 0.0) -> None:
        self.streams = list(streams)
        self.heard = HeardCalls()
        self.pauses: list[float] = []
        self.seen: list[list[str]] = []
        self.opened: list[Stream] = []
        self.line = cast("Any", object())
        self.link = cast(
            "Link",
            SimpleNamespace(
                name="build",
                host=HOST,
                line=self.line,
                tells_approvals=False,
                control=SimpleNamespace(open=self.open),
            ),
        )
        self.far = FarApprovals(known, self.heard, wall=lambda: 1000.0, cpu=cpu, sleep=self.sleep)

    async def open(self, target: str) -> Any:
        assert target == "/approvals/changes"
        if not self.streams:
            self.link.line = None
            raise UpstreamFailure(Blame.NOT_DELIVERED, "closed")
        self.opened.append(self.streams.pop(0))
        return self.opened[-1]

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.seen.append(self.heard.ids())
        await asyncio.sleep(0)

    async def hear(self) -> None:
        async with asyncio.timeout(10):
            await self.far.hear(self.link, self.line)


async def test_each_report_has_all_calls_and_the_last_one_of_a_piece_counts() -> None:
    first = sse.encode(event(call()))
    both = sse.encode(event(call("b" * 20))) + sse.encode(event(call("c" * 20)))
    scene = Scene(Stream(first, both, sse.KEEP_ALIVE))
    await scene.hear()
    assert scene.seen == [[f"build:{ID}"], [f"build:{'c' * 20}"], [f"build:{'c' * 20}"], [], []]
    assert scene.opened[0].abandoned


async def test_a_stream_that_breaks_off_is_opened_again_and_its_calls_are_forgotten() -> None:
    broken = UpstreamFailure(Blame.MAYBE_DELIVERED, "closed")
    scene = Scene(
        Stream(sse.encode(event(call())), after=broken),
        Stream(b"data: " + b"x" * MAX_EVENT * 2),
        Stream(status=503),
    )
    await scene.hear()
    assert len(scene.opened) == 3
    assert scene.heard.ids() == []
    assert scene.pauses.count(RETRY_S) == 4


@pytest.mark.parametrize("status", [403, 404])
async def test_a_manager_that_does_not_tell_is_asked_once(status: int) -> None:
    scene = Scene(Stream(status=status), Stream())
    await scene.hear()
    assert len(scene.opened) == 1
    assert not scene.link.tells_approvals


async def test_reports_become_rarer_where_they_cost_much() -> None:
    moments = iter([0.0, 0.001, 1.0, 1.5])
    scene = Scene(Stream(sse.encode(event()), sse.encode(event())), cpu=lambda: next(moments))
    await scene.hear()
    assert scene.pauses[:2] == [PAUSE_S, 0.5 / MOST_CPU]


async def test_the_end_of_a_line_does_not_forget_what_the_next_one_said() -> None:
    scene = Scene(Stream(sse.encode(event(call()))), Stream(sse.encode(event(call("b" * 20)))))
    paused = asyncio.Event()

    async def sleep(_: float) -> None:
        paused.set()
        await asyncio.Event().wait()

    far = FarApprovals(known, scene.heard, sleep=sleep)
    tasks = []
    for line in (scene.line, object()):
        scene.link.line = cast("Any", line)
        paused.clear()
        tasks.append(asyncio.create_task(far.hear(scene.link, cast("Any", line))))
        await paused.wait()
    tasks[0].cancel()
    await asyncio.wait(tasks[:1])
    assert scene.heard.ids() == [f"build:{'b' * 20}"]
    assert scene.link.tells_approvals
    tasks[1].cancel()
    await asyncio.wait(tasks[1:])
    assert scene.heard.ids() == []
