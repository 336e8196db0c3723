"""Tests `/metrics` and the figures of the status through the real application."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import ClientSession, UnixConnector
from prometheus_client.parser import text_string_to_metric_families

from lm_tools_bridge.protocol import jsonrpc
from manager.admin.prometheus_text import CONTENT_TYPE
from support.clients.askable_client import AskableClient
from support.clients.raw_clients import EVENTS, Client
from support.clock import AdvancedTime
from support.http.event_stream import next_message
from support.projects.gateway import eventually
from support.projects.registered_setup import RegisteredSetup, registered_setup
from support.servers.scripted.scripted_workspace_server import COMPLETE, broken_off, held, result

pytestmark = pytest.mark.asyncio(loop_scope="module")
QUESTION = {
    "resultType": "input_required",
    "inputRequests": {
        "q": {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {}}}
    },
    "requestState": "s",
}
ERAS = pytest.mark.parametrize("era", ["modern", "legacy"])
LONG_S = 8.0
"""Seconds that nothing takes but what a test puts the clock forward for."""
# the recorder writes calls in a thread of its own: these series come and grow whenever it has written
WRITTEN_LATER = ("lmtb_recorded_calls", "lmtb_tool_calls")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def setup(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RegisteredSetup]:
    async with registered_setup(tmp_path_factory.mktemp("metrics")) as running:
        running.upstream.answers |= {"small": result(COMPLETE), "breaks off": broken_off(b"{", 500)}
        yield running


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> AdvancedTime:
    return AdvancedTime(monkeypatch)


async def client_of(setup: RegisteredSetup, era: str) -> Client:
    return setup.modern() if era == "modern" else await setup.legacy()


async def collected(setup: RegisteredSetup) -> dict[str, float]:
    """Samples of the scripted workspace by name and further labels, and those without labels."""
    async with setup.http.get(f"{setup.manager.base}/metrics") as response:
        assert response.status == 200
        assert response.content_type == "text/plain"
        text = await response.text()
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {
        " ".join([one.name, *_further(one.labels)]): one.value for one in samples if "le" not in one.labels
    }


def _further(labels: dict[str, str]) -> list[str]:
    return [value for name, value in sorted(labels.items()) if name != "workspace"]


async def grown(setup: RegisteredSetup, before: dict[str, float]) -> dict[str, float]:
    after = await collected(setup)
    told = {name: value - before.get(name, 0.0) for name, value in after.items() if name.startswith("lmtb_")}
    return {
        name: value
        for name, value in told.items()
        if value
        and not any(other in name for other in ("loop_lag", "lmtb_workspaces", "_sum"))
        and not name.startswith(WRITTEN_LATER)
    }


@ERAS
async def test_a_call_is_counted_and_timed_at_both_hops(era: str, setup: RegisteredSetup) -> None:
    """The first as those that are known by it."""
    caller, times = await client_of(setup, era), 6
    before = await collected(setup)
    for _ in range(times):
        await caller.call("small")
    counted = await grown(setup, before)
    calls = "lmtb_call_duration_seconds_count"
    # the first of a second looks at the disk before it is sent
    assert counted.pop("lmtb_wait_duration_seconds_count start", 0) < times
    counted.pop("lmtb_wait_duration_seconds_count connection", 0)
    assert counted == {"lmtb_calls_total": times, f"{calls} manager": times, f"{calls} server": times}


@ERAS
async def test_the_servers_time_is_not_the_managers(
    era: str, setup: RegisteredSetup, clock: AdvancedTime
) -> None:
    gate, name = asyncio.Event(), f"slow {era}"
    setup.upstream.answers[name] = held(gate, result(COMPLETE))
    caller = await client_of(setup, era)
    before = await collected(setup)
    call = asyncio.create_task(caller.call(name))
    await setup.upstream.arrival(name)
    assert (await collected(setup))["lmtb_in_flight"] == 1
    clock.advance(LONG_S)
    gate.set()
    await call
    after = await collected(setup)
    took = {
        hop: after[f"lmtb_call_duration_seconds_sum {hop}"]
        - before.get(f"lmtb_call_duration_seconds_sum {hop}", 0.0)
        for hop in ("manager", "server")
    }
    assert took["server"] >= LONG_S > took["manager"] > 0
    assert after["lmtb_in_flight"] == 0


@ERAS
async def test_a_failure_is_counted_by_its_reason(era: str, setup: RegisteredSetup) -> None:
    caller = await client_of(setup, era)
    before = await collected(setup)
    await caller.call("breaks off")
    assert (await grown(setup, before))["lmtb_errors_total workspace_server_died"] == 1


async def test_a_new_connection_is_a_wait(setup: RegisteredSetup) -> None:
    gate = asyncio.Event()
    setup.upstream.answers["together"] = held(gate, result(COMPLETE))
    caller, before = setup.modern(), await collected(setup)
    calls = [asyncio.create_task(caller.call("together")) for _ in range(12)]

    async def all_there() -> bool:
        return len(setup.upstream.called("together")) == len(calls)

    await eventually(all_there)
    gate.set()
    await asyncio.gather(*calls)
    counted = await grown(setup, before)
    assert counted["lmtb_wait_duration_seconds_count connection"] >= 1
    assert counted["lmtb_calls_total"] == 12


async def test_time_in_input_requests_counts_for_neither_hop(
    setup: RegisteredSetup, clock: AdvancedTime
) -> None:
    setup.upstream.answers["asks"] = result(QUESTION)
    caller = await AskableClient.connect(setup.http, setup.pure_url)
    before = await collected(setup)
    async with caller.open(caller.body("tools/call", {"name": "asks", "arguments": {}}, 7)) as response:
        asked = await next_message(response)
        setup.upstream.answers["asks"] = result(COMPLETE)
        clock.advance(LONG_S)  # how long the client takes
        await caller.post(jsonrpc.result(jsonrpc.dumps(asked["id"]), {"action": "accept", "content": {}}))
        assert (await next_message(response))["id"] == 7
    after = await collected(setup)
    took = [
        after[f"lmtb_call_duration_seconds_sum {hop}"]
        - before.get(f"lmtb_call_duration_seconds_sum {hop}", 0.0)
        for hop in ("manager", "server")
    ]
    assert sum(took) < LONG_S
    assert after["lmtb_calls_total"] - before["lmtb_calls_total"] == 2


async def test_a_call_for_which_there_is_no_room_is_an_error(tmp_path: Path) -> None:
    async with registered_setup(tmp_path, workspace_in_flight_limit=1) as crowded:
        gate = asyncio.Event()
        crowded.upstream.answers["held"] = held(gate, result(COMPLETE))
        first = asyncio.create_task(crowded.modern().call("held"))
        await crowded.upstream.arrival("held")
        await crowded.modern().call("held")
        counted = await collected(crowded)
        gate.set()
        await first
    assert (counted["lmtb_errors_total overloaded"], counted["lmtb_calls_total"]) == (1, 1)


async def test_lists_are_not_counted_as_calls(setup: RegisteredSetup) -> None:
    caller = setup.modern()
    await caller.call("small")
    before = await collected(setup)
    await caller.ask("tools/list")
    assert await grown(setup, before) == {}


async def test_status_shows_percentiles_of_workspaces_and_of_all(setup: RegisteredSetup) -> None:
    await setup.modern(accept=EVENTS).call("small")
    async with setup.http.get(f"{setup.manager.base}/mcp/status") as response:
        shown: dict[str, Any] = await response.json()
    [workspace] = shown["workspaceDetails"]
    for figures in (workspace, shown["figures"]):
        for hop in (figures["serverMs"], figures["managerMs"]):
            assert 0 < hop["p50"] <= hop["p99"] < 20_000
    members = ("calls", "errors", "inFlight")
    assert [shown["figures"][one] for one in members] == [workspace[one] for one in members]


async def test_metrics_are_served_on_the_control_socket_too(setup: RegisteredSetup) -> None:
    connector = UnixConnector(str(setup.manager.paths.control_socket))
    async with ClientSession(connector=connector) as http, http.get("http://socket/metrics") as response:
        assert response.headers["Content-Type"] == CONTENT_TYPE
        assert "lmtb_sessions " in await response.text()


async def test_collecting_at_the_same_time_gives_each_a_whole_page(setup: RegisteredSetup) -> None:
    pages = await asyncio.gather(*(collected(setup) for _ in range(5)))
    names = [frozenset(name for name in page if not name.startswith(WRITTEN_LATER)) for page in pages]
    assert frozenset.union(*names) - frozenset.intersection(*names) == frozenset()
