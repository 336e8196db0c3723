"""Serves the control socket's part of `lmtb calls`: what has ended is written before somebody reads it."""

from __future__ import annotations

import asyncio

from lm_tools_bridge.recorder.recorder import Recorder
from manager.http import lazy_aiohttp as web


def recorded_calls_routes(recorder: Recorder | None) -> list[web.RouteDef]:
    """The routes; `recorder` is None where calls are not recorded."""

    async def write(_: web.Request) -> web.Response:
        is_written = recorder is not None and await asyncio.to_thread(recorder.write_now)
        return web.json_response({"ok": True, "written": is_written})

    return [web.post("/recorded/write", write)]
