"""Clients of both eras that call a tool with nonces, and count what became of each call."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import ClientError

from lm_tools_bridge.protocol import names
from support.clients.raw_clients import Answer, Client, SessionClient
from support.processes.managers.stdio_families import FAMILY, entry
from support.servers.mcp_sources.stdio_servers import program

CALL_S = 60.0
"""A call without any answer for so long counts as unanswered."""
PAUSE_S = 0.02
TOOL = "ledger__note"
LEDGER = """
tools = [{"name": "note", "inputSchema": {"type": "object"}}]
def call(m):
    nonce = m["params"]["arguments"]["nonce"]
    with open(os.environ["LEDGER"], "a") as ledger: ledger.write(nonce + "\\n")
    answer(m["id"], text(nonce))
serve(call)
"""
"""Writes down each nonce that it is called with, and answers with it."""


def ledger_entry(ledger: Path) -> str:
    """The entry of the server in `workspace.toml`; it starts two processes, one of which detaches."""
    return entry("ledger", program(f"{FAMILY}{LEDGER}"), env={"LEDGER": str(ledger)})


@dataclass
class Record:
    """What became of all calls.

    Attributes:
        counts: how many calls were answered, refused, broken, unanswered, mixed; sessions that were lost.
        refused: nonces whose refusal says that the call did not run.
        waits: seconds until each answer of the clients that are timed, before and during the faults.
        phase: which of both it is; at first none.
        is_timed: whether answers count; not while the manager itself is stopped.
    """

    counts: Counter[str] = field(default_factory=Counter)
    refused: set[str] = field(default_factory=set)
    waits: dict[str, list[float]] = field(default_factory=lambda: {"before": [], "during": []})
    phase: str = ""
    is_timed: bool = True


class NonceClient:
    """One client that calls until it is told to stop."""

    def __init__(self, name: str, client: Client, project: Path, record: Record, *, timed: bool) -> None:
        self._client = client
        self._project = project
        self._record = record
        self._timed = timed
        self._nonces: Iterator[str] = (f"{name}.{number}" for number in itertools.count())

    async def run(self, stop: asyncio.Event) -> None:
        """Call until `stop` is set."""
        while not stop.is_set():
            await self.call()
            await asyncio.sleep(PAUSE_S)

    async def call(self) -> bool:
        """Call once, and record what became of it; returns whether it was answered."""
        nonce = next(self._nonces)
        identity = f"id-{nonce}"
        params = {"name": TOOL, "arguments": {"nonce": nonce}}
        body = self._client.body(names.TOOLS_CALL, params, identity)
        began, was_timed = time.perf_counter(), self._record.is_timed
        try:
            answer = await asyncio.wait_for(self._client.post(body), CALL_S)
            word = await self._judged(answer, nonce, identity)
        except TimeoutError:
            word = "unanswered"
        except (ClientError, OSError, json.JSONDecodeError):
            word = "broken"
        self._record.counts[word] += 1
        if word == "answered" and self._timed and self._record.phase and was_timed and self._record.is_timed:
            self._record.waits[self._record.phase].append(time.perf_counter() - began)
        return word == "answered"

    async def _judged(self, answer: Answer, nonce: str, identity: str) -> str:
        if answer.status == 404 and isinstance(self._client, SessionClient):
            await self._client.handshake(self._project)
            return "lost"
        message = answer.message
        result = message.get("result", {})
        if result and not result.get("isError"):
            texts = [one.get("text") for one in result.get("content", [])]
            return "answered" if (message["id"], texts) == (identity, [nonce]) else "mixed"
        if _delivered(message) == "no":
            self._record.refused.add(nonce)
        return "refused"


def _delivered(message: dict[str, Any]) -> object:
    """What a refusal says about whether the call ran."""
    in_result = message.get("result", {}).get("structuredContent") or {}
    refusal = in_result.get("error") or message.get("error", {}).get("data") or {}
    return refusal.get("delivered") if isinstance(refusal, dict) else None
