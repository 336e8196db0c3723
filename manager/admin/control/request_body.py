"""Reads the body of a request that aiohttp serves, under a size limit and a deadline."""

from __future__ import annotations

import asyncio

from lm_tools_bridge.http_server.parsing.body_reader import BROKEN
from lm_tools_bridge.http_server.refusal import BODY_TIMEOUT, AdmissionRefusal, body_too_large
from manager.http import lazy_aiohttp as web


async def read_body(request: web.Request, cap: int, deadline: float) -> bytes | AdmissionRefusal:
    """The whole body, or 413 as soon as it exceeds `cap` bytes, 408 after `deadline` seconds, 400 for broken
    chunks. Never keeps more than the cap and one read.
    """
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(deadline):
            while chunk := await request.content.readany():
                size += len(chunk)
                if size > cap:
                    return body_too_large(cap)
                chunks.append(chunk)
    except TimeoutError:
        return BODY_TIMEOUT
    except web.RequestPayloadError:
        return BROKEN
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)
