"""The part of the demo about the terminal agent: a scripted model reads a file with the project's tools."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from lm_tools_bridge.demo.sandbox import Sandbox

QUESTION: Final = "Who noticed that the lamp went out?"
_ANSWER: Final = "Only the keeper's cat noticed."
_REPLIES: Final[tuple[Mapping[str, Any], ...]] = (
    {
        "tool_calls": [{"function": {"name": "lm_readFile", "arguments": {"filePath": "story.txt"}}}],
        "content": "",
    },
    {"content": _ANSWER},
)


class AgentFailed(Exception):
    """The agent did not do what it should."""


async def show_agent(sandbox: Sandbox, address: str, tell: Callable[[str], None]) -> None:
    """Ask a model of the script above, in the folder of a project.

    Raises:
        AgentFailed: its reply is not the scripted one, or it did not read the file.
    """
    model = _Model()
    server = await asyncio.start_server(model.serve, "127.0.0.1", 0)
    async with server:
        base = "http://{}:{}".format(*server.sockets[0].getsockname()[:2])
        sandbox.configure(
            f'[agent]\nendpoint = "{address}"\nlocal_tools = false\n[agent.model]\nollama = "scripted"\n'
            f'[agent.providers.ollama]\napi_base = "{base}"\n'
        )
        ended = await asyncio.to_thread(sandbox.run, ["agent", "-p", QUESTION], sandbox.project("harbour"))
    if ended.returncode or ended.stdout.strip() != _ANSWER:
        raise AgentFailed(f"lmtb agent ended with {ended.returncode}: {ended.stdout} {ended.stderr}")
    if "keeper's cat" not in model.last_request:
        raise AgentFailed("the model was not given the file")
    tell(f'lmtb agent -p "{QUESTION}" asks a model, here a scripted one, in harbour.')
    tell(f"The model reads story.txt with lm_readFile, and replies: {_ANSWER}")


class _Model:
    """A server of Ollama's dialect with scripted replies, one a connection."""

    def __init__(self) -> None:
        self.last_request = ""
        self._replies = list(_REPLIES)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        length = next(
            (
                line.partition(":")[2]
                for line in head.lower().split("\r\n")
                if line.startswith("content-length:")
            ),
            "0",
        )
        body = (await reader.readexactly(int(length))).decode()
        answer = "{}"
        if " /api/chat " in head:
            self.last_request = body
            message = self._replies.pop(0) if self._replies else {"content": ""}
            answer = json.dumps(
                {"message": {"role": "assistant", **message}, "done": True, "done_reason": "stop"}
            )
        content = f"{answer}\n".encode()
        start = f"HTTP/1.1 200 OK\r\nContent-Length: {len(content)}\r\nConnection: close\r\n\r\n"
        writer.write(start.encode() + content)
        await writer.drain()
        writer.close()
