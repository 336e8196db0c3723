"""The sandbox of stdio servers, tried from inside by programs that want to leave it."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lm_tools_bridge.protocol import jsonrpc
from lm_tools_bridge.protocol.errors import Refusal
from support.processes.child_processes import ENV, output
from support.processes.timeouts import within
from support.servers.mcp_sources.stdio_servers import program, stdio_source
from workspace_server.call_context import CallContext
from workspace_server.config.model import Sandbox
from workspace_server.processes.child_process import Command
from workspace_server.processes.confinement import available_layers
from workspace_server.sources.mcp.stdio import sandbox
from workspace_server.sources.mcp.stdio.sandbox import SandboxError, ServerSandbox, refused_path
from workspace_server.sources.mcp.stdio.source import StdioSource

LAYERS = available_layers()
holds = pytest.mark.skipif(
    not any(layer.startswith("landlock") for layer in LAYERS) or "fixed-files" not in LAYERS,
    reason="this system cannot hold a sandbox",
)
TRY = """
import os, socket, sys
def attempt(work):
    try:
        work()
    except OSError as error:
        return error.errno
    return 0
"""


class Place:
    """A project in a home folder, and a sandbox around it."""

    def __init__(self, base: Path) -> None:
        self.home, self.project = base / "home", base / "home" / "project"
        (self.project / ".git" / "hooks").mkdir(parents=True)
        (self.project / "src").mkdir()
        (self.home / ".ssh").mkdir()
        (self.home / ".ssh" / "id").write_text("key")
        (self.home / ".bashrc").write_text("start")
        self.env = {**ENV, "HOME": str(self.home)}
        self._sandboxes: list[ServerSandbox] = []

    def around(self, script: str, **rules: Any) -> Command:
        box = ServerSandbox(Sandbox(**rules), self.project, "s")
        self._sandboxes.append(box)
        argv = (sys.executable, "-I", "-S", "-c", TRY + script)
        return box.around(Command(argv, self.env, str(self.project)))

    def close(self) -> None:
        for box in self._sandboxes:
            box.close()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    place.close()


async def tried(place: Place, attempts: dict[str, str], **rules: Any) -> set[str]:
    """Those of the attempts, each a Python expression, that were refused."""
    lines = [f"    {name!r}: attempt(lambda: {work})," for name, work in attempts.items()]
    script = "import json\nfrom pathlib import Path\nprint(json.dumps({\n" + "\n".join(lines) + "\n}))"
    numbers = json.loads(await output(place.around(script, **rules)))
    return {name for name, number in numbers.items() if number}


@holds
async def test_a_server_writes_to_the_project_and_to_folders_of_its_own(place: Place) -> None:
    attempts = {
        "project": "Path('new').write_text('x')",
        "temporary": "Path(os.environ['TMPDIR'], 'new').write_text('x')",
        "npm": "Path(os.environ['npm_config_cache']).mkdir(parents=True)",
        "uv": "Path(os.environ['UV_TOOL_DIR']).mkdir(parents=True)",
        "read": "Path(os.environ['HOME'], '.ssh/id').read_text()",
        "null": "Path('/dev/null').write_text('x')",
    }
    assert await tried(place, attempts) == set()


@holds
async def test_it_writes_no_key_no_start_up_file_and_nothing_that_git_runs(place: Place) -> None:
    attempts = {
        "key": "Path(os.environ['HOME'], '.ssh/id').write_text('x')",
        "new key": "Path(os.environ['HOME'], '.ssh/new').write_text('x')",
        "truncate": "os.truncate(os.environ['HOME'] + '/.bashrc', 0)",
        "remove": "os.unlink(os.environ['HOME'] + '/.bashrc')",
        "mode": "os.chmod(os.environ['HOME'] + '/.ssh', 0o777)",
        "time": "os.utime(os.environ['HOME'] + '/.bashrc')",
        "attribute": "os.setxattr(os.environ['HOME'] + '/.bashrc', 'user.x', b'y')",
        "link": "os.link(os.environ['HOME'] + '/.bashrc', 'mine')",
        "shared temporary": "Path('/tmp/lmtb-sandbox-test').write_text('x')",
        "hook": "Path('.git/hooks/pre-commit').write_text('x')",
        "planted": "Path('.git/commondir').write_text('x')",
        "moved": "os.rename('.git', 'git')",
        "users cache": "Path(os.environ['HOME'], '.npm').mkdir()",
    }
    assert await tried(place, attempts) == attempts.keys()
    assert (place.home / ".bashrc").read_text() == "start"


@holds
async def test_a_link_in_the_project_leads_out_of_no_sandbox(place: Place) -> None:
    (place.project / "out").symlink_to(place.home)
    assert await tried(place, {"through": "Path('out/.bashrc').write_text('x')"}) == {"through"}


@holds
async def test_it_can_be_allowed_more(place: Place) -> None:
    (place.home / "notes").mkdir()
    attempts = {
        "notes": "Path(os.environ['HOME'], 'notes/new').write_text('x')",
        "git": "Path('.git/index').write_text('x')",
        "other": "Path(os.environ['HOME'], '.bashrc').write_text('x')",
    }
    allowed = (str(place.home / "notes"), str(place.project / ".git"))
    assert await tried(place, attempts, write=allowed) == {"other"}


@holds
async def test_it_can_be_allowed_less(place: Place) -> None:
    attempts = {
        "source": "Path('src/new').write_text('x')",
        "moved": "os.rename('src', 'old')",
        "elsewhere": "Path('new').write_text('x')",
        "key": "Path(os.environ['HOME'], '.ssh/id').read_text()",
    }
    fixed, unread = (str(place.project / "src"),), (str(place.home / ".ssh"),)
    refused = await tried(place, attempts, fixed=fixed, unread=unread)
    assert refused == {"source", "moved", "key"}


@holds
async def test_the_folders_around_what_it_may_not_write_stay_in_their_places(place: Place) -> None:
    (place.project / "src" / "deep").mkdir()
    attempts = {"moved": "os.rename('src', 'old')", "beside": "Path('src/new').write_text('x')"}
    assert await tried(place, attempts, fixed=(str(place.project / "src/deep"),)) == {"moved"}


@holds
@pytest.mark.parametrize("kind", ["SOCK_STREAM", "SOCK_DGRAM"])
async def test_without_a_network_not_even_this_machine_is_reached(place: Place, kind: str) -> None:
    reach = f"socket.socket(socket.AF_INET, socket.{kind}).connect(('127.0.0.1', 9))"
    away = f"socket.socket(socket.AF_INET, socket.{kind}).connect(('192.0.2.1', 9))"
    assert await tried(place, {"here": reach, "away": away}, network=False) == {"here", "away"}


@holds
async def test_the_sockets_of_the_users_session_are_hidden(place: Place, tmp_path: Path) -> None:
    """Behind them are programs that run what they are asked to, such as systemd."""
    session = tmp_path / "session"
    session.mkdir()
    place.env["XDG_RUNTIME_DIR"] = str(session)
    connect = "socket.socket(socket.AF_UNIX).connect(os.environ['XDG_RUNTIME_DIR'] + '/bus')"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(session / "bus"))
        listener.listen()
        assert await tried(place, {"connect": connect}) == {"connect"}


@holds
def test_no_two_servers_share_a_cache(place: Place) -> None:
    other = ServerSandbox(Sandbox(), place.project, "other")
    try:
        theirs = other.around(Command(("x",), place.env, "/")).env["npm_config_cache"]
    finally:
        other.close()
    assert place.around("").env["npm_config_cache"] != theirs


def test_its_temporary_files_go_with_it(tmp_path: Path) -> None:
    place = Place(tmp_path)
    temporary = Path(place.around("").env["TMPDIR"])
    assert temporary.is_dir()
    place.close()
    assert not temporary.exists()


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        ((), "takes Landlock"),
        (("fixed-files",), "takes Landlock"),
        (("landlock-abi-7",), "takes namespaces"),
    ],
)
def test_what_a_system_cannot_hold_is_not_started(
    place: Place, monkeypatch: pytest.MonkeyPatch, layers: tuple[str, ...], words: str
) -> None:
    monkeypatch.setattr(sandbox, "available_layers", lambda: layers)
    with pytest.raises(SandboxError, match=words) as refused:
        place.around("")
    assert "lmtb servers sandbox s off" in str(refused.value)


@holds
@pytest.mark.parametrize("member", ["unread", "fixed"])
def test_a_rule_that_cannot_be_held_is_a_reason_not_to_start(place: Place, member: str) -> None:
    path, step = ("src", "move it") if member == "unread" else ("missing", "correct deny_write in its entry")
    with pytest.raises(SandboxError, match=f"{path}.*{step}"):
        place.around("", **{member: (str(place.project / path),)})


@holds
def test_a_git_folder_behind_a_link_cannot_be_held(tmp_path: Path) -> None:
    place = Place(tmp_path)
    (place.project / ".git").rename(tmp_path / "git")
    (place.project / ".git").symlink_to(tmp_path / "git")
    with pytest.raises(SandboxError, match=r"is a link; .*lmtb servers sandbox s off"):
        place.around("")
    place.close()


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("npm error code EACCES: permission denied, mkdir '/home/a/.npm'", "/home/a/.npm"),
        ("PermissionError: [Errno 13] Permission denied: '/home/a/x y'", "/home/a/x"),
        (
            "error: failed to create directory `/home/a/.local`: Permission denied (os error 13)",
            "/home/a/.local",
        ),
        ("mkdir: cannot create directory ‘/home/a/d’: Read-only file system", "/home/a/d’"),
        ("open /home/a/.config/x: permission denied", "/home/a/.config/x"),
        ("EACCES: permission denied, open '/project/in', then '/home/a'", "/home/a"),
        ("see https://example.org/help about permission denied", None),
        ("reading /home/a/.npm", None),
        ("EACCES: permission denied, open '/project/in'", None),
    ],
)
def test_the_refused_path_is_found_in_what_programs_write(line: str, path: str | None) -> None:
    assert refused_path(line, [Path("/project")]) == path


def test_what_was_refused_is_told_with_the_command_that_allows_it(place: Place) -> None:
    box = ServerSandbox(Sandbox(), place.project, "s")
    assert box.explain() == ""
    for path in ("/home/a b", "/home/c", "/home/c"):
        box.note(f"EACCES: permission denied, open '{path}'")
    assert box.refused == ["/home/a", "/home/c"]
    assert box.explain().endswith("run: lmtb servers allow-write s /home/a")
    assert os.fspath(place.project) not in box.explain()


WRITER = """
def write(m):
    path = m["params"]["arguments"]["path"]
    try:
        with open(path, "w") as file:
            file.write("x")
        answer(m["id"], text("written"))
    except OSError as error:
        sys.stderr.write(f"{error}\\n")
        sys.stderr.flush()
        answer(m["id"], text("refused"))
