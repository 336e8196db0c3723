"""Tasks (SEP-2663): created in a project, polled at any URL, kept over restarts.

One manager serves all tests of this file. The slow tool waits for a file that the test creates.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import pytest_asyncio

from lm_tools_bridge.protocol import headers, names
from lm_tools_bridge.protocol import tasks_extension as tasks
from manager.client import Control
from support.clients.raw_clients import Answer, SessionClient, StatelessClient
from support.projects.gateway import Project, eventually, running_gateway

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.processes]
KNOWS: dict[str, Any] = {names.META_CAPABILITIES: {"extensions": {tasks.EXTENSION: {}}}}
SLOW = """
import os, time
import lmtb_tool
folder = lmtb_tool.get_string("folder")
open(f"{folder}/pid", "w").write(str(os.getpid()))
while not os.path.exists(f"{folder}/go"):
    time.sleep(0.01)
lmtb_tool.return_object({"n": 1.0, "word": "Gr\\u00fc\\u00dfe"})
"""
PARAMETERS = '[parameters.folder]\ntype = "string"\ndescription = "Where to wait"\n'


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def project(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Project]:
    async with running_gateway(tmp_path_factory.mktemp("tasks"), health_interval_s=0.1) as gateway:
        gateway.user_tool("slow", SLOW, f"task = true\n{PARAMETERS}")
        yield gateway.project("proj")


def fixed(project: Project) -> StatelessClient:
    """A stateless client at `/mcp`."""
    return StatelessClient(project.gateway.http, project.gateway.manager.address)


async def begin(client: StatelessClient, folder: Path, **call: Any) -> str:
    """The id of the task that a call of the slow tool becomes, once its script runs."""
    arguments = {"folder": str(folder)}
    made = await client.call(call.get("name", "slow"), call.get("arguments", arguments), meta=KNOWS)
    assert made.result["resultType"] == "task", made.result
    await eventually(lambda: _written(folder / "pid"))
    return str(made.result["taskId"])


async def _written(file: Path) -> bool:
    return file.exists() and file.read_text() != ""


async def _gone(pid: int) -> bool:
    return not psutil.pid_exists(pid)


async def about(client: StatelessClient, method: str, task: str, **params: Any) -> Answer:
    return await client.ask(method, {"taskId": task, **params, "_meta": KNOWS})


async def over(client: StatelessClient, task: str) -> dict[str, Any]:
    """The task once it is over."""

    async def look() -> dict[str, Any] | None:
        result = (await about(client, tasks.GET, task)).result
        return None if result["status"] in {"working", "input_required"} else result

    found: dict[str, Any] = await eventually(look, 10.0)
    return found


async def server(project: Project) -> dict[str, Any]:
    """What the manager knows of the project's server."""
    control = Control(project.gateway.manager.paths.control_socket)
    status = await asyncio.to_thread(control.get, "/mcp/status")
    (found,) = [one for one in status["instanceDetails"] if one["root"] == str(project.root)]
    return dict(found)


async def test_a_task_id_alone_is_enough_to_poll_its_result(project: Project, tmp_path: Path) -> None:
    """At `/mcp`, only the task id names the project."""
    client = fixed(project)
    call = {"name": "slow", "arguments": {"folder": str(tmp_path)}, "cwd": str(project.root)}
    task = await begin(client, tmp_path, name=names.CALL_TOOL, arguments=call)
    answer = await about(client, tasks.GET, task)
    assert answer.result["status"] == "working"
    assert answer.headers[headers.WORKSPACE_ID] == task.partition(".")[0]
    (tmp_path / "go").touch()
    done = await over(client, task)
    waited = await project.modern.call("slow", {"folder": str(tmp_path)})
    assert done["result"] == waited.result
    assert done["result"]["structuredContent"] == {"n": 1.0, "word": "Grüße"}


