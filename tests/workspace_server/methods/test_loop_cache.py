"""A value is found once per iteration of the event loop."""

from __future__ import annotations

import asyncio
import socket
from itertools import count

from workspace_server.methods.table import LoopIterationCache


async def test_the_value_is_found_once_per_loop_iteration() -> None:
    cache = LoopIterationCache(count().__next__)
    assert [cache.get(), cache.get()] == [0, 0]
    await asyncio.sleep(0)
    assert [cache.get(), cache.get()] == [1, 1]


def test_no_request_gets_a_value_from_before_it_was_read() -> None:
    """On every loop there is: what is sent after an answer is read in a later iteration than that answer was made."""
    loops = [asyncio.new_event_loop]
    try:
        import uvloop
    except ImportError:
        pass
    else:
        loops.append(uvloop.new_event_loop)
    for make in loops:
        with asyncio.Runner(loop_factory=make) as runner:
            runner.run(_request_repeatedly())


async def _request_repeatedly() -> None:
    world = 0
    loop = asyncio.get_running_loop()
    cache = LoopIterationCache(lambda: world)
    ends = [socket.socketpair() for _ in range(4)]
    seen: list[tuple[int, int]] = []
    done = loop.create_future()

    idle = {1, 2, 3}

    def on_readable(number: int) -> None:
        nonlocal world
        sent = ends[number][0].recv(64)
        assert len(sent) == 1  # one request at a time on each connection
        seen.append((sent[0], cache.get()))
        idle.add(number)
        if len(seen) >= 200:
            if not done.done():
                done.set_result(None)
            return
        for other in sorted(idle, key=lambda one: (one - number) % 4)[:2]:
            world = (world + 1) % 256  # the world changes, and then a request is sent
            idle.discard(other)
            ends[other][1].send(bytes([world]))

    for number, (ours, _) in enumerate(ends):
        ours.setblocking(False)
        loop.add_reader(ours, on_readable, number)
    ends[0][1].send(bytes([0]))
    async with asyncio.timeout(10):
        await done
    for ours, theirs in ends:
        loop.remove_reader(ours)
        ours.close()
        theirs.close()
    # between two there may have been changes, but never one back
    assert all((found - sent) % 256 < 128 for sent, found in seen)
