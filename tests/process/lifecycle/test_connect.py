"""`lmtb connect` as clients use it: the official SDK starts it as a program, and it finds or starts the manager."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import mcp
import psutil
import pytest
import pytest_asyncio
from mcp.client.stdio import StdioServerParameters

from lm_tools_bridge.protocol import names
from manager.client import NoManager
from support.processes.managers.manager_home import ManagerHome, manager_home, until
from support.processes.managers.manager_in_process import make_project
from support.processes.managers.stdio_families import configure, entry
from support.servers.sdk_servers.third_party import stdio_command

pytestmark = pytest.mark.asyncio(loop_scope="module")
EITHER_ERA = pytest.mark.parametrize("mode", ["legacy", "auto"])
FOREIGN = "demo__"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def user(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ManagerHome]:
    """A user with one third-party server; the workspace servers outlive managers that are killed."""
    async with manager_home(tmp_path_factory.mktemp("connect").resolve() / "user") as home:
        configure(home, entry("demo", stdio_command()))
        yield home


@pytest.fixture(scope="module")
def project(user: ManagerHome) -> Path:
    return make_project(user.folder / "proj", **{"nonce.txt": "of this project"})


class ReceivedMessages:
    """Records the methods of messages that a client receives besides its answers."""

    def __init__(self) -> None:
        self.methods: list[str] = []

    async def __call__(self, message: Any) -> None:
        assert not isinstance(message, Exception), message
        self.methods.append(message.method)


@contextlib.asynccontextmanager
async def connected(
    home: ManagerHome,
    project: Path,
    mode: str,
    messages: ReceivedMessages | None = None,
    roots: Sequence[Path] = (),
    **env: str,
) -> AsyncIterator[mcp.Client]:
    """The SDK's client of an `lmtb connect` that it starts in the project; with `roots` it says where it works."""
    program = StdioServerParameters(
        command=sys.executable,
        args=["-I", "-m", "manager", "connect"],
        env={**home.environ, "LMTB_HTTP_PORT": "0", **env},
        cwd=project,
    )
    async with mcp.Client(
        program,
        mode=mode,
        message_handler=messages,
        elicitation_callback=_named,
        list_roots_callback=roots_of(*roots) if roots else None,
        read_timeout_seconds=30,
    ) as client:
        yield client


def roots_of(*folders: Path) -> Any:
    """What a client answers when it is asked for its roots."""

    async def answer(context: Any) -> mcp.types.ListRootsResult:
        return mcp.types.ListRootsResult(roots=[mcp.types.Root(uri=folder.as_uri()) for folder in folders])

    return answer


async def _named(context: Any, params: Any) -> mcp.types.ElicitResult:
    return mcp.types.ElicitResult(action="accept", content={"name": "Ada"})


async def nonce(client: mcp.Client) -> str:
    """The content of a file that only this project's server can read."""
    answer = await client.call_tool("lm_readFile", {"filePath": "nonce.txt"})
    assert answer.structured_content is not None, answer
    return str(answer.structured_content["content"])


async def count(client: mcp.Client, kind: str, tool: str) -> int:
    """How often a tool of the third-party server was `started`, `finished` or `cancelled`."""
    ledger: Any = (await client.call_tool(f"{FOREIGN}ledger")).structured_content
    return int(ledger[kind].get(tool, 0))


async def until_counted(client: mcp.Client, kind: str, tool: str, least: int) -> None:
    """Waits until a tool was started, finished or cancelled this often."""
    async with asyncio.timeout(20):
        while await count(client, kind, tool) < least:
            await asyncio.sleep(0.05)


async def in_the_list(client: mcp.Client, name: str) -> None:
    """Waits until a tool is listed."""
    async with asyncio.timeout(20):
        while name not in [tool.name for tool in (await client.list_tools(cache_mode="bypass")).tools]:
            await asyncio.sleep(0.05)