async def test_a_task_id_beats_the_clients_folder(project: Project, tmp_path: Path) -> None:
    other = project.gateway.project("other")
    task = await begin(project.modern, tmp_path)
    assert (await about(other.modern, tasks.GET, task)).result["taskId"] == task
    identity = (await other.modern.ask(names.TOOLS_LIST)).headers[headers.WORKSPACE_ID]
    path = StatelessClient(project.gateway.http, f"{project.gateway.manager.base}/w/{identity}/mcp")
    assert (await about(path, tasks.GET, task)).error["code"] == -32602
    await about(other.modern, tasks.CANCEL, task)


async def test_cancelling_ends_the_script(project: Project, tmp_path: Path) -> None:
    client = fixed(project)
    task = await begin(project.modern, tmp_path)
    pid = int((tmp_path / "pid").read_text())
    assert psutil.pid_exists(pid)
    acknowledged = (await about(client, tasks.CANCEL, task)).result
    assert set(acknowledged) == {"resultType", "_meta"}
    assert (await over(client, task))["status"] == "cancelled"
    assert not psutil.pid_exists(pid)


@pytest.mark.parametrize("task", ["nobodys", f"ws-0123456789ab.{'0' * 32}", "../x", "x" * 3000])
async def test_unknown_task_is_unknown_everywhere(project: Project, task: str) -> None:
    for client in (fixed(project), project.modern):
        for method in sorted(tasks.METHODS):
            assert (await about(client, method, task, inputResponses={})).error["code"] == -32602


async def test_a_client_that_does_not_declare_tasks_gets_none(project: Project, tmp_path: Path) -> None:
    (tmp_path / "go").touch()
    for client in (fixed(project), project.modern):
        answer = await client.ask(tasks.GET, {"taskId": "nobodys"})
        assert (answer.status, answer.error["code"]) == (400, -32021)
        wanted = {"notifications": {"taskIds": ["nobodys"]}}
        answer = await client.ask(names.LISTEN, wanted)
        assert (answer.status, answer.error["code"]) == (400, -32021)
    waited = await project.modern.call("slow", {"folder": str(tmp_path)})
    assert waited.result["resultType"] == "complete"


async def test_sessions_have_no_tasks(project: Project, tmp_path: Path) -> None:
    client = await SessionClient.connect(project.gateway.http, project.url)
    assert (await client.ask(tasks.GET, {"taskId": "x"})).error["code"] == -32601
    call = asyncio.ensure_future(client.call("slow", {"folder": str(tmp_path)}))
    await eventually(lambda: _written(tmp_path / "pid"))
    assert not call.done()
    (tmp_path / "go").touch()
    assert (await call).payload["n"] == 1.0


async def test_tasks_are_declared_to_stateless_clients_only(project: Project) -> None:
    for client in (fixed(project), project.modern):
        capabilities = (await client.ask(names.DISCOVER)).result["capabilities"]
        assert capabilities["extensions"][tasks.EXTENSION] == {}
    for url in (project.url, project.gateway.manager.address):
        session = SessionClient(project.gateway.http, url)
        hello = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        }
        assert tasks.EXTENSION not in json.dumps((await session.ask(names.INITIALIZE, hello)).result)


async def test_a_server_with_a_running_task_is_not_idle(project: Project, tmp_path: Path) -> None:
    task = await begin(project.modern, tmp_path)

    async def counted(number: int) -> bool:
        return bool((await server(project))["tasks"] == number)

    await eventually(lambda: counted(1))
    await about(project.modern, tasks.CANCEL, task)
    await eventually(lambda: counted(0), 10.0)


async def test_the_task_of_a_killed_server_has_failed_with_a_reason(project: Project, tmp_path: Path) -> None:
    client = fixed(project)
    task = await begin(project.modern, tmp_path)
    script, victim = int((tmp_path / "pid").read_text()), (await server(project))["pid"]
    os.kill(victim, signal.SIGKILL)
    await eventually(lambda: _gone(victim), 10.0)
    failed = await over(client, task)
    assert (failed["status"], failed["error"]["code"]) == ("failed", 47103)
    assert "ended before the call was done" in failed["statusMessage"]
    assert failed["createdAt"] <= failed["lastUpdatedAt"]
    await eventually(lambda: _gone(script), 10.0)
