"""Runs a manager in a temporary folder on a free port, and opens workspaces and sessions in it."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lm_tools_bridge.protocol import headers, jsonrpc, names
from manager.client import Control, ControlRefusal, ManagerFault, NoManager
from manager.configuration.paths import Paths
from scripts.benchmarks.cases import REVISION
from scripts.benchmarks.environment.nginx import NONCE
from scripts.benchmarks.environment.processes import READY_S, running, wait_for
from scripts.benchmarks.plan import ROOT

POST_HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
CLIENT = {"name": "bench", "version": "1"}
COMMAND = (sys.executable, "-I", "-m", "manager", "serve")


@dataclass(frozen=True)
class Manager:
    """A running manager: its process, its control socket, its address."""

    pid: int
    control: Control
    port: int
    environ: Mapping[str, str]

    def workspace(self, project: Path) -> str:
        """The id of the workspace of a folder."""
        return str(self.control.post("/resolve", {"cwd": str(project)})["match"]["workspace"])

    def address(self, path: str = names.MCP_PATH) -> str:
        """The address of a path."""
        return f"http://127.0.0.1:{self.port}{path}"


def environment(folder: Path) -> dict[str, str]:
    """The environment of a manager that keeps its folders in `folder` and uses a free port."""
    places = {f"LMTB_{one}_DIR": str(folder / one.lower()) for one in ("CONFIG", "STATE", "RUNTIME")}
    return {"PATH": os.environ["PATH"], "HOME": str(folder), "LMTB_HTTP_PORT": "0"} | places


@contextlib.contextmanager
def manager(folder: Path, on: frozenset[int], **settings: object) -> Iterator[Manager]:
    """Run a manager on these processors until the block ends.

    Args:
        settings: settings of the manager. Pass `fork_servers=False` if no workspace server of ours is called;
            otherwise the fork server is measured, too.
    """
    with manager_of(COMMAND, folder, on, settings) as one:
        yield one


@contextlib.contextmanager
def manager_of(
    command: Sequence[str], folder: Path, on: frozenset[int], settings: Mapping[str, object]
) -> Iterator[Manager]:
    """As `manager`, by this command."""
    folder.mkdir(parents=True, exist_ok=True)
    environ = environment(folder) | {f"LMTB_{name.upper()}": str(value) for name, value in settings.items()}
    control = Control(Paths.of_user(environ).control_socket)
    with running(*command, on=on, log=folder / "manager.log", cwd=folder, env=environ) as one:

        def address() -> str:
            if one.poll() is not None:
                raise RuntimeError((folder / "manager.log").read_text())
            return str(control.get("/status")["address"])

        found = wait_for(address, NoManager, ManagerFault, what="the manager")
        yield Manager(one.pid, control, int(found.removesuffix(names.MCP_PATH).rpartition(":")[2]), environ)


def project(folder: Path) -> Path:
    """Create a folder that counts as a project."""
    (folder / ".git").mkdir(parents=True)
    return folder


@contextlib.contextmanager
def registered(one: Manager, projects: Sequence[Path], port: int, pid: int) -> Iterator[None]:
    """Register a server that was started elsewhere for these projects, until the block ends."""
    stop = threading.Event()
    beats = [
        {
            "sessionId": f"bench-{number}", "pid": pid, "workspaceFolders": [str(each)], "host": "127.0.0.1",
            "port": port, "nonce": NONCE, "kind": "workspace-server",
        }
        for number, each in enumerate(projects)
    ]  # fmt: skip

    def beat() -> None:
        for each in beats:
            one.control.post("/heartbeat", each)

    def keep() -> None:
        while not stop.wait(1.0):
            with contextlib.suppress(NoManager, ManagerFault):  # the manager is busy or stopping
                beat()

    def all_ready() -> bool:
        return [each["state"] for each in one.control.get("/list")["instances"]] == ["ready"] * len(beats)

    beat()
    thread = threading.Thread(target=keep, daemon=True)
    thread.start()
    try:
        wait_for(all_ready, NoManager, ManagerFault, ControlRefusal, what="the registered server")
        yield
    finally:
        stop.set()
        thread.join()


def post(
    address: str, body: bytes, fields: Mapping[str, str], wait_s: float = READY_S
) -> tuple[bytes, Mapping[str, str]]:
    """Send a POST request; return the body and the header fields of the answer."""
    request = urllib.request.Request(address, body, {**POST_HEADERS, **fields})
    with urllib.request.urlopen(request, timeout=wait_s) as response:
        return response.read(), response.headers


def opened_session(address: str) -> str:
    """Open a session (MCP 2025-11-25) and return its id; empty if the server has no sessions."""
    params = {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": CLIENT}
    _, said = post(address, jsonrpc.request(b"1", names.INITIALIZE, params), {})
    session = said.get(headers.SESSION, "")
    fields = {headers.VERSION: REVISION} | ({headers.SESSION: session} if session else {})
    post(address, jsonrpc.notification(names.INITIALIZED), fields)
    return str(session)


def bound_session(one: Manager, folder: Path) -> str:
    """Open a session, bind it to the workspace of a folder, and return its id."""
    session = opened_session(one.address())
    call: dict[str, Any] = {"name": names.HANDSHAKE, "arguments": {"cwd": str(folder)}}
    body = jsonrpc.request(b"2", names.TOOLS_CALL, call)
    said, _ = post(one.address(), body, {headers.VERSION: REVISION, headers.SESSION: session})
    if b'"isError":true' in said:
        raise RuntimeError(said.decode())
    return session


def version() -> str:
    """The version of the measured sources, by `git describe`."""
    import subprocess  # only this function uses it

    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=9"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
