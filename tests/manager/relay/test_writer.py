"""Replies are written as JSON or events, and a cancelled request is ended."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

import msgspec
import pytest
from aiohttp import ClientSession

from lm_tools_bridge.protocol import jsonrpc, names, sse
from manager.answers.exchange import Exchange
from manager.answers.replies import Events, Plain, Relayed, Reply
from manager.http.request import HttpRequest
from manager.relay.writer import CallProgress, Writer
from manager.sessions.streams import Streams
from support.clients.exchanges import legacy, stateless
from support.clients.raw_clients import EVENTS, JSON, Answer
from support.http.arriving_answer import ArrivingAnswer
from support.http.served_connection import served_by

RESPONSE = jsonrpc.result(b"1", {})
NOTE = jsonrpc.notification(names.PROGRESS, {"progressToken": 1, "progress": 1})
QUESTION = jsonrpc.request(b'"q"', names.PING, {})
BOTH = {"accepts_json": True, "accepts_events": True}
ONLY_JSON = {"accepts_json": True, "accepts_events": False}
ONLY_EVENTS = {"accepts_json": False, "accepts_events": True}

Make = Callable[[], Coroutine[Any, Any, Reply]]


def exchange_of(era: str, **accepts: bool) -> Exchange:
    if era == "modern":
        return stateless(names.TOOLS_CALL, {"name": "x"}, **accepts)
    return legacy({"jsonrpc": "2.0", "id": 1, "method": names.PING}, **accepts)


async def written(exchange: Exchange, make: Make) -> Answer:
    """The HTTP response for a reply."""
    streams = None if exchange.is_modern else Streams(time.monotonic)

    async def answer(http_request: HttpRequest) -> None:
        await Writer(http_request, exchange, 10_000, streams).answer(make())

    async with served_by(answer) as url, ClientSession() as http, http.post(url, json={}) as response:
        return Answer(response.status, response.headers, await response.read())


def plain(body: bytes = RESPONSE, status: int = 200) -> Make:
    async def make() -> Reply:
        return Plain(body, status)

    return make


def events(*messages: bytes) -> Make:
    async def said() -> AsyncGenerator[bytes]:
        for message in messages:
            yield message

    async def make() -> Reply:
        return Events(said())

    return make


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize(
    ("accepts", "make", "status", "kind", "count"),
    [
        (BOTH, plain(), 200, JSON, 1),
        (ONLY_JSON, plain(), 200, JSON, 1),
        (ONLY_EVENTS, plain(), 200, EVENTS, 1),
        (ONLY_EVENTS, plain(status=404), 404, JSON, 1),
        (BOTH, events(RESPONSE), 200, JSON, 1),
        (ONLY_EVENTS, events(RESPONSE), 200, EVENTS, 1),
        (BOTH, events(NOTE, QUESTION, RESPONSE), 200, EVENTS, 3),
        (ONLY_JSON, events(NOTE, QUESTION, RESPONSE), 200, JSON, 1),
    ],
)
async def test_the_media_type_fits_reply_and_client(
    era: str, accepts: dict[str, bool], make: Make, status: int, kind: str, count: int
) -> None:
    """A stream only if it is needed; an error status is always sent as JSON."""
    answer = await written(exchange_of(era, **accepts), make)
    assert (answer.status, answer.headers["Content-Type"].partition(";")[0]) == (status, kind)
    assert len(answer.messages) == count
    assert answer.message == json.loads(RESPONSE)


async def test_an_empty_reply_is_202() -> None:
    """Whatever media types the client accepts."""
    answer = await written(exchange_of("legacy", **ONLY_EVENTS), plain(b"", 202))
    assert (answer.status, answer.body) == (202, b"")


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_only_events_of_sessions_have_ids(era: str) -> None:
    answer = await written(exchange_of(era, **BOTH), events(NOTE, RESPONSE))
    ids = [one.id for one in sse.Decoder().feed(answer.body)]
    if era == "modern":
        assert ids == [None, None]
    else:
        assert [str(one).rpartition("-")[2] for one in ids] == ["1", "2", "3"]


@pytest.mark.parametrize("begun", [True, False])
async def test_nothing_is_written_after_a_cancellation(begun: bool) -> None:
    """An open stream ends; otherwise the status is 202."""
    exchange, at_work = exchange_of("legacy", **BOTH), asyncio.Event()

    async def endless() -> AsyncGenerator[bytes]:
        if begun:
            yield NOTE
        at_work.set()
        await asyncio.Event().wait()

    async def make() -> Reply:
        return Events(endless())

    async def cancelled(http_request: HttpRequest) -> None:
        writer = Writer(http_request, exchange, 10_000, Streams(time.monotonic))
        task: asyncio.Task[Any] = asyncio.create_task(writer.answer(make()))
        await at_work.wait()
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()
        writer.end()

    async with served_by(cancelled) as url, ClientSession() as http, http.post(url, json={}) as response:
        answer = Answer(response.status, response.headers, await response.read())
    assert answer.status == (200 if begun else 202)
    assert [json.loads(one.data) for one in answer.events] == ([json.loads(NOTE)] if begun else [])


async def test_a_client_that_leaves_before_a_large_body_begins_frees_the_call() -> None:
    arriving, at_work = ArrivingAnswer(), asyncio.Event()

    async def never(_: object) -> Any:
        raise AssertionError("the answer asks for nothing")

    async def make() -> Relayed:
        at_work.set()
        return Relayed(arriving.answer, never, never)

    async def cancelled(http_request: HttpRequest) -> None:
        writer = Writer(http_request, exchange_of("modern", **BOTH), 10_000)
        task: asyncio.Task[Any] = asyncio.create_task(writer.answer(make()))
        await at_work.wait()
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        writer.end()

    async with served_by(cancelled) as url, ClientSession() as http, http.post(url, json={}):
        assert (arriving.figures.in_flight, arriving.figures.last_outcome) == (0, "cancelled")
        assert arriving.carrier.closed == "abandoned"


def params_of(event: bytes) -> dict[str, Any]:
    [found] = sse.Decoder(10_000).feed(event)
    message = json.loads(found.data)
    assert message["method"] == names.PROGRESS
    params: dict[str, Any] = message["params"]
    return params


def of_server(**params: Any) -> bytes:
    return sse.encode(jsonrpc.notification(names.PROGRESS, {"progressToken": "t", **params}))


def test_each_notification_has_the_token_as_it_came_and_more_progress() -> None:
    clock = iter([100.0, 115.0, 130.0])
    progress = CallProgress(msgspec.Raw(b'"a\\u00e9"'), clock.__next__)
    first, second = params_of(progress.event()), params_of(progress.event())
    assert first["progressToken"] == second["progressToken"] == "aé"
    assert 0 < first["progress"] < second["progress"] < 1
    assert (first["message"], second["message"]) == ("still running (15 s)", "still running (30 s)")


def test_the_servers_progress_is_continued() -> None:
    progress = CallProgress(msgspec.Raw(b"1"))
    assert progress.note_written(of_server(progress=0.1) + of_server(total=10, progress=3))
    assert progress.note_written(of_server(progress=2))
    assert 3 < params_of(progress.event())["progress"] < 4


def test_other_messages_are_no_progress() -> None:
    progress = CallProgress(msgspec.Raw(b"1"))
    assert not progress.note_written(b'data: {"result":{"progress": 50}}\n\n')
    assert params_of(progress.event())["progress"] < 1
