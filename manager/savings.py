"""Counts what sharing MCP servers saves now: processes and memory that would be there without it.

Without the manager, every window of an agent starts its own copy of each server that it uses. What runs is
counted, nothing is assumed: a window is a client that is connected in the project and does not start the
server itself, a copy costs the processes of the one that runs and the memory that only they hold, and all
that the manager itself takes is subtracted. So the truth is rather more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from lm_tools_bridge.machine import process_trees
from lm_tools_bridge.machine.process_trees import Footprint
from lm_tools_bridge.text.quantities import size
from manager.status_reading import clients_starting, objects


class Processes(Protocol):
    """The processes of this machine (`lm_tools_bridge.machine.process_trees`)."""

    def footprint(self, pids: Iterable[int]) -> Footprint:
        """The footprint of these processes."""

    def proportional_memory(self, pids: Iterable[int]) -> int:
        """Their memory in bytes, in which what several share counts once."""

    def family(self, pid: int) -> set[int]:
        """A process with all that it started."""

    def children(self, pid: int) -> list[int]:
        """The processes that a process started."""


class Savings(NamedTuple):
    """What is saved now.

    Attributes:
        servers: how many MCP servers run for windows.
        windows: windows that share them.
        processes: how many more processes there would be; negative if there would be fewer.
        memory: how many more bytes; likewise.
        own_processes, own_memory: what the manager and its own servers take, which is subtracted already.
    """

    servers: int
    windows: int
    processes: int
    memory: int
    own_processes: int
    own_memory: int

    def as_json(self) -> dict[str, int]:
        """The members of a JSON object; memory in bytes."""
        return {
            "servers": self.servers,
            "windows": self.windows,
            "processes": self.processes,
            "bytes": self.memory,
            "ownProcesses": self.own_processes,
            "ownBytes": self.own_memory,
        }


class _SharedServer(NamedTuple):
    """A server that runs, and the windows that use it."""

    pid: int
    windows: frozenset[object]


def count_savings(status: Mapping[str, Any], processes: Processes = process_trees) -> Savings | None:
    """What is saved now; None if no MCP server runs for a window on this machine.

    Args:
        status: what `/mcp/status` shows.
    """
    servers = list(_shared_servers(status))
    if not servers:
        return None
    copies, memory = 0, 0
    for server in servers:
        cost = processes.footprint(processes.family(server.pid))
        # one of the windows would have the copy that runs
        copies += (len(server.windows) - 1) * cost.processes
        memory += (len(server.windows) - 1) * cost.own
    own = _own_pids(status, processes)
    own_processes, own_memory = processes.footprint(own).processes, processes.proportional_memory(own)
    windows = frozenset[object]().union(*(server.windows for server in servers))
    return Savings(
        len(servers), len(windows), copies - own_processes, memory - own_memory, own_processes, own_memory
    )


def savings_text(savings: Savings | None) -> str:
    """One line, the same wherever it is shown."""
    if savings is None:
        return "nothing yet: no MCP server runs for an agent"
    shared = f"{_number(savings.servers, 'MCP server')} for {_number(savings.windows, 'window')} of agents"
    own = f"{_number(savings.own_processes, 'process')} and {size(savings.own_memory)} of its own"
    if savings.processes <= 0 and savings.memory <= 0:
        return f"nothing yet: {shared}, and {own}"
    return f"{_saved(savings)}: {shared}, {own} subtracted"


def _saved(savings: Savings) -> str:
    """What is saved; where one of both costs more than it saves, that is said."""
    processes, memory = _number(abs(savings.processes), "process"), str(size(abs(savings.memory)))
    if savings.memory < 0:
        return f"{processes}, but takes {memory} more"
    return f"{memory}, but takes {processes} more" if savings.processes < 0 else f"{processes} and {memory}"


def _number(count: int, thing: str) -> str:
    if count == 1:
        return f"1 {thing}"
    return f"{count:,} {thing}{'es' if thing.endswith('s') else 's'}"


def _shared_servers(status: Mapping[str, Any]) -> Iterator[_SharedServer]:
    clients = [row for row in objects(status, "clientDetails") if row.get("state") == "connected"]
    for instance in objects(status, "instanceDetails"):
        workspace = str(instance.get("workspace"))
        here = [row for row in clients if row.get("workspace") == workspace]
        for source in objects(instance, "sources"):
            pid = source.get("pid")
            if source.get("kind") == "stdio" and isinstance(pid, int):
                windows = frozenset(_windows(here, workspace, source))
                if windows:
                    yield _SharedServer(pid, windows)


def _windows(
    clients: Iterable[Mapping[str, Any]], workspace: str, source: Mapping[str, Any]
) -> Iterator[object]:
    """What tells the windows apart that use a server: their processes, or their rows where none is known."""
    file, namespace = str(source.get("file")), str(source.get("namespace"))
    for number, row in enumerate(clients):
        if clients_starting({"clientDetails": [row]}, workspace, file, namespace):
            continue  # it has a copy of its own, so nothing is saved
        pids = row.get("pids")
        yield from pids if isinstance(pids, list) and pids else [(workspace, number)]


def _own_pids(status: Mapping[str, Any], processes: Processes) -> set[int]:
    """The manager, what it starts for itself, and the servers of projects.

    Language servers and scripts are left out: they are no copies of what agents start.
    """
    pids = {
        server.get("pid") for server in objects(status, "instanceDetails") if server.get("owner") == "manager"
    }
    manager = status.get("pid")
    if isinstance(manager, int):
        pids |= {manager, *processes.children(manager)}
    return {pid for pid in pids if isinstance(pid, int)}
