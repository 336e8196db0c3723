"""`subscriptions/listen`: one open answer that tells of changed lists, until the server stops.

Source: row M18 and T-184.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec
from aiohttp import web

from protocol import jsonrpc, names
from workspace_server.calls.asked import Asked
from workspace_server.catalog.toolset import Toolset
from workspace_server.life import Life
from workspace_server.web.stream import Stream

_KINDS: Final = {
    "toolsListChanged": names.TOOLS_CHANGED,
    "resourcesListChanged": names.RESOURCES_CHANGED,
    "promptsListChanged": names.PROMPTS_CHANGED,
}
"""Kinds that can be asked for. Prompts never change here: there are none."""
_CHANGING: Final = ("toolsListChanged", "resourcesListChanged")
"""Kinds that a changed toolset means: every tool is listed as a resource as well."""


async def serve(
    asked: Asked, stream: Stream, toolset: Toolset, life: Life, keep_alive_s: float
) -> web.StreamResponse:
    """Answer one listen request; returns when the server stops, and is cancelled when the caller leaves."""
    raw = asked.inbound.params.get("notifications")
    if raw is None or jsonrpc.bytes_of(raw)[:1] != b"{":
        refused = asked.invalid("params.notifications must be an object")
        return await stream.finish(refused.status, refused.body())
    wanted = {kind: jsonrpc.bytes_of(value) for kind, value in jsonrpc.members_of(raw).items()}
    honoured = {kind: True for kind in _KINDS if wanted.get(kind) == b"true"}
    meta = {names.META_SUBSCRIPTION: msgspec.Raw(asked.request.id)}
    wake, changed = asyncio.Event(), asyncio.Event()

    def on_change() -> None:
        changed.set()
        wake.set()

    leave = (toolset.listen(on_change), life.on_stop(wake.set))
    try:
        await stream.notify(names.ACKNOWLEDGED, {"notifications": honoured, "_meta": meta})
        while not life.stopping:
            await _wait(wake, stream, keep_alive_s)
            if changed.is_set():
                changed.clear()
                for kind in _CHANGING:
                    if kind in honoured:
                        await stream.notify(_KINDS[kind], {"_meta": meta})
    finally:
        for end in leave:
            end()
    result: dict[str, Any] = {"resultType": "complete", "_meta": meta}
    return await stream.finish(200, jsonrpc.result(asked.request.id, result))


async def until(life: Life, stream: Stream, keep_alive_s: float) -> None:
    """Keep a stream without messages open until the server stops."""
    wake = asyncio.Event()
    leave = life.on_stop(wake.set)
    try:
        while not life.stopping:
            await _wait(wake, stream, keep_alive_s)
    finally:
        leave()


async def _wait(wake: asyncio.Event, stream: Stream, keep_alive_s: float) -> None:
    try:
        async with asyncio.timeout(keep_alive_s):
            await wake.wait()
            wake.clear()
    except TimeoutError:
        await stream.keep_alive()
