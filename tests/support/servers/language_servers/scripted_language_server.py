"""Language servers of a few lines: friendly, slow, hostile or broken ones, for tests that need no real server.

`command(body)` is the command of a server. `body` is Python that may use `say(message)`, `put(bytes)`,
`answer(message, result)`, `refuse(message, code, text)`, `notify(method, params)`, `ask(method, params)` and
`serve(handle)`; `handle(message)` gets everything but `initialize`, `initialized`, `shutdown` and `exit`, which are
answered as they should be, with `capabilities`. What the client answers to `ask` is a message without a method.
"""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from lm_tools_bridge.code_intelligence.freshness import Freshness
from lm_tools_bridge.code_intelligence.peer import Peer
from lm_tools_bridge.code_intelligence.server import DiagnosticsAnswer, RequestFailed, ServerOutdated
from lm_tools_bridge.code_intelligence.server_process.launch import Launch, Timeouts
from lm_tools_bridge.code_intelligence.server_process.running_server import RunningServer
from lm_tools_bridge.code_intelligence.specification import ServerSpecification
from lm_tools_bridge.code_intelligence.wire.connection import Connection
from support.processes.child_processes import alive
from workspace_server.processes.child_process import ChildProcess, Command

_PRELUDE = """
import json, os, sys, time
out = os.fdopen(os.dup(1), "wb", 0)
received = []
def put(data):
    view = memoryview(data)
    while view:
        view = view[out.write(view):]
def frame(body): return b"Content-Length: %d\\r\\n\\r\\n" % len(body) + body
def say(message): put(frame(json.dumps({"jsonrpc": "2.0", **message}).encode()))
def answer(m, result): say({"id": m["id"], "result": result})
def refuse(m, code, text): say({"id": m["id"], "error": {"code": code, "message": text}})
def notify(method, params=None): say({"method": method, **({} if params is None else {"params": params})})
asked = 0
def ask(method, params=None):
    global asked
    asked += 1
    say({"id": f"s{asked}", "method": method, **({} if params is None else {"params": params})})
    return f"s{asked}"
def read():
    length = None
    while (line := sys.stdin.buffer.readline()).strip():
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length": length = int(value)
    if length is None: sys.exit(0)
    m = json.loads(sys.stdin.buffer.read(length))
    received.append(m)
    return m
capabilities = {"positionEncoding": "utf-8", "definitionProvider": True, "referencesProvider": True,
                "documentSymbolProvider": True, "textDocumentSync": 2}
def initialize(m): answer(m, {"capabilities": capabilities, "serverInfo": {"name": "scripted", "version": "0.5"}})
def initialized(m): pass
def echo(m):
    if "id" in m and "method" in m: answer(m, m.get("params"))
def serve(handle=echo):
    while True:
        m = read()
        method = m.get("method")
        if method == "initialize": initialize(m)
        elif method == "initialized": initialized(m)
        elif method == "shutdown": answer(m, None)
        elif method == "exit": sys.exit(0)
        else: handle(m)
"""


def source(body: str) -> str:
    """The text of a server's program."""
    return _PRELUDE + textwrap.dedent(body)


def command(body: str) -> tuple[str, ...]:
    """The command line of a server."""
    return (sys.executable, "-I", "-S", "-c", source(body))


def process(body: str, cwd: str = "/", **env: str) -> Command:
    """The command, with an environment."""
    return Command(command(body), {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **env}, cwd)


class Heard:
    """What a server sent by itself, and why it ended."""

    def __init__(self) -> None:
        self.notifications: list[tuple[str, Any]] = []
        self.requests: list[tuple[str, Any]] = []
        self.ended: list[str] = []

    def notification(self, method: str, params: Any) -> None:
        self.notifications.append((method, params))

    def request(self, method: str, params: Any) -> Any:
        """Knows no method but `known`."""
        self.requests.append((method, params))
        if method == "known":
            return {"params": params}
        raise RequestFailed(-32601, f"unknown: {method}")


@asynccontextmanager
async def connected(body: str, heard: Heard | None = None, **limits: Any) -> AsyncIterator[Connection]:
    """A connection to such a server, not initialized; its process ends with the block."""
    heard = heard or Heard()
    child = await ChildProcess.start(process(body))
    connection = Connection(
        child,
        "scripted",
        on_notification=heard.notification,
        on_request=heard.request,
        on_end=heard.ended.append,
        **limits,
    )
    try:
        yield connection
    finally:
        await connection.close(polite_s=0.2, term_s=0.2)


class RecordedSync:
    """Stands for the part that follows the project: notes what it is told, and never finds a change."""

    open_documents = 3
    is_outdated = False

    def __init__(self) -> None:
        self.peer: Peer | None = None
        self.events: list[tuple[str, Any]] = []

    def make(self, peer: Peer) -> RecordedSync:
        """The `MakeSync` of a server."""
        self.peer = peer
        return self

    def said(self, what: str) -> list[Any]:
        """What came with all events of a kind."""
        return [content for kind, content in self.events if kind == what]

    def freshness(self) -> Freshness | None:
        return Freshness("scripted", "fresh") if self.said("started") else None

    async def begin(self) -> None:
        self.events.append(("started", None))

    def take_notification(self, method: str, params: Any) -> None:
        self.events.append((method, params))

    def take_refresh(self, method: str) -> None:
        self.events.append(("refreshed", method))

    async def tell_changes(self) -> None:
        self.events.append(("tell_changes", None))
        if self.is_outdated:
            raise ServerOutdated("its configuration is new")

    async def open(self, path: Path) -> Sequence[str]:
        return path.read_text().split("\n")

    def memo(self, path: Path) -> dict[str, Any]:
        return {}

    def aliases(self, path: Path) -> Sequence[Path]:
        return ()

    def guessed_files(self, paths: Sequence[Path]) -> Sequence[Path]:
        return ()

    async def ready(self, wait_s: float, progress: Any = None) -> Freshness:
        assert self.peer is not None
        await self.peer.request("ready?")
        return Freshness("scripted", "fresh")

    async def diagnostics(self, paths: Sequence[Path] | None, wait_s: float) -> DiagnosticsAnswer:
        assert self.peer is not None
        await self.peer.request("diagnostics?")
        return DiagnosticsAnswer([], Freshness("scripted", "fresh"))

    async def close(self) -> None:
        self.events.append(("closed", None))


QUICK = Timeouts(start_s=5, request_s=5, write_s=5, ping_s=0.3, polite_s=1, term_s=0.5)


def launch(body: str, folder: Path, *, env: Mapping[str, str] | None = None, **members: Any) -> Launch:
    """What starts a scripted server; `members` are those of its `ServerSpecification`."""
    kind = ServerSpecification(
        "scripted", {".txt": "text"}, (command(body),), install="pip install it", **members
    )
    return Launch(kind, process(body, str(folder), **(env or {})), (folder,), "1.2.3")


@asynccontextmanager
async def running(
    body: str,
    folder: Path,
    sync: RecordedSync | None = None,
    *,
    timeouts: Timeouts = QUICK,
    ended: list[str] | None = None,
    **members: Any,
) -> AsyncIterator[RunningServer]:
    """A running server for the time of the block; afterwards its process is gone."""
    server = await RunningServer.start(
        launch(body, folder, **members),
        (sync or RecordedSync()).make,
        on_end=([] if ended is None else ended).append,
        timeouts=timeouts,
    )
    try:
        yield server
    finally:
        await server.close()
        assert not alive(server.pid)
