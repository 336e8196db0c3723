"""Tests that the control socket is made again if it is removed, and only while the manager serves."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from manager.admin.control.renewals import Renewals
from manager.listener.control_listener import ControlListener


class NoServers:
    """Serves this user, and knows no registered server."""

    def renew(self, session_id: str) -> bool:
        return False

    def peer_allowed(self, transport: asyncio.BaseTransport | None) -> bool:
        return True


def connects(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(path))
        except OSError:
            return False
        return True


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "control.sock"


@pytest.fixture
async def listener(path: Path) -> AsyncIterator[ControlListener]:
    path.parent.mkdir(mode=0o700)
    made = ControlListener(path, NoServers(), lambda _: web.AppRunner(web.Application()))
    await made.open()
    yield made
    await made.close()


@pytest.mark.parametrize("what", ["socket", "folder"])
async def test_a_removed_socket_is_made_again(listener: ControlListener, path: Path, what: str) -> None:
    assert connects(path)
    path.unlink()
    if what == "folder":
        path.parent.rmdir()
    await listener.reopen_if_removed()
    assert connects(path)
    assert path.stat().st_mode & 0o777 == 0o600


async def test_a_socket_in_its_place_is_left_alone(listener: ControlListener, path: Path) -> None:
    before = path.stat()
    await listener.reopen_if_removed()
    assert path.stat().st_ino == before.st_ino


async def test_a_closed_socket_is_not_made_again(listener: ControlListener, path: Path) -> None:
    await listener.close()
    await listener.reopen_if_removed()
    assert not path.exists()


KNOWN = {"sessionId": "s1"}  # the heartbeat that was accepted before
OWN = {"sessionId": "s3", "pid": os.getpid()}  # of a server that this process registered
RENEWED = {"ok": True, "ttlMs": 2500, "heartbeatMs": 1000}


class Served:
    """What reached which side."""

    def __init__(self) -> None:
        self.is_allowed = True
        self.pages: list[tuple[str, str, bytes]] = []
        self.renewed: list[str] = []
        self.checks = 0

    def renew(self, session_id: str) -> bool:
        self.renewed.append(session_id)
        return True

    def peer_allowed(self, transport: asyncio.BaseTransport | None) -> bool:
        self.checks += 1
        return self.is_allowed

    async def page(self, request: web.Request) -> web.Response:
        self.pages.append((request.method, request.path, await request.read()))
        return web.json_response({"ok": True, "by": "aiohttp"})

    def runner(self, renewals: Renewals) -> web.AppRunner:
        renewals.remember(KNOWN)
        renewals.remember(OWN)
        app = web.Application()
        app.router.add_route("*", "/{any:.*}", self.page)
        return web.AppRunner(app)


class Line:
    """A client's connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def answer(self) -> dict[str, Any]:
        head = await self.reader.readuntil(b"\r\n\r\n")
        assert b"\r\nServer: " in head or b"aiohttp" in head
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        found: dict[str, Any] = json.loads(await self.reader.readexactly(length))
        return found

    async def ask(self, data: bytes) -> dict[str, Any]:
        self.writer.write(data)
        return await self.answer()


def request(body: bytes, line: str = "POST /heartbeat", fields: str = "") -> bytes:
    return f"{line} HTTP/1.1\r\nHost: x\r\n{fields}Content-Length: {len(body)}\r\n\r\n".encode() + body


BEAT = request(json.dumps(KNOWN).encode())
OWN_BEAT = request(json.dumps(OWN).encode())
NEWS = request(b'{"sessionId":"s2"}')
HEALTH = request(b"", "GET /health")


@pytest.fixture
def served() -> Served:
    return Served()


@pytest.fixture
async def line(served: Served, tmp_path: Path) -> AsyncIterator[Line]:
    path = tmp_path / "control.sock"
    listener = ControlListener(path, served, served.runner)
    await listener.open()
    await listener.load()
    reader, writer = await asyncio.open_unix_connection(path)
    async with asyncio.timeout(10):
        yield Line(reader, writer)
    writer.close()
    await listener.close()


