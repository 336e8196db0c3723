"""Asks the manager for everything that one frame of `lmtb top` shows."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol

from manager.client import ControlRefusal, ManagerFault, NoManager
from manager.savings import Savings, count_savings
from manager.status_reading import objects

IDLE_S: Final = 5.0
"""Seconds after which a workspace without calls is asked again, for the state of its sources."""
Usage = tuple[int, float]
"""Resident memory in bytes, and processor time in seconds."""


class Asks(Protocol):
    """The requests to the control socket."""

    def get(self, target: str) -> dict[str, Any]:
        """See `manager.client.Control`."""

    def post(self, target: str, payload: Mapping[str, object]) -> dict[str, Any]:
        """See `manager.client.Control`."""


class WorkspaceCalls(NamedTuple):
    """The calls of a workspace at a time, and how many there had been in all."""

    at: float
    total: object
    answer: Mapping[str, Any]


class Sample(NamedTuple):
    """What is known at one time. `calls` is by workspace, `usage` by process id."""

    at: float
    status: Mapping[str, Any]
    calls: Mapping[str, WorkspaceCalls]
    usage: Mapping[int, Usage]
    savings: Savings | None = None


class Sampler:
    """Takes samples. A workspace is asked for its calls if there were any since, else every few seconds.

    Args:
        control: the control socket.
        usage_of: memory and processor time of a process.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        control: Asks,
        usage_of: Callable[[int], Usage | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._control = control
        self._usage_of = usage_of
        self._clock = clock
        self._calls: dict[str, WorkspaceCalls] = {}

    def take(self) -> Sample:
        """Take a sample.

        Raises:
            NoManager: no manager runs.
            ManagerFault: it does not answer as it should.
            ControlRefusal: it refused.
        """
        status = self._control.get("/mcp/status")
        at = self._clock()
        servers = [
            instance for instance in objects(status, "instanceDetails") if instance.get("owner") == "manager"
        ]
        self._calls = {
            str(instance.get("workspace")): calls
            for instance in servers
            if (calls := self._calls_of(instance, at)) is not None
        }
        return Sample(at, status, dict(self._calls), self._usages(), count_savings(status))

    def _calls_of(self, server: Mapping[str, Any], at: float) -> WorkspaceCalls | None:
        last_calls, total = self._calls.get(str(server.get("workspace"))), server.get("calls")
        is_busy = bool(server.get("inFlight") or server.get("tasks"))
        was_busy = last_calls is not None and bool(objects(last_calls.answer, "running"))
        is_recent = last_calls is not None and at - last_calls.at < IDLE_S
        if (
            last_calls is not None
            and is_recent
            and last_calls.total == total
            and not is_busy
            and not was_busy
        ):
            return last_calls
        with suppress(NoManager, ManagerFault, ControlRefusal):
            return WorkspaceCalls(at, total, self._control.post("/calls", {"cwd": server.get("root")}))
        return None  # the server ended meanwhile

    def _usages(self) -> dict[int, Usage]:
        all_calls = self._calls.values()
        pids = [source.get("pid") for calls in all_calls for source in objects(calls.answer, "sources")]
        usages = {pid: self._usage_of(pid) for pid in pids if isinstance(pid, int)}
        return {pid: usage for pid, usage in usages.items() if usage is not None}
