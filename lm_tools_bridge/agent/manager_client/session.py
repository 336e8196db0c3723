"""Keeps the agent's session at the manager: starts a manager, opens a session, opens a new one when lost."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from lm_tools_bridge.agent.manager_client.transport import (
    CAPABILITIES,
    CLIENT_NAME,
    AnswerLost,
    Refused,
    Transport,
    Undelivered,
    messages,
    session_headers,
)
from lm_tools_bridge.protocol import headers, jsonrpc, names
from lm_tools_bridge.protocol.names import LATEST_LEGACY

START_S: Final = 110.0
"""Seconds until a start counts as failed; `lmtb up` itself gives up sooner."""
_MAX_OUTPUT: Final = 64 * 1024
"""The verb prints one JSON object; the end of the manager's log may be part of it."""


@dataclass(frozen=True, slots=True)
class Started:
    """How a start went: the manager's address, or why there is none."""

    address: str | None
    problem: str = ""


async def start_manager() -> Started:
    """Run `manager up` to its end. Cancelling the task ends that program, not the manager."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-I", "-m", "manager", "up", "--json"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(START_S):
            assert process.stdout is not None  # noqa: S101  narrows the type
            output = await process.stdout.read(_MAX_OUTPUT)
            await process.wait()
    except TimeoutError:
        return Started(None, f"the manager did not start within {START_S:g} s")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return _report(output)


async def tried(start: Callable[[], Awaitable[Started]]) -> Started:
    """How a start went, also one that could not even begin."""
    try:
        return await start()
    except OSError as error:
        return Started(None, f"the manager cannot be started: {error.strerror or error}")


def _report(output: bytes) -> Started:
    try:
        report: Any = msgspec.json.decode(output)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Started(None, "the manager cannot be started")
    if isinstance(report, dict) and report.get("ok") is True and isinstance(report.get("address"), str):
        return Started(report["address"])
    error = report.get("error") if isinstance(report, dict) else None
    text = error.get("message") if isinstance(error, dict) else None
    # the end of the manager's log may be part of it
    return Started(None, " ".join(str(text or "the manager cannot be started").split()))


OPEN_S: Final = 60.0
"""Seconds that the manager may take for `initialize`; it may wait for a workspace server."""
_NOTIFY_S: Final = 5.0
"""The manager only takes a notification; one that does not is found by the next request."""
_END_S: Final = 2.0
"""The person has ended the agent and waits; a session that is not ended expires by itself."""
_FIRST_ID: Final = b'"open"'


@dataclass(frozen=True, slots=True, eq=False)
class Opened:
    """One session at the manager. Each opening is a value of its own."""

    id: str
    revision: str

    @property
    def headers(self) -> dict[str, str]:
        """What a request in this session carries."""
        return session_headers(self.id, self.revision)


class Session:
    """The session that the agent uses, over several at the manager.

    Args:
        transport: sends the requests.
        version: the agent's version, for `clientInfo`.
        renewed: called after each opening; everything may have changed then.
    """

    def __init__(self, transport: Transport, version: str, renewed: Callable[[], None]) -> None:
        self._transport = transport
        self._version = version
        self._renewed = renewed
        self._opening = asyncio.Lock()
        self.opened: Opened | None = None

    async def ensure(self) -> Opened:
        """The open session; opened now if there is none.

        Raises:
            Undelivered: the manager cannot be reached now.
            Refused: it opens no session for us.
        """
        async with self._opening:
            if self.opened is None:
                try:
                    async with asyncio.timeout(OPEN_S):
                        self.opened = await self._open()
                except TimeoutError:
                    raise Undelivered(f"the manager opened no session within {OPEN_S:g} s") from None
                except AnswerLost as lost:
                    raise Undelivered(str(lost)) from None
                self._renewed()
            return self.opened

    def forget(self, lost: Opened) -> None:
        """The manager does not know this session; the next request opens another."""
        if self.opened is lost:
            self.opened = None

    async def notify(self, body: bytes, opened: Opened) -> None:
        """Send a notification or a response, within 5 s; it is lost where that fails."""
        with suppress(Undelivered, Refused, AnswerLost, TimeoutError):
            async with (
                asyncio.timeout(_NOTIFY_S),
                self._transport.send("POST", body, opened.headers) as response,
            ):
                await response.read()

    async def end(self) -> None:
        """End the session at the manager, if that takes at most 2 s; else it expires there."""
        opened, self.opened = self.opened, None
        if opened is None:
            return
        with suppress(Undelivered, Refused, AnswerLost, TimeoutError):
            async with asyncio.timeout(_END_S), self._transport.send("DELETE", None, opened.headers):
                pass

    async def _open(self) -> Opened:
        params = {
            "protocolVersion": LATEST_LEGACY,
            "capabilities": CAPABILITIES,
            "clientInfo": {"name": CLIENT_NAME, "version": self._version},
        }
        body = jsonrpc.request(_FIRST_ID, names.INITIALIZE, params)
        async with self._transport.send("POST", body, {}) as response:
            answer = b""
            async with aclosing(messages(response)) as received:
                async for answer in received:
                    if isinstance(jsonrpc.parse(answer), jsonrpc.Response):
                        break
            opened = _opened_session(response.headers.get(headers.SESSION), answer)
        await self.notify(jsonrpc.notification(names.INITIALIZED), opened)
        return opened


def _opened_session(identity: str | None, answer: bytes) -> Opened:
    members = jsonrpc.members_of(answer)
    result = jsonrpc.members_of(members.get("result", b""))
    revision = jsonrpc.text_of(result.get("protocolVersion", b""))
    if identity is None or revision is None:
        error = jsonrpc.members_of(members.get("error", b""))
        raise Refused(jsonrpc.text_of(error.get("message", b"")) or "the manager opened no session")
    return Opened(identity, revision)
