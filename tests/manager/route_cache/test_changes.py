"""Cached calls while something changes, between two calls and during one."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from lm_tools_bridge.protocol import names
from manager.relay import direct_relay
from manager.supervision import workspaces
from support.http.client_connection import Known, RawConnection, calls_known_again, connected, sent, warmed
from support.projects.registered_setup import RegisteredSetup, registered_setup
from support.servers.scripted.scripted_answers import ANSWERS, PLAIN_RESULT
from support.servers.scripted.scripted_workspace_server import (
    COMPLETE,
    Received,
    ScriptedWorkspaceServer,
    held,
    never,
    result,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")
ERAS = pytest.mark.parametrize("era", ["modern", "legacy"])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def setup(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RegisteredSetup]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workspaces, "ROOT_CHECK_S", 60)  # nothing has to be looked at for what a test sends
        async with registered_setup(tmp_path_factory.mktemp("fast")) as running:
            yield running


@pytest.fixture
def known() -> Iterator[Known]:
    with calls_known_again() as found:
        yield found


@contextlib.asynccontextmanager
async def another(
    setup: RegisteredSetup, root: Path, **members: Any
) -> AsyncIterator[ScriptedWorkspaceServer]:
    """Start another workspace server."""
    root.mkdir(exist_ok=True)
    server = ScriptedWorkspaceServer(root, setup.manager.paths.control_socket)
    for name, value in members.items():
        setattr(server, name, value)
    async with server.serving():
        yield server


async def under_way(client: RawConnection, known: Known, identity: Any = 7) -> asyncio.Task[Any]:
    """Start a cached call, which is not answered yet."""
    before = len(known)
    call = asyncio.create_task(client.call("t", identity))
    await sent(known, before + 1)
    return call


async def status(setup: RegisteredSetup) -> dict[str, Any]:
    async with setup.http.get(f"{setup.manager.base}/mcp/status") as response:
        shown: dict[str, Any] = await response.json()
        return shown


async def figures(setup: RegisteredSetup) -> tuple[int, int]:
    """The number of calls so far, and of those in flight."""
    shown = [
        one for one in (await status(setup))["workspaceDetails"] if one["root"] == str(setup.upstream.root)
    ]
    return shown[0]["calls"], shown[0]["inFlight"]


# -- sessions ----------------------------------------------------------------------------------------------


async def test_an_ended_session_is_unknown_at_once(setup: RegisteredSetup, known: Known) -> None:
    async with warmed(setup, "legacy", "t") as client:
        delete = client.request(b"").replace(b"POST", b"DELETE", 1)
        assert (await client.send(delete)).status == 200
        count = len(known)
        assert (await client.call("t")).status == 404
        assert len(known) == count


async def test_the_end_of_a_session_cancels_its_calls(setup: RegisteredSetup, known: Known) -> None:
    async with warmed(setup, "legacy", "t") as client, client.other() as other:
        setup.upstream.answers["t"] = never
        call = await under_way(client, known)
        assert (await other.send(client.request(b"").replace(b"POST", b"DELETE", 1))).status == 200
        assert ((await call).status, (await call).body) == (202, b"")
    assert (await figures(setup))[1] == 0


async def test_an_idle_session_expires(setup: RegisteredSetup, known: Known) -> None:
    async with warmed(setup, "legacy", "t") as client:
        session = known.session
        assert session is not None
        session.seen -= 10**6
        count = len(known)
        assert (await client.call("t")).status == 404
        assert len(known) == count


async def test_each_cached_call_extends_its_session(setup: RegisteredSetup, known: Known) -> None:
    async with warmed(setup, "legacy", "t") as client:
        session = known.session
        assert session is not None
        session.seen -= 100
        seen, count = session.seen, len(known)
        await client.call("t")
        assert len(known) == count + 1
        assert session.seen >= seen + 100


async def test_a_recovered_session_does_not_use_the_old_route(setup: RegisteredSetup, known: Known) -> None:
    """It has the same id, and the workspace that the handshake names."""
    async with warmed(setup, "legacy", "t") as client:
        former = known.session
        await client.send(client.request(b"").replace(b"POST", b"DELETE", 1))
        cwd = {"cwd": str(setup.upstream.root)}
        assert (await client.call(names.HANDSHAKE, 1, cwd)).payload["ok"] is True
        count = len(known)
        for _ in range(5):
            assert (await client.call("t")).status == 200
        assert len(known) > count
        assert known.session is not former


async def test_a_session_may_choose_another_workspace(
    setup: RegisteredSetup, known: Known, tmp_path: Path
) -> None:
    async with warmed(setup, "legacy", "t") as client, another(setup, tmp_path / "b") as other:
        for server in (other, setup.upstream, other):
            chosen = await client.call(names.HANDSHAKE, 1, {"cwd": str(server.root)})
            assert chosen.payload["ok"] is True
            for identity in (2, 3, 4):
                count = len(server.called("t"))
                await client.call("t", identity)
                assert len(server.called("t")) == count + 1
        assert {one.located.workspace.root for one in known} == {str(other.root), str(setup.upstream.root)}


@pytest.mark.parametrize("name", ["error", "with a line end"])
async def test_a_workspace_change_during_a_call_is_kept(
    name: str, setup: RegisteredSetup, known: Known, tmp_path: Path
) -> None:
    """The call is answered by the first workspace, and its route is not cached."""
    async with (
        another(setup, tmp_path / "chosen", answers={"t": PLAIN_RESULT}) as server,
        warmed(setup, "legacy", "t") as client,
        client.other() as other,
    ):
        gate, before = asyncio.Event(), len(known)
        setup.upstream.answers["t"] = held(gate, ANSWERS[name])
        first = asyncio.create_task(client.call("t", 7))
        await sent(known, before + 1)
        chosen = await other.call(names.HANDSHAKE, 1, {"cwd": str(server.root)})
        assert chosen.payload["ok"] is True
        await other.call("t", 20)
        gate.set()
        assert (await first).message["id"] == 7
        count = len(setup.upstream.called("t"))
        for number in range(4):
            assert (await other.call("t", 30 + number)).status == 200
            assert server.called("t")[-1].message["id"] == 30 + number
        assert len(setup.upstream.called("t")) == count


async def test_a_log_level_applies_from_the_next_call_on(setup: RegisteredSetup, known: Known) -> None:
    async with warmed(setup, "legacy", "t") as client:
        for level in ("debug", "error", "debug"):
            body = {"jsonrpc": "2.0", "id": 1, "method": names.SET_LEVEL, "params": {"level": level}}
            assert (await client.send(client.request(json.dumps(body).encode()))).status == 200
            for _ in range(3):
                await client.call("t")
                assert setup.upstream.called("t")[-1].params["_meta"][names.META_LOG_LEVEL] == level
    assert len({one.profile for one in known}) == 3


async def test_a_session_may_call_several_tools(setup: RegisteredSetup, known: Known) -> None:
    async with warmed(setup, "legacy", "t") as client:
        for name in ("t0", "t1", "t2"):
            setup.upstream.answers[name] = result({"content": [{"type": "text", "text": name}]})
            await client.call(name)
        count = len(known)
        for name in ("t0", "t1", "t2", "t1", "t1", "t0"):
            assert (await client.call(name)).result["content"][0]["text"] == name
        assert len(known) == count + 6


# -- servers, and their workspaces ---------------------------------------------------------------------------


@ERAS
async def test_a_server_with_a_new_address_gets_the_next_call(
    era: str, setup: RegisteredSetup, known: Known, tmp_path: Path
) -> None:
    """The server registers again with another address; the old one still listens."""
    async with another(setup, tmp_path / "b") as first:
        here = RegisteredSetup(setup.manager, first, setup.http)
        async with warmed(here, era, "t") as client:
            members = {"session_id": first.session_id, "folders": first.folders, "secret": first.secret}
            first.is_silent = True  # it would move back
            async with another(setup, first.root, **members) as second:
                for count in (1, 2, 3):
                    assert (await client.call("t")).status == 200
                    assert len(second.called("t")) == count
    assert known[-1].instance.port == second.port


@ERAS
async def test_a_deleted_root_is_noticed(
    era: str, setup: RegisteredSetup, known: Known, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        another(setup, tmp_path / "b") as server,
        warmed(RegisteredSetup(setup.manager, server, setup.http), era, "t") as client,
    ):
        count = len(known)
        server.root.rename(tmp_path / "c")
        monkeypatch.setattr(workspaces, "ROOT_CHECK_S", -1)
        answer = await client.call("t")
        assert b"workspace gone" in answer.body or b"cwd is missing" in answer.body
        assert len(known) == count
        (tmp_path / "c").rename(server.root)
        monkeypatch.setattr(workspaces, "ROOT_CHECK_S", 60)
        for _ in range(3):
            assert (await client.call("t")).result["content"] == COMPLETE["content"]
        assert len(known) > count


async def dies(request: web.Request, received: Received) -> web.StreamResponse:
    """Close the connection without a response."""
    assert request.transport is not None
    request.transport.abort()
    raise ConnectionResetError


@ERAS
async def test_a_server_that_dies_during_a_call_is_reported_and_dropped(
    era: str, setup: RegisteredSetup, known: Known
) -> None:
    """The call is not sent again."""
    async with warmed(setup, era, "t") as client:
        for _ in range(2):
            setup.upstream.answers["t"] = dies
            count, arrived = len(known), len(setup.upstream.called("t"))
            answer = await client.call("t")
            assert (len(known), len(setup.upstream.called("t"))) == (count + 1, arrived + 1)
            assert b"died during the call" in answer.body
            setup.upstream.answers["t"] = PLAIN_RESULT
            for _ in range(2):
                assert (await client.call("t")).result["content"] == COMPLETE["content"]
    assert (await figures(setup))[1] == 0


# -- during a call -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("patience_s", [0.05, 5.0])
@ERAS
async def test_a_late_answer_is_relayed(
    era: str, patience_s: float, setup: RegisteredSetup, known: Known, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct_relay, "PATIENCE_S", patience_s)
    async with warmed(setup, era, "t") as client:
        gate = asyncio.Event()
        setup.upstream.answers["t"] = held(gate, PLAIN_RESULT)
        call = await under_way(client, known)
        await asyncio.sleep(0.12)  # it is late now, or not
        assert (await figures(setup))[1] == 1
        gate.set()
        assert (await call).result["content"] == COMPLETE["content"]
        count = len(known)
        await client.call("t")
        assert len(known) == count + 1
    assert (await figures(setup))[1] == 0


@pytest.mark.parametrize("patience_s", [0.03, 5.0])
@pytest.mark.parametrize("identity", [7, "seven"])
async def test_a_cancelled_call_of_a_session_gets_202_without_a_body(
    identity: Any, patience_s: float, setup: RegisteredSetup, known: Known, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct_relay, "PATIENCE_S", patience_s)
    async with warmed(setup, "legacy", "t") as client, client.other() as other:
        setup.upstream.answers["t"] = never
        call = await under_way(client, known, identity)
        await asyncio.sleep(0.06)
        received = setup.upstream.called("t")[-1]
        body = {"jsonrpc": "2.0", "method": names.CANCELLED, "params": {"requestId": identity}}
        assert (await other.send(other.request(json.dumps(body).encode()))).status == 202
        assert ((await call).status, (await call).body) == (202, b"")
        await asyncio.wait_for(received.gone.wait(), 5)
        setup.upstream.answers["t"] = PLAIN_RESULT
        assert (await client.call("t", identity)).status == 200  # the id is free again
    assert (await figures(setup))[1] == 0


async def test_a_cancellation_affects_only_its_session_and_call(setup: RegisteredSetup, known: Known) -> None:
    async with warmed(setup, "legacy", "t") as client, client.other() as other:
        gate = asyncio.Event()
        setup.upstream.answers["t"] = held(gate, PLAIN_RESULT)
        call = await under_way(client, known, 7)
        other_session = await connected(setup, "legacy", "t")
        for sender, identity in ((other, "7"), (other, 8), (other_session, 7)):
            body = {"jsonrpc": "2.0", "method": names.CANCELLED, "params": {"requestId": identity}}
            assert (await sender.send(sender.request(json.dumps(body).encode()))).status == 202
        other_session.close()
        gate.set()
        assert (await call).status == 200


@ERAS
@pytest.mark.parametrize("patience_s", [0.03, 5.0])
async def test_a_disconnect_cancels_only_a_stateless_clients_call(
    era: str, patience_s: float, setup: RegisteredSetup, known: Known, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the direct relay and in a task."""
    monkeypatch.setattr(direct_relay, "PATIENCE_S", patience_s)
    gate = asyncio.Event()
    async with warmed(setup, era, "t") as client:
        setup.upstream.answers["t"] = held(gate, PLAIN_RESULT)
        arrived = len(setup.upstream.called("t"))
        call = await under_way(client, known)
        async with asyncio.timeout(5):
            while len(setup.upstream.called("t")) == arrived:
                await asyncio.sleep(0.001)
        await asyncio.sleep(0.06)
        client.close()
        received = setup.upstream.called("t")[-1]
        if era == "modern":
            await asyncio.wait_for(received.gone.wait(), 5)
        else:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(received.gone.wait(), 0.1)
        gate.set()
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await call
    async with asyncio.timeout(5):
        while (await figures(setup))[1]:
            await asyncio.sleep(0.01)


