"""The entry of this host: it is published again when somebody else changed it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from lm_tools_bridge.team.names import HOSTS_BUCKET, key_subject
from lm_tools_bridge.team.registry import publisher as module
from lm_tools_bridge.team.registry.entry import AliveEntry, HostEntry, OfferEntry, encoded
from lm_tools_bridge.team.registry.publisher import Publisher
from lm_tools_bridge.team.registry.reader import Reader

ENTRY = HostEntry("me", offers=(OfferEntry("docs", "server"),))
FORGED = encoded(HostEntry("me", offers=(OfferEntry("other", "server"),)))
COPY = {"Nats-Stream": "KV_lmtb_hosts", "Nats-Subject": "$KV.lmtb_hosts.mallory"}


@dataclass
class Stored:
    """A message of the bucket."""

    subject: str
    data: bytes
    headers: dict[str, str] | None = None


@dataclass
class Registry:
    """Stands for the servers: what is stored is heard by the reader of the same member."""

    is_connected: bool = True
    reader: Any = None
    entries: list[bytes | None] = field(default_factory=list)

    def jetstream(self, timeout: float) -> Registry:
        return self

    async def publish(self, subject: str, payload: bytes, headers: dict[str, str] | None = None) -> None:
        if subject == key_subject(HOSTS_BUCKET, "me"):
            self.entries.append(None if headers else payload)
            await self.reader._changed(Stored(subject, payload, headers))

    async def forges(self, payload: bytes, headers: dict[str, str] | None = None) -> None:
        await self.reader._changed(Stored(key_subject(HOSTS_BUCKET, "me"), payload, headers))


@contextlib.asynccontextmanager
async def publishing(entry: HostEntry | None) -> AsyncIterator[tuple[Publisher, Registry]]:
    registry = Registry()
    publisher = Publisher("me", AliveEntry)
    registry.reader = Reader("me", publisher.heard)
    publisher.change(entry)
    task = asyncio.create_task(publisher.run(registry))
    try:
        yield publisher, registry
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until_stored(registry: Registry, count: int) -> None:
    async with asyncio.timeout(5):
        while len(registry.entries) < count:
            await asyncio.sleep(0)


@pytest.fixture(autouse=True)
def beats_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BEAT_S", 0.001)


@pytest.mark.parametrize(("payload", "headers"), [(FORGED, COPY), (FORGED, None), (encoded(ENTRY), COPY),
                                                  (b"", {"KV-Operation": "DEL"})])  # fmt: skip
async def test_an_entry_that_somebody_else_changed_is_published_again(
    payload: bytes, headers: dict[str, str] | None
) -> None:
    async with publishing(ENTRY) as (publisher, registry):
        await until_stored(registry, 1)
        await registry.forges(payload, headers)
        assert publisher.error is not None
        await until_stored(registry, 2)
        assert "another host has its name" in (publisher.error or "")
        assert registry.entries == [encoded(ENTRY)] * 2
        async with asyncio.timeout(5):
            while publisher.error is not None:
                await asyncio.sleep(0)


async def test_own_changes_are_no_forgeries() -> None:
    async with publishing(ENTRY) as (publisher, registry):
        for number, entry in enumerate((ENTRY, HostEntry("me", capacity=3, offers=ENTRY.offers), None), 1):
            publisher.change(entry)
            await until_stored(registry, number)
            assert publisher.error is None
        assert registry.entries[-1] is None


async def test_a_forged_entry_of_a_host_without_offers_is_removed() -> None:
    async with publishing(None) as (_, registry):
        await registry.forges(FORGED, COPY)
        await until_stored(registry, 1)
        assert registry.entries == [None]


async def test_what_jetstream_sent_on_is_not_believed() -> None:
    reader = Reader("me", lambda _, __: None)
    host = encoded(HostEntry("bob", offers=(OfferEntry("docs", "server"),)))
    await reader._changed(Stored(key_subject(HOSTS_BUCKET, "bob"), host, COPY))
    assert not list(reader.view.hosts())
    await reader._changed(Stored(key_subject(HOSTS_BUCKET, "bob"), host))
    assert [one.host for one in reader.view.hosts()] == ["bob"]
