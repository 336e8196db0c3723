"""Stdio MCP servers of a few lines, for tests of sources that are processes.

`program(body)` is the command of a server; `body` is Python that may use `say(message)`, `put(bytes)`,
`answer(id, result)`, `text(string)`, `tools` (the list) and `serve(call)`, where `call(message)` handles one
`tools/call`; the server answers everything else as it should.
"""

from __future__ import annotations

import os
import sys
import textwrap
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil

from lm_tools_bridge.machine.process_ending import read_variables
from workspace_server.config.model import EntryOrigin, StdioServer
from workspace_server.sources.feature_part import DefinitionGuard
from workspace_server.sources.mcp.stdio.restart_policy import RestartPolicy
from workspace_server.sources.mcp.stdio.sandbox import ServerSandbox
from workspace_server.sources.mcp.stdio.source import ReadSecret, StdioSource, Timeouts

MARK = "LMTB_TEST_MARK"
QUICK = Timeouts(start_s=5.0, write_s=5.0, polite_s=1.0, term_s=1.0)

_PRELUDE = """
import json, os, sys, time
out = os.fdopen(os.dup(1), "wb", 0)
def put(data):
    view = memoryview(data)
    while view:
        view = view[out.write(view):]
def say(message): put(json.dumps(message, ensure_ascii=False).encode() + b"\\n")
def answer(id, result): say({"jsonrpc": "2.0", "id": id, "result": result})
def text(string): return {"content": [{"type": "text", "text": string}]}
def notify(method, params=None): say({"jsonrpc": "2.0", "method": method, "params": params or {}})
tools = [{"name": "echo", "inputSchema": {"type": "object"}}]
initialize_result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "child", "version": "1"}}
def initialize(m): answer(m["id"], initialize_result)
def list_tools(m): answer(m["id"], {"tools": tools})
def other(m): pass
def serve(call):
    while line := sys.stdin.buffer.readline():
        m = json.loads(line)
        method = m.get("method")
        if method == "initialize": initialize(m)
        elif method == "tools/list": list_tools(m)
        elif method == "tools/call": call(m)
        elif method == "ping": answer(m["id"], {})
        else: other(m)
def echo(m): answer(m["id"], text(json.dumps(m["params"], ensure_ascii=False)))
"""


def program(body: str) -> tuple[str, ...]:
    """The command of a server."""
    return (sys.executable, "-I", "-S", "-c", source(body))


def source(body: str) -> str:
    """The text of a server's program."""
    return _PRELUDE + textwrap.dedent(body)


async def environment() -> Mapping[str, str]:
    """What every child of a test sees."""
    return {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}


@asynccontextmanager
async def stdio_source(
    command: tuple[str, ...] | str,
    root: Path,
    *,
    timeouts: Timeouts = QUICK,
    policy: Callable[[], RestartPolicy] = RestartPolicy,
    cache: Any = None,
    env: Mapping[str, str] | None = None,
    variables: Callable[[], Mapping[str, str]] = dict,
    sandbox: ServerSandbox | None = None,
    secrets: ReadSecret | None = None,
    trees: Callable[[], Sequence[str]] = tuple,
    guard: DefinitionGuard | None = None,
    **entry: Any,
) -> AsyncIterator[StdioSource]:
    """A source for the time of the block; afterwards nothing it started may be left."""
    mark = uuid.uuid4().hex
    server = StdioServer(
        "child",
        program(command) if isinstance(command, str) else command,
        EntryOrigin(root / "config.toml", "user"),
        env={MARK: mark, **(env or {})},
        **entry,
    )
    source = StdioSource(
        server,
        root=str(root),
        environment=environment,
        version="1",
        timeouts=timeouts,
        policy=policy,
        cache=cache,
        sandbox=sandbox,
        variables=variables,
        secrets=secrets,
        trees=trees,
        guard=guard,
    )
    try:
        yield source
    finally:
        await source.close()
        left = alive(mark)
        assert not left, left


def alive(mark: str) -> list[str]:
    """Command lines of living processes that carry the mark."""
    found = []
    for process in psutil.process_iter():
        try:
            if read_variables(process.pid).get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(" ".join(process.cmdline())[-200:])
        except psutil.Error:
            continue
    return found
