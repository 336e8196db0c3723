"""Starts the third-party test server, and calls it directly with the official SDK's client.

Tests compare a source's answers with those of the same server to `direct`, which has none of our code in between.
"""

from __future__ import annotations

import contextlib
import select
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

SERVER = Path(__file__).with_name("third_party_server.py")
Era = Literal["legacy", "modern", "both"]
Way = Literal["http", "sse"]
MODERN = "2026-07-28"
START_S = 20.0


def stdio_command(*options: str, program: Path = SERVER) -> tuple[str, ...]:
    """The command line of the server over standard input and output; `options` as `--legacy`, `--page-size=2`."""
    return (sys.executable, str(program), "--stdio", *options)


@dataclass(frozen=True)
class ThirdParty:
    """A running server. `url` is its endpoint."""

    url: str
    port: int
    process: subprocess.Popen[bytes]

    @classmethod
    def start(cls, way: Way, *options: str, port: int = 0, program: Path = SERVER) -> ThirdParty:
        """Start the server over HTTP and wait until it answers. Blocks for most of a second.

        `program` is another one with the same command line (`serving.py`).
        """
        line = (sys.executable, str(program), f"--{way}={port}", *options)
        process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            assert process.stdout is not None
            ready, _, _ = select.select([process.stdout], [], [], START_S)
            bound = int(process.stdout.readline() if ready else b"")
        except BaseException:
            _end(process)
            raise
        return cls(f"http://127.0.0.1:{bound}/{'mcp' if way == 'http' else 'sse'}", bound, process)

    def at(self, path: str) -> str:
        """The endpoint of another server in the same process: `modern/mcp`, `json/mcp`, `sse` (see `VARIANTS`)."""
        return f"http://127.0.0.1:{self.port}/{path}"

    def kill(self) -> None:
        """End it at once, as a machine that loses power."""
        _end(self.process)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


@contextlib.contextmanager
def third_party(way: Way, *options: str, port: int = 0) -> Iterator[ThirdParty]:
    """The server for the time of the block. It ends with us, whatever happens: it watches its standard input."""
    server = ThirdParty.start(way, *options, port=port)
    try:
        yield server
    finally:
        server.kill()


@dataclass
class Direct:
    """The SDK's session with the server, below its models: results as they came."""

    _ask: Any
    era: str

    async def request(
        self, method: str, params: dict[str, Any] | None = None, **options: Any
    ) -> dict[str, Any]:
        """The raw result of one request; `mcp.MCPError` for an error."""
        result: dict[str, Any] = await self._ask(method, params or {}, options or None)
        return result

    async def call(self, tool: str, arguments: dict[str, Any] | None = None) -> dict[str, Any]:
        """The raw result of `tools/call`."""
        return await self.request("tools/call", {"name": tool, "arguments": arguments or {}})

    async def definitions(self) -> list[dict[str, Any]]:
        """Every tool definition, all pages."""
        found: list[dict[str, Any]] = []
        cursor: dict[str, Any] = {}
        while True:
            page = await self.request("tools/list", cursor)
            found += page["tools"]
            if "nextCursor" not in page:
                return found
            cursor = {"cursor": page["nextCursor"]}


@contextlib.asynccontextmanager
async def direct(
    url_or_command: str | tuple[str, ...],
    era: Era = "both",
    headers: dict[str, str] | None = None,
    *,
    root: Path | None = None,
    env: dict[str, str] | None = None,
    declines: bool = False,
) -> AsyncIterator[Direct]:
    """The SDK's client, connected to a URL (one that ends in `/sse` by the older way) or to a command.

    `root` is the one root it has, and the folder of the command, which gets the variables of `env`. A client that
    `declines` can be asked for samples and by forms and pages, and refuses all of it.
    """
    import httpx2
    import mcp
    from mcp.client.sse import sse_client
    from mcp.client.streamable_http import streamable_http_client

    mode = {"legacy": "legacy", "modern": MODERN, "both": "auto"}[era]
    async with contextlib.AsyncExitStack() as stack:
        server: Any
        if isinstance(url_or_command, tuple):
            server = mcp.StdioServerParameters(
                command=url_or_command[0], args=list(url_or_command[1:]), env=env, cwd=root
            )
        elif url_or_command.endswith("/sse"):
            server = sse_client(url_or_command, headers=headers)
        else:
            http = await stack.enter_async_context(httpx2.AsyncClient(headers=headers, timeout=30))
            server = streamable_http_client(url_or_command, http_client=http)
        roots = None if root is None else _roots(root)
        callbacks: dict[str, Any] = {"list_roots_callback": roots, **(_declining() if declines else {})}
        client = await stack.enter_async_context(
            mcp.Client(server, mode=mode, read_timeout_seconds=20, **callbacks)
        )
        session: Any = client.session
        if session.protocol_version == MODERN:
            await session.list_tools()  # it mirrors arguments into headers only for tools it has seen
        # Below the models: the session's own dispatcher, with the headers and the `_meta` its era wants.
        yield Direct(_raw(session), session.protocol_version)


def _raw(session: Any) -> Any:
    async def ask(method: str, params: dict[str, Any], options: Any) -> Any:
        data: dict[str, Any] = {"method": method, "params": params}
        opts: dict[str, Any] = dict(options or {})
        session._stamp(data, opts)
        return await session._dispatcher.send_raw_request(method, data["params"], opts)

    return ask


def _roots(root: Path) -> Any:
    import mcp_types

    async def answer(_: Any) -> Any:
        return mcp_types.ListRootsResult(roots=[mcp_types.Root(uri=root.as_uri(), name=root.name)])

    return answer


def _declining() -> dict[str, Any]:
    import mcp_types

    async def sample(_: Any, __: Any) -> Any:
        return mcp_types.ErrorData(code=-1, message="the user declined")

    async def elicit(_: Any, __: Any) -> Any:
        return mcp_types.ElicitResult(action="decline")

    return {"sampling_callback": sample, "elicitation_callback": elicit}
