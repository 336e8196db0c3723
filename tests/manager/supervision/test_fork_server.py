"""The template process, and the servers forked from it: alike to those started anew, and nothing in common."""

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

from manager.supervision import process
from manager.supervision.fork_server import ForkServer
from manager.supervision.fork_server_supervisor import IS_SUPPORTED, ForkServerSupervisor
from manager.supervision.process import Process, ProcessSpec
from protocol import headers, names
from protocol.internal.launch import Folders, LaunchInstructions, encode
from support.clients.stateless_requests import Caller
from support.processes.timeouts import within

pytestmark = [
    pytest.mark.skipif(not IS_SUPPORTED, reason="servers are forked on Linux only"),
    pytest.mark.asyncio(loop_scope="module"),
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
    """One workspace server, however it came to be."""

    def __init__(self, process: Process, port: int, secret: str, root: Path, log: Path) -> None:
        self.process = process
        self.root = root
        self.log = log
        self._port = port
        self._secret = secret

    async def health(self) -> dict[str, Any]:
        async with ClientSession() as http, http.get(f"http://127.0.0.1:{self._port}/mcp/health") as answer:
            found: dict[str, Any] = await answer.json()
            return found

    async def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        async with ClientSession(headers={headers.SECRET: self._secret}) as http:
            return await Caller(http, f"http://127.0.0.1:{self._port}/mcp", self._secret).call(
                tool, arguments
            )

    def proc(self, name: str) -> str:
        """What the system says of it."""
        return Path(f"/proc/{self.process.pid}/{name}").read_text()

    def status(self, *fields: str) -> dict[str, str]:
        lines = (line.partition(":") for line in self.proc("status").splitlines())
        return {name: value.strip() for name, _, value in lines if name in fields}

    def descriptors(self) -> list[str]:
        """What its descriptors are, without the numbers that differ from one process to the other."""
        folder = Path(f"/proc/{self.process.pid}/fd")
        found = []
        for link in folder.iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                found.append(link.readlink().name.partition("[")[0])
        return sorted(found)


class Yard:
    """Makes servers of either kind; nothing is left of them at the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.templates: list[ForkServer] = []
        self.servers: list[Server] = []
        self._sockets: list[socket.socket] = []
        self._number = 0

    async def template(self, environ: dict[str, str] = ENVIRON) -> ForkServer:
        made = ForkServer(environ, self.folder / "template.log")
        self.templates.append(made)
        assert await made.ready(within(BOUND)), self.log()
        return made

    def log(self) -> str:
        return (self.folder / "template.log").read_text()

    def start(self, environ: dict[str, str] = ENVIRON, **orders: Any) -> tuple[ProcessSpec, str]:
        """What a server of its own workspace begins with, and its secret."""
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
            listener.fileno(), **{"grace_s": 30.0, "folders": folders, **orders},
        )  # fmt: skip
        log = place / "server.log"
        return ProcessSpec(encode(launch), listener, launch.root, log, environ, launch.instance), secret

    async def server(self, template: ForkServer | None, **orders: Any) -> Server:
        """A server forked from the template, or started anew."""
        start, secret = self.start(**orders)
        made = process.spawn(start) if template is None else await template.fork(start)
        assert made is not None, self.log()
        port: int = start.listener.getsockname()[1]
        self.servers.append(Server(made, port, secret, Path(start.root), start.log))
        async with asyncio.timeout(within(BOUND)):
            await self.servers[-1].health()
        return self.servers[-1]

    async def close(self) -> None:
        for server in self.servers:
            server.process.kill_group()
            await server.process.wait()
        for template in self.templates:
            template.close()
            template.process.kill_group()
            await template.process.wait()
        for listener in self._sockets:
            listener.close()


@pytest_asyncio.fixture(loop_scope="module")
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    made = Yard(tmp_path)
    yield made
    await made.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Yard]:
    """A yard whose one template serves all tests that do not harm it; its scratch folder is `scratch`."""
    made = Yard(tmp_path_factory.mktemp("shared"))
    (made.folder / "scratch").mkdir()
    await made.template({**ENVIRON, "TMPDIR": str(made.folder / "scratch")})
    yield made
    await made.close()


@pytest.fixture
def template(shared: Yard) -> ForkServer:
    """The one that is shared."""
    return shared.templates[0]


async def until(check: Callable[[], object]) -> None:
    async with asyncio.timeout(within(BOUND)):
        while not check():
            await asyncio.sleep(0.01)


PROBE = """
import asyncio, gc, json, os, random, signal, sys, threading
from host import redaction
from workspace_server import fork_server, log, process
{first}

def told():
    caches = [
        (name, key) for name, module in sys.modules.items() if name.startswith("workspace_server.")
        for key, value in vars(module).items() if hasattr(value, "cache_info") and value.cache_info().currsize
    ]
    try:
        loop = asyncio.get_event_loop_policy()._local._loop
    except AttributeError:
        loop = None
    return {{
        "orders": sys.stdin.readline(), "environ": dict(os.environ), "cwd": os.getcwd(), "umask": os.umask(0o077),
        "random": random.random(), "caches": caches, "loop": repr(loop), "hidden": sorted(redaction._values),
        "handlers": [repr(signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)],
        "descriptors": [number for number in range(64) if os.path.exists(f"/proc/self/fd/{{number}}")],
        "threads": threading.active_count(), "frozen": gc.get_freeze_count() > 10000, "collects": gc.isenabled(),
    }}

def main():
    if {silent}:
        real()
    state = told()
    random.seed(7); os.environ["LEFT"] = "behind"; redaction.hide("something secret"); os.chdir("/")
    print(json.dumps(state), flush=True)
    {then}

real, process.main = process.main, main
if {quick}:
    fork_server.warm_up.run = lambda: None
fork_server.main()
"""
"""A template whose servers do nothing but tell how they found themselves, and then change what they can."""


@pytest.fixture
def probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Puts the probe in the place of templates started from now on; its file comes back."""

    def put(*, first: str = "", then: str = "os._exit(5)", quick: bool = True) -> Path:
        code, program = tmp_path / "probe.py", tmp_path / "program"
        code.write_text(PROBE.format(first=first, then=then, quick=quick, silent=then == "real()"))
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -I {code} "$4"\n')
        program.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(program))
        return code

    return put


