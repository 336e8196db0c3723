"""Reads and writes the key-value buckets of the registry on JetStream, without consumers.

A list is read by direct gets in batches, and changes are heard as plain messages on the
subjects of the keys. Consumers of all readers would pile up on the servers, and had to be made again after
each loss.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Mapping
from typing import Any, Final

from nats.js.api import KeyValueConfig, StorageType
from nats.js.errors import Error as JetStreamError

from lm_tools_bridge.team.names import ALIVE_BUCKET, key_of, key_subject
from lm_tools_bridge.team.registry.entry import MAX_ENTRY_BYTES
from lm_tools_bridge.team.registry.view import ENTRY_TTL_S

ALIVE_TTL_S: Final = 35.0
"""Three heartbeats (`BEAT_S`, up to a tenth later): a host is gone after three that were lost."""
ANSWER_S: Final = 5.0
"""JetStream answers in milliseconds; while a cluster chooses a leader it does not answer for some seconds."""
_BATCH: Final = 1000
"""NATS servers refuse a request for the last messages of more than 1024 subjects."""
_REPLICAS: Final = (3, 1)
_DELETED: Final = {"KV-Operation": "DEL"}


class RegistryFault(Exception):
    """The registry does not answer, or refuses; the text says why."""


class NoBucket(RegistryFault):
    """The bucket does not exist."""


def is_deletion(headers: Mapping[str, str] | None) -> bool:
    """Whether a message of a bucket removes its key."""
    return headers is not None and ("KV-Operation" in headers or "Nats-Marker-Reason" in headers)


def is_copy(headers: Mapping[str, str] | None) -> bool:
    """Whether JetStream sent a stored message on. Members can make it send what they stored themselves to the
    key of another, and only the owner of a key may be believed."""
    return headers is not None and "Nats-Stream" in headers


async def put(client: Any, bucket: str, key: str, value: bytes | None) -> None:
    """Store a value, or remove the key if it is None.

    Raises:
        RegistryFault: it was not stored.
    """
    headers = _DELETED if value is None else None
    try:
        stream = client.jetstream(timeout=ANSWER_S)
        await stream.publish(key_subject(bucket, key), value or b"", headers=headers)
    except Exception as error:
        raise RegistryFault(f"an entry was not stored: {error}") from error


async def ensure(client: Any, bucket: str) -> None:
    """Make a bucket unless it exists. Its absence shows only here: where somebody listens to its subjects,
    what is put there is lost without a word.

    Raises:
        RegistryFault: there is none, and it cannot be made.
    """
    try:
        await _get(client, bucket, {"seq": 1, "next_by_subj": key_subject(bucket, ">"), "batch": 1})
    except NoBucket:
        await _make(client, bucket)


async def _make(client: Any, bucket: str) -> None:
    """Make a bucket, on three servers where there are as many."""
    is_alive = bucket == ALIVE_BUCKET
    error: Exception | None = None
    for replicas in _REPLICAS:
        config = KeyValueConfig(
            bucket=bucket,
            ttl=ALIVE_TTL_S if is_alive else ENTRY_TTL_S,
            storage=StorageType.MEMORY if is_alive else StorageType.FILE,
            replicas=replicas,
            direct=True,
            max_value_size=MAX_ENTRY_BYTES,
        )
        try:
            await client.jetstream(timeout=ANSWER_S).create_key_value(config)
        except JetStreamError as refused:
            error = refused
        except Exception as failed:
            raise RegistryFault(str(failed) or type(failed).__name__) from failed
        else:
            return
    raise RegistryFault(f"the bucket {bucket} cannot be made: {error}") from error


async def listed(client: Any, bucket: str) -> dict[str, bytes]:
    """All values of a bucket.

    Raises:
        RegistryFault: no complete answer.
    """
    values: dict[str, bytes] = {}
    start = 1
    while True:
        query = {"seq": start, "next_by_subj": key_subject(bucket, ">"), "batch": _BATCH}
        page = await _get(client, bucket, query)
        values.update(page.values)
        if not page.pending or page.last < start:
            return values
        start = page.last + 1


async def values_of(
    client: Any, bucket: str, keys: Collection[str], within_s: float = ANSWER_S
) -> dict[str, bytes]:
    """The values of some keys; keys without a value are left out.

    Raises:
        RegistryFault: no complete answer.
    """
    query = {"multi_last": [key_subject(bucket, key) for key in keys], "batch": _BATCH}
    return (await _get(client, bucket, query, within_s)).values


class _Page:
    """The answers to one batch."""

    def __init__(self, bucket: str) -> None:
        self.values: dict[str, bytes] = {}
        self.last = self.pending = 0
        self.is_complete: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._bucket = bucket

    async def take(self, message: Any) -> None:
        """One message: a value, or the end of the batch."""
        headers = message.headers or {}
        status = headers.get("Status")
        if status is None:
            self._value(headers, message.data)
        elif not self.is_complete.done():
            self.pending = int(headers.get("Nats-Num-Pending", "0"))
            self.is_complete.set_result(None if status in {"204", "404"} else status)

    def _value(self, headers: Mapping[str, str], payload: bytes) -> None:
        self.last = max(self.last, int(headers.get("Nats-Sequence", "0")))
        key = key_of(self._bucket, headers.get("Nats-Subject", ""))
        if key is not None and not is_deletion(headers):
            self.values[key] = payload


async def _get(client: Any, bucket: str, query: Mapping[str, object], within_s: float = ANSWER_S) -> _Page:
    page = _Page(bucket)
    try:
        inbox = client.new_inbox()
        subscription = await client.subscribe(inbox, cb=page.take)
        try:
            await client.publish(f"$JS.API.DIRECT.GET.KV_{bucket}", json.dumps(query).encode(), reply=inbox)
            async with asyncio.timeout(within_s):
                status = await page.is_complete
        finally:
            await subscription.unsubscribe()
    except TimeoutError:
        raise RegistryFault("the registry does not answer") from None
    except Exception as error:  # the connection was lost meanwhile
        raise RegistryFault(f"the registry cannot be asked: {error}") from error
    if status == "503":
        raise NoBucket(f"there is no bucket {bucket}")
    if status is not None:
        raise RegistryFault(f"the registry refused to list {bucket}: {status}")
    return page
