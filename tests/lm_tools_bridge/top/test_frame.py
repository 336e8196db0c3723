"""Frames of `lmtb top`: rates, order, and what a small screen leaves out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from lm_tools_bridge.terminal.lines import plain
from lm_tools_bridge.top.frame import frame, views
from lm_tools_bridge.top.sample import IDLE_S, Sample, Sampler, WorkspaceCalls
from manager.client import ControlRefusal


def status(calls: int, *, pid: int = 1, cpu: float = 1.0, server_pid: int = 7, **more: Any) -> dict[str, Any]:
    server = {
        "workspace": "shop-1", "root": "/shop", "state": "ready", "pid": server_pid, "calls": calls, "inFlight": 1,
        "cpuSec": cpu, "owner": "manager", "rssBytes": 40_000_000,
    }  # fmt: skip
    return {
        "pid": pid, "state": "ready", "version": "1", "uptimeSec": 5, "cpuSec": cpu, "rssBytes": 50_000_000,
        "figures": {"calls": calls, "inFlight": 1}, "connectedClients": 2, "sessions": 1, "streams": 0,
        "workspaceDetails": [{"id": "shop-1", "root": "/shop", "state": "ready", "calls": calls}],
        "instanceDetails": [server], **more,
    }  # fmt: skip


SOURCE = {"id": "stdio:stock", "kind": "stdio", "state": "ready", "pid": 9, "inFlight": 0}


def calls(*, at: float = 0.0, running: int = 0, ended: int = 0) -> WorkspaceCalls:
    answer = {
        "running": [{"tool": f"run{n}", "client": "codex", "ms": n * 1000.0} for n in range(running)],
        "ended": [{"tool": f"end{n}", "ms": 3.0, "outcome": "ok", "ageSec": float(n)} for n in range(ended)],
        "sources": [SOURCE],
    }
    return WorkspaceCalls(at, 0, answer)


def sample(at: float, total: int, found: WorkspaceCalls | None = None, **more: Any) -> Sample:
    return Sample(at, status(total, **more), {"shop-1": found or calls()}, {9: (8_000_000, at)})


def test_rates_are_those_between_two_samples() -> None:
    made = frame(sample(12.0, 30, cpu=2.0), sample(10.0, 10, cpu=1.0))
    assert (made["manager"]["callsPerSec"], made["manager"]["cpuPercent"]) == (10.0, 50.0)
    shop, stock = made["servers"]
    assert (shop["callsPerSec"], shop["cpuPercent"], shop["source"]) == (10.0, 50.0, None)
    assert (stock["source"], stock["rssBytes"], stock["cpuPercent"]) == ("stdio:stock", 8_000_000, 100.0)


def test_first_frame_and_that_of_another_manager_have_no_rates() -> None:
    for before in (None, sample(10.0, 10, pid=2)):
        made = frame(sample(12.0, 3), before)
        assert made["manager"]["callsPerSec"] is None
        assert made["servers"][0]["callsPerSec"] is None


def test_restarted_server_has_no_share_of_the_processor_yet() -> None:
    made = frame(sample(12.0, 30, cpu=0.1, server_pid=8), sample(10.0, 10))
    assert made["servers"][0]["cpuPercent"] is None


def test_running_calls_come_first_and_the_longest_of_them() -> None:
    made = frame(sample(5.0, 1, calls(at=4.0, running=2, ended=2)), None)
    found = [(one["tool"], one["state"], one["ageSec"]) for one in made["calls"]]
    assert found == [
        ("run1", "running", None), ("run0", "running", None), ("end0", "ok", 1.0), ("end1", "ok", 2.0),
    ]  # fmt: skip


def test_status_of_an_older_manager_can_be_shown() -> None:
    made = frame(Sample(1.0, {"pid": 1, "workspaceDetails": [{"id": "a"}]}, {}, {}), None)
    text = plain(*views(made))
    assert "LM Tools Bridge ? is running (pid 1)" in text
    assert "no calls yet" in text


def test_screen_keeps_what_is_busy() -> None:
    idle = [{"id": f"idle-{n}", "root": "/", "state": "stopped", "inFlight": 0} for n in range(30)]
    busy = status(1)["workspaceDetails"]
    made = frame(sample(1.0, 1, calls(running=1, ended=30), workspaceDetails=[*idle, *busy]), None)
    text = plain(*views(made, height=24))
    assert "run0" in text
    assert "shop-1" in text.partition("SERVER")[2]
    assert re.search(r"^and \d+ more$", text, re.MULTILINE)
    assert text.count("\n") + 1 <= 24 - 2, "and the last two lines"
    assert plain(*views(made)).count("idle-") == 30


def test_text_from_outside_cannot_act_on_the_terminal() -> None:
    found = WorkspaceCalls(0, 0, {"running": [{"tool": "a\x1b[2Jb", "client": "c\nd", "ms": 1.0}]})
    assert "\x1b" not in plain(*views(frame(sample(1.0, 1, found), None)))


class Manager:
    """A control socket that counts how often it is asked for calls."""

    def __init__(self) -> None:
        self.status, self.asked, self.is_gone = status(1), 0, False

    def get(self, target: str) -> dict[str, Any]:
        return self.status

    def post(self, target: str, payload: Mapping[str, object]) -> dict[str, Any]:
        assert (target, payload) == ("/calls", {"cwd": "/shop"})
        self.asked += 1
        if self.is_gone:
            raise ControlRefusal(503, "workspace_server_offline")
        return {"running": [], "ended": [], "sources": [SOURCE]}


def test_workspace_without_new_calls_is_asked_every_few_seconds_only() -> None:
    manager, now = Manager(), [0.0]
    manager.status["instanceDetails"][0]["inFlight"] = 0
    sampler = Sampler(manager, lambda _: (1, 0.0), lambda: now[0])
    for now[0] in (0.0, 1.0, 2.0):
        assert sampler.take().usage == {9: (1, 0.0)}
    assert manager.asked == 1
    manager.status["instanceDetails"][0]["calls"] = 2
    sampler.take()
    assert manager.asked == 2
    now[0] += IDLE_S
    sampler.take()
    assert manager.asked == 3


def test_server_that_ended_meanwhile_has_no_calls() -> None:
    manager = Manager()
    manager.is_gone = True
    assert Sampler(manager, lambda _: None).take().calls == {}