def bridges(user: ManagerHome) -> list[psutil.Process]:
    """The running `lmtb connect` processes of this user."""
    return [psutil.Process(pid) for pid in user.processes("manager connect")]


async def manager_pid(user: ManagerHome) -> int:
    """The process id of the manager, which is started if none runs."""
    with contextlib.suppress(NoManager):
        return int((await user.status())["pid"])
    return (await user.start()).pid


async def killed(user: ManagerHome) -> None:
    """Kills the manager, whichever process started it."""
    manager = psutil.Process(await manager_pid(user))
    manager.kill()
    await until(lambda: has_ended(manager))


def has_ended(process: psutil.Process) -> bool:
    """Whether all threads have ended: the connections of a zombie stay open while it has other threads."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE and len(process.threads()) == 1
    except psutil.NoSuchProcess:
        return True


async def test_a_manager_is_started_where_none_runs(user: ManagerHome, project: Path) -> None:
    """It keeps running when the client ends, because it is not part of the client's process tree."""
    async with connected(user, project, "legacy") as client:
        assert await nonce(client) == "of this project"
        (bridge,) = bridges(user)
        (manager,) = user.processes("manager serve")
    assert not bridge.is_running()
    assert psutil.Process(manager).is_running()
    assert manager not in [one.pid for one in psutil.Process().children(recursive=True)]
    assert (user.paths.logs_dir / "manager.log").stat().st_mode & 0o777 == 0o600


@EITHER_ERA
@pytest.mark.parametrize("is_repository", [False, True], ids=["copied", "cloned"])
async def test_in_the_folder_of_a_plugin_the_roots_of_the_client_decide(
    user: ManagerHome, project: Path, mode: str, is_repository: bool
) -> None:
    """A client may start the servers of a plugin in the plugin's own folder."""
    plugin = user.folder / ".claude/plugins/marketplaces" / ("cloned" if is_repository else "copied") / "plug"
    plugin.mkdir(parents=True, exist_ok=True)
    (plugin / "nonce.txt").write_text("of the plugin")
    if is_repository:
        (plugin.parent / ".git").mkdir(exist_ok=True)
    async with connected(user, plugin, mode, roots=[project]) as client:
        assert await nonce(client) == "of this project"
        if mode == "legacy":  # a stateless list cannot ask for roots
            await in_the_list(client, f"{FOREIGN}ledger")


@EITHER_ERA
async def test_a_stdio_client_gets_the_tools_of_its_project(
    user: ManagerHome, project: Path, mode: str
) -> None:
    """List, call, progress and cancellation; the workspace is the folder in which `lmtb connect` was started."""
    await manager_pid(user)
    async with connected(user, project, mode) as client:
        await in_the_list(client, f"{FOREIGN}progress")
        assert await nonce(client) == "of this project"
        told: list[float] = []

        async def progressed(progress: float, total: float | None, message: str | None) -> None:
            told.append(progress)

        await client.call_tool(f"{FOREIGN}progress", {"steps": 3}, progress_callback=progressed)
        assert told == [1, 2, 3]
        started, cancelled = [await count(client, kind, "slow") for kind in ("started", "cancelled")]
        call = asyncio.create_task(client.call_tool(f"{FOREIGN}slow", {"seconds": 60}))
        await until_counted(client, "started", "slow", started + 1)
        call.cancel()
        await until_counted(client, "cancelled", "slow", cancelled + 1)
        with contextlib.suppress(asyncio.CancelledError):
            await call
    await until(lambda: not bridges(user))


@EITHER_ERA
async def test_requests_and_notifications_reach_the_client(
    user: ManagerHome, project: Path, mode: str
) -> None:
    """An input request during a call, and a changed list, on the streams of both eras."""
    await manager_pid(user)
    messages = ReceivedMessages()
    async with connected(user, project, mode, messages) as client, contextlib.AsyncExitStack() as stack:
        await in_the_list(client, f"{FOREIGN}elicit")
        assert "Ada" in str(await client.call_tool(f"{FOREIGN}elicit"))
        if mode == "auto":
            await stack.enter_async_context(client.listen(tools_list_changed=True))
        messages.methods.clear()
        await client.call_tool(f"{FOREIGN}change_tools")
        await until(lambda: names.TOOLS_CHANGED in messages.methods)


