"""Messages go to a language server and come back, whatever the server does."""

from __future__ import annotations

import asyncio

import pytest

from lm_tools_bridge.code_intelligence.server import RequestFailed, RequestTimedOut, ServerGone
from lm_tools_bridge.code_intelligence.wire.connection import (
    MAX_IN_FLIGHT,
    OVERLOADED,
    TOO_LARGE,
    Connection,
)
from support.processes.child_processes import until
from support.processes.timeouts import GUARD_S
from support.servers.language_servers.scripted_language_server import Heard, connected


async def failure(connection: Connection, method: str = "x", timeout_s: float = GUARD_S) -> Exception:
    with pytest.raises((RequestFailed, RequestTimedOut, ServerGone)) as raised:
        await connection.request(method, {}, timeout_s=timeout_s)
    return raised.value


async def test_a_request_returns_its_own_result() -> None:
    async with connected("""
        first = read()
        second = read()
        answer(second, "second"); answer(first, {"é": "\\U0001f600", "_x": None})
        serve()
    """) as connection:
        results = await asyncio.gather(connection.request("a"), connection.request("b"))
    assert results == [{"é": "\U0001f600", "_x": None}, "second"]


async def test_a_refusal_keeps_its_code_and_text() -> None:
    async with connected("refuse(read(), -32801, 'content modified'); serve()") as connection:
        failed = await failure(connection)
    assert isinstance(failed, RequestFailed)
    assert (failed.code, failed.message) == (-32801, "content modified")


async def test_a_request_that_takes_too_long_is_cancelled_and_the_next_is_answered() -> None:
    heard = Heard()
    async with connected(
        """
        slow = read()
        notify("cancelled", read()["params"]["id"] == slow["id"])
        answer(slow, "late")
        serve()
        """,
        heard,
    ) as connection:
        failed = await failure(connection, "slow", timeout_s=0.05)
        assert isinstance(failed, RequestTimedOut)
        assert str(failed) == "scripted did not answer slow within 0.05 s"
        await until(lambda: heard.notifications)
        assert await connection.request("b", [1]) == [1]
        assert heard.notifications == [("cancelled", True)]
        assert connection.ignored == 1
        assert connection.in_flight == 0


async def test_a_caller_that_is_cancelled_cancels_its_request() -> None:
    heard = Heard()
    async with connected('read(); notify("then", read()["method"]); serve()', heard) as connection:
        task = asyncio.create_task(connection.request("a"))
        await until(lambda: connection.in_flight)
        task.cancel()
        await until(lambda: heard.notifications)
    assert heard.notifications == [("then", "$/cancelRequest")]


async def test_requests_of_the_server_are_answered_and_unknown_ones_refused() -> None:
    heard = Heard()
    async with connected(
        """
        ask("known", {"a": 1}); ask("unknown")
        notify("answers", [read(), read()])
        serve()
        """,
        heard,
    ):
        await until(lambda: heard.notifications)
    [(_, answers)] = heard.notifications
    assert answers == [
        {"jsonrpc": "2.0", "id": "s1", "result": {"params": {"a": 1}}},
        {"jsonrpc": "2.0", "id": "s2", "error": {"code": -32601, "message": "unknown: unknown"}},
    ]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("sys.exit(3)", "exited with code 3"),
        (
            "read(); print('boom', file=sys.stderr, flush=True); os._exit(1)",
            "exited with code 1; it wrote on standard error: boom",
        ),
        ("read(); os.kill(os.getpid(), 11)", "was ended by SIGSEGV"),
        ("os.close(1); out.close(); time.sleep(60)", "closed its output"),
        (
            "put(b'starting up ...\\r\\n\\r\\n'); time.sleep(60)",
            "sent something that is not LSP: expected exactly one Content-Length",
        ),
        (
            "put(b'x' * 100000); time.sleep(60)",
            "sent something that is not LSP: a head is longer than 4096 bytes",
        ),
    ],
)
async def test_a_connection_that_ends_says_why_to_everybody(body: str, reason: str) -> None:
    heard = Heard()
    async with connected(body, heard) as connection:
        failed = await failure(connection)
        assert isinstance(failed, ServerGone)
        await until(lambda: heard.ended)
        assert connection.ended == reason
        assert isinstance(await failure(connection), ServerGone)
        with pytest.raises(ServerGone):
            await connection.notify("x")
    assert heard.ended == [reason]


