"""The official Python SDK as a program that is told by JSON lines what to do; for its releases 1.30 and 2.

Usage: `python python_sdk.py OPTIONS`; options, commands and what is answered: `tests/support/clients/client_driver.py`.
It runs in environments of its own, so it imports nothing of ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import mcp
from mcp import types
from mcp.client.stdio import StdioServerParameters

MODES = {"legacy": "legacy", "auto": "auto", "pinned": "2026-07-28"}
CHANGED = "notifications/tools/list_changed"
Say = Callable[[dict[str, Any]], None]


def say(message: dict[str, Any]) -> None:
    """Write a line for the test."""
    print(json.dumps(message), flush=True)


async def told(message: Any) -> None:
    """What the server says by itself; release 1 wraps notifications."""
    if getattr(getattr(message, "root", message), "method", None) == CHANGED:
        say({"changed": "tools"})


async def named(context: Any, params: Any) -> types.ElicitResult:
    """Fill in the one form that is asked for."""
    return types.ElicitResult(action="accept", content={"name": "Ada"})


def program(options: dict[str, Any]) -> StdioServerParameters:
    """The server that is to be started."""
    command, *arguments = options["command"]
    return StdioServerParameters(command=command, args=arguments, env=options["env"], cwd=options["cwd"])


class First:
    """Release 1.30: one era, a session around a transport."""

    def __init__(self, session: Any, revision: str) -> None:
        self._session = session
        self.revision = revision

    @classmethod
    @contextlib.asynccontextmanager
    async def connect(cls, options: dict[str, Any]) -> AsyncIterator[First]:
        """Connect over HTTP, or to a program."""
        from mcp.client.stdio import stdio_client
        from mcp.client.streamable_http import streamable_http_client

        way: Any = (
            stdio_client(program(options)) if "command" in options else streamable_http_client(options["url"])
        )
        session_of: Any = mcp.ClientSession
        async with (
            way as (read, write, *_),
            session_of(
                read, write, elicitation_callback=named, message_handler=told, client_info=INFO
            ) as session,
        ):
            yield cls(session, str((await session.initialize()).protocolVersion))

    async def listen(self) -> None:
        """News of the list come by themselves."""

    async def names(self) -> list[str]:
        """The tools that are listed now."""
        return [tool.name for tool in (await self._session.list_tools()).tools]

    async def call(self, tool: str, arguments: dict[str, Any], progressed: Any) -> Any:
        """One call."""
        return await self._session.call_tool(tool, arguments, progress_callback=progressed)


class Second:
    """Release 2: both eras, one client."""

    def __init__(self, client: Any, streams: contextlib.AsyncExitStack) -> None:
        self._client = client
        self._streams = streams
        self.revision = client.protocol_version

    @classmethod
    @contextlib.asynccontextmanager
    async def connect(cls, options: dict[str, Any]) -> AsyncIterator[Second]:
        """Connect over HTTP, or to a program."""
        server = program(options) if "command" in options else options["url"]
        async with (
            mcp.Client(
                server, mode=MODES[options["mode"]], elicitation_callback=named, message_handler=told,
                client_info=INFO,
            ) as client,
            contextlib.AsyncExitStack() as streams,
        ):  # fmt: skip
            yield cls(client, streams)

    async def listen(self) -> None:
        """Ask for news of the list; the message handler hears them."""
        if self.revision >= "2026":
            await self._streams.enter_async_context(self._client.listen(tools_list_changed=True))

    async def names(self) -> list[str]:
        """The tools that are listed now."""
        return [tool.name for tool in (await self._client.list_tools(cache_mode="bypass")).tools]

    async def call(self, tool: str, arguments: dict[str, Any], progressed: Any) -> Any:
        """One call."""
        return await self._client.call_tool(tool, arguments, progress_callback=progressed)


INFO = types.Implementation(name="python-sdk", version="1")
RELEASE = Second if hasattr(mcp, "Client") else First


async def answered(identity: int, work: Awaitable[Any]) -> None:
    """Do one command and say what came of it."""
    try:
        say({"id": identity, "value": await work})
    except asyncio.CancelledError:
        say({"id": identity, "error": "cancelled"})
    except Exception as problem:  # noqa: BLE001 - whatever it is, the test is told
        say({"id": identity, "error": f"{type(problem).__name__}: {problem}"})


async def do(client: First | Second, command: dict[str, Any]) -> Any:
    """What a command is answered with."""
    if command["do"] == "call":
        return await call(client, command)
    return await (client.listen() if command["do"] == "listen" else client.names())


async def call(client: First | Second, command: dict[str, Any]) -> Any:
    """The result of a call, as JSON; progress is said as it comes."""

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        say({"id": command["id"], "progress": progress})

    result = await client.call(command["tool"], command["arguments"], progressed)
    return result.model_dump(mode="json", by_alias=True, exclude_none=True)


async def main() -> None:
    """Do what the lines on standard input say, until they end."""
    async with RELEASE.connect(json.loads(sys.argv[1])) as client, asyncio.TaskGroup() as group:
        say({"ready": client.revision})
        running: dict[int, asyncio.Task[None]] = {}
        while line := await asyncio.to_thread(sys.stdin.readline):
            command = json.loads(line)
            if command["do"] == "cancel":
                running[command["call"]].cancel()
                continue
            running[command["id"]] = group.create_task(answered(command["id"], do(client, command)))
        for task in running.values():
            task.cancel()


if __name__ == "__main__":
    asyncio.run(main())
