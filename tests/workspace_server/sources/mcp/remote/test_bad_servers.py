"""Remote servers that are down, overloaded, malicious or broken, or that lose their sessions."""

from __future__ import annotations

import asyncio
import gzip
import time
from typing import Any

import pytest

from lm_tools_bridge.protocol.errors import Reason, Refusal
from support.processes.timeouts import within
from support.servers.mcp_sources.remote_server import (
    Answerer,
    Received,
    ScriptedRemoteServer,
    body,
    drop,
    events,
    fake_remote,
    hang,
    status,
)
from support.servers.mcp_sources.remote_source import MakeSource, call
from workspace_server.sources.mcp import handshake
from workspace_server.sources.mcp.remote.source import RemoteSource
from workspace_server.tool import RpcError

SECRET = "t0ken-of-nobody"
RESULT = b'{"jsonrpc":"2.0","id":$ID,"result":{"content":[]}}'


async def refused(source: RemoteSource, **arguments: Any) -> Refusal:
    """Calls the tool and returns the refusal."""
    outcome = await call(source, "echo", arguments)
    assert isinstance(outcome, Refusal), outcome
    assert 'Source "remote:away"' in outcome.message
    return outcome


async def reaches(source: RemoteSource, *states: str) -> None:
    """Waits, for a bounded time, until the source has one of these states."""
    changed = asyncio.Event()
    source.watch(changed.set)
    async with asyncio.timeout(within(3)):
        while source.state not in states:
            changed.clear()
            await changed.wait()


def redirect(code: int, location: str) -> Answerer:
    return status(code, Location=location)


async def test_a_redirect_to_another_origin_is_not_followed(
    fake: ScriptedRemoteServer, make_source: MakeSource
) -> None:
    """Another port of the same machine is another origin."""
    async with fake_remote() as other:
        fake.answers["initialize"] = [redirect(307, other.url)]
        source = make_source(fake.url, token=SECRET)
        assert await source.list_tools() == ()
        assert source.state == "backoff"
        assert other.received == []
        assert source.error is not None and other.url.removesuffix("/mcp") in source.error


@pytest.mark.parametrize(
    "location",
    ["http://169.254.169.254/latest/meta-data", "https://127.0.0.1/mcp", "http://0x7f.1/", "file:///etc/passwd",
     "http://user:password@{netloc}/mcp", "//evil.example/mcp"],
)  # fmt: skip
async def test_odd_redirects_are_not_followed(
    fake: ScriptedRemoteServer, make_source: MakeSource, location: str
) -> None:
    netloc = fake.url.split("/")[2]
    fake.answers["initialize"] = [redirect(308, location.format(netloc=netloc)), fake.default]
    source = make_source(fake.url)
    await source.list_tools()
    assert (source.state, fake.count("initialize")) == ("backoff", 1)


async def test_redirects_within_the_origin_are_followed_three_times(
    fake: ScriptedRemoteServer, make_source: MakeSource
) -> None:
    fake.answers["tools/call"] = [redirect(307, f"/{hop}") for hop in range(3)] + [fake.default]
    source = make_source(fake.url, token=SECRET)
    await source.list_tools()
    assert (await call(source))["content"]
    calls = [one for one in fake.received if one.method == "tools/call"]
    assert [one.request.path for one in calls] == ["/mcp", "/0", "/1", "/2"]
    assert {one.request.headers["Authorization"] for one in calls} == {f"Bearer {SECRET}"}
    fake.answers["tools/call"] = [redirect(307, "/again")]
    assert "more than 3 times" in (await refused(source)).message
    fake.answers["tools/call"] = [redirect(302, "/found")]
    assert "302" in (await refused(source)).message


async def test_names_that_resolve_to_localhost_are_refused_before_connecting(
    fake: ScriptedRemoteServer, make_source: MakeSource
) -> None:
    """With `allow_private` the request is sent, and its Host header has the name."""
    resolved: list[str] = []

    async def resolver(host: str, _port: int) -> list[str]:
        resolved.append(host)
        return ["127.0.0.1"]

    url = fake.url.replace("127.0.0.1", "inside.example")
    source = make_source(url, dependencies={"resolver": resolver})
    await source.list_tools()
    assert source.state == "backoff"
    assert "allow_private" in (source.error or "")
    assert fake.received == []
    allowed = make_source(url, dependencies={"resolver": resolver}, allow_private=True)
    assert len(await allowed.list_tools()) == 1
    assert fake.received[0].request.headers["Host"].startswith("inside.example:")


