"""A manager without a port has no page, so it hands out no ticket for one."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from lm_tools_bridge.page.access import Access
from lm_tools_bridge.page.routes import access_routes


async def test_a_manager_without_a_port_says_what_its_page_needs(aiohttp_client: Any) -> None:
    app = web.Application()
    app.add_routes(access_routes(Access(lambda: 0.0, lambda: "secret"), None))
    client = await aiohttp_client(app)
    response = await client.post("/page/ticket", json={})
    answer = await response.json()
    assert (response.status, answer["reason"]) == (409, "no_port")
    assert "tcp = true" in answer["message"]
    assert "url" not in answer
