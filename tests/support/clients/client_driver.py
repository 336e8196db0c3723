"""Drives third-party MCP clients: programs that take commands as JSON lines (`tests/clients/drivers/`).

A driver gets its options as one argument: `mode`; `url`, or `command`, `cwd` and `env` of a program to start; for Node
also `family` and `modules`. It prints `{"ready": REVISION}` once it is connected. Then it reads commands from standard
input, each with an `id`, and answers `{"id", "value"}` or `{"id", "error"}` in any order:

    {"do": "list"}                        return the names of the tools that are listed now
    {"do": "call", "tool", "arguments"}   return the result; before it, print {"id", "progress"} for each progress
    {"do": "cancel", "call": ID}          cancel a call
    {"do": "listen"}                      subscribe to changes; no effect where the client does that by itself

It prints `{"changed": "tools"}` when it is notified. It answers every form with the name Ada, and ends with its input.
"""

from __future__ import annotations

import asyncio
import json
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

PATIENCE_S = 30.0
END_S = 15.0
LONGEST_LINE = 4 * 1024 * 1024


class ClientError(Exception):
    """What a client says of a request that failed."""


class Driver:
    """One client, connected for as long as its program runs."""

    def __init__(self, command: Sequence[str], options: Mapping[str, Any], cwd: Path, env: Mapping[str, str]):
        self._command = (*command, json.dumps({**options, "cwd": str(cwd), "env": dict(env)}))
        self._cwd, self._env = cwd, env
        self._process: Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._ids = count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.progress: dict[int, list[float]] = {}
        self.changes = 0

    @property
    def is_running(self) -> bool:
        """Whether its program was started and has not ended."""
        return self._process is not None and self._process.returncode is None

    async def start(self) -> str:
        """Start it, and wait until it is connected; the revision it speaks."""
        await self.close()
        self._ready = asyncio.get_running_loop().create_future()
        self._process = await asyncio.create_subprocess_exec(
            *self._command, stdin=PIPE, stdout=PIPE, limit=LONGEST_LINE, cwd=self._cwd, env=self._env
        )
        self._reading = asyncio.create_task(self._read(self._process))
        return await asyncio.wait_for(asyncio.shield(self._ready), PATIENCE_S)

    async def _read(self, process: Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            message = json.loads(line)
            if "ready" in message:
                self._ready.set_result(message["ready"])
            elif "changed" in message:
                self.changes += 1
            elif "progress" in message:
                self.progress.setdefault(message["id"], []).append(message["progress"])
            elif "error" in message:
                self._answers.pop(message["id"]).set_exception(ClientError(message["error"]))
            else:
                self._answers.pop(message["id"]).set_result(message.get("value"))
        for waiting in (self._ready, *self._answers.values()):
            if not waiting.done():
                waiting.set_exception(ClientError("the client ended"))
        self._answers.clear()

    def put(self, do: str, **members: Any) -> tuple[int, asyncio.Future[Any]]:
        """Give a command; its number, and what will become of it."""
        assert self._process is not None
        assert self._process.stdin is not None
        number = next(self._ids)
        self._answers[number] = asyncio.get_running_loop().create_future()
        self._process.stdin.write(json.dumps({"id": number, "do": do, **members}).encode() + b"\n")
        return number, self._answers[number]

    async def ask(self, do: str, **members: Any) -> Any:
        """What a command is answered with.

        Raises:
            ClientError: it failed.
        """
        return await asyncio.wait_for(self.put(do, **members)[1], PATIENCE_S)

    async def tools(self) -> list[str]:
        """The names of the tools that are listed now."""
        names: list[str] = await self.ask("list")
        return names

    async def call(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """The result of a call."""
        result: dict[str, Any] = await self.ask("call", tool=tool, arguments=arguments)
        return result

    async def close(self) -> None:
        """End it by its input, and by force where that does not help."""
        if self._process is None or self._reading is None:
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), END_S)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        await self._reading
        self._process = None


class OneShot:
    """A client that makes one request each time it is run: the Inspector's command line."""

    def __init__(self, command: Sequence[str], cwd: Path, env: Mapping[str, str]) -> None:
        self._command = command
        self._cwd, self._env = cwd, env

    async def _run(self, *arguments: str) -> dict[str, Any]:
        process = await asyncio.create_subprocess_exec(
            *self._command, *arguments, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, cwd=self._cwd, env=self._env
        )
        out, err = await asyncio.wait_for(process.communicate(), PATIENCE_S)
        if process.returncode:
            raise ClientError(err.decode())
        found: dict[str, Any] = json.loads(out)["result"]
        return found

    async def tools(self) -> list[str]:
        """The names of the tools that are listed now."""
        return [tool["name"] for tool in (await self._run("--method", "tools/list"))["tools"]]

    async def call(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """The result of a call."""
        given = json.dumps(arguments)
        return await self._run("--method", "tools/call", "--tool-name", tool, "--tool-args-json", given)

    async def close(self) -> None:
        """There is nothing that goes on between two runs."""
