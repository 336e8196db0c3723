"""Tests of the fork server: forked servers equal spawned ones and share no state with it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
import pytest_asyncio
from aiohttp import ClientSession

from lm_tools_bridge.protocol import headers, names
from lm_tools_bridge.protocol.internal.launch import Folders, LaunchInstructions, encode
from manager.supervision import process
from manager.supervision.fork_server import IS_SUPPORTED, ForkServer, ForkServerSupervisor
from manager.supervision.process import Process, ProcessSpec
from support.clients.stateless_requests import Caller
from support.processes.timeouts import within

pytestmark = [
    pytest.mark.skipif(not IS_SUPPORTED, reason="servers are forked on Linux only"),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.processes,
]
BOUND = 20.0
ENVIRON = {
    **{name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ},
    "HOME": "/home/of/nobody",
    "TZ": "Asia/Tokyo",
    "LMTB_SECRET_KEY": "hunter2",
    "AWS_KEY": "not for servers",
}


class Server:
    """One workspace server, forked or spawned."""

    def __init__(self, process: Process, port: int, secret: str, root: Path, log: Path) -> None:
        self.process = process
        self.root = root
        self.log = log
        self._port = port
        self._secret = secret

    async def health(self) -> dict[str, Any]:
        url = f"http://127.0.0.1:{self._port}{names.HEALTH_PATH}"
        async with ClientSession(headers={headers.SECRET: self._secret}) as http, http.get(url) as answer:
            found: dict[str, Any] = await answer.json()
            return found

    async def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        async with ClientSession(headers={headers.SECRET: self._secret}) as http:
            return await Caller(http, f"http://127.0.0.1:{self._port}/mcp", self._secret).call(
                tool, arguments
            )

    def proc(self, name: str) -> str:
        """A file of the process in `/proc`."""
        return Path(f"/proc/{self.process.pid}/{name}").read_text()

    def status(self, *fields: str) -> dict[str, str]:
        lines = (line.partition(":") for line in self.proc("status").splitlines())
        return {name: value.strip() for name, _, value in lines if name in fields}

    def descriptors(self) -> list[str]:
        """The kinds of its open descriptors, without inode numbers."""
        folder = Path(f"/proc/{self.process.pid}/fd")
        found = []
        for link in folder.iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                found.append(link.readlink().name.partition("[")[0])
        return sorted(found)


class ServerFactory:
    """Starts fork servers and workspace servers of both kinds, and ends them all on close."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.fork_servers: list[ForkServer] = []
        self.servers: list[Server] = []
        self._sockets: list[socket.socket] = []
        self._number = 0

    async def start_fork_server(self, environ: dict[str, str] = ENVIRON) -> ForkServer:
        made = ForkServer(environ, self.folder / "fork-server.log")
        self.fork_servers.append(made)
        assert await made.ready(within(BOUND)), self.log()
        return made

    def log(self) -> str:
        return (self.folder / "fork-server.log").read_text()

    def spec(self, environ: dict[str, str] = ENVIRON, **instructions: Any) -> tuple[ProcessSpec, str]:
        """The specification of a server with a workspace of its own, and its secret."""
        self._number += 1
        place = self.folder / f"w{self._number}"
        for name in ("root", "config", "state", "run"):
            (place / name).mkdir(parents=True, mode=0o700)
        listener = socket.create_server(("127.0.0.1", 0))
        self._sockets.append(listener)
        secret = f"secret-{self._number}"
        folders = Folders(str(place / "config"), str(place / "state"), str(place / "run"))
        launch = LaunchInstructions(
            f"ws-{self._number}", str(place / "root"), f"i-{self._number:08d}", f"nonce-{self._number}", secret,
            listener.fileno(), **{"grace_s": 30.0, "folders": folders, **instructions},
        )  # fmt: skip
        log = place / "server.log"
        return ProcessSpec(encode(launch), listener, launch.root, log, environ, launch.instance), secret

    async def server(self, fork_server: ForkServer | None, **instructions: Any) -> Server:
        """A server forked from this fork server; spawned if there is none."""
        spec, secret = self.spec(**instructions)
        made = process.spawn(spec) if fork_server is None else await fork_server.fork(spec)
        assert made is not None, self.log()
        port: int = spec.listener.getsockname()[1]
        self.servers.append(Server(made, port, secret, Path(spec.root), spec.log))
        async with asyncio.timeout(within(BOUND)):
            await self.servers[-1].health()
        return self.servers[-1]

    async def close(self) -> None:
        for server in self.servers:
            server.process.kill_group()
            await server.process.wait()
        for fork_server in self.fork_servers:
            fork_server.close()
            fork_server.process.kill_group()
            await fork_server.process.wait()
        for listener in self._sockets:
            listener.close()