# -- figures, limits, and the end ----------------------------------------------------------------------------


@ERAS
async def test_cached_calls_are_counted_and_recorded(era: str, setup: RegisteredSetup, known: Known) -> None:
    """Nothing stays in flight."""
    async with warmed(setup, era, "t") as client:
        (before, _), count = await figures(setup), len(known)
        for _ in range(5):
            await client.call("t")
            await asyncio.sleep(0.011)  # of calls in quick succession not each is noted
        assert (await figures(setup)) == (before + 5, 0)
        assert len(known) == count + 5
        row = (await status(setup))["clients"][-1]
        assert (row["era"], len(row["requests"])) == (era, 5)
        for request in row["requests"]:
            assert request["method"] == names.TOOLS_CALL
            assert request["workspace"] == known[-1].located.workspace.id
            assert request["source"] == known[-1].located.source.value


@ERAS
async def test_a_call_above_the_limit_is_refused(era: str, tmp_path: Path, known: Known) -> None:
    async with (
        registered_setup(tmp_path, workspace_in_flight_limit=1) as crowded,
        warmed(crowded, era, "t") as client,
        client.other() as other,
    ):
        gate = asyncio.Event()
        crowded.upstream.answers["t"] = held(gate, PLAIN_RESULT)
        call = await under_way(client, known, 7)
        refused = await other.call("t", 8)
        assert b"overloaded" in refused.body
        gate.set()
        assert (await call).status == 200
        assert (await other.call("t", 8)).result["content"] == COMPLETE["content"]


@ERAS
async def test_a_stop_waits_for_a_cached_call_and_refuses_new_ones(
    era: str, tmp_path: Path, known: Known
) -> None:
    async with (
        registered_setup(tmp_path) as ending,
        warmed(ending, era, "t") as client,
        client.other() as other,
    ):
        await other.call("t", 1)
        gate = asyncio.Event()
        ending.upstream.answers["t"] = held(gate, PLAIN_RESULT)
        call = await under_way(client, known)
        count = len(known)
        ending.manager.daemon.ask_to_stop("test")
        await asyncio.sleep(0.05)
        refused = await other.call("t", 8)
        assert (refused.status, refused.headers["Retry-After"], len(known)) == (503, "1", count)
        gate.set()
        assert (await call).status == 200
