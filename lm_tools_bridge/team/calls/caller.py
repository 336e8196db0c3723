"""Calls offers of other members: chooses a host, and another one if the call certainly did not run there."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from lm_tools_bridge.team.calls import parts
from lm_tools_bridge.team.calls.remote_call import TIMED_OUT, Head, RemoteCall, Undelivered, Unknown
from lm_tools_bridge.team.membership import Membership, Use
from lm_tools_bridge.team.names import CallSubject
from lm_tools_bridge.team.registry.bucket import RegistryFault
from lm_tools_bridge.team.registry.reader import Reader
from lm_tools_bridge.team.registry.view import Caller as Me
from lm_tools_bridge.team.registry.view import candidates, ordered
from manager.log import logger

MOST_CALLS: Final = 256
"""Calls of this member in flight at all hosts."""
MOST_HOSTS: Final = 4
"""Hosts that are tried for one call."""
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class NoHost:
    """No host took the call; it did not run. `reason` is a word, which `gateway.py` explains."""

    reason: str


class Calls:
    """The calls of this member to others.

    Attributes:
        in_flight: how many there are at each host.
    """

    def __init__(self, membership: Membership, reader: Reader, now: Clock = time.monotonic) -> None:
        self.in_flight: Counter[str] = Counter()
        self._membership = membership
        self._reader = reader
        self._now = now
        self._calls: dict[str, RemoteCall] = {}
        self._inbox = ""

    async def listen(self, client: Any) -> None:
        """Receive answers on this connection; to be called once for each client."""
        self._inbox = client.new_inbox()
        await client.subscribe(f"{self._inbox}.*", cb=self._arrived)

    async def beat(self) -> None:
        """Keep calls alive, and notice hosts that are silent. Never ends."""
        while True:
            await asyncio.sleep(parts.BEAT_S)
            for call in list(self._calls.values()):
                await call.beat()

    @asynccontextmanager
    async def call(
        self, client: Any, use: Use, body: bytes, *, repeats: Callable[[str], bool], deadline_s: float
    ) -> AsyncIterator[tuple[RemoteCall, Head] | NoHost | Unknown]:
        """Call an offer. Leaving the block cancels the call unless its answer is complete.

        Args:
            client: of the connection, which is up.
            use: which offer, and which hosts may get it.
            body: the JSON-RPC request.
            repeats: whether a host says that a second call does no harm there. It then goes to another host
                after a loss, too. What one host says does not count for another.
            deadline_s: seconds for the whole call.
        """
        call: RemoteCall | None = None
        try:
            ends = self._now() + deadline_s
            outcome: Head | Undelivered | Unknown | NoHost = NoHost("unknown")
            lost: Unknown | None = None
            hosts = await self._hosts(client, use)
            for host in hosts if isinstance(hosts, list) else ():
                may_repeat = repeats(host)
                call = self._opened(client, host, use, may_repeat, max(1.0, ends - self._now()))
                outcome = await call.begin(body, f"{self._inbox}.{call.identity}")
                if isinstance(outcome, Head):
                    break
                self._close(call)
                self._reader.doubt(host)
                logger().info("team.not_answered", call=call.identity, host=host, offer=use.offer,
                              delivered="no" if isinstance(outcome, Undelivered) else "unknown",
                              why=outcome.reason)  # fmt: skip
                if isinstance(outcome, Unknown):
                    lost = outcome
                    if not may_repeat or outcome.reason == TIMED_OUT:
                        break
            if isinstance(hosts, str):
                outcome = NoHost(hosts)
            if isinstance(outcome, Undelivered):
                outcome = NoHost(outcome.reason)
            if lost is not None and not isinstance(outcome, Head):
                outcome = lost  # an earlier host may have run it
            yield (call, outcome) if isinstance(outcome, Head) and call is not None else outcome  # type: ignore[misc]  # each yields one of them
        finally:
            if call is not None:
                await call.cancel()
                self._close(call)

    async def _hosts(self, client: Any, use: Use) -> list[str] | str:
        if len(self._calls) >= MOST_CALLS:
            return "too_many"
        me = Me(self._membership.name, self._membership.zone)
        providers = self._reader.view.providers(use.offer)
        chosen_providers = candidates(providers, use.hosts, me)
        if providers and not chosen_providers:
            return "not_accepted"
        try:
            alive = await self._reader.alive(client, [provider.host.host for provider in chosen_providers])
        except RegistryFault:
            return "registry"
        best = ordered(chosen_providers, alive, self.in_flight, me)
        return best[:MOST_HOSTS] if isinstance(best, list) else best

    def _opened(self, client: Any, host: str, use: Use, may_repeat: bool, deadline_s: float) -> RemoteCall:
        to = CallSubject(host, use.offer, self._membership.name)
        call = RemoteCall(
            client, to, secrets.token_hex(16), at_once=may_repeat, deadline_s=deadline_s, now=self._now
        )
        self._calls[call.identity] = call
        self.in_flight[host] += 1
        return call

    def _close(self, call: RemoteCall) -> None:
        if self._calls.pop(call.identity, None) is not None:
            self.in_flight[call.host] -= 1
            self.in_flight += Counter()  # drops what is zero

    async def _arrived(self, message: Any) -> None:
        call = self._calls.get(message.subject.rpartition(".")[2])
        if call is not None:
            call.take(message.headers or {}, message.data)