@EITHER_ERA
async def test_a_call_lost_with_its_manager_gets_one_error(
    user: ManagerHome, project: Path, mode: str
) -> None:
    """It may have been delivered, so it is not repeated; the next call starts another manager."""
    await manager_pid(user)
    async with connected(user, project, mode) as client:
        await in_the_list(client, f"{FOREIGN}slow")
        started = await count(client, "started", "slow")
        call = asyncio.create_task(client.call_tool(f"{FOREIGN}slow", {"seconds": 60}))
        await until_counted(client, "started", "slow", started + 1)
        await killed(user)
        with pytest.raises(mcp.MCPError) as failure:
            await call
        assert failure.value.code == 47103
        assert failure.value.error.data["delivered"] == "unknown"
        assert await nonce(client) == "of this project"
        assert await count(client, "started", "slow") == started + 1


async def test_a_session_gets_list_changes_after_a_restart(user: ManagerHome, project: Path) -> None:
    """The session continues on another port; changes during the restart are unknown, so all are announced."""
    await manager_pid(user)
    messages = ReceivedMessages()
    async with connected(user, project, "legacy", messages) as client:
        await client.list_tools()
        await killed(user)
        messages.methods.clear()
        assert await nonce(client) == "of this project"
        await until(lambda: set(names.LISTS_CHANGED) <= set(messages.methods), 20)


async def test_a_listen_stream_gets_list_changes_after_a_restart(user: ManagerHome, project: Path) -> None:
    """For the client the stream does not end, and it is acknowledged once."""
    await manager_pid(user)
    async with (
        connected(user, project, "auto") as client,
        client.listen(tools_list_changed=True) as listening,
    ):
        await killed(user)
        assert await nonce(client) == "of this project"
        async with asyncio.timeout(20):
            assert type(await anext(aiter(listening))).__name__ == "ToolsListChanged"


async def test_a_manager_that_cannot_start_is_reported_to_the_client(tmp_path: Path) -> None:
    """The error comes at once if the configuration is invalid; it names the manager's log."""
    async with manager_home(tmp_path / "user") as home:
        home.paths.config_dir.mkdir()
        home.paths.config_file.write_text("log_level = 'none'\n")
        with pytest.RaisesGroup(
            pytest.RaisesExc(mcp.MCPError, match=r"exit code 3.*manager\.log"), flatten_subgroups=True
        ):
            async with connected(home, make_project(tmp_path / "proj"), "legacy"):
                pass


@pytest.mark.parametrize("end", ["input", "signal"])
async def test_the_session_ends_with_its_client(user: ManagerHome, project: Path, end: str) -> None:
    """The exit code is 0."""
    await manager_pid(user)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-m", "manager", "connect", cwd=project, env=user.environ,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    opening = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    process.stdin.write(json.dumps(opening).encode() + b"\n")
    assert json.loads(await process.stdout.readline())["id"] == 1
    before = (await user.status())["sessions"]
    if end == "input":
        process.stdin.close()
    else:
        process.send_signal(signal.SIGTERM)
    assert await asyncio.wait_for(process.wait(), 20) == 0
    assert (await user.status())["sessions"] == before - 1


async def test_it_ends_when_its_output_is_closed(user: ManagerHome, project: Path) -> None:
    await manager_pid(user)
    process = await asyncio.create_subprocess_exec(
        "sh", "-c", 'exec "$@" | true', "sh", sys.executable, "-I", "-m", "manager", "connect",
        cwd=project, env=user.environ, stdin=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None
    process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    await process.stdin.drain()
    await asyncio.wait_for(process.wait(), 20)
    await until(lambda: not bridges(user))
