"""Signs in to remote servers for the page: runs the command of `lmtb servers login`, which waits for you.

The command opens no browser. It prints the address of the server's sign-in page, which the person opens from
the page of the manager, and ends when the person has answered there.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from manager.admin.control.project_command import understood
from manager.configuration.paths import Paths
from manager.server_command import server_command

ADDRESS_S: Final = 60.0
"""Longest time until the address is known: the server and its authorization server are asked for it."""
MOST: Final = 8
"""Most sign-ins that wait for their persons; one more ends the oldest."""
MAX_OUTPUT: Final = 64 * 1024
"""The command writes one line with an address, or an error of a few lines."""


class SignInPage(NamedTuple):
    """The address of the page on which a person signs in."""

    url: str


class SignIns:
    """The sign-ins that wait for their persons. Each ends after five minutes at the latest, as for the verb.

    Args:
        paths: the user's folders.
        search: the PATH of the manager's servers.
        command: makes the command line.
    """

    def __init__(
        self,
        paths: Paths,
        search: Callable[[], str | None],
        command: Callable[[Paths, str | None], list[str]] = server_command,
    ) -> None:
        self._paths = paths
        self._search = search
        self._command = command
        self._waiting: dict[tuple[str, str], tuple[Process, asyncio.Task[None]]] = {}

    async def begin(
        self, root: str, namespace: str, then: Callable[[], Awaitable[object]]
    ) -> SignInPage | str:
        """Begin a sign-in, in place of an earlier one at the same server; or why that is not possible.

        Args:
            root: of the project.
            namespace: of the server.
            then: called once the person has signed in.
        """
        await self._end((root, namespace))
        while len(self._waiting) >= MOST:
            await self._end(next(iter(self._waiting)))
        words = ("login", "--no-browser", "--json", "--", root, namespace)
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command(self._paths, self._search()),
                *words,
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=DEVNULL,
                cwd="/",
                limit=MAX_OUTPUT,
            )
        except (OSError, ValueError) as error:
            return f"it could not be run: {error}"
        task = asyncio.create_task(self._follow(process, then), name="sign-in")
        address = await self._address(process)
        if isinstance(address, str):
            await _stop(process, task)
            return address
        self._waiting[root, namespace] = process, task
        return address

    async def close(self) -> None:
        """End all sign-ins. Idempotent."""
        for key in list(self._waiting):
            await self._end(key)

    async def _end(self, key: tuple[str, str]) -> None:
        running = self._waiting.pop(key, None)
        if running is not None:
            await _stop(*running)

    async def _address(self, process: Process) -> SignInPage | str:
        assert process.stdout is not None  # noqa: S101  narrows the type: it is a pipe
        try:
            async with asyncio.timeout(ADDRESS_S):
                line = await process.stdout.readline()
                address = _url_in(line)
                return address or str(understood(line + await process.stdout.read(MAX_OUTPUT)))
        except TimeoutError:
            return f"the server named no sign-in page within {ADDRESS_S:g} s"
        except ValueError:
            return "it gave no answer that can be read"

    async def _follow(self, process: Process, then: Callable[[], Awaitable[object]]) -> None:
        if await process.wait() == 0:
            with contextlib.suppress(Exception):  # the person sees the state of the server in any case
                await then()


def _url_in(line: bytes) -> SignInPage | None:
    """The address in a line; None if it has none that a browser may be sent to."""
    with contextlib.suppress(ValueError):
        value = json.loads(line)
        url = value.get("url") if isinstance(value, dict) else None
        if isinstance(url, str) and urlsplit(url).scheme in {"http", "https"}:
            return SignInPage(url)
    return None


async def _stop(process: Process, task: asyncio.Task[None]) -> None:
    task.cancel()
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    await process.wait()