async def test_an_invalid_url_fails_permanently(make_source: MakeSource) -> None:
    source = make_source("http://2130706433/mcp")
    assert await source.list_tools() == ()
    assert source.state == "failed"


async def test_a_refused_token_waits_for_the_user_and_is_never_shown(
    fake: ScriptedRemoteServer, make_source: MakeSource
) -> None:
    source = make_source(fake.url, token=SECRET, headers={"X-Key": SECRET})
    await source.list_tools()
    fake.answers["tools/call"] = [status(401, WWW_Authenticate='Bearer error="invalid_token"')]
    refusal = await refused(source)
    assert (refusal.reason, refusal.delivered) == (Reason.SOURCE_UNAVAILABLE, "no")
    assert "put a valid token" in refusal.text
    assert source.state == "auth_required"
    assert fake.count("tools/call") == 1
    await refused(source)
    assert fake.count("tools/call") == 1
    shown = f"{refusal} {source.status()} {source.error} {source.issues()} {source._server!r} {source._dependencies!r}"
    assert SECRET not in shown


async def test_a_secret_is_read_again_when_it_was_refused(
    fake: ScriptedRemoteServer, make_source: MakeSource
) -> None:
    secrets = {"key": "old"}

    async def read(key: str) -> str | None:
        return secrets.get(key)

    async def only_new(got: Received) -> Any:
        new = got.request.headers.get("Authorization") == "Bearer new"
        return await fake.default(got) if new else await status(401)(got)

    source = make_source(fake.url, token_secret="key", dependencies={"secrets": read})
    await source.list_tools()
    fake.answers["tools/call"] = [only_new]
    secrets["key"] = "new"
    assert (await call(source))["content"]
    del secrets["key"]
    assert 'the secret "key" is not set' in (await refused(source)).message


async def test_a_token_that_is_no_valid_header_is_not_quoted(
    fake: ScriptedRemoteServer, make_source: MakeSource
) -> None:
    source = make_source(fake.url, token=f"{SECRET}\nX: y")
    await source.list_tools()
    assert source.state != "ready"
    assert SECRET not in str(source.error)
    assert fake.received == []


async def test_headers_of_the_entry_cannot_replace_ours(
    fake: ScriptedRemoteServer, make_source: MakeSource
) -> None:
    headers = {
        "X-Key": "k",
        "Host": "evil",
        "authorization": "x",
        "Mcp-Session-Id": "x",
        "Content-Length": "1",
    }
    source = make_source(fake.url, headers=headers)
    assert len(await source.list_tools()) == 1
    first = fake.received[0].request.headers
    assert first["X-Key"] == "k"
    assert first["Host"] in fake.url
    assert "Mcp-Session-Id" not in first
    assert first["Authorization"] == "x"  # as such entries are written for other clients


@pytest.mark.parametrize("answer", [404, 400])
async def test_a_lost_session_is_replaced_once(
    fake: ScriptedRemoteServer, make_source: MakeSource, answer: int
) -> None:
    """The call is repeated in a new session; if that session is lost as well, the caller gets a refusal."""

    async def lost(got: Received) -> Any:
        return got.error(-32000, "Bad Request: No valid session ID provided", answer, None)

    source = make_source(fake.url)
    await source.list_tools()
    fake.answers["tools/call"] = [lost, fake.default]
    assert (await call(source))["content"]
    assert (fake.sessions, fake.count("tools/call"), source.state) == (2, 2, "ready")
    last = [one for one in fake.received if one.method == "tools/call"][-1]
    assert last.request.headers["Mcp-Session-Id"] == "session-2"
    fake.answers["tools/call"] = [lost]
    assert (await refused(source)).delivered == "no"
    assert fake.count("tools/call") == 4


async def test_retry_after_is_respected(fake: ScriptedRemoteServer, make_source: MakeSource) -> None:
    """Calls within that time are refused with `retryAfterMs`."""
    source = make_source(fake.url)
    await source.list_tools()
    fake.answers["tools/call"] = [status(429, Retry_After="7")]
    first = await refused(source)
    second = await refused(source)
    assert first.retry_after_ms == 7000
    assert second.retry_after_ms is not None and 6000 < second.retry_after_ms <= 7000
    await source.refresh()
    assert (fake.count("tools/call"), source.state) == (1, "ready")


