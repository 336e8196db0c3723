"""Clients that stop reading, or stop sending: how much the manager holds for them, and that others are served."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

import pytest

from lm_tools_bridge.protocol import headers, names
from lm_tools_bridge.protocol.errors import Reason
from support.processes.timeouts import GUARD_S
from support.projects.registered_setup import RegisteredSetup, registered_setup
from support.servers.scripted.scripted_workspace_server import event, result, stream

MIB: Final = 1024 * 1024
LIMIT: Final = 8 * MIB
LARGE: Final = 5 * MIB
CLIENTS: Final = 10
TEXT: Final = {"content": [{"type": "text", "text": "x" * LARGE}], "resultType": "complete"}
SMALL: Final = {"content": [], "resultType": "complete"}


async def buffered(setup: RegisteredSetup) -> tuple[float, float]:
    """The bytes in large buffers now, and the most there were."""
    async with setup.http.get(f"{setup.manager.base}/metrics") as response:
        lines = dict(line.rsplit(" ", 1) for line in (await response.text()).splitlines() if line[0] != "#")
    return float(lines["lmtb_buffered_bytes"]), float(lines["lmtb_buffered_peak_bytes"])


@contextlib.asynccontextmanager
async def sent(
    setup: RegisteredSetup, session: str, body: bytes, length: int | None = None
) -> AsyncIterator[asyncio.StreamReader]:
    """A request whose client reads only what the test reads; `length` may promise more than the body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", setup.manager.port, limit=1024)
    lines = [
        f"POST /mcp?cwd={setup.upstream.root} HTTP/1.1", f"Host: 127.0.0.1:{setup.manager.port}",
        "Content-Type: application/json", "Accept: application/json, text/event-stream",
        f"Content-Length: {length or len(body)}", f"{headers.SESSION}: {session}",
    ]  # fmt: skip
    writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
    try:
        yield reader
    finally:
        writer.transport.abort()


def call(name: str, pad: int = 0) -> bytes:
    params = {"name": name, "arguments": {"pad": " " * pad}}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": names.TOOLS_CALL, "params": params}).encode()


async def until(condition: Callable[[float, float], bool], setup: RegisteredSetup) -> None:
    async with asyncio.timeout(GUARD_S):
        while not condition(*await buffered(setup)):
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("kind", ["json", "events"])
async def test_what_stopped_readers_leave_unread_is_limited_and_dropped_with_them(
    tmp_path: Path, kind: str
) -> None:
    async with (
        registered_setup(tmp_path, buffer_limit=LIMIT, client_read_timeout_s=1.0) as setup,
        contextlib.AsyncExitStack() as stack,
    ):
        setup.upstream.answers["small"] = result(SMALL)
        text = b'{"jsonrpc":"2.0","id":%%(id)s,"result":%b}' % json.dumps(TEXT).encode()
        setup.upstream.answers["large"] = result(TEXT) if kind == "json" else stream(event(text))
        neighbour = await setup.legacy()
        sessions = [(await setup.legacy()).session for _ in range(CLIENTS)]
        readers = [
            await stack.enter_async_context(sent(setup, session or "", call("large"))) for session in sessions
        ]
        await until(lambda now, peak: peak >= LARGE, setup)
        assert (await neighbour.call("small")).result == {"content": []}
        await until(lambda now, peak: now == 0, setup)
        assert (await buffered(setup))[1] <= LIMIT + LARGE + MIB
        async with asyncio.timeout(GUARD_S):
            for reader in readers:
                with contextlib.suppress(ConnectionError):
                    assert len(await reader.read()) < LARGE


async def test_bodies_that_never_end_are_limited_and_refused(tmp_path: Path) -> None:
    async with (
        registered_setup(tmp_path, buffer_limit=LIMIT, body_timeout_s=3.0) as setup,
        contextlib.AsyncExitStack() as stack,
    ):
        setup.upstream.answers["small"] = result(SMALL)
        neighbour = await setup.legacy()
        sessions = [(await setup.legacy()).session for _ in range(CLIENTS)]
        body = call("small", LARGE)
        readers = [
            await stack.enter_async_context(sent(setup, session or "", body[:-1], len(body)))
            for session in sessions
        ]
        assert (await neighbour.call("small")).result == {"content": []}
        async with asyncio.timeout(GUARD_S):
            refusals = [await reader.read() for reader in readers]
        statuses = sorted(refusal.split()[1] for refusal in refusals)
        assert set(statuses) == {b"408", b"503"}
        busy = next(refusal for refusal in refusals if refusal.split()[1] == b"503")
        assert b"Retry-After: " in busy
        error = json.loads(busy.partition(b"\r\n\r\n")[2])["error"]
        assert (error["code"], error["data"]["reason"]) == (Reason.OVERLOADED.code, "overloaded")
        assert error["data"]["retryAfterMs"] > 0
        assert "buffer_limit" in error["message"]
        now, peak = await buffered(setup)
        assert (now, peak <= LIMIT) == (0, True)
        assert (await neighbour.call("small", {"pad": " " * (MIB // 2)})).result == {"content": []}
