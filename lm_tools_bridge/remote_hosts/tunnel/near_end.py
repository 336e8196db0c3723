"""The near end of a line: starts the tool that reaches a host (ssh, docker …), and awaits the greeting."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final, cast

from lm_tools_bridge.remote_hosts.line_failures import FailureKind, LineFailure, failure_of
from lm_tools_bridge.remote_hosts.tunnel.carrier import Carrier, Pipe, TransportPipe
from lm_tools_bridge.remote_hosts.tunnel.greeting import PROTOCOL, Greeting, GreetingReader, NoGreeting
from lm_tools_bridge.text.printable import printable

GREETING_S: Final = 30.0
"""Longest time until the greeting: a login, and the start of a manager there."""
KILL_AFTER_S: Final = 2.0
"""A tool whose line has ended only writes its last words and exits; one that hangs must not delay the next
line."""
_KEPT_LINES: Final = 20  # the warning of ssh about a changed key has 15 lines
_LINE: Final = 400  # characters: longer than any message of ssh, and still readable in a status
_NO_PERSON: Final = {"SSH_ASKPASS_REQUIRE": "never"}
"""Nothing may pop up: whoever has to log in is told to do that in a terminal."""


class NearEnd:
    """A line that is open.

    Attributes:
        carrier: of its streams.
        greeting: what the other side says of itself.
        pid: of the tool.
        why: why the line ended, once it has.
    """

    def __init__(
        self, process: subprocess.Popen[bytes], greeting: Greeting, pipe: Pipe, errors: _Errors
    ) -> None:
        self._process = process
        self._errors = errors
        self.greeting = greeting
        self.pid = process.pid
        self.ended = asyncio.Event()
        self.why = ""
        self.carrier = Carrier(pipe, is_client=True, on_closed=self._closed, now=time.monotonic)

    def said(self) -> list[str]:
        """The last lines of the tool and the program there, for people only."""
        return list(self._errors.lines)

    def close(self) -> None:
        """End the line; the tool ends by itself, since its input does."""
        self.carrier.close("closed")

    def _closed(self, why: str) -> None:
        self.why = why
        self.ended.set()

    async def reap(self) -> None:
        """Wait until the tool has ended; it is killed if it does not."""
        await _end(self._process)


async def open_line(
    command: Sequence[str], environ: Mapping[str, str], *, patience_s: float = GREETING_S
) -> NearEnd | LineFailure:
    """Start the tool and wait for the greeting.

    A cancelled call leaves no process behind.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        try:
            process = _start(command, environ, theirs.fileno())
        except OSError as error:
            ours.close()
            return LineFailure(FailureKind.NO_TOOL, (f"{command[0]}: {error.strerror}",))
    opened: NearEnd | LineFailure | None = None
    ours.setblocking(False)
    line = _Line()
    errors = _Errors()
    loop = asyncio.get_running_loop()
    assert process.stderr is not None  # noqa: S101  narrows the type
    try:
        await loop.connect_read_pipe(lambda: errors, process.stderr)
        await loop.create_connection(lambda: line, sock=ours)
        opened = await _greeted(process, line, errors, patience_s)
        return opened
    finally:
        if not isinstance(opened, NearEnd):
            line.abort()
            await asyncio.shield(_end(process))


def _start(command: Sequence[str], environ: Mapping[str, str], pipe: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        stdin=pipe,
        stdout=pipe,
        stderr=subprocess.PIPE,
        env={**environ, **_NO_PERSON},
        start_new_session=True,  # no terminal to ask at
        cwd="/",
    )


async def _greeted(
    process: subprocess.Popen[bytes], line: _Line, errors: _Errors, patience_s: float
) -> NearEnd | LineFailure:
    try:
        async with asyncio.timeout(patience_s):
            found = await line.greeting
    except TimeoutError:
        found = line.reader.ended()
    if isinstance(found, NoGreeting):
        if line.has_ended:  # the tool is ending: its last words and its code say why
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(errors.ended.wait(), KILL_AFTER_S)
        code = await _code(process) if line.has_ended else None
        return failure_of(code, "\n".join([*_lines(found.noise), *errors.lines]))
    greeting, rest = found
    if greeting.problem is not None:
        return LineFailure(FailureKind.CANNOT_SERVE, (printable(greeting.problem)[:_LINE],))
    if greeting.protocol != PROTOCOL:
        text = f"version {greeting.version} there speaks protocol {greeting.protocol}, not {PROTOCOL}"
        return LineFailure(FailureKind.OTHER_PROTOCOL, (printable(text),))
    return line.begin(process, greeting, rest, errors)


async def _code(process: subprocess.Popen[bytes]) -> int | None:
    """The exit code of a process that is ending; None if it does not end."""
    for _ in range(int(KILL_AFTER_S / 0.02)):
        if (code := process.poll()) is not None:
            return code
        await asyncio.sleep(0.02)
    return None


async def _end(process: subprocess.Popen[bytes]) -> None:
    if await _code(process) is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await asyncio.to_thread(process.wait)


def _lines(noise: bytes) -> list[str]:
    return [printable(line)[:_LINE] for line in noise.decode(errors="replace").splitlines()[-_KEPT_LINES:]]


class _Errors(asyncio.Protocol):
    """The last lines of a tool's standard error, which is always read."""

    def __init__(self) -> None:
        self.lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self.ended = asyncio.Event()
        self._rest = b""

    def data_received(self, data: bytes) -> None:
        *whole, rest = (self._rest + data).split(b"\n")
        self._rest = rest[-_LINE:]
        self.lines.extend(line for one in whole[-_KEPT_LINES:] for line in _lines(one[:_LINE]))

    def connection_lost(self, exc: Exception | None) -> None:
        self.lines.extend(_lines(self._rest))
        self.ended.set()


class _Line(asyncio.Protocol):
    """The socket to the tool: first the greeting, then frames."""

    _transport: asyncio.Transport

    def __init__(self) -> None:
        self.reader = GreetingReader()
        loop = asyncio.get_running_loop()
        self.greeting: asyncio.Future[tuple[Greeting, bytes] | NoGreeting] = loop.create_future()
        self.has_ended = False
        self._early: list[bytes] = []
        self._carrier: Carrier | None = None

    def begin(
        self, process: subprocess.Popen[bytes], greeting: Greeting, rest: bytes, errors: _Errors
    ) -> NearEnd:
        """Begin with frames, behind the greeting."""
        near = NearEnd(process, greeting, TransportPipe(self._transport), errors)
        carrier = self._carrier = near.carrier
        carrier.start()
        carrier.feed(b"".join([rest, *self._early]))
        self._early.clear()
        if self.has_ended:
            carrier.close("the line ended")
        return near

    def abort(self) -> None:
        if hasattr(self, "_transport"):
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._carrier is not None:
            self._carrier.feed(data)
        elif self.greeting.done():
            self._early.append(data)
        elif (found := self.reader.feed(data)) is not None:
            self.greeting.set_result(found)

    def resume_writing(self) -> None:
        if self._carrier is not None:
            self._carrier.flush()

    def eof_received(self) -> bool:
        self._end()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()

    def _end(self) -> None:
        self.has_ended = True
        if self._carrier is not None:
            self._carrier.close("the line ended")
        elif not self.greeting.done():
            self.greeting.set_result(self.reader.ended())
