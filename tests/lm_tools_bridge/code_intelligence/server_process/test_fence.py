"""A fenced server tries to do what it must not; it answers what came of it."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.code_intelligence.server_process.launch import Launch
from lm_tools_bridge.code_intelligence.server_process.running_server import RunningServer
from lm_tools_bridge.code_intelligence.specification import ServerSpecification
from lm_tools_bridge.machine.own_children import is_confined
from support.servers.language_servers.scripted_language_server import RecordedSync, command
from workspace_server.processes.child_process import Command
from workspace_server.processes.confinement import available_layers

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux confines processes")
LANDLOCK_4 = pytest.mark.skipif(
    not {f"landlock-abi-{version}" for version in range(4, 99)} & set(available_layers()),
    reason="needs Landlock 4",
)
TRIES = """
import socket, subprocess
def attempt(work):
    try:
        work()
        return "done"
    except OSError as refusal:
        return refusal.strerror
def written(path):
    with open(path, "w") as file: file.write("#!/bin/sh\\n")
    os.chmod(path, 0o755)
def run(path): subprocess.run([path], check=True)
def copied(path):
    written(path)
    run(path)
def handle(m):
    p = m["params"]
    tries = {
        "read the project": lambda: open(p["root"] + "/a.cpp").close(),
        "read a file beside it": lambda: open(p["home"] + "/bin/mine").close(),
        "read a key": lambda: open(p["home"] + "/.aws/credentials").close(),
        "read a key by the kernel's name of the root": lambda: open(
            "/proc/self/root" + p["home"] + "/.aws/credentials").close(),
        "read what a hidden link leads to": lambda: open(p["home"] + "/dotfiles/netrc").close(),
        "read its settings": lambda: open(p["home"] + "/.config/mine/config.yaml").close(),
        "read settings of another": lambda: open(p["home"] + "/.config/other/token").close(),
        "read a library of a hidden program": lambda: open(p["home"] + "/.tools/lib/library.so").close(),
        "read other files of such a program": lambda: open(p["home"] + "/.tools/credentials.toml").close(),
        "list the home folder": lambda: os.listdir(p["home"]),
        "write the project": lambda: written(p["root"] + "/new"),
        "write the home folder": lambda: written(p["home"] + "/new"),
        "write the cache of another": lambda: written(p["home"] + "/.cache/other/new"),
        "write its cache": lambda: written(p["home"] + "/.cache/mine/new"),
        "write its cache in the project": lambda: written(p["root"] + "/.cache/mine/new"),
        "write a temporary file": lambda: written(os.environ["TMPDIR"] + "/new"),
        "write the user's temporary folder": lambda: written(p["home"] + "/tmp/new"),
        "run a program of the project": lambda: run(p["root"] + "/evil"),
        "run it over a link": lambda: run(p["home"] + "/link"),
        "run a copy in its cache": lambda: copied(p["home"] + "/.cache/mine/copy"),
        "run a copy in its cache in the project": lambda: copied(p["root"] + "/.cache/mine/copy"),
        "run a copy among temporary files": lambda: copied(os.environ["TMPDIR"] + "/copy"),
        "run a program of the user": lambda: run(p["home"] + "/bin/mine"),
        "run a program of the system": lambda: run("/bin/true"),
        "connect": lambda: socket.create_connection(("127.0.0.1", p["port"]), 2).close(),
    }
    answer(m, {**{what: attempt(work) for what, work in tries.items()},
        "cwd": os.getcwd(), "parent": received[0]["params"]["processId"], "path": os.environ["PATH"], "temporary": os.environ["TMPDIR"]})
