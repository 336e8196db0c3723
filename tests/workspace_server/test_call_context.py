"""Input requests stay open until they are answered, withdrawn or ended."""

from __future__ import annotations

import asyncio

import msgspec

from lm_tools_bridge.protocol import names
from workspace_server.call_context import OpenRequests, input_request
from workspace_server.tool import RpcError

ROOTS = input_request(names.ROOTS_LIST, msgspec.Raw())


async def test_an_answer_goes_to_its_request_and_keys_are_not_reused() -> None:
    changes: list[int] = []
    requests = OpenRequests(lambda: changes.append(len(requests.by_key())))
    for key in ("q1", "q2"):
        asking = asyncio.ensure_future(requests.ask(ROOTS))
        await asyncio.sleep(0)
        assert list(requests.by_key()) == [key]
        requests.take({key: msgspec.Raw(b'{"roots":[]}'), "other": msgspec.Raw(b"{}")})
        assert await asking == msgspec.Raw(b'{"roots":[]}')
    assert not requests
    assert changes == [1, 0, 1, 0]


async def test_a_result_that_is_no_object_leaves_its_request_open() -> None:
    requests = OpenRequests(lambda: None)
    asking = asyncio.ensure_future(requests.ask(ROOTS))
    await asyncio.sleep(0)
    requests.take({"q1": msgspec.Raw(b'"text"')})
    assert list(requests.by_key()) == ["q1"]
    requests.end(RpcError(-1, "over"))
    assert await asking == RpcError(-1, "over")


async def test_a_withdrawn_request_is_not_open() -> None:
    requests = OpenRequests(lambda: None)
    asking = asyncio.ensure_future(requests.ask(ROOTS))
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.wait([asking])
    assert not requests
