"""Provides the `Authorization` header of a remote server from its configuration.

A token is read when it is needed and never kept in anything that is printed. `http_transport.py` sends it
to one origin only. `oauth.py` has the OAuth variant.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import urlsplit

from lm_tools_bridge.machine.own_token import read_own_token
from lm_tools_bridge.text import redaction
from workspace_server.config.model import RemoteServer

_TEAM_OFFER: Final = re.compile(r"/team/[A-Za-z0-9_-]{1,64}")
ReadSecret = Callable[[str], Awaitable[str | None]]
"""Reads one secret of the store by its key."""


class CredentialsMissing(Exception):
    """Credentials are missing. The text says which, without values; `next_step` says what to do."""

    def __init__(self, text: str, next_step: str) -> None:
        super().__init__(text)
        self.text = text
        self.next_step = next_step


class Authorization(Protocol):
    """The `Authorization` header of one server."""

    async def header(self) -> str | None:
        """The current value; None for no header.

        Raises:
            CredentialsMissing: it needs the user.
        """

    async def renew(self, refused: str | None, challenge: Mapping[str, str]) -> bool:
        """After HTTP 401: whether a retry with another value makes sense.

        Args:
            refused: the value it refused.
            challenge: the headers of its answer, names in lower case.

        Raises:
            CredentialsMissing: it needs the user.
        """

    @property
    def next_step(self) -> str:
        """What the user can do when the server does not accept the header."""


class ConfiguredToken:
    """A token that the configuration holds or names, or the header as its entry writes it; else none."""

    def __init__(self, server: RemoteServer, environ: Mapping[str, str], secrets: ReadSecret | None) -> None:
        self._server = server
        self._environ = environ
        self._secrets = secrets
        written = (value for name, value in server.headers.items() if name.lower() == "authorization")
        self._written = next(written, None)

    @property
    def next_step(self) -> str:
        """Where the token is configured."""
        server = self._server
        if server.token_secret:
            return f'store a valid token as the secret "{server.token_secret}"'
        if server.token_env:
            return f"set {server.token_env} to a valid token and restart the workspace server"
        if server.token or self._written:
            return f'put a valid token into the entry "{server.namespace}" of {server.origin.file.name}'
        return f'add token, token_env, token_secret or auth = "oauth" to the entry "{server.namespace}"'

    async def header(self) -> str | None:
        """`Bearer` and the current token."""
        server = self._server
        if server.token_secret:
            token = await self._secrets(server.token_secret) if self._secrets is not None else None
            missing = f'the secret "{server.token_secret}" is not set'
        elif server.token_env:
            token, missing = self._environ.get(server.token_env), f"{server.token_env} is not set"
        else:
            return f"Bearer {server.token}" if server.token else self._written
        if not token:
            raise CredentialsMissing(missing, self.next_step)
        redaction.hide(token)
        return f"Bearer {token}"

    async def renew(self, refused: str | None, challenge: Mapping[str, str]) -> bool:
        """A secret may have been replaced since it was read; nothing else can be renewed."""
        return bool(self._server.token_secret) and await self.header() != refused


class OwnManagerToken:
    """The token of the user's own programs, for offers of a team: the user's manager serves them itself."""

    next_step = "restart the manager: lmtb restart"

    def __init__(self, runtime_dir: Path) -> None:
        """`runtime_dir` has the file of the token."""
        self._runtime_dir = runtime_dir
        self._shown: str | None = None
        self._is_read = False

    async def header(self) -> str | None:
        """`Bearer` and the token; None where none is required. The file is read once, and to renew."""
        if not self._is_read:
            await self._read()
        return self._shown

    async def renew(self, refused: str | None, challenge: Mapping[str, str]) -> bool:
        """The manager may have been restarted with a new one."""
        await self._read()
        return self._shown != refused

    async def _read(self) -> None:
        token = await asyncio.to_thread(read_own_token, self._runtime_dir)
        redaction.hide(token or "")
        self._shown, self._is_read = None if token is None else f"Bearer {token}", True


def is_team_offer(server: RemoteServer, manager_port: int) -> bool:
    """Whether an entry of the user's own file is an offer of the user's team, as `lmtb team use` writes it.

    Args:
        server: the entry.
        manager_port: of the user's manager.
    """
    if (
        server.origin.scope != "user"
        or server.token
        or server.token_env
        or server.token_secret
        or server.auth
    ):
        return False
    if any(name.lower() == "authorization" for name in server.headers):
        return False
    try:
        parts = urlsplit(server.url)
        place = (parts.scheme, parts.netloc)
    except ValueError:
        return False
    return place == ("http", f"127.0.0.1:{manager_port}") and _TEAM_OFFER.fullmatch(parts.path) is not None
