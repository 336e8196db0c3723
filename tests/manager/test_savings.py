"""What sharing saves: counted from what runs, with all that the manager itself takes subtracted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import pytest

from lm_tools_bridge.machine.process_trees import Footprint
from manager.savings import Savings, count_savings, savings_text

MB = 1_000_000


class FakeProcesses:
    """Processes of 20 MB, 10 of which are theirs alone. Pid 1 is the manager, 2 its fork server."""

    started: ClassVar = {1: [2], 2: [10], 100: [101, 102], 200: []}

    def footprint(self, pids: Iterable[int]) -> Footprint:
        count = len(set(pids))
        return Footprint(count, count * 10 * MB)

    def proportional_memory(self, pids: Iterable[int]) -> int:
        return len(set(pids)) * 20 * MB

    def family(self, pid: int) -> set[int]:
        return {pid, *(member for child in self.children(pid) for member in self.family(child))}

    def children(self, pid: int) -> list[int]:
        return self.started.get(pid, [])


def client(*pids: int, workspace: str = "shop", **members: Any) -> dict[str, Any]:
    return {
        "name": "codex-mcp-client", "state": "connected", "workspace": workspace, "pids": list(pids), **members,
    }  # fmt: skip


def source(pid: int | None, kind: str = "stdio") -> dict[str, Any]:
    return {"id": f"{kind}:git", "kind": kind, "pid": pid, "namespace": "git", "file": ".mcp.json"}


def status(clients: Iterable[dict[str, Any]], *sources: dict[str, Any]) -> dict[str, Any]:
    server = {"workspace": "shop", "pid": 10, "owner": "manager", "sources": list(sources)}
    return {"pid": 1, "instanceDetails": [server], "clientDetails": list(clients)}


def test_each_window_beyond_the_first_would_start_a_copy_of_each_server() -> None:
    saved = count_savings(
        status([client(n) for n in range(51, 55)], source(100), source(200)), FakeProcesses()
    )
    # 3 more copies of 3 and of 1 processes, without the manager, its fork server and the project's server
    assert saved == Savings(2, 4, 3 * 4 - 3, 3 * 40 * MB - 3 * 20 * MB, 3, 60 * MB)
    assert savings_text(saved) == (
        "9 processes and 60 MB: 2 MCP servers for 4 windows of agents, 3 processes and 60 MB of its own subtracted"
    )


def test_one_window_saves_nothing_and_it_is_said() -> None:
    saved = count_savings(status([client(51)], source(100)), FakeProcesses())
    assert saved is not None
    assert (saved.processes, saved.memory) == (-3, -60 * MB)
    assert savings_text(saved) == (
        "nothing yet: 1 MCP server for 1 window of agents, and 3 processes and 60 MB of its own"
    )


def test_sessions_of_one_process_are_one_window() -> None:
    saved = count_savings(status([client(51), client(51), client(52)], source(100)), FakeProcesses())
    assert saved is not None
    assert saved.windows == 2


def test_clients_whose_process_is_not_known_count_by_themselves() -> None:
    saved = count_savings(status([client(), client()], source(100)), FakeProcesses())
    assert saved is not None
    assert saved.windows == 2


@pytest.mark.parametrize(
    "clients",
    [
        [client(51, state="idle")],
        [client(51, workspace="blog")],
        [client(51, ownServers=[{"file": ".mcp.json", "names": ["git"], "allBut": False}])],
    ],
    ids=["is idle", "is in another project", "starts the server itself"],
)
def test_windows_that_do_not_use_a_server_save_nothing(clients: list[dict[str, Any]]) -> None:
    assert count_savings(status(clients, source(100)), FakeProcesses()) is None


def test_servers_without_a_process_here_save_nothing() -> None:
    assert count_savings(status([client(51)], source(None), source(100, "remote")), FakeProcesses()) is None
    assert savings_text(None) == "nothing yet: no MCP server runs for an agent"


def test_what_is_saved_at_the_cost_of_something_else_is_said_with_it() -> None:
    assert savings_text(Savings(1, 2, 4, -5 * MB, 3, 60 * MB)).startswith(
        "4 processes, but takes 5 MB more: 1 "
    )
    assert savings_text(Savings(1, 2, -1, 5 * MB, 3, 60 * MB)).startswith(
        "5 MB, but takes 1 process more: 1 "
    )


def test_a_status_of_another_version_is_read() -> None:
    assert count_savings({}, FakeProcesses()) is None
    assert count_savings({"clientDetails": "?", "instanceDetails": [7]}, FakeProcesses()) is None
