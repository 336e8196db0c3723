"""Tests that a manager which has started loads nothing any more: an upgrade may remove its files at any time."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from aiohttp import ClientSession

from support.clients.raw_clients import SessionClient
from support.processes.managers.manager_home import ManagerHome, until
from support.processes.managers.manager_in_process import make_project

# Runs the manager, and writes the name of every module that is imported to a file.
RECORDER = """#!{python} -I
import sys
record = open("{record}", "a", buffering=1)
del sys.argv[1:4]  # -I -m manager
class Recorder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        record.write(name + "\\n")
sys.meta_path.insert(0, Recorder)
from manager.cli import main
main()
"""
LOADED = "late_modules.loaded"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems load psutil's modules for them")
async def test_running_manager_imports_nothing_for_the_first_time(
    home: ManagerHome, http: ClientSession, tmp_path: Path
) -> None:
    record, script = tmp_path / "imported", tmp_path / "recorder.py"
    script.write_text(RECORDER.format(python=sys.executable, record=record))
    script.chmod(0o755)
    home.python = str(script)
    manager = await home.start(log_level="debug")
    home.python = None
    await until(lambda: LOADED in manager.log.read_text(), 20, manager.log.read_text)
    before = record.read_text().splitlines()
    assert {"manager.admin.prometheus_text", "aiohttp.web", "psutil"} <= set(before)

    base = manager.address.removesuffix("/mcp")
    for path in ("/mcp/status", "/mcp/log", "/mcp/health", "/metrics", "/", "/nothing"):
        async with http.get(f"{base}{path}") as answer:
            assert answer.status in {200, 404}, path
    async with http.post(f"{base}/allocate", json={"sessionId": "s", "preferredPort": 12000}) as answer:
        assert answer.status == 200
    for folder in ("one", "two"):
        client = await SessionClient.connect(http, manager.address)
        project = make_project(tmp_path / folder)
        assert (await client.handshake(project)).payload["ok"] is True
        assert (await client.call("calculator", {"expression": "6*7"})).payload == {"value": 42}
        stateless = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        async with http.post(f"{manager.address}?cwd={project}", json=stateless) as answer:
            assert answer.status < 500
    for verb in (["status"], ["workspaces"], ["clients"], ["tools"], ["servers"], ["log"], ["doctor"]):
        await home.lmtb(*verb, cwd=tmp_path / "one")
    for pid in home.servers():
        (Path("/proc") / str(pid) / "stat").read_text()
    assert record.read_text().splitlines()[len(before) :] == []
