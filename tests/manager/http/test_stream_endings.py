"""The moment in which all streams end."""

from __future__ import annotations

import asyncio

from manager.http.stream_endings import StreamEndings


def test_what_still_stands_is_ended_once() -> None:
    endings, ended = StreamEndings(), list[str]()
    one, other = (lambda: ended.append("one")), (lambda: ended.append("other"))
    endings.add(one)
    endings.add(other)
    endings.discard(other)
    endings.end_all()
    endings.end_all()
    assert ended == ["one"]


def test_what_begins_too_late_is_ended_at_once() -> None:
    endings, ended = StreamEndings(), list[str]()
    endings.end_all()
    endings.add(lambda: ended.append("late"))
    assert ended == ["late"]


async def test_the_end_can_be_waited_for() -> None:
    endings = StreamEndings()
    waiting = asyncio.ensure_future(endings.wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    endings.end_all()
    await asyncio.wait_for(waiting, 5)
