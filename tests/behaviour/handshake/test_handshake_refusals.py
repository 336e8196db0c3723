"""A handshake is refused at once, names the next step and keeps the existing binding."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.protocol import headers, names
from support.clients.raw_clients import Client, SessionClient, StatelessClient
from support.processes.managers.manager_in_process import make_project, running_manager
from support.processes.timeouts import within
from support.projects.registered_setup import RegisteredSetup, raw_http, registered_setup

NO_CWD: list[Any] = ["", "  ", "\t", None, 5, True, ["/"], {}]
ERAS = pytest.mark.parametrize("era", ["legacy", "modern"])


@pytest.fixture
async def setup(tmp_path: Path) -> AsyncIterator[RegisteredSetup]:
    async with registered_setup(tmp_path.resolve()) as running:
        yield running


async def client_of(setup: RegisteredSetup, era: str) -> Client:
    return await setup.legacy() if era == "legacy" else setup.modern(pure=False)


@ERAS
@pytest.mark.parametrize("arguments", [{}, *({"cwd": cwd} for cwd in NO_CWD)])
async def test_a_missing_cwd_is_refused_without_a_search(tmp_path: Path, era: str, arguments: Any) -> None:
    """At once, although the manager would wait for servers that register."""
    async with registered_setup(tmp_path, match_wait_s=5) as setup:
        client = await client_of(setup, era)
        began = time.monotonic()
        refusal = (await client.call(names.HANDSHAKE, arguments)).refusal
        assert time.monotonic() - began < within(1)
        assert (refusal["code"], refusal["reason"]) == (-32602, "invalid_arguments")
        assert refusal["message"] == "expected cwd (string)"


IMPOSSIBLE = [
    pytest.param("src/app", "relative", id="relative"),
    pytest.param("./", "relative", id="dot"),
    pytest.param("~/x", "relative", id="tilde"),
    pytest.param("${workspaceFolder}", "relative", id="placeholder"),
    pytest.param("{folder}/gone", "missing", id="missing"),
    pytest.param("{folder}/file.txt", "not_a_directory", id="file"),
    pytest.param("{folder}/file.txt/x", "not_a_directory", id="below a file"),
    pytest.param("{folder}/no\0pe", "malformed", id="NUL"),
    pytest.param("file://elsewhere/x", "malformed", id="URI of another host"),
    pytest.param("/" + "x" * 4096, "too_long", id="too long"),
    pytest.param("/" + "é" * 2048, "too_long", id="too long in bytes"),
]


@ERAS
@pytest.mark.parametrize(("cwd", "problem"), IMPOSSIBLE)
async def test_an_invalid_cwd_is_refused_at_once(tmp_path: Path, era: str, cwd: str, problem: str) -> None:
    """Nothing started, binding untouched."""
    async with registered_setup(tmp_path.resolve(), match_wait_s=5) as setup:
        (tmp_path / "file.txt").write_text("x")
        client = await client_of(setup, era)
        before = await setup.upstream.control("GET", "/list")
        began = time.monotonic()
        refusal = (await client.handshake(cwd.replace("{folder}", str(tmp_path)))).refusal
        assert time.monotonic() - began < within(1)
        assert (refusal["code"], refusal["reason"]) == (-32602, "invalid_cwd")
        assert refusal["message"].startswith("cwd is ")
        assert len(refusal["message"]) < 300
        assert refusal["details"]["problem"] == problem
        after = await setup.upstream.control("GET", "/list")
        assert [one["sessionId"] for one in after["instances"]] == [
            one["sessionId"] for one in before["instances"]
        ]
        if isinstance(client, SessionClient):
            assert (await client.call("echo")).headers[headers.WORKSPACE_SOURCE] == "session"


async def test_for_a_file_the_next_step_names_its_folder(setup: RegisteredSetup) -> None:
    file = setup.upstream.root / "notes.md"
    file.write_text("x")
    refusal = (await setup.modern(pure=False).handshake(file)).refusal
    assert str(setup.upstream.root) in refusal["nextStep"]


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is unreadable for root")
async def test_an_unreadable_folder_is_reported_as_unreadable(setup: RegisteredSetup) -> None:
    closed = setup.upstream.root / "closed"
    (closed / "inner").mkdir(parents=True)
    closed.chmod(0)
    try:
        refusal = (await setup.modern(pure=False).handshake(closed / "inner")).refusal
    finally:
        closed.chmod(0o700)
    assert refusal["details"]["problem"] == "unreadable"


@ERAS
async def test_a_folder_outside_any_workspace_is_not_matched(
    setup: RegisteredSetup, tmp_path: Path, era: str
) -> None:
    """47101: up to ten known workspaces are named."""
    nowhere = tmp_path.resolve() / "nowhere"
    nowhere.mkdir()
    client = await client_of(setup, era)
    known = (await client.handshake(setup.upstream.root)).payload["workspace"]
    refusal = (await client.handshake(nowhere)).refusal
    assert (refusal["code"], refusal["reason"]) == (47101, "workspace_not_matched")
    assert refusal["message"] == f"workspace not matched: {nowhere}"
    assert refusal["details"]["known"] == [known]


@pytest.mark.parametrize("cwd", ["relative", "/proc", None], ids=["impossible", "not matched", "absent"])
async def test_a_failed_handshake_leaves_the_old_binding(setup: RegisteredSetup, cwd: str | None) -> None:
    client = await setup.legacy()
    assert (await client.handshake(cwd)).refusal
    for name, arguments in (("echo", {}), (names.CALL_TOOL, {"name": "echo"})):
        answer = await client.call(name, arguments)
        assert answer.result["content"]
        assert answer.headers[headers.WORKSPACE_SOURCE] == "session"


@ERAS
async def test_a_registered_server_that_does_not_answer_is_offline(setup: RegisteredSetup, era: str) -> None:
    """It is only marked, never restarted; the binding stays, and so does the workspace's name."""
    client = await client_of(setup, era)
    workspace = (await client.handshake(setup.upstream.root)).payload["workspace"]
    setup.upstream.is_healthy = False
    refusal = (await client.handshake(setup.upstream.root)).refusal
    assert (refusal["code"], refusal["reason"]) == (47102, "workspace_server_offline")
    assert refusal["message"].startswith("resolved MCP server is offline: ")
    assert refusal["details"]["workspace"] == workspace
    assert refusal["details"]["cause"] in {"unhealthy", "identity_mismatch"}
    assert refusal["retryAfterMs"] > 0
    setup.upstream.is_healthy = True
    assert (await client.handshake(setup.upstream.root)).payload["workspace"] == workspace


