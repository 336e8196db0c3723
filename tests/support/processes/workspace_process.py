"""Runs a workspace server as a real process on a socket inherited from the test, and sends requests to it."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lm_tools_bridge.protocol.internal.launch import LaunchInstructions, encode
from support.clients.stateless_requests import SECRET

NONCE = "nonce-of-this-instance"


@dataclass(slots=True)
class WorkspaceProcess:
    """One running process.

    Attributes:
        process: the child; its standard output and error are pipes.
        port: where it listens on 127.0.0.1.
    """

    process: asyncio.subprocess.Process
    port: int

    def url(self, path: str = "/mcp") -> str:
        """The address of one of its routes."""
        return f"http://127.0.0.1:{self.port}{path}"

    async def ended(self, within_s: float = 10.0) -> tuple[int, bytes, bytes]:
        """Exit status, standard output and error, once it has ended by itself."""
        out, err = await asyncio.wait_for(self.process.communicate(), within_s)
        assert self.process.returncode is not None
        return self.process.returncode, out, err


@asynccontextmanager
async def workspace_process(
    root: Path,
    *,
    cwd: Path | None = None,
    grace_s: float = 30.0,
    settings: dict[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
) -> AsyncIterator[WorkspaceProcess]:
    """Start one for `root`; killed at the end if it is left.

    `cwd` is its working directory (default: root), `env` comes on top of the test's own environment.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        launch = LaunchInstructions(
            "ws-1", str(root), "i-1", NONCE, SECRET, listener.fileno(), grace_s, settings or {}
        )
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-m",
            "workspace_server",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            pass_fds=[listener.fileno()],
            cwd=cwd or root,
            env={**os.environ, **(env or {})},
        )
        assert process.stdin is not None
        process.stdin.write(encode(launch))
        process.stdin.close()
    try:
        yield WorkspaceProcess(process, port)
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.communicate()
