"""Tests that a real manager loads aiohttp and its pages with the first request for a page."""

from __future__ import annotations

import http.client
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import lm_tools_bridge
from lm_tools_bridge.protocol import names
from manager.client import Control
from manager.configuration.paths import Paths
from support.clients.stateless_requests import META
from support.processes.managers.manager_process import READY_S, environment

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return environment(tmp_path)


@contextmanager
def running(environ: dict[str, str], log: Path, *program: str) -> Iterator[tuple[int, int]]:
    """The process id and port of a manager without any request so far; it must end without a fault."""
    with log.open("wb") as output:
        process = subprocess.Popen([sys.executable, "-I", *program, "serve"], env=environ, stderr=output)
    try:
        deadline = time.monotonic() + READY_S
        while '"ready"' not in log.read_text():
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.02)
        said = next(json.loads(line) for line in log.read_text().splitlines() if '"ready"' in line)
        yield process.pid, int(said["address"].rpartition(":")[2].partition("/")[0])
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(READY_S) == 0


@pytest.fixture
def manager(environ: dict[str, str], tmp_path: Path) -> Iterator[tuple[int, int]]:
    with running(environ, tmp_path / "log", "-m", "manager") as one:
        yield one


def loaded(pid: int, library: str) -> bool:
    """Whether a process has loaded compiled parts of a library."""
    return f"/{library}/" in Path(f"/proc/{pid}/maps").read_text()


def ask(port: int, method: str, path: str, body: bytes | None = None, **fields: str) -> int:
    """The status of a response."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=READY_S)
    try:
        connection.request(
            method, path, body, {name.replace("_", "-"): text for name, text in fields.items()}
        )
        response = connection.getresponse()
        response.read()
        return response.status
    finally:
        connection.close()


def discover(port: int) -> int:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": META}})
    sent = {"Content_Type": "application/json", "Accept": "application/json, text/event-stream"}
    sent |= {"MCP_Protocol_Version": META[names.META_VERSION], "Mcp_Method": "server/discover"}
    return ask(port, "POST", "/mcp", body.encode(), **sent)


def test_a_client_of_mcp_has_nothing_loaded(manager: tuple[int, int]) -> None:
    pid, port = manager
    assert discover(port) == 200
    assert loaded(pid, "httptools")
    assert not loaded(pid, "aiohttp")


@pytest.mark.parametrize("path", ["/mcp/status", "/metrics", "/nowhere"])
def test_the_first_page_is_loaded_and_served(manager: tuple[int, int], path: str) -> None:
    pid, port = manager
    assert ask(port, "GET", path) == (404 if path == "/nowhere" else 200)
    assert loaded(pid, "aiohttp")
    assert discover(port) == 200


def test_libraries_loaded_afterwards_can_use_tls() -> None:
    """aiohttp is loaded without TLS support, which must not affect libraries that are imported later."""
    program = """
import pathlib, ssl, sys
from manager.listener.aiohttp_server import LazyAiohttpServer
before = set(sys.modules)
LazyAiohttpServer(lambda: None)._make_runner()
assert sys.modules["aiohttp.connector"].ssl is None
for name, one in sys.modules.items():
    source = pathlib.Path(getattr(one, "__file__", None) or "nowhere")
    if name not in before and not name.startswith("aiohttp") and source.suffix == ".py":
        assert "\\nimport ssl\\n" not in source.read_text() or one.ssl is ssl, name
from urllib.request import HTTPSHandler
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=READY_S)


def test_the_first_request_on_the_control_socket_loads_them_too(
    manager: tuple[int, int], environ: dict[str, str]
) -> None:
    pid, _ = manager
    assert Control(Paths.of_user(environ).control_socket).get("/status")["pid"] == pid
    assert loaded(pid, "aiohttp")


def test_a_manager_whose_files_are_gone_is_asked_and_stopped(environ: dict[str, str], tmp_path: Path) -> None:
    """An upgrade replaces the files before it stops the manager: what is loaded half a second late is enough."""
    sources = tmp_path / "sources"
    for house in ("lm_tools_bridge", "manager", "workspace_server"):
        shutil.copytree(Path(lm_tools_bridge.__file__).parents[1] / house, sources / house)
    program = f"import sys; sys.path.insert(0, {str(sources)!r}); from manager.cli import main; main()"
    log = tmp_path / "log"
    with running({**environ, "LMTB_LOG_LEVEL": "debug"}, log, "-c", program) as (pid, port):
        deadline = time.monotonic() + READY_S
        while "late_modules.loaded" not in log.read_text():
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.02)
        for file in sources.rglob("*.py*"):
            file.write_bytes(b"raise RuntimeError('this is the next version')")
        assert ask(port, "GET", "/mcp/status") == 200
        control = Control(Paths.of_user(environ).control_socket)
        assert control.get("/status")["pid"] == pid
        assert control.post("/shutdown", {"reason": "upgrade", "keepServers": True})["ok"]
        # a process that has ended is there until its parent has asked
        while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
            time.sleep(0.02)
