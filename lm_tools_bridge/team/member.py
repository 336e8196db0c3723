"""Runs the membership in a team: owns the connection, the registry, and the calls in both directions."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any, Final

import nats.micro
from nats.micro.service import EndpointConfig, ServiceConfig

from lm_tools_bridge.team.calls.caller import Calls
from lm_tools_bridge.team.calls.host_calls import HostCalls
from lm_tools_bridge.team.connection import Connection
from lm_tools_bridge.team.gateway import Gateway
from lm_tools_bridge.team.membership import Membership, OwnOffer
from lm_tools_bridge.team.names import ALIVE_BUCKET, HOSTS_BUCKET, SERVICE, calls_to, controls_of
from lm_tools_bridge.team.own_manager import OwnManager
from lm_tools_bridge.team.registry.bucket import RegistryFault, ensure
from lm_tools_bridge.team.registry.entry import AliveEntry, HostEntry, OfferEntry
from lm_tools_bridge.team.registry.publisher import Publisher
from lm_tools_bridge.team.registry.reader import Reader
from lm_tools_bridge.team.repository import repository_of
from manager.log import logger

REFRESH_S: Final = 600.0
"""Seconds between looks at the repositories of offered workspaces."""
_SEMANTIC: Final = re.compile(r"\d+\.\d+\.\d+")


class Member:
    """This manager as a member of a team.

    Attributes:
        membership: what the user decided.
        connection: to the team's NATS servers.
        own: sends requests to this manager's own endpoint.
        reader: of the registry.
        host_calls: calls of others.
        calls: calls to others.
        gateway: their HTTP endpoints.
        ready: set while the team can be reached and its registry was read.
    """

    def __init__(
        self, membership: Membership, address: str, version: str, own_headers: Mapping[str, str] | None = None
    ) -> None:
        """`own_headers` let its requests pass where this manager requires tokens."""
        self.membership = membership
        self.connection = Connection(membership, up=self._up, down=self._down)
        self.publisher = Publisher(membership.name, self._alive)
        self.reader = Reader(membership.name, self.publisher.heard)
        self.own = OwnManager(address, version, own_headers or {})
        self.host_calls = HostCalls(membership, self.own)
        self.calls = Calls(membership, self.reader)
        self.ready = asyncio.Event()
        self.gateway = Gateway(self.connection, self.calls, self.ready)
        self._version = version
        self._started = round(time.time() * 1000)
        self._tasks: list[asyncio.Task[None]] = []
        self._served: Any = None
        self._work: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin; nothing is waited for."""
        self._own_task(self.connection.run(), "team connection")
        self._own_task(self.host_calls.beat(), "team host calls")
        self._own_task(self.calls.beat(), "team calls")
        self._own_task(self._describe(), "team entry")

    def update(self, membership: Membership) -> None:
        """Take changed offers and uses; the connection stays."""
        self.membership = self.host_calls.membership = membership
        self.host_calls.forget_tools()
        self._own_task(self._publish(), "team offers")

    async def drain(self, wait_s: float) -> None:
        """Take no new calls, tell the team, and let those that run end."""
        self.host_calls.gate.is_draining = True
        if self.connection.is_up:
            try:
                await self.publisher.beat(self.connection.client)
            except RegistryFault as error:
                logger().debug("team.drain_not_told", why=str(error))
        await self.host_calls.drained(wait_s)

    async def close(self) -> None:
        """Leave the registry and the servers; calls that run are cancelled."""
        await self.host_calls.close()
        if self._work is not None:
            self._work.cancel()
        if self.connection.is_up:
            try:
                async with asyncio.timeout(3.0):
                    await self.publisher.leave(self.connection.client)
            except TimeoutError:
                pass
        await self.connection.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.own.close()

    # -- connection -----------------------------------------------------------------------------------------

    async def _up(self) -> None:
        client = self.connection.client
        if self._served is not client:
            await self._serve(client)
            self._served = client
        if self._work is not None:
            self._work.cancel()
        self._work = asyncio.create_task(self._in_registry(client), name="team registry")
        logger().info("team.connected", server=self.connection.server, host=self.membership.name)

    async def _down(self) -> None:
        self.reader.lost()
        self.ready.clear()
        if self._work is not None:
            self._work.cancel()
        logger().warning("team.disconnected", host=self.membership.name)

    async def _serve(self, client: Any) -> None:
        """Receive on a new connection; the client itself subscribes again after a reconnect."""
        version = _SEMANTIC.match(self._version)
        config = ServiceConfig(
            name=SERVICE,
            version=version.group() if version else "0.0.0",
            description="LM Tools Bridge",
            metadata={"host": self.membership.name, "zone": self.membership.zone},
        )
        service = await nats.micro.add_service(client, config)
        endpoint = EndpointConfig("call", self.host_calls.on_call, subject=calls_to(self.membership.name))
        await service.add_endpoint(endpoint)
        await client.subscribe(controls_of(self.membership.name), cb=self.host_calls.on_control)
        await self.calls.listen(client)
        await self.reader.listen(client)

    async def _in_registry(self, client: Any) -> None:
        """Read and publish until the connection is lost."""
        for bucket in (HOSTS_BUCKET, ALIVE_BUCKET):
            try:
                await ensure(client, bucket)
            except RegistryFault as error:
                self.reader.error = str(error)
        self.publisher.renew()
        await asyncio.gather(self._read(client), self.publisher.run(client))

    async def _read(self, client: Any) -> None:
        if await self.reader.read_all(client):
            self.ready.set()

    # -- the entry ------------------------------------------------------------------------------------------

    def _alive(self) -> AliveEntry:
        gate = self.host_calls.gate
        return AliveEntry(gate.in_flight, gate.is_draining)

    async def _describe(self) -> None:
        while True:
            await self._publish()
            await asyncio.sleep(REFRESH_S)

    async def _publish(self) -> None:
        """Publish the entry of this host as it is now; without offers there is none."""
        held = self.membership
        offers = tuple(await asyncio.to_thread(lambda: [_entry_of(own_offer) for own_offer in held.offers]))
        entry = HostEntry(held.name, self._version, held.zone, held.capacity, self._started, offers)
        self.publisher.change(entry if offers else None)

    def _own_task(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.append(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.remove(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            logger().error("team.task_failed", task=task.get_name(), why=repr(fault), exc_info=fault)


def _entry_of(offer: OwnOffer) -> OfferEntry:
    repository = repository_of(Path(offer.root))
    return OfferEntry(
        offer.name,
        offer.kind,
        offer.policy,
        offer.title,
        repository.origin,
        repository.revision,
        offer.digest,
        offer.tools,
    )