async def test_the_breaker_opens_after_five_failures_and_closes_on_request(
    fake: ScriptedRemoteServer, make_source: MakeSource
) -> None:
    source = make_source(fake.url)
    await source.list_tools()
    fake.answers["tools/call"] = [status(503)]
    for _ in range(5):
        refusal = await refused(source)
        assert (refusal.delivered, "HTTP 503" in refusal.message) == ("unknown", True)
    assert source.state == "backoff"
    received = len(fake.received)
    last = await refused(source)
    assert (last.delivered, len(fake.received)) == ("no", received)
    assert last.retry_after_ms is not None and 29_000 < last.retry_after_ms <= 30_000
    assert [tool.name for tool in await source.list_tools()] == ["echo"]
    assert source.stale
    fake.answers["tools/call"] = [fake.default]
    await source.refresh()
    await reaches(source, "ready")
    assert (await call(source))["content"]


@pytest.mark.parametrize(
    "answer",
    [
        events(b': hello\n\ndata: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}\n\n'),
        events(b'data: {"jsonrpc":"2.0","id":$ID,"resu'),
        drop,
        body(b'{"jsonrpc":"2.0","id":1,"result"', "application/json"),
        body(b"<html>welcome</html>", "text/html"),
        body(b"", "application/json"),
        body(b"not gzip", "application/json", **{"Content-Encoding": "gzip"}),
        body(b"what", "application/json", **{"Content-Encoding": "br"}),
        status(202),
        body(b'{"jsonrpc":"2.0","id":99999,"result":{}}'),
        body(b'{"jsonrpc":"2.0","id":"x","result":{}}'),
        events(b'data: {"jsonrpc":"2.0","id":$ID,"result":{"a":"\x01"}}\n\n'),
        events(b'data: {"jsonrpc":"2.0","id":$ID,"result":{}} and more\n\n'),
        events(b'data: {"jsonrpc":"2.0","id":$ID,"result":' + b"[" * 9_999 + b"]" * 9_999 + b"}\n\n"),
    ],
    ids=[
        *("cut stream", "cut event", "no answer", "broken JSON", "HTML", "empty", "no gzip", "brotli", "202"),
        *("another id", "text id"),
        *("control character", "bytes behind it", "deep"),
    ],
)  # fmt: skip
async def test_a_lost_response_is_not_requested_again(
    fake: ScriptedRemoteServer, make_source: MakeSource, answer: Answerer
) -> None:
    """The refusal says that delivery is unknown, and the connection serves the next call."""
    source = make_source(fake.url)
    await source.list_tools()
    fake.answers["tools/call"] = [answer, fake.default]
    refusal = await refused(source)
    assert refusal.delivered == "unknown"
    assert "check whether" in refusal.text
    assert fake.count("tools/call") == 1
    assert (await call(source))["content"]
    assert (fake.sessions, source.state) == (1, "ready")


async def test_an_error_without_an_id_is_the_answer_to_the_request_on_whose_stream_it_comes(
    fake: ScriptedRemoteServer, make_source: MakeSource
) -> None:
    source = make_source(fake.url)
    await source.list_tools()
    fake.answers["tools/call"] = [
        body(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}')
    ]
    assert await call(source) == RpcError(-32700, "what?")


async def test_a_broken_stream_with_event_ids_is_resumed(
    fake: ScriptedRemoteServer, make_source: MakeSource
) -> None:
    """The client fetches the rest of the stream; it does not repeat the call."""
    identity = b""

    async def answer(got: Received) -> Any:
        nonlocal identity
        identity = str(got.message["id"]).encode()
        return await events(b"id: 1\nretry: 10\ndata:\n\n")(got)

    async def resume(got: Received) -> Any:
        if "Last-Event-ID" not in got.request.headers:
            return await status(405)(got)
        return await events(b"id: 2\ndata: " + RESULT.replace(b"$ID", identity) + b"\n\n")(got)

    fake.answers["tools/call"] = [answer]
    fake.answers["GET"] = [resume]
    source = make_source(fake.url)
    await source.list_tools()
    assert (await call(source))["content"] == []
    assert fake.count("tools/call") == 1


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
async def test_a_compression_bomb_is_refused(
    fake: ScriptedRemoteServer, make_source: MakeSource, kind: str
) -> None:
    """A message may have 32 MiB after decompression, whatever its size on the wire."""
    bomb = gzip.compress(b"data: " + b" " * (40 << 20), 1)
    assert len(bomb) < 1 << 20
    fake.answers["tools/call"] = [body(bomb, kind, **{"Content-Encoding": "gzip"}), fake.default]
    source = make_source(fake.url)
    await source.list_tools()
    refusal = await refused(source)
    assert (refusal.reason, refusal.delivered) == (Reason.RESPONSE_TOO_LARGE, "unknown")
    assert (await call(source))["content"]


