"""Keeps this member's view of the registry: a complete list after each connect, then every change."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Collection
from typing import Any, Final, NamedTuple

from lm_tools_bridge.backoff import backoff
from lm_tools_bridge.team.names import ALIVE_BUCKET, HOSTS_BUCKET, key_of, key_subject
from lm_tools_bridge.team.registry import bucket
from lm_tools_bridge.team.registry.bucket import ALIVE_TTL_S, RegistryFault
from lm_tools_bridge.team.registry.entry import AliveEntry, HostEntry, read_alive, read_host
from lm_tools_bridge.team.registry.view import TeamView
from manager.log import logger

FRESH_S: Final = 3.0
"""Seconds for which a heartbeat that was read is used for further calls."""
ALIVE_ANSWER_S: Final = 1.5
"""Seconds that a call waits for heartbeats."""
_MOST_NAMED: Final = 500
"""Heartbeats that are asked for by name; NATS refuses more than 1,024. For more, all are listed."""
_AT_ONCE: Final = 20
"""Entries that are read before others of the loop's tasks run."""
Clock = Callable[[], float]
OnOwn = Callable[[bytes | None, bool], None]
"""`on_own(payload, is_copy)`: what is stored now, None if it was removed; whether JetStream sent it."""


class _Beat(NamedTuple):
    """A heartbeat: when it was asked for, when it was heard, and None for a host that has none."""

    at: float
    heard: float
    entry: AliveEntry | None


class Reader:
    """Reads the registry for one member.

    Attributes:
        view: what is known; it survives losses of the connection.
        error: why the registry cannot be read.
    """

    def __init__(self, own: str, on_own: OnOwn, now: Clock = time.monotonic) -> None:
        """`on_own` hears what is stored under the key `own`, the name of this host."""
        self.view = TeamView()
        self.error: str | None = None
        self._own, self._on_own = own, on_own
        self._now = now
        self._changes: list[tuple[str, HostEntry | str | None]] | None = None
        self._alive: dict[str, _Beat] = {}

    async def listen(self, client: Any) -> None:
        """Hear changes on this connection from now on; to be called once for each client."""
        await client.subscribe(key_subject(HOSTS_BUCKET, "*"), cb=self._changed)

    async def read_all(self, client: Any) -> bool:
        """Read the complete list, again and again with pauses until it succeeds or the connection is lost.

        Returns:
            Whether it was read.
        """
        failures = 0
        while client.is_connected:
            try:
                await self._read_all(client)
            except RegistryFault as error:
                failures += 1
                self.error = str(error)
                logger().warning("team.registry_unreadable", why=self.error)
                await asyncio.sleep(backoff(failures, random.random()))  # noqa: S311  spreads members
            else:
                self.error = None
                return True
        return False

    def lost(self) -> None:
        """The connection is lost: the view stays, and is stale from now on."""
        self.view.lost(self._now())

    async def alive(self, client: Any, hosts: Collection[str]) -> dict[str, AliveEntry]:
        """The heartbeats of some hosts, at most `FRESH_S` old; those without one are dead.

        While the registry does not answer, heartbeats that would still be in it are used.

        Raises:
            RegistryFault: the registry does not answer, and nothing is known.
        """
        now = self._now()
        beats = {host: self._alive[host] for host in hosts if host in self._alive}
        old = [name for name in hosts if name not in beats or now - beats[name].at > FRESH_S]
        for host in old:  # other calls need not ask, too
            if host in beats:
                self._alive[host] = beats[host]._replace(at=now)
        try:
            for host, entry in (await self._beats(client, old)).items():
                beats[host] = self._alive[host] = _Beat(now, now, entry)
        except RegistryFault:
            if not beats:
                raise
        usable = {host: beat.entry for host, beat in beats.items() if now - beat.heard < ALIVE_TTL_S}
        return {host: entry for host, entry in usable.items() if entry is not None}

    async def _beats(self, client: Any, hosts: Collection[str]) -> dict[str, AliveEntry | None]:
        if not hosts:
            return {}
        if len(hosts) > _MOST_NAMED:
            values = await bucket.listed(client, ALIVE_BUCKET)
        else:
            values = await bucket.values_of(client, ALIVE_BUCKET, hosts, ALIVE_ANSWER_S)
        return {host: read_alive(values[host]) if host in values else None for host in hosts}

    def doubt(self, host: str) -> None:
        """A host did not answer: its heartbeat is read again before the next call."""
        self._alive.pop(host, None)

    async def _read_all(self, client: Any) -> None:
        self._changes = []
        try:
            values = await bucket.listed(client, HOSTS_BUCKET)
            new_view, now = TeamView(), self._now()
            for number, (host, payload) in enumerate(values.items()):
                new_view.put(host, read_host(host, payload), now)
                if number % _AT_ONCE == 0:
                    await asyncio.sleep(0)
            self.view.replace(new_view)
            for host, entry in self._changes:
                self._apply(host, entry)
        finally:
            self._changes = None

    async def _changed(self, message: Any) -> None:
        host = key_of(HOSTS_BUCKET, message.subject)
        if host is None:
            return
        gone, is_copy = bucket.is_deletion(message.headers), bucket.is_copy(message.headers)
        if host == self._own:
            self._on_own(None if gone else message.data, is_copy)
        if is_copy:
            return
        entry = None if gone else read_host(host, message.data)
        if self._changes is not None:  # a list is being read, which may be older
            self._changes.append((host, entry))
        else:
            self._apply(host, entry)

    def _apply(self, host: str, entry: HostEntry | str | None) -> None:
        if entry is None:
            self.view.remove(host)
        else:
            self.view.put(host, entry, self._now())
        self.view.expire(self._now())