async def test_another_program_on_the_port_gets_nothing(setup: RegisteredSetup) -> None:
    """Another nonce, so no byte of a call and no secret goes there."""
    client = await setup.legacy()
    before = len(setup.upstream.received)
    setup.upstream.nonce = "another"
    refusal = (await client.handshake(setup.upstream.root)).refusal
    assert refusal["code"] == 47102
    assert refusal["details"]["cause"] == "identity_mismatch"
    assert len(setup.upstream.received) == before


async def test_a_path_and_a_cwd_that_disagree_are_refused(setup: RegisteredSetup, tmp_path: Path) -> None:
    """On `/w/…` with another workspace; on `/mcp?cwd=` the argument wins."""
    other = make_project(tmp_path.resolve() / "other")
    one = (await setup.modern(pure=False).handshake(setup.upstream.root)).payload["workspace"]
    two = (await setup.upstream.control("POST", "/resolve", {"cwd": str(other)}))["match"]["workspace"]
    at_path = StatelessClient(setup.http, f"{setup.manager.base}/w/{two}/mcp")
    refusal = (await at_path.handshake(setup.upstream.root)).refusal
    assert refusal["code"] == 47110
    assert refusal["message"] == f"conflicting workspace: {two} and {one}"
    at_query = StatelessClient(setup.http, f"{setup.manager.address}?cwd={other}")
    assert (await at_query.handshake(setup.upstream.root)).payload["workspace"] == one
    named = {"name": "echo", "workspace": one}
    assert (await at_path.call(names.CALL_TOOL, named)).refusal["code"] == 47110
    assert (await at_query.call(names.CALL_TOOL, named)).headers[headers.WORKSPACE_ID] == one


async def test_a_server_that_cannot_start_in_time_is_offline(tmp_path: Path) -> None:
    """The start deadline."""
    project = make_project(tmp_path / "proj")
    async with running_manager(tmp_path / "manager", start_timeout_s=0.02) as manager, raw_http() as http:
        refusal = (await StatelessClient(http, manager.address).handshake(project)).refusal
    assert refusal["code"] == 47102
    assert refusal["details"]["cause"] == "start_timeout"
    assert refusal["message"] == "resolved MCP server is offline: start_timeout"
    assert refusal["retryAfterMs"] > 0


async def test_a_handshake_replaces_a_hung_server_of_ours(tmp_path: Path) -> None:
    """One restart at once; the caller is served."""
    project = make_project(tmp_path / "proj")
    async with running_manager(tmp_path / "manager", health_timeout_s=0.3) as manager, raw_http() as http:
        client = await SessionClient.connect(http, manager.address)
        first = (await client.handshake(project)).payload
        pid = first["health"]["data"]["pid"]
        os.kill(pid, signal.SIGSTOP)
        second = (await client.handshake(project)).payload
        assert second["workspace"] == first["workspace"]
        assert second["target"]["sessionId"] != first["target"]["sessionId"]
        assert second["health"]["data"]["pid"] != pid
        assert (await client.call("calculator", {"expression": "6*7"})).payload == {"value": 42}