async def test_a_compressed_response_is_decompressed(
    fake: ScriptedRemoteServer, make_source: MakeSource
) -> None:
    async def answer(got: Received) -> Any:
        packed = gzip.compress(RESULT.replace(b"$ID", str(got.message["id"]).encode()))
        return await body(packed, "application/json", **{"Content-Encoding": "gzip"})(got)

    fake.answers["tools/call"] = [answer]
    source = make_source(fake.url)
    await source.list_tools()
    assert (await call(source))["content"] == []


async def test_a_server_that_does_not_answer_times_out(
    fake: ScriptedRemoteServer, make_source: MakeSource
) -> None:
    """A time limit applies to the handshake and to notifications."""
    fake.answers["initialize"] = [hang, fake.default]
    fake.answers["notifications/initialized"] = [hang]
    source = make_source(fake.url, dependencies={"handshake_s": 0.2, "side_s": 0.1})
    assert await source.list_tools() == ()
    assert source.state == "backoff"
    assert "0.2 s" in (source.error or "")
    await reaches(source, "ready")


async def test_the_entrys_own_limit_of_a_start_counts(
    fake: ScriptedRemoteServer, make_source: MakeSource
) -> None:
    fake.answers["initialize"] = [hang, fake.default]
    source = make_source(fake.url, start_timeout_s=0.3)
    assert await source.list_tools() == ()
    assert "0.3 s" in (source.error or "")
    await reaches(source, "ready")


async def test_a_server_that_starts_later_is_found(make_source: MakeSource) -> None:
    """Its tools appear without a restart, and no empty list is reported in between."""
    async with fake_remote() as early:
        url, port = early.url, early.port
    source = make_source(url, token=SECRET)
    states = [source.state]
    assert await source.list_tools() == ()
    states.append(source.state)
    assert states == ["connecting", "backoff"]
    began = time.monotonic()
    refusal = await refused(source)
    assert time.monotonic() - began < within(1)
    assert refusal.delivered == "no"
    assert "cannot be reached" in refusal.message
    lists: list[tuple[str, ...]] = []
    seen = asyncio.Event()

    def look() -> None:
        now = tuple(tool.name for tool in source.lists.tools.items or ())
        if not lists or lists[-1] != now:
            lists.append(now)
        seen.set()

    look()
    source.watch(look)
    async with fake_remote(port=port):
        async with asyncio.timeout(within(5)):
            while source.state != "ready" or source.stale:
                seen.clear()
                await seen.wait()
    assert lists == [(), ("echo",)]


async def test_the_list_is_kept_when_the_server_goes_down(make_source: MakeSource) -> None:
    async with fake_remote() as remote:
        source = make_source(remote.url)
        await source.list_tools()
    refusal = await refused(source)
    assert source.state == "backoff"
    assert refusal.retry_after_ms is not None or refusal.delivered == "no"
    assert [tool.name for tool in await source.list_tools()] == ["echo"]
    assert source.stale


async def test_closing_ends_the_session_and_every_task(
    fake: ScriptedRemoteServer, make_source: MakeSource
) -> None:
    fake.answers["tools/call"] = [hang]
    before = asyncio.all_tasks()
    source = make_source(fake.url)
    await source.list_tools()
    waiting = asyncio.create_task(call(source))
    async with asyncio.timeout(within(2)):
        while not fake.count("tools/call"):
            await asyncio.sleep(0)
    await source.close()
    assert isinstance(await waiting, Refusal)
    ours = {"open-", "close-", "list-", "read-", "listen-", "remote-", "send-"}
    left = [task for task in asyncio.all_tasks() - before if task.get_name().startswith(tuple(ours))]
    assert left == []
    assert fake.count("DELETE") == 1
    assert isinstance(await call(source), Refusal)


