"""Reads keys from the environment, `.env` files and the user's secret store, and stores them there.

All workspace servers of a user share the store, so any that runs will do. Each names its socket and token in
a private file (docs/secrets.md).
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from lm_tools_bridge.agent.provider_keys import Key, KeySourceFailed, KeyWish, StoreReadOnly
from lm_tools_bridge.machine import private_files, project_file
from lm_tools_bridge.machine.own_process import own_euid
from lm_tools_bridge.machine.peer_uid import unix_peer_uid

_LARGEST: Final = 256 * 1024  # bytes of a `.env` file, which is read whole
_LINE: Final = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*")
_QUOTED: Final = re.compile(r"(['\"])(.*?)\1(?:\s+#.*)?")
_COMMENT: Final = re.compile(r"(?:^|\s+)#.*")


class EnvironmentKeys:
    """Keys in environment variables. An empty variable counts as missing."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    async def find(self, wish: KeyWish) -> Key | None:
        """See `KeySource`."""
        for name in wish.variables:
            if value := self._environ.get(name, "").strip():
                return Key(value, "environment", name)
        return None

    async def store(self, name: str, value: str) -> None:
        """See `KeySource`."""
        raise StoreReadOnly


class DotEnvKeys:
    """Keys in the `.env` of a workspace; none unless the workspace is trusted."""

    def __init__(self, file: Path, *, trusted: bool) -> None:
        self._file = file
        self._trusted = trusted

    async def find(self, wish: KeyWish) -> Key | None:
        """See `KeySource`."""
        if not self._trusted:
            return None
        try:
            content = project_file.read(self._file, _LARGEST)
        except (private_files.UnsafePathError, OSError) as error:
            reason = error.strerror if isinstance(error, OSError) else error.reason
            raise KeySourceFailed(f"{self._file} cannot be read: {reason}") from None
        values = variables((content or b"").decode(errors="replace"))
        for name in wish.variables:
            if value := values.get(name):
                return Key(value, "dotenv", f"{name} in {self._file}")
        return None

    async def store(self, name: str, value: str) -> None:
        """See `KeySource`."""
        raise StoreReadOnly


def variables(text: str) -> dict[str, str]:
    """The variables of a `.env` file: `NAME=value`, with or without `export` and quotes, never expanded."""
    values = {}
    for line in text.splitlines():
        if match := _LINE.fullmatch(line):
            name, value = match.groups()
            quoted = _QUOTED.fullmatch(value)
            values[name] = quoted[2] if quoted else _COMMENT.sub("", value)
    return values


FOLDER: Final = "internal"
SETTLE_S: Final = 3.0
"""A workspace server opens its channel about a second after it began."""
_POLL_S: Final = 0.1
"""Between two looks for the channel of a workspace server that starts: a person notices no delay."""
ANSWER_S: Final = 5.0
"""A workspace server answers in milliseconds unless its keyring waits for a person."""
_LARGEST_FILE: Final = 4096  # bytes: a path and a secret
_LARGEST_ANSWER: Final = 1024 * 1024  # bytes of one line: secrets have a few kilobytes


class _Address(msgspec.Struct):
    socket: str
    auth: str


class _Error(msgspec.Struct):
    message: str = "no reason given"


class _Answer(msgspec.Struct):
    id: Any = None
    result: Any = None
    error: _Error | None = None


class _Unreachable(Exception):
    """Nobody answers on this channel."""


class StoredKeys:
    """The user's secret store.

    Args:
        runtime_dir: the user's runtime folder.
        settle_s: how long to wait for a workspace server that is about to open its channel, the first time.
        pause: sleeps for a number of seconds.
        answer_s: longest time of one answer, in seconds.
    """

    def __init__(
        self,
        runtime_dir: Path,
        *,
        settle_s: float = SETTLE_S,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        answer_s: float = ANSWER_S,
    ) -> None:
        self._folder = runtime_dir / FOLDER
        self._polls = round(settle_s / _POLL_S)
        self._pause = pause
        self._answer_s = answer_s

    async def find(self, wish: KeyWish) -> Key | None:
        """See `KeySource`."""
        for name in wish.stored:
            result = await self._ask("secrets/get", {"key": name}, may_wait=wish.may_wait)
            value = result.get("value") if isinstance(result, dict) and result.get("found") else None
            if isinstance(value, str) and value:
                return Key(value, "store", name)
        return None

    async def store(self, name: str, value: str) -> None:
        """See `KeySource`."""
        await self._ask("secrets/store", {"key": name, "value": value}, may_wait=True)

    async def _ask(self, method: str, params: dict[str, str], *, may_wait: bool) -> Any:
        polls = 0
        if may_wait:
            polls, self._polls = self._polls, 0
        for polls_left in range(polls, -1, -1):
            for file in sorted(self._folder.glob("*.json")):
                with contextlib.suppress(_Unreachable):
                    return await _ask_channel(file, method, params, self._answer_s)
            if polls_left:
                await self._pause(_POLL_S)
        raise KeySourceFailed(
            "the secret store cannot be read, since no workspace server of yours runs; run: lmtb up"
        )


async def _ask_channel(file: Path, method: str, params: dict[str, str], answer_s: float) -> Any:
    """The result of one request on the channel that this file names.

    Raises:
        _Unreachable: nobody answers there.
        KeySourceFailed: the store refuses.
    """
    address = _address(file)
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"auth": address.auth, **params}}
    try:
        async with asyncio.timeout(answer_s):
            reader, writer = await asyncio.open_unix_connection(address.socket, limit=_LARGEST_ANSWER)
            try:
                if unix_peer_uid(writer.get_extra_info("socket")) != own_euid():
                    raise _Unreachable
                writer.write(msgspec.json.encode(request) + b"\n")
                answer = await _answer(reader)
            finally:
                writer.close()
    except (OSError, TimeoutError, ValueError, msgspec.DecodeError):
        raise _Unreachable from None
    if answer.error is not None:
        raise KeySourceFailed(f"the secret store refused: {answer.error.message}")
    return answer.result


async def _answer(reader: asyncio.StreamReader) -> _Answer:
    """The answer; notifications that come before it are passed over."""
    while line := await reader.readline():
        answer = msgspec.json.decode(line, type=_Answer)
        if answer.id is not None:
            return answer
    raise _Unreachable


def _address(file: Path) -> _Address:
    try:
        content = private_files.read(file, _LARGEST_FILE)
        return msgspec.json.decode(content or b"", type=_Address)
    except (private_files.UnsafePathError, OSError, msgspec.DecodeError):
        raise _Unreachable from None