async def test_renewals_never_reach_aiohttp(line: Line, served: Served) -> None:
    for _ in range(3):
        assert await line.ask(BEAT) == RENEWED
    assert (served.renewed, served.pages, served.checks) == (["s1"] * 3, [], 1)


@pytest.mark.parametrize("cut", [1, 20, len(BEAT) - 3])
async def test_a_renewal_in_two_pieces_is_one(line: Line, served: Served, cut: int) -> None:
    line.writer.write(BEAT[:cut])
    await line.writer.drain()
    await asyncio.sleep(0)
    assert await line.ask(BEAT[cut:]) == RENEWED
    assert served.pages == []


async def test_a_heartbeat_with_news_reaches_aiohttp_whole_and_so_does_what_follows(
    line: Line, served: Served
) -> None:
    assert await line.ask(BEAT) == RENEWED
    for data in (NEWS, HEALTH, BEAT):
        assert (await line.ask(data))["by"] == "aiohttp"
    bodies = [body for _, _, body in served.pages]
    assert bodies == [b'{"sessionId":"s2"}', b"", json.dumps(KNOWN).encode()]


async def test_requests_that_come_together_are_answered_in_order(line: Line, served: Served) -> None:
    line.writer.write(BEAT + BEAT + HEALTH + NEWS)
    answers = [await line.answer() for _ in range(4)]
    assert answers == [RENEWED, RENEWED, {"ok": True, "by": "aiohttp"}, {"ok": True, "by": "aiohttp"}]
    assert [path for _, path, _ in served.pages] == ["/health", "/heartbeat"]


@pytest.mark.parametrize(
    "data",
    [
        request(b"not json"),
        request(b"[1]"),
        request(b'"\xff"'),
        request(json.dumps(KNOWN | {"more": "x" * 70_000}).encode()),
        b"POST /heartbeat HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        request(json.dumps(KNOWN).encode(), "POST /bye"),
        request(json.dumps(KNOWN).encode(), "PUT /heartbeat"),
    ],
    ids=["no json", "no object", "no text", "large", "chunked", "another route", "another method"],
)
async def test_anything_else_is_for_aiohttp(line: Line, served: Served, data: bytes) -> None:
    assert (await line.ask(data))["by"] == "aiohttp"
    assert len(served.pages) == 1


async def test_the_process_of_a_registration_is_not_examined_again(line: Line, served: Served) -> None:
    served.is_allowed = False
    assert await line.ask(OWN_BEAT) == RENEWED
    assert (served.renewed, served.pages, served.checks) == (["s3"], [], 0)
    assert (await line.ask(BEAT))["by"] == "aiohttp"
    assert served.renewed == ["s3"]


async def test_the_process_that_a_heartbeat_claims_must_be_the_registered_one(
    line: Line, served: Served
) -> None:
    served.is_allowed = False
    claim = json.dumps(KNOWN | {"pid": os.getpid()}).encode()
    assert (await line.ask(request(claim)))["by"] == "aiohttp"
    assert served.renewed == []


async def test_a_peer_that_may_not_renew_gets_to_the_check_of_the_application(
    line: Line, served: Served
) -> None:
    served.is_allowed = False
    assert (await line.ask(BEAT))["by"] == "aiohttp"
    assert served.renewed == []


@pytest.mark.parametrize(
    "data",
    [
        b"POST /heartbeat HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
        b"POST /heartbeat HTTP/1.1\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET /" + b"a" * 20_000,
    ],
    ids=["two lengths", "length and chunks", "TLS", "a head without end"],
)
async def test_what_has_two_meanings_is_refused_by_nobody_else(
    line: Line, served: Served, data: bytes
) -> None:
    answer = await line.ask(data)
    assert (answer["ok"], answer["reason"]) == (False, "bad_request")
    assert await line.reader.read() == b""
    assert (served.renewed, served.pages) == ([], [])


async def test_a_last_renewal_closes_the_connection(line: Line) -> None:
    closing = request(json.dumps(KNOWN).encode(), fields="Connection: close\r\n")
    assert await line.ask(closing) == RENEWED
    assert await line.reader.read() == b""