@pytest_asyncio.fixture(loop_scope="module")
async def factory(tmp_path: Path) -> AsyncIterator[ServerFactory]:
    made = ServerFactory(tmp_path)
    yield made
    await made.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_factory(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ServerFactory]:
    """A factory with one fork server for all tests that do not harm it; its TMPDIR is `scratch`."""
    made = ServerFactory(tmp_path_factory.mktemp("shared"))
    (made.folder / "scratch").mkdir()
    await made.start_fork_server({**ENVIRON, "TMPDIR": str(made.folder / "scratch")})
    yield made
    await made.close()


@pytest.fixture
def fork_server(shared_factory: ServerFactory) -> ForkServer:
    """The shared fork server."""
    return shared_factory.fork_servers[0]


async def until(check: Callable[[], object]) -> None:
    async with asyncio.timeout(within(BOUND)):
        while not check():
            await asyncio.sleep(0.01)


PROBE = """
import asyncio, gc, json, os, random, signal, sys, threading
from lm_tools_bridge.text import redaction
from workspace_server import fork_server, server_process
from workspace_server import log
{first}

def state():
    caches = [
        (name, key) for name, module in sys.modules.items() if name.startswith(("lm_tools_bridge.", "workspace_server."))
        for key, value in vars(module).items() if hasattr(value, "cache_info") and value.cache_info().currsize
    ]
    try:
        loop = asyncio.get_event_loop_policy()._local._loop
    except AttributeError:
        loop = None
    return {{
        "instructions": sys.stdin.readline(), "environ": dict(os.environ), "cwd": os.getcwd(), "umask": os.umask(0o077),
        "random": random.random(), "caches": caches, "loop": repr(loop), "hidden": sorted(redaction._values),
        "handlers": [repr(signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)],
        "descriptors": [number for number in range(64) if os.path.exists(f"/proc/self/fd/{{number}}")],
        "threads": threading.active_count(), "frozen": gc.get_freeze_count() > 10000, "collects": gc.isenabled(),
    }}

def main():
    if {silent}:
        real()
    found = state()
    random.seed(7); os.environ["LEFT"] = "behind"; redaction.hide("something secret"); os.chdir("/")
    print(json.dumps(found), flush=True)
    {then}

real, server_process.main = server_process.main, main
if {quick}:
    fork_server.load_everything = lambda: None
fork_server.main()
"""
"""Program of a fork server whose servers print the state they start with, and then change what they can."""