serve(write)
"""


@holds
@pytest.mark.processes
async def test_a_server_runs_in_its_sandbox_and_its_status_says_what_was_refused(place: Place) -> None:
    box = ServerSandbox(Sandbox(), place.project, "child")
    outside, inside = str(place.home / "outside"), str(place.project / "inside")
    async with stdio_source(program(WRITER), place.project, sandbox=box) as source:
        assert await write(source, inside) == "written"
        assert await write(source, outside) == "refused"
        async with asyncio.timeout(within(5)):
            while not source.status()["refusedBySandbox"]:
                await asyncio.sleep(0.01)
        assert source.status()["refusedBySandbox"] == [outside]


async def write(source: StdioSource, path: str) -> str:
    raw = msgspec.Raw(jsonrpc.dumps({"path": path}))
    outcome = await source.call_tool("echo", {}, CallContext(arguments=raw))
    assert isinstance(outcome, msgspec.Raw)
    said: str = json.loads(jsonrpc.bytes_of(outcome))["content"][0]["text"]
    return said


@pytest.mark.processes
async def test_a_server_whose_sandbox_cannot_be_held_does_not_run(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "available_layers", lambda: ())
    box = ServerSandbox(Sandbox(), place.project, "child")
    async with stdio_source(program(WRITER), place.project, sandbox=box) as source:
        outcome = await source.call_tool("echo", {}, CallContext(arguments=msgspec.Raw(b"{}")))
        assert isinstance(outcome, Refusal)
        assert "this system cannot hold its sandbox" in outcome.message
        assert source.shared_pid is None
