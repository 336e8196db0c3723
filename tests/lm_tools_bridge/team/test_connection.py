"""The connection to NATS servers: nothing in plain text where TLS is wanted, and the cause of a failure."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from lm_tools_bridge.team.connection import PLAIN_TEXT, Connection, PlainText, worded
from lm_tools_bridge.team.membership import Membership


@dataclass
class PlainServer:
    """A server, or somebody between, who says that there is no TLS."""

    info: dict[str, object]
    port: int = 0
    heard: bytearray = field(default_factory=bytearray)
    connections: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        writer.write(b"INFO " + json.dumps(self.info).encode() + b"\r\n")
        with contextlib.suppress(ConnectionError):
            while chunk := await reader.read(65536):
                self.heard += chunk
                if b"PING" in chunk:
                    writer.write(b"PONG\r\n")
        writer.close()


@contextlib.asynccontextmanager
async def plain_server(**info: object) -> AsyncIterator[PlainServer]:
    made = PlainServer({"server_id": "x", "version": "2.11.0", "proto": 1, "headers": True,
                        "max_payload": 1048576, **info})  # fmt: skip
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()


@contextlib.asynccontextmanager
async def connecting(*servers: str) -> AsyncIterator[tuple[Connection, asyncio.Event]]:
    up = asyncio.Event()

    async def on_up() -> None:
        up.set()

    async def on_down() -> None:
        """Nothing is kept."""

    connection = Connection(Membership(servers=servers, name="me"), up=on_up, down=on_down)
    task = asyncio.create_task(connection.run())
    try:
        yield connection, up
    finally:
        await connection.close()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until_told(connection: Connection) -> str:
    async with asyncio.timeout(20):
        while connection.error is None:
            await asyncio.sleep(0.01)
    return connection.error


@pytest.mark.parametrize("info", [{}, {"tls_available": True}, {"tls_required": False}])
async def test_nothing_is_sent_in_plain_text_where_tls_is_wanted(info: dict[str, object]) -> None:
    async with plain_server(**info) as server, connecting(f"tls://127.0.0.1:{server.port}") as (one, up):
        assert await until_told(one) == PLAIN_TEXT
        assert not up.is_set()
        assert bytes(server.heard) == b""


async def test_one_address_with_tls_makes_all_others_need_it() -> None:
    async with plain_server() as server:
        addresses = (f"nats://127.0.0.1:{server.port}", "tls://127.0.0.1:9")
        async with connecting(*addresses) as (_, up):
            async with asyncio.timeout(20):
                while not server.connections:
                    await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)
            assert not up.is_set()
            assert bytes(server.heard) == b""


async def test_plain_text_where_it_was_asked_for_connects() -> None:
    async with plain_server() as server, connecting(f"nats://127.0.0.1:{server.port}") as (one, up):
        async with asyncio.timeout(20):
            await up.wait()
        assert one.error is None
        assert server.heard.startswith(b"CONNECT ")


async def test_the_cause_stays_when_no_server_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """nats-py says at last that there are no servers, which helps nobody."""
    monkeypatch.setattr("lm_tools_bridge.team.connection.backoff", lambda *_: 60.0)
    monkeypatch.setattr("lm_tools_bridge.team.connection.RECONNECT_S", 0.01)
    async with plain_server() as server, connecting(f"tls://127.0.0.1:{server.port}") as (one, _):
        async with asyncio.timeout(30):
            while server.connections < 4 or not one.client.is_closed:
                await asyncio.sleep(0.05)
        assert one.error == PLAIN_TEXT


def untrusted(message: str) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed")
    error.verify_message = message
    return error


@pytest.mark.parametrize(
    ("error", "said", "step"),
    [
        (untrusted("self-signed certificate in certificate chain"), "not trusted: self-signed", "--ca FILE"),
        (untrusted("Hostname mismatch, certificate is not valid for 'x'"), "not valid for", "the address"),
        (ssl.SSLError(1, "tlsv13 alert certificate required"), "TLS fails", "--cert and --key"),
        (Exception("nats: 'Authorization Violation'"), "does not accept the credentials", "administrator"),
        (Exception("nats: 'User Authentication Revoked'"), "does not accept", "administrator"),
        (Exception("nats: 'Authentication Timeout'"), "Authentication Timeout", ""),
        (PlainText(), "nothing was sent", "ask who runs the server"),
        (BrokenPipeError(32, "Broken pipe"), "closed the connection", "may not accept the credentials"),
        (TimeoutError(), "does not answer", ""),
        (ConnectionRefusedError(111, "Connection refused"), "Connection refused", ""),
    ],
)
def test_a_problem_is_told_with_its_next_step(error: Exception, said: str, step: str) -> None:
    text = worded(error)
    assert said in text
    assert step in text
    assert len(text) <= 300