@pytest.fixture
def probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Makes later fork servers run the probe; returns the path of its code."""

    def put(*, first: str = "", then: str = "os._exit(5)", quick: bool = True) -> Path:
        code, program = tmp_path / "probe.py", tmp_path / "program"
        code.write_text(PROBE.format(first=first, then=then, quick=quick, silent=then == "real()"))
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -I {code} "$4"\n')
        program.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(program))
        return code

    return put


async def run_probe(
    factory: ServerFactory, fork_server: ForkServer, environ: dict[str, str] = ENVIRON
) -> dict[str, Any]:
    """The state that one server of a probe prints."""
    spec, _ = factory.spec(environ)
    made = await fork_server.fork(spec)
    assert made is not None, factory.log()
    async with asyncio.timeout(within(BOUND)):
        assert await made.wait() == 5
    found: dict[str, Any] = json.loads(spec.log.read_text())
    assert found["instructions"] == spec.launch_line.decode()
    assert found["cwd"] == spec.root
    assert found["descriptors"] == [0, 1, 2, spec.listener.fileno()]
    assert found["environ"] == spec.environment
    return found


# Forked and spawned servers ----------------------------------------------------------------------------------


async def test_forked_and_spawned_servers_are_alike(factory: ServerFactory, fork_server: ForkServer) -> None:
    """Compares everything in `/proc` but the ids, and the answers of both servers."""
    # without the user's folders nothing is opened some time later
    started = await factory.server(None, folders=None)
    forked = await factory.server(fork_server, folders=None)
    observed = []
    for one in (started, forked):
        pid, instance = one.process.pid, one.proc("cmdline").split("\0")[-2]
        shown = one.proc("environ").split("\0")
        assert f"{names.INSTANCE_VARIABLE}={instance}" in shown
        assert (os.getsid(pid), os.getpgid(pid)) == (pid, pid)
        assert Path(f"/proc/{pid}/cwd").readlink() == one.root
        health = await one.health()
        health.pop("issues")
        time_zone = (await one.call("datetime", {}))["structuredContent"]["timezone"]
        observed.append(
            {
                "command": one.proc("cmdline").split("\0")[1:-2],
                "variables": {name.partition("=")[0] for name in shown} - {"TMPDIR"},
                "status": one.status("Umask", "SigIgn", "SigBlk", "SigCgt", "ShdPnd", "NoNewPrivs"),
                "limits": one.proc("limits"),
                "oom": one.proc("oom_score_adj"),
                "health": sorted(health),
                "is itself": (health["pid"], health["root"]) == (pid, str(one.root)),
                "zone": time_zone,
                "sum": (await one.call("calculator", {"expression": "6 * 7"}))["structuredContent"],
                "log": one.log.read_text(),
            }
        )
    assert observed[0] == observed[1]
    assert observed[1]["zone"] == "Asia/Tokyo"
    await until(
        lambda: started.descriptors() == forked.descriptors()
    )  # the connections of the calls have gone


async def test_a_forked_server_inherits_no_state_of_fork_server_or_siblings(
    factory: ServerFactory, probe: Callable[..., Path]
) -> None:
    """Environment, folder, random numbers, caches, descriptors, signal handlers, event loop."""
    probe(quick=False)
    fork_server = await factory.start_fork_server()
    first = await run_probe(factory, fork_server, {**ENVIRON, "LMTB_SECRET_A": "of the first", "TZ": "UTC"})
    second = await run_probe(factory, fork_server)
    assert first["random"] != second["random"]
    for found in (first, second):
        assert (found["caches"], found["hidden"], found["loop"], found["threads"]) == ([], [], "None", 1)
        assert (found["frozen"], found["collects"]) == (True, True)
        assert found["handlers"] == [
            "<built-in function default_int_handler>", *(["<Handlers.SIG_DFL: 0>"] * 2)
        ]  # fmt: skip
        assert found["umask"] == first["umask"]


async def test_a_fork_server_leaves_no_files_and_has_no_secrets(
    shared_factory: ServerFactory, fork_server: ForkServer
) -> None:
    """The warm-up succeeds and leaves nothing behind."""
    assert (list((shared_factory.folder / "scratch").iterdir()), shared_factory.log()) == ([], "")
    own = psutil.Process(fork_server.process.pid)
    assert (own.num_threads(), own.net_connections(), own.cwd()) == (1, [], "/")
    assert [Path(file.path).name for file in own.open_files()] == ["fork-server.log"] * 2
    shown = set(own.environ()) - {"LC_CTYPE"}
    assert shown == {*ENVIRON, "TMPDIR", names.INSTANCE_VARIABLE} - {"LMTB_SECRET_KEY", "AWS_KEY"}


# Exit --------------------------------------------------------------------------------------------------------


async def test_the_exit_code_of_a_forked_server_is_known(
    factory: ServerFactory, fork_server: ForkServer
) -> None:
    terminated, killed = await factory.server(fork_server), await factory.server(fork_server)
    terminated.process.terminate()
    killed.process.kill_group()
    async with asyncio.timeout(within(BOUND)):
        assert (await terminated.process.wait(), await killed.process.wait()) == (0, -signal.SIGKILL)


async def test_the_process_group_of_a_forked_server_ends_with_it(
    factory: ServerFactory, probe: Callable[..., Path]
) -> None:
    probe(then="print(os.spawnlp(os.P_NOWAIT, 'sleep', 'sleep', '60'), flush=True); os._exit(5)")
    spec, _ = factory.spec()
    made = await (await factory.start_fork_server()).fork(spec)
    assert made is not None
    assert await made.wait() == 5
    orphan = int(spec.log.read_text().splitlines()[-1])
    await until(lambda: process.start_time(orphan) is None)


@pytest.mark.parametrize("hangs", [False, True])
async def test_servers_outlive_a_fork_server_that_dies_or_hangs(
    factory: ServerFactory, probe: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, hangs: bool
) -> None:
    """A hanging fork server is killed, and the fork returns None."""
    probe(then="real()")
    fork_server = await factory.start_fork_server()
    server = await factory.server(fork_server)
    if hangs:
        os.kill(fork_server.process.pid, signal.SIGSTOP)
        monkeypatch.setattr("manager.supervision.fork_server.FORK_S", 0.02)
    else:
        os.kill(fork_server.process.pid, signal.SIGKILL)
    assert await fork_server.fork(factory.spec()[0]) is None
    async with asyncio.timeout(within(BOUND)):
        assert await fork_server.process.wait() == -signal.SIGKILL
    assert (await server.call("calculator", {"expression": "1 + 1"}))["isError"] is False
    server.process.terminate()
    async with asyncio.timeout(within(BOUND)):
        assert await server.process.wait() is None, "nobody can know"


async def test_a_fork_server_ends_with_the_manager_but_its_servers_run_on(
    factory: ServerFactory, probe: Callable[..., Path]
) -> None:
    probe(then="real()")
    fork_server = await factory.start_fork_server()
    server = await factory.server(fork_server)
    fork_server.close()
    async with asyncio.timeout(within(BOUND)):
        assert await fork_server.process.wait() == 0
    assert (await server.health())["ok"] is True


async def test_a_fork_server_ends_when_the_program_has_changed(
    factory: ServerFactory, probe: Callable[..., Path]
) -> None:
    code = probe()
    fork_server = await factory.start_fork_server()
    await run_probe(factory, fork_server)
    os.utime(code, (1, 1))
    assert await fork_server.fork(factory.spec()[0]) is None
    async with asyncio.timeout(within(BOUND)):
        assert await fork_server.process.wait() == 0


async def test_a_fork_server_with_several_threads_exits(
    factory: ServerFactory, probe: Callable[..., Path]
) -> None:
    """A lock that another thread holds at the fork would never be released in the child."""
    probe(first="threading.Thread(target=threading.Event().wait, daemon=True).start()")
    made = ForkServer(ENVIRON, factory.folder / "fork-server.log")
    factory.fork_servers.append(made)
    assert not await made.ready(within(BOUND))
    assert await made.process.wait() == 3
    assert "fork_server_has_threads" in factory.log()


@pytest.mark.parametrize(
    "opened", ["open(os.devnull)", "socket.socketpair()", "socket.socket(type=socket.SOCK_DGRAM)"]
)
async def test_a_fork_server_that_keeps_what_loading_opened_exits(
    factory: ServerFactory, probe: Callable[..., Path], opened: str
) -> None:
    """Its object would close whatever has the number in the child."""
    loading = f"fork_server.load_everything = lambda kept=[]: kept.append({opened})"
    probe(first=f"import socket\n{loading}", quick=False)
    made = ForkServer(ENVIRON, factory.folder / "fork-server.log")
    factory.fork_servers.append(made)
    assert not await made.ready(within(BOUND))
    assert await made.process.wait() == 4
    assert "fork_server_keeps_descriptors" in factory.log()


async def test_a_missing_workspace_folder_raises_the_same_error_as_a_spawn(
    factory: ServerFactory, fork_server: ForkServer
) -> None:
    spec, _ = factory.spec()
    Path(spec.root).rmdir()
    for attempt in (process.spawn, fork_server.fork):
        with pytest.raises(FileNotFoundError, match="root"):
            await asyncio.to_thread(attempt, spec) if attempt is process.spawn else await fork_server.fork(
                spec
            )


async def test_a_cancelled_fork_gets_no_launch_instructions_and_ends(
    factory: ServerFactory, fork_server: ForkServer
) -> None:
    spec, _ = factory.spec()
    os.kill(fork_server.process.pid, signal.SIGSTOP)
    waiting = asyncio.create_task(fork_server.fork(spec))
    await asyncio.sleep(0)
    waiting.cancel()
    with suppress(asyncio.CancelledError):
        await waiting
    os.kill(fork_server.process.pid, signal.SIGCONT)
    await until(lambda: "launch_instructions_invalid" in spec.log.read_text())
    await until(lambda: psutil.Process(fork_server.process.pid).children() == [])
    assert await factory.server(fork_server)


# Replacement -------------------------------------------------------------------------------------------------


class Clock:
    """A clock whose pauses end when the test says so."""

    def __init__(self) -> None:
        self.time = 0.0
        self.pauses: list[float] = []
        self._go_on = asyncio.Semaphore(0)

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await self._go_on.acquire()

    def go_on(self) -> None:
        self._go_on.release()


async def test_a_fork_server_that_ends_is_replaced_and_no_process_is_left(
    factory: ServerFactory, probe: Callable[..., Path]
) -> None:
    probe()
    before = {one.pid for one in psutil.Process().children()}
    clock = Clock()
    supervisor = ForkServerSupervisor(
        ENVIRON, factory.folder, is_enabled=True, sleep=clock.sleep, now=lambda: clock.time
    )
    spec, _ = factory.spec()
    assert await supervisor.fork(spec) is None, "not yet"
    running = asyncio.create_task(supervisor.run())
    try:
        await until(lambda: supervisor.pid)
        first = supervisor.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        await until(lambda: clock.pauses)
        assert (supervisor.pid, await supervisor.fork(spec)) == (None, None)
        clock.go_on()
        await until(lambda: supervisor.pid)
        assert supervisor.pid != first
        made = await supervisor.fork(spec)
        assert made is not None
        assert await made.wait() == 5
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert {one.pid for one in psutil.Process().children()} <= before


async def test_failing_fork_servers_are_retried_with_back_off(
    factory: ServerFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    clock = Clock()
    supervisor = ForkServerSupervisor(
        ENVIRON, factory.folder, is_enabled=True, sleep=clock.sleep, now=lambda: clock.time
    )
    running = asyncio.create_task(supervisor.run())
    for number in range(12):
        await until(lambda: len(clock.pauses) > number)  # noqa: B023  it is awaited here
        clock.go_on()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert clock.pauses[:3] == [1.0, 2.0, 4.0]
    assert clock.pauses[-1] == 300.0


async def test_no_fork_server_is_started_when_disabled(factory: ServerFactory) -> None:
    supervisor = ForkServerSupervisor(
        ENVIRON, factory.folder, is_enabled=False, sleep=Clock().sleep, now=lambda: 0.0
    )
    await supervisor.run()
    assert await supervisor.fork(factory.spec()[0]) is None
