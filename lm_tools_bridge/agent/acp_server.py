"""Serves one editor over standard input and output, one JSON-RPC message a line, until the input ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from contextlib import suppress
from typing import IO, Any, Final, cast

from acp import run_agent

from lm_tools_bridge.agent.acp_agent import EditorAgent, MakeAgent
from lm_tools_bridge.machine import file_calls
from lm_tools_bridge.protocol.jsonrpc import INVALID_REQUEST, PARSE_ERROR, Malformed, parse

LARGEST: Final = 16 * 1024 * 1024
"""Bytes of one message."""
TOO_LARGE: Final = Malformed(INVALID_REQUEST, f"a message may have {LARGEST} bytes")


def read_message(line: bytes) -> dict[str, Any] | Malformed:
    """The message of a line, with members of the types that its receivers rely on."""
    read = parse(line)
    if isinstance(read, Malformed):
        return read
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return Malformed(PARSE_ERROR, "the line is not valid JSON, or too deep")
    if not isinstance(value.get("error"), dict | None):
        return Malformed(INVALID_REQUEST, "the error must be an object")
    return dict(value)


def answer_to(problem: Malformed) -> dict[str, Any]:
    """The error that answers a line; without an id if none could be read (JSON-RPC 2.0, section 5)."""
    identity = None if problem.id is None else json.loads(problem.id)
    return {"jsonrpc": "2.0", "id": identity, "error": {"code": problem.code, "message": problem.message}}


async def serve_editor(make: MakeAgent) -> int:
    """Serve until standard input ends or a signal comes, then end everything; the exit code.

    Args:
        make: makes the agent of a session.

    Raises:
        asyncio.CancelledError: SIGTERM came.
    """
    if sys.stdin.isatty():
        sys.stderr.write("waiting for an editor on standard input; it starts this, not a person\n")
    try:
        reader, writer = await protocol_streams()
    except NoPipe as problem:
        sys.stderr.write(f"standard input and output must be pipes, as an editor gives them: {problem}\n")
        return 1
    whole = asyncio.current_task()
    if whole is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, whole.cancel)
    agent = EditorAgent(make)
    try:
        # with what the library calls unstable: session/close
        await run_agent(cast(Any, agent), LineTransport(reader, writer), use_unstable_protocol=True)
    finally:
        await agent.close()
    return 0


# the numbers of the standard streams
_IN: Final = 0
_OUT: Final = 1
_ERR: Final = 2


class NoPipe(Exception):
    """Standard input or output is no pipe, socket or terminal, as an editor gives it."""


async def protocol_streams() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Streams of the former standard input and output.

    From then on, whatever is printed goes to standard error, and whatever reads standard input finds its end,
    also in programs that are started.

    Raises:
        NoPipe: they cannot be waited for.
    """
    input_pipe, output_pipe = _take_stream(_IN, "rb"), _take_stream(_OUT, "wb")
    null = os.open(os.devnull, os.O_RDONLY | file_calls.CLOSE_ON_EXEC)
    os.dup2(null, _IN)
    os.close(null)
    os.dup2(_ERR, _OUT)
    sys.stdout = sys.stderr
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=LARGEST)
    try:
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), input_pipe)
        transport, protocol = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), output_pipe
        )
    except (ValueError, OSError) as error:
        raise NoPipe(str(error)) from error
    return reader, asyncio.StreamWriter(transport, protocol, None, loop)


def _take_stream(number: int, mode: str) -> IO[bytes]:
    """A copy of a descriptor that no started program gets."""
    return os.fdopen(os.dup(number), mode, buffering=0)


_LAST_LINES_S: Final = 1.0
"""An editor that is ending may not read any more; what it does read, it reads at once."""


class LineTransport:
    """A transport of the library `acp`: one JSON object a line.

    Lines that are no message are answered with an error, and reading goes on.

    Args:
        reader: with `LARGEST` as its limit.
        writer: where lines are written.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, message: dict[str, Any]) -> None:
        """Write a message; waits while the other side does not read.

        Raises:
            ConnectionError: the stream is closed.
        """
        if self._writer.is_closing():
            raise ConnectionError("Connection closed")
        self._writer.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
        await self._writer.drain()

    async def receive(self) -> dict[str, Any] | None:
        """The next message; None at the end of the stream."""
        while (line := await self._line()) is not None:
            if not line.strip():
                continue
            message = read_message(line) if len(line) <= LARGEST else TOO_LARGE
            if not isinstance(message, Malformed):
                return message
            with suppress(ConnectionError):
                await self.send(answer_to(message))
        return None

    async def close(self) -> None:
        """Write what is left, for a moment, and close."""
        with suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(_LAST_LINES_S):
                await self._writer.drain()
        self._writer.transport.abort()

    async def _line(self) -> bytes | None:
        """The next line; of one that is too long only a part, which is longer than `LARGEST`, too."""
        passed = b""
        while True:
            try:
                line = await self._reader.readuntil(b"\n")
            except asyncio.LimitOverrunError as error:
                passed = await self._reader.readexactly(error.consumed)
            except (asyncio.IncompleteReadError, ConnectionError):
                return None  # a message ends with its line
            else:
                return passed or line