serve(handle)
"""
DENIED = "Permission denied"


@dataclass
class World:
    """A project, a home folder, and a server."""

    folder: Path
    root: Path = field(init=False)
    home: Path = field(init=False)

    def __post_init__(self) -> None:
        self.root, self.home = self.folder / "project", self.folder / "home"
        for path in (self.root, self.home / "bin", self.home / ".cache/other", self.home / "tmp"):
            path.mkdir(parents=True)
        self.put("a.cpp", "compile_commands.json")
        for program in (self.root / "evil", self.home / "bin/mine"):
            program.write_text("#!/bin/sh\n")
            program.chmod(0o755)
        (self.home / "link").symlink_to(self.root / "evil")
        keys = (".aws/credentials", "dotfiles/netrc", ".config/other/token", ".tools/credentials.toml")
        for name in (*keys, ".config/mine/config.yaml", ".tools/lib/library.so"):
            (self.home / name).parent.mkdir(parents=True, exist_ok=True)
            (self.home / name).write_text("")
        (self.home / ".tools/bin").mkdir()
        (self.home / ".netrc").symlink_to("dotfiles/netrc")

    def put(self, *names: str) -> None:
        for name in names:
            (self.root / name).write_text("")

    def launch(self, *, is_fenced: bool = True) -> Launch:
        kind = ServerSpecification(
            *("mine", {".cpp": "cpp"}, (("mine",),)),
            project_files=("compile_commands.json",),
            caches=("mine",),
            project_cache=".cache/mine",
        )
        inside = (f"{self.root}/bin", "node_modules/.bin", ".", "", str(self.root))
        env = {
            "HOME": str(self.home),
            "PATH": ":".join([*inside, f"{self.home}/.tools/bin", os.defpath]),
            "TMPDIR": str(self.home),
        }
        run = Command(command(TRIES), env, str(self.root))
        return Launch(kind, run, (self.root,), "1", is_fenced=is_fenced)

    @asynccontextmanager
    async def running(self, **members: bool) -> AsyncIterator[RunningServer]:
        server = await RunningServer.start(self.launch(**members), RecordedSync().make)
        try:
            yield server
        finally:
            await server.close()

    async def tried(self, **members: bool) -> Mapping[str, Any]:
        """What came of everything."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            params = {"root": str(self.root), "home": str(self.home), "port": listener.getsockname()[1]}
            async with self.running(**members) as server:
                answer: Mapping[str, Any] = await server.request("try", params)
                return answer


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@LANDLOCK_4
async def test_a_fenced_server_reads_and_writes_caches_and_nothing_else(world: World) -> None:
    tried = await world.tried()
    assert {what for what, came in tried.items() if came == "done"} == {
        "read the project",
        "read a file beside it",
        "read its settings",
        "read a library of a hidden program",
        "list the home folder",
        "write its cache",
        "write its cache in the project",
        "write a temporary file",
        "run a program of the user",
        "run a program of the system",
    }
    assert {came for came in tried.values() if came in (DENIED, "done")} == {DENIED, "done"}


async def test_a_fenced_server_starts_outside_of_the_project_and_sees_none_of_its_programs(
    world: World,
) -> None:
    tried = await world.tried()
    path = f"{world.home}/.tools/bin:{os.defpath.removeprefix(':')}"
    assert (tried["cwd"], tried["path"]) == ("/", path)


async def test_a_fenced_server_watches_no_process_that_it_cannot_see(world: World) -> None:
    assert (await world.tried())["parent"] is None


async def test_a_server_that_the_user_trusts_has_no_fence(world: World) -> None:
    tried = await world.tried(is_fenced=False)
    assert tried["parent"] == os.getpid()
    assert tried["cwd"] == str(world.root)
    assert tried["write the project"] == tried["run a program of the project"] == "done"


async def test_temporary_files_of_a_fenced_server_are_removed_when_it_ends(world: World) -> None:
    temporary = Path((await world.tried())["temporary"])
    assert temporary != world.home
    assert not temporary.exists()


@pytest.mark.parametrize("link", [".cache", ".cache/mine"])
@LANDLOCK_4
async def test_a_link_of_the_project_leads_no_cache_out_of_it(world: World, link: str) -> None:
    outside = world.folder / "outside"
    (outside / "mine").mkdir(parents=True)
    (world.root / link).parent.mkdir(exist_ok=True)
    (world.root / link).symlink_to(outside)
    tried = await world.tried()
    assert tried["write its cache in the project"] == DENIED
    assert [*outside.rglob("*")] == [outside / "mine"]


async def test_a_project_without_what_the_cache_is_made_from_gets_none(world: World) -> None:
    (world.root / "compile_commands.json").unlink()
    await world.tried()
    assert not (world.root / ".cache").exists()


@LINUX
async def test_our_sockets_know_a_fenced_server_as_confined(world: World) -> None:
    async with world.running() as server:
        assert is_confined(server.pid)