async def test_a_result_of_100_mb_fails_its_own_request_only() -> None:
    async with connected("""
        large = read()
        put(b"Content-Length: 104857600\\r\\n\\r\\n" + b'{"jsonrpc":"2.0","id":%d,"result":"' % large["id"])
        for _ in range(100): put(b"x" * 1048576 if _ else b"x" * (1048576 - len(b'{"jsonrpc":"2.0","id":1,"result":"')))
        serve()
    """) as connection:
        failed = await failure(connection)
        assert isinstance(failed, RequestFailed)
        assert (failed.code, failed.message) == (
            TOO_LARGE,
            "its answer has 104857600 bytes; the limit is 67108864",
        )
        assert await connection.request("next", 1) == 1


async def test_an_answer_that_is_no_json_fails_its_own_request_only() -> None:
    async with connected("""
        put(frame(b'{"jsonrpc":"2.0","id":%d,"result":[nonsense' % read()["id"]))
        put(frame(b'\\xff\\xfe')); put(frame(b'[' * 100000)); say({"id": "?", "result": 1}); say({"id": 77, "result": 1})
        serve()
    """) as connection:
        assert isinstance(await failure(connection), RequestFailed)
        assert await connection.request("next", 1) == 1
        assert connection.ignored == 4


async def test_a_flood_of_notifications_leaves_time_for_the_rest() -> None:
    heard = Heard()
    most = 0  # notifications from one turn of the loop to the next
    async with connected(
        """
        while True: put(frame(b'{"jsonrpc":"2.0","method":"x","params":[1,2,3]}') * 1000)
        """,
        heard,
    ):
        while (before := len(heard.notifications)) < 10_000:
            await asyncio.sleep(0)
            most = max(most, len(heard.notifications) - before)
    assert 0 < most <= 2_000


async def test_a_server_that_asks_without_reading_the_answers_is_ended() -> None:
    heard = Heard()
    async with connected(
        """
        while True: ask("known", {"a": "x" * 1000})
        """,
        heard,
        write_s=0.5,
    ) as connection:
        await until(lambda: heard.ended, seconds=10)
        assert connection.ended == "does not read its standard input"
    assert len(heard.requests) < 2000


async def test_a_flood_of_server_requests_is_answered_in_order() -> None:
    heard = Heard()
    async with connected(
        """
        import threading
        def flood():
            for _ in range(2000): ask("known")
        threading.Thread(target=flood).start()
        ids = [read()["id"] for _ in range(2000)]
        notify("ids", ids == [f"s{n + 1}" for n in range(2000)])
        serve()
        """,
        heard,
    ):
        await until(lambda: heard.notifications, seconds=20)
    assert heard.notifications == [("ids", True)]


async def test_requests_in_flight_are_limited() -> None:
    async with connected("while True: read()") as connection:
        tasks = [asyncio.create_task(connection.request("x")) for _ in range(MAX_IN_FLIGHT)]
        await until(lambda: connection.in_flight == MAX_IN_FLIGHT)
        failed = await failure(connection)
        assert isinstance(failed, RequestFailed)
        assert failed.code == OVERLOADED
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert connection.in_flight == 0


async def test_a_faulty_listener_does_not_end_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Heard()

    def fails(method: str, params: object) -> None:
        raise ValueError(method)

    monkeypatch.setattr(heard, "notification", fails)
    monkeypatch.setattr(heard, "request", fails)
    async with connected(
        'notify("x"); first = read(); ask("y"); answer(first, read()["error"]["code"])', heard
    ) as connection:
        assert await connection.request("a") == -32603


async def test_closing_ends_requests_and_the_process() -> None:
    heard = Heard()
    async with connected("while True: read()", heard) as connection:
        task = asyncio.create_task(connection.request("x"))
        await until(lambda: connection.in_flight)
        await connection.close(polite_s=1)
        with pytest.raises(ServerGone, match="scripted was stopped"):
            await task
    assert heard.ended == []
