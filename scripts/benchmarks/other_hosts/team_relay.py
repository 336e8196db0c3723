"""A plain HTTP relay, as the least that a direct path between two managers would cost.

Usage: python -m scripts.benchmarks.other_hosts.team_relay URL   prints its port, and serves until it is ended
"""

from __future__ import annotations

import asyncio
import sys

from aiohttp import ClientSession, TCPConnector, web

from lm_tools_bridge.protocol import headers

_PASSED = (headers.VERSION, headers.METHOD, headers.NAME, "Content-Type", "Accept")


async def main(target: str) -> None:
    """Send every POST on, and its answer back."""
    async with ClientSession(connector=TCPConnector(limit=0)) as http:

        async def relay(request: web.Request) -> web.Response:
            sent = {name: request.headers[name] for name in _PASSED if name in request.headers}
            async with http.post(target, data=await request.read(), headers=sent) as answer:
                body = await answer.read()
            return web.Response(status=answer.status, body=body, content_type=answer.content_type)

        app = web.Application()
        app.router.add_post("/", relay)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        print(runner.addresses[0][1], flush=True)
        await asyncio.Event().wait()


asyncio.run(main(sys.argv[1]))