async def told_by(yard: Yard, template: ForkServer, environ: dict[str, str] = ENVIRON) -> dict[str, Any]:
    """What one server of a probe tells."""
    start, _ = yard.start(environ)
    made = await template.fork(start)
    assert made is not None, yard.log()
    async with asyncio.timeout(within(BOUND)):
        assert await made.wait() == 5
    found: dict[str, Any] = json.loads(start.log.read_text())
    assert found["orders"] == start.launch_line.decode()
    assert found["cwd"] == start.root
    assert found["descriptors"] == [0, 1, 2, start.listener.fileno()]
    assert found["environ"] == start.environment
    return found


# Alike -------------------------------------------------------------------------------------------------------


async def test_forked_and_started_anew_are_alike(yard: Yard, template: ForkServer) -> None:
    """Everything the system tells of a process but its numbers, and everything it answers."""
    # without the user's folders nothing is opened some time later
    started = await yard.server(None, folders=None)
    forked = await yard.server(template, folders=None)
    said = []
    for one in (started, forked):
        pid, instance = one.process.pid, one.proc("cmdline").split("\0")[-2]
        shown = one.proc("environ").split("\0")
        assert f"{names.INSTANCE_VARIABLE}={instance}" in shown
        assert (os.getsid(pid), os.getpgid(pid)) == (pid, pid)
        assert Path(f"/proc/{pid}/cwd").readlink() == one.root
        health = await one.health()
        health.pop("issues")
        time_zone = (await one.call("datetime", {}))["structuredContent"]["timezone"]
        said.append(
            {
                "command": one.proc("cmdline").split("\0")[1:-2],
                "variables": {name.partition("=")[0] for name in shown} - {"TMPDIR", "LMTB_SECRET_KEY"},
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
    assert said[0] == said[1]
    assert said[1]["zone"] == "Asia/Tokyo"
    await until(
        lambda: started.descriptors() == forked.descriptors()
    )  # the connections of the calls have gone


async def test_a_server_finds_nothing_of_the_template_or_of_another_server(
    yard: Yard, probe: Callable[..., Path]
) -> None:
    """Environment, folder, chance, caches, descriptors, handlers, loop."""
    probe(quick=False)
    template = await yard.template()
    first = await told_by(yard, template, {**ENVIRON, "LMTB_SECRET_A": "of the first", "TZ": "UTC"})
    second = await told_by(yard, template)
    assert first["random"] != second["random"]
    for told in (first, second):
        assert (told["caches"], told["hidden"], told["loop"], told["threads"]) == ([], [], "None", 1)
        assert (told["frozen"], told["collects"]) == (True, True)
        assert told["handlers"] == [
            "<built-in function default_int_handler>", *(["<Handlers.SIG_DFL: 0>"] * 2)
        ]  # fmt: skip
        assert told["umask"] == first["umask"]


async def test_a_template_is_clean_and_has_no_secrets(shared: Yard, template: ForkServer) -> None:
    """The warm-up succeeds and leaves nothing behind."""
    assert (list((shared.folder / "scratch").iterdir()), shared.log()) == ([], "")
    own = psutil.Process(template.process.pid)
    assert (own.num_threads(), own.net_connections(), own.cwd()) == (1, [], "/")
    assert [Path(file.path).name for file in own.open_files()] == ["template.log"] * 2
    shown = set(own.environ()) - {"LC_CTYPE"}
    assert shown == {*ENVIRON, "TMPDIR", names.INSTANCE_VARIABLE} - {"LMTB_SECRET_KEY", "AWS_KEY"}


# Ends --------------------------------------------------------------------------------------------------------


async def test_the_exit_code_of_a_forked_server_is_known(yard: Yard, template: ForkServer) -> None:
    asked, killed = await yard.server(template), await yard.server(template)
    asked.process.terminate()
    killed.process.kill_group()
    async with asyncio.timeout(within(BOUND)):
        assert (await asked.process.wait(), await killed.process.wait()) == (0, -signal.SIGKILL)


async def test_what_a_forked_server_left_in_its_group_is_ended_with_it(
    yard: Yard, probe: Callable[..., Path]
) -> None:
    probe(then="print(os.spawnlp(os.P_NOWAIT, 'sleep', 'sleep', '60'), flush=True); os._exit(5)")
    start, _ = yard.start()
    made = await (await yard.template()).fork(start)
    assert made is not None
    assert await made.wait() == 5
    orphan = int(start.log.read_text().splitlines()[-1])
    await until(lambda: process.start_time(orphan) is None)


@pytest.mark.parametrize("hangs", [False, True])
async def test_servers_outlive_a_template_that_dies_or_hangs(
    yard: Yard, probe: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, hangs: bool
) -> None:
    """One that hangs is ended; whoever asks it starts a server anew, and no second one is made."""
    probe(then="real()")
    template = await yard.template()
    server = await yard.server(template)
    if hangs:
        os.kill(template.process.pid, signal.SIGSTOP)
        monkeypatch.setattr("manager.supervision.fork_server.FORK_S", 0.02)
    else:
        os.kill(template.process.pid, signal.SIGKILL)
    assert await template.fork(yard.start()[0]) is None
    async with asyncio.timeout(within(BOUND)):
        assert await template.process.wait() == -signal.SIGKILL
    assert (await server.call("calculator", {"expression": "1 + 1"}))["isError"] is False
    server.process.terminate()
    async with asyncio.timeout(within(BOUND)):
        assert await server.process.wait() is None, "nobody can know"


async def test_a_template_ends_with_the_manager_and_its_servers_do_not(
    yard: Yard, probe: Callable[..., Path]
) -> None:
    probe(then="real()")
    template = await yard.template()
    server = await yard.server(template)
    template.close()
    async with asyncio.timeout(within(BOUND)):
        assert await template.process.wait() == 0
    assert (await server.health())["ok"] is True


async def test_a_template_of_a_program_that_has_changed_forks_no_more(
    yard: Yard, probe: Callable[..., Path]
) -> None:
    code = probe()
    template = await yard.template()
    await told_by(yard, template)
    os.utime(code, (1, 1))
    assert await template.fork(yard.start()[0]) is None
    async with asyncio.timeout(within(BOUND)):
        assert await template.process.wait() == 0


async def test_a_template_that_is_not_alone_in_its_process_is_none(
    yard: Yard, probe: Callable[..., Path]
) -> None:
    """A lock that another thread holds at the fork is held for ever."""
    probe(first="threading.Thread(target=threading.Event().wait, daemon=True).start()")
    made = ForkServer(ENVIRON, yard.folder / "template.log")
    yard.templates.append(made)
    assert not await made.ready(within(BOUND))
    assert await made.process.wait() == 3
    assert "fork_server_has_threads" in yard.log()


async def test_a_folder_that_is_gone_is_an_os_error_as_with_a_start(yard: Yard, template: ForkServer) -> None:
    start, _ = yard.start()
    Path(start.root).rmdir()
    for attempt in (process.spawn, template.fork):
        with pytest.raises(FileNotFoundError, match="root"):
            await asyncio.to_thread(attempt, start) if attempt is process.spawn else await template.fork(
                start
            )


async def test_a_server_that_is_not_waited_for_gets_no_orders(yard: Yard, template: ForkServer) -> None:
    start, _ = yard.start()
    os.kill(template.process.pid, signal.SIGSTOP)
    waiting = asyncio.create_task(template.fork(start))
    await asyncio.sleep(0)
    waiting.cancel()
    with suppress(asyncio.CancelledError):
        await waiting
    os.kill(template.process.pid, signal.SIGCONT)
    await until(lambda: "launch_instructions_invalid" in start.log.read_text())
    await until(lambda: psutil.Process(template.process.pid).children() == [])
    assert await yard.server(template)


# One at a time -----------------------------------------------------------------------------------------------


class Clock:
    """Pauses that end when they are told to."""

    def __init__(self) -> None:
        self.time = 0.0
        self.pauses: list[float] = []
        self._go_on = asyncio.Semaphore(0)

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await self._go_on.acquire()

    def go_on(self) -> None:
        self._go_on.release()


async def test_a_template_that_ends_is_replaced_and_nothing_is_left_at_last(
    yard: Yard, probe: Callable[..., Path]
) -> None:
    probe()
    before = {one.pid for one in psutil.Process().children()}
    clock = Clock()
    kept = ForkServerSupervisor(ENVIRON, yard.folder, wanted=True, sleep=clock.sleep, now=lambda: clock.time)
    start, _ = yard.start()
    assert await kept.fork(start) is None, "not yet"
    running = asyncio.create_task(kept.run())
    try:
        await until(lambda: kept.pid)
        first = kept.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        await until(lambda: clock.pauses)
        assert (kept.pid, await kept.fork(start)) == (None, None)
        clock.go_on()
        await until(lambda: kept.pid)
        assert kept.pid != first
        made = await kept.fork(start)
        assert made is not None
        assert await made.wait() == 5
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert {one.pid for one in psutil.Process().children()} <= before


async def test_templates_that_cannot_be_are_tried_less_and_less_often(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    clock = Clock()
    kept = ForkServerSupervisor(ENVIRON, yard.folder, wanted=True, sleep=clock.sleep, now=lambda: clock.time)
    running = asyncio.create_task(kept.run())
    for number in range(12):
        await until(lambda: len(clock.pauses) > number)  # noqa: B023  it is awaited here
        clock.go_on()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert clock.pauses[:3] == [1.0, 2.0, 4.0]
    assert clock.pauses[-1] == 300.0


async def test_where_none_is_wanted_there_is_none(yard: Yard) -> None:
    kept = ForkServerSupervisor(ENVIRON, yard.folder, wanted=False, sleep=Clock().sleep, now=lambda: 0.0)
    await kept.run()
    assert await kept.fork(yard.start()[0]) is None
