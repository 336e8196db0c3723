"""Keeps one connection to the NATS servers of a team: TLS, credentials, reconnection, and how it is.

Its problems are worded for people, with the next step.
"""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, Final

from nats.aio.client import Client
from nats.errors import NoServersError

from lm_tools_bridge.backoff import backoff
from lm_tools_bridge.team.membership import Membership
from lm_tools_bridge.team.names import inbox_prefix
from manager.log import logger

_MOST: Final = 300  # characters: an error of TLS may contain a whole certificate
PLAIN_TEXT: Final = (
    "the server offers no TLS, which was asked for; nothing was sent. Somebody between may strip it: "
    "ask who runs the server"
)
_REFUSED: Final = ("authorization violation", "authentication expired", "authentication revoked",
                   "account authentication expired", "nats: authorization failed")  # fmt: skip
"""What servers say of credentials, in lower case."""


class PlainText(OSError):
    """The server would be talked to in plain text where TLS is wanted."""

    def __init__(self) -> None:
        super().__init__(PLAIN_TEXT)


def worded(error: BaseException) -> str:
    """What is wrong, and what to do about it where that is known."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _certificate(error)
    if isinstance(error, ssl.SSLError):
        reason = getattr(error, "reason", None) or str(error)  # errors of the handshake alone have a reason
        return f"TLS fails: {reason}; check --cert and --key, and whether the server speaks TLS"[:_MOST]
    reason = (str(error) or type(error).__name__)[:_MOST]
    if any(phrase in reason.lower() for phrase in _REFUSED):
        return (
            "authorization: the server does not accept the credentials. They may be revoked, expired or of "
            "another server; get new ones from its administrator"
        )
    if is_hangup(error):
        return f"the server closed the connection ({reason}); it may not accept the credentials"
    if isinstance(error, TimeoutError):
        return "the server does not answer"
    return reason


def is_hangup(error: BaseException) -> bool:
    """Whether the other end closed the connection without a word, or its word was lost by that."""
    return isinstance(error, BrokenPipeError | ConnectionResetError)


def _certificate(error: ssl.SSLCertVerificationError) -> str:
    why = error.verify_message or "it cannot be verified"
    step = "check the address" if "mismatch" in why else "join with the team's certificates: --ca FILE"
    return f"the certificate of the server is not trusted: {why}; {step}"[:_MOST]


CONNECT_S: Final = 5
"""The servers are tried one after the other; one behind a firewall may not answer at all."""
PING_S: Final = 10
"""Seconds between pings; a server that misses two is given up."""
RECONNECT_S: Final = 1.0
"""To this, chance adds up to as much: members of a server that restarts do not come all at once."""
PENDING_BYTES: Final = 8 * 1024 * 1024
"""Four answers with full windows (`WINDOW` parts) may wait to be sent; the 2 MiB of nats-py hold one."""
Callback = Callable[[], Awaitable[None]]


class Connection:
    """The connection of a member. It is opened again for ever, with growing pauses, until `close`.

    Attributes:
        client: the client of nats-py; usable while `is_up`.
        error: the last problem, for people.
    """

    def __init__(self, membership: Membership, *, up: Callback, down: Callback) -> None:
        """`up` is awaited after each connect and reconnect, `down` after each loss."""
        self.client: Any = Client()
        self.error: str | None = None
        self._logged: str | None = None
        self._membership = membership
        self._up, self._down = up, down
        self._closed = asyncio.Event()
        self._is_closing = False
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def is_up(self) -> bool:
        """Whether messages can be sent now."""
        return bool(self.client.is_connected) and not self._is_closing

    @property
    def server(self) -> str | None:
        """The server in use, without credentials."""
        url = self.client.connected_url if self.is_up else None
        return None if url is None else f"{url.hostname}:{url.port}"

    async def run(self) -> None:
        """Connect, and connect again whenever the client has given up. Ends by cancellation or `close`."""
        failures = 0
        while not self._is_closing:
            self._closed.clear()
            try:
                await self._connect()
            except Exception as error:  # noqa: BLE001  nats-py raises classes of its own for refusals
                await self._failed(error)
            else:
                failures = 0
                self.error = self._logged = None
                await self._tell(self._up)
                await self._closed.wait()
                await self._tell(self._down)
            failures += 1
            await asyncio.sleep(backoff(failures, random.random()))  # noqa: S311  spreads clients

    async def close(self) -> None:
        """Leave the servers; what was sent is delivered first."""
        self._is_closing = True
        if self.client.is_connected:
            try:
                async with asyncio.timeout(2.0):
                    await self.client.flush()
            except Exception as error:  # noqa: BLE001  it ends in any case
                logger().debug("team.flush", why=worded(error))
        await self.client.close()
        self._closed.set()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connect(self) -> None:
        held = self._membership
        options: dict[str, Any] = {}
        if held.creds is not None:
            options["user_credentials"] = held.creds
        elif held.nkey is not None:
            options["nkeys_seed"] = held.nkey
        needs_tls = held.ca is not None or held.cert is not None or any(map(_wants_tls, held.servers))
        if needs_tls:
            options["tls"] = await asyncio.to_thread(_tls, held)
        self.client = _TlsClient() if needs_tls else Client()
        await self.client.connect(
            servers=list(held.servers),
            name=f"lmtb {held.name}",
            connect_timeout=CONNECT_S,
            # a cluster's clients come back one after the other
            reconnect_time_wait=RECONNECT_S * (1 + random.random()),  # noqa: S311  spreads clients
            max_reconnect_attempts=3,
            ping_interval=PING_S,
            max_outstanding_pings=2,
            pending_size=PENDING_BYTES,
            inbox_prefix=inbox_prefix(held.name),
            error_cb=self._on_error,
            disconnected_cb=self._on_lost,
            reconnected_cb=self._on_back,
            closed_cb=self._on_closed,
            **options,
        )

    async def _failed(self, error: Exception) -> None:
        # that no server is left says less than what each of them failed with
        cause = self.error if isinstance(error, NoServersError) and self.error else worded(error)
        if cause != self._logged:
            logger().warning("team.unreachable", why=cause)
        self.error = self._logged = cause
        await self.client.close()

    async def _on_error(self, error: Exception) -> None:
        if self.error is None or not is_hangup(error):  # says less than what is known
            self.error = worded(error)
        logger().debug("team.error", why=self.error)

    async def _on_lost(self) -> None:
        if not self._is_closing:
            self._own(self._tell(self._down))

    async def _on_back(self) -> None:
        self.error = None
        self._own(self._tell(self._up))

    async def _on_closed(self) -> None:
        self._closed.set()

    async def _tell(self, callback: Callback) -> None:
        try:
            await callback()
        except Exception as error:  # noqa: BLE001  the connection outlives a fault of its users
            logger().warning("team.callback_failed", why=worded(error), exc_info=error)

    def _own(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _TlsClient(Client):  # type: ignore[misc]  # nats-py has no types
    """A client that says nothing in plain text.

    nats-py encrypts only if the first line of the server says so, which is in plain text itself. Anybody
    between could take that away, also for a server that another one of the cluster names.
    """

    def _connect_command(self) -> bytes:
        """The first message of this client; TLS was begun before it."""
        server: Any = self._current_server
        if server.uri.scheme != "wss" and not self._server_info.get("tls_required"):
            raise PlainText
        return bytes(super()._connect_command())


def _wants_tls(url: str) -> bool:
    return url.startswith(("tls://", "wss://"))


def _tls(held: Membership) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=held.ca)
    if held.cert is not None:
        context.load_cert_chain(held.cert, held.key)
    return context