UNKNOWN_METHOD: dict[str, Answerer] = {
    "closed": drop,
    "empty JSON": body(b""),
    "a page": body(b"<html>hello</html>", "text/html"),
    "202": status(202),
    "204": status(204),
    "404": status(404),
    "405": status(405),
    "415": status(415),
    "500": status(500),
    "501": status(501),
    "403": status(403),
    "a list": body(b"[]"),
    "a number": body(b"7"),
    "no result": body(b'{"jsonrpc":"2.0","id":1}'),
    "another id": body(b'{"jsonrpc":"2.0","id":99999,"result":{}}'),
    "no JSON": body(b"{"),
    "bad result": body(b'{"jsonrpc":"2.0","id":1,"result":7}'),
    "error without an id": body(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}'),
    "an empty stream": events(),
    "a stream of something else": events(b"data: hello\n\n"),
    "bad compression": body(b"not gzip", **{"Content-Encoding": "gzip"}),
    "redirect elsewhere": status(302, Location="/login"),
}


@pytest.mark.parametrize("answer", UNKNOWN_METHOD.values(), ids=UNKNOWN_METHOD.keys())
async def test_whatever_a_server_answers_to_a_method_it_does_not_know_it_is_initialized(
    fake: ScriptedRemoteServer, make_source: MakeSource, answer: Answerer
) -> None:
    fake.answers["server/discover"] = [answer]
    source = make_source(fake.url)
    assert [tool.name for tool in await source.list_tools()] == ["echo"]
    assert (await call(source))["content"]
    assert (fake.count("server/discover"), fake.sessions) == (1, 1)


async def test_a_server_that_does_not_answer_the_first_question_is_initialized(
    fake: ScriptedRemoteServer, make_source: MakeSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshake, "PROBE_S", 0.05)
    fake.answers["server/discover"] = [hang]
    assert [tool.name for tool in await make_source(fake.url).list_tools()] == ["echo"]


STREAMS: dict[str, tuple[bytes, ...]] = {
    "byte order mark": (b"\xef\xbb\xbfdata: $RESULT\n\n",),
    "byte order mark in pieces": (b"\xef", b"\xbb", b"\xbf", b"data: $RESULT\n\n"),
    "byte order mark before a comment": (b"\xef\xbb\xbf: hello\n\ndata: $RESULT\n\n",),
    "carriage returns": (b"event: message\rdata: $RESULT\r\r",),
    "line ends in pieces": (b"data: $RESULT\r", b"\n\r", b"\n"),
    "no space": (b"data:$RESULT\n\n",),
    "several lines": (b'data: {"jsonrpc":"2.0",\ndata: "id":$ID,\ndata\ndata: "result":{"content":[]}}\n\n',),
    "other fields": (b": x\nid: 1\nretry: no\nretry: 10\nunknown: 1\nevent\ndata: $RESULT\n\n",),
    "other events": (b"event: ping\ndata: now\n\nevent: message\ndata: $RESULT\n\n",),
    "odd pieces": (b"\xef\xbb", b"\xbfd", b"ata", b":", b" $RESULT", b"\r", b"\r"),
}


@pytest.mark.parametrize("pieces", STREAMS.values(), ids=STREAMS.keys())
async def test_every_legal_form_of_an_event_is_read_while_the_stream_stays_open(
    fake: ScriptedRemoteServer, make_source: MakeSource, pieces: tuple[bytes, ...]
) -> None:
    async def answer(got: Received) -> Any:
        identity = str(got.message["id"]).encode()
        written = [piece.replace(b"$RESULT", RESULT).replace(b"$ID", identity) for piece in pieces]
        return await events(*written, then=asyncio.Event().wait)(got)

    fake.answers["tools/call"] = [answer]
    source = make_source(fake.url)
    await source.list_tools()
    async with asyncio.timeout(within(5)):
        assert (await call(source))["content"] == []


async def test_an_event_stream_is_utf_8_whatever_its_charset_says(
    fake: ScriptedRemoteServer, make_source: MakeSource
) -> None:
    async def answer(got: Received) -> Any:
        content = f'data: {{"jsonrpc":"2.0","id":{got.message["id"]},"result":{{"content":[],"x":"é"}}}}\n\n'
        return await body(content.encode(), "text/event-stream; charset=iso-8859-1")(got)

    fake.answers["tools/call"] = [answer]
    source = make_source(fake.url)
    await source.list_tools()
    assert (await call(source))["x"] == "é"
