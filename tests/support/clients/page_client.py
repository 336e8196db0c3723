"""Does what the page's script does: uses a ticket, sends actions, reads changes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import aiohttp

from manager.client import Control
from support.processes.managers.manager_in_process import RunningManager


async def control(manager: RunningManager, target: str) -> dict[str, Any]:
    return await asyncio.to_thread(Control(manager.paths.control_socket).post, target, {})


async def ticket(manager: RunningManager) -> str:
    url = (await control(manager, "/page/ticket"))["url"]
    assert isinstance(url, str)
    address, _, secret = url.partition("#ticket=")
    assert address == f"{manager.base}/"
    return secret


async def posted(
    http: aiohttp.ClientSession, url: str, message: object, headers: Mapping[str, str] | None = None
) -> tuple[int, dict[str, Any]]:
    async with http.post(url, json=message, headers=headers) as response:
        return response.status, await response.json()


async def opened(manager: RunningManager, http: aiohttp.ClientSession) -> str:
    code, answer = await posted(http, f"{manager.base}/page/session", {"ticket": await ticket(manager)})
    assert code == 200
    proof = answer["proof"]
    assert isinstance(proof, str)
    return proof


async def event(stream: aiohttp.ClientResponse) -> dict[str, Any]:
    async with asyncio.timeout(20):
        while True:
            line = await stream.content.readline()
            if line.startswith(b"data: "):
                found = json.loads(line[6:])
                assert isinstance(found, dict)
                return found
