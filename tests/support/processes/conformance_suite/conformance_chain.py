"""A real manager with the workspaces that the conformance suite is run against, by endpoint name.

Most workspaces contain the conformance server, attached over each transport and in each era, as their only source:
without a namespace and without built-in tools, so that a client cannot tell the workspace from the server itself.
The workspaces for the extension `tasks` have tools of their own.
"""

from __future__ import annotations

import contextlib
import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.processes.conformance_suite.conformance import (
    LEGS,
    NEED_NO_WORKSPACE,
    Leg,
    Run,
    expected_failures,
)
from support.processes.managers.manager_in_process import make_project
from support.processes.managers.manager_process import ManagerProcess, running_manager
from support.servers.conformance.task_tools import write_task_tools
from support.servers.sdk_servers.third_party import MODERN, ThirdParty, stdio_command

SERVER = Path(__file__).parents[2] / "servers" / "conformance" / "conformance_server.py"
READY_S = 30.0
OF_SERVERS = {"test_simple_text", "confirm_delete"}
"""A tool of each server: when it is there, all of a workspace is."""
SOURCES = ("stdio-legacy", "stdio-modern", "http-legacy", "http-modern", "http-both")
"""How the server is attached, and the eras it speaks there."""
BY_FOLDER = " by folder"
"""After a source: the same workspace, named by its folder instead of its id."""
TASK_SOURCES = ("tasks-legacy", "tasks-modern")
"""Workspaces with tools whose calls can be tasks, and the era that the server among them speaks."""


def endpoints_of(leg: str) -> tuple[str, ...]:
    """What a leg is run against; the first is what the others are compared with, where it is `direct`."""
    if leg == "tasks":
        return TASK_SOURCES
    by_folder = (f"http-both{BY_FOLDER}",) if leg in ("2025-11-25", "2026-07-28") else ()
    bare = ("bare",) if leg in NEED_NO_WORKSPACE else ()
    return ("direct", *SOURCES, *by_folder, *bare)


ENDPOINTS = tuple(dict.fromkeys(endpoint for leg in LEGS for endpoint in endpoints_of(leg)))


def kinds_of(endpoint: str) -> tuple[str, ...]:
    """What can make a difference at an endpoint: the era its source is spoken to in, and how it is named."""
    if endpoint == "bare":
        return (endpoint,)
    era = "legacy" if "legacy" in endpoint else "modern"
    return (era, "by-folder") if BY_FOLDER in endpoint else (era,)


def news(leg: Leg, endpoint: str, run: Run, there: Run) -> dict[str, str]:
    """Key -> why, of what went less well than there and is not expected to, and of what is expected in vain."""
    less = run.less_than(there)
    expected = expected_failures(leg, run, *kinds_of(endpoint))
    in_vain = dict.fromkeys(expected, "an entry is out of date: this is as it is directly")
    return {key: why for key, why in {**in_vain, **less}.items() if (key in less) != (key in expected)}


@dataclass(frozen=True)
class Chain:
    """The manager with its workspaces, and the server itself.

    Attributes:
        direct: the server's own endpoint.
        bare: the manager's fixed endpoint, which names no workspace.
        pure: source -> the endpoint of its workspace.
        folders: source -> the folder of its workspace.
    """

    direct: str
    bare: str
    pure: dict[str, str]
    folders: dict[str, Path]

    def url(self, endpoint: str) -> str:
        """`direct`, `bare`, or a source, with or without `BY_FOLDER`."""
        source, by_folder, _ = endpoint.partition(BY_FOLDER)
        if by_folder:
            # not pinned, a stateless client with roots is asked for them in each call
            return f"{self.bare}?cwd={self.folders[source]}&pin=true"
        return {"direct": self.direct, "bare": self.bare, **self.pure}[source]


@contextlib.contextmanager
def conformance_chain(folder: Path, *endpoints: str) -> Iterator[Chain]:
    """The chain for the time of the block, with these endpoints; its folders are made in `folder`."""
    named = {endpoint.partition(BY_FOLDER)[0] for endpoint in endpoints}
    sources = [source for source in (*SOURCES, *TASK_SOURCES) if source in named]
    server = ThirdParty.start("http", program=SERVER)
    try:
        with running_manager(folder / "user") as manager:
            bare = manager.address.replace("127.0.0.1", "localhost")
            folders = {source: _project(folder / source, source, server) for source in sources}
            pure = {source: _attached(manager, bare, root) for source, root in folders.items()}
            yield Chain(server.url.replace("127.0.0.1", "localhost"), bare, pure, folders)
    finally:
        server.kill()


def _project(root: Path, source: str, server: ThirdParty) -> Path:
    make_project(root)
    way, _, era = source.partition("-")
    if source in TASK_SOURCES:
        write_task_tools(root, era)
        return root
    if way == "stdio":
        command = json.dumps(stdio_command(f"--{era}", program=SERVER))
        entry = f"[[mcp.stdio_servers]]\ncommand = {command}"
    else:
        url = server.at({"both": "mcp"}.get(era, f"{era}/mcp"))
        entry = f'[[mcp.remote_servers]]\nurl = "{url}"'
    text = f'[builtin]\nenabled = false\n\n{entry}\nnamespace = ""\n'
    settings = root / ".lm-tools-bridge" / "workspace.toml"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text(text)
    return root


def _attached(manager: ManagerProcess, bare: str, root: Path) -> str:
    """Trust what the project configures, and wait until its server has answered; the pure endpoint."""
    trusted = manager.lmtb("trust", "--yes", str(root))
    assert trusted.returncode == 0, trusted.stdout + trusted.stderr
    deadline = time.monotonic() + READY_S
    while True:
        headers, tools = _tools(f"{bare}?cwd={root}")
        if not OF_SERVERS.isdisjoint(tools):
            return bare.replace("/mcp", f"/w/{headers['X-Workspace-Id']}/mcp")
        assert time.monotonic() < deadline, manager.lmtb("servers", cwd=root).stdout
        time.sleep(0.05)


def _tools(url: str) -> tuple[Any, list[str]]:
    meta = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": MODERN,
        "Mcp-Method": "tools/list",
    }
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=READY_S) as answer:
            result = json.load(answer).get("result", {})
            return answer.headers, [tool["name"] for tool in result.get("tools", [])]
    except urllib.error.HTTPError as refused:
        refused.close()
        return refused.headers, []
