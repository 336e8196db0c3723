"""Cached calls get the same answers, and send the same requests, as parsed calls."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web_response

from lm_tools_bridge.http_server.request_head import ReadHead, RefusedHead
from lm_tools_bridge.protocol.call_pattern import derive_pattern
from manager.route_cache import route_cache
from manager.route_cache.cached_route import SessionProfile
from manager.route_cache.route_cache import CACHED_MISSES, MAX_GROUP_ROUTES, MAX_GROUPS, MISS_INTERVAL
from manager.routing.admission import ClientHead, ClientHeadReader
from manager.supervision import workspaces
from manager.upstream import pool
from support.clients.raw_clients import Answer, SessionClient
from support.http.client_connection import Known, RawConnection, calls_known_again, connected, sent, warmed
from support.projects.registered_setup import RegisteredSetup, registered_setup
from support.servers.scripted.scripted_answers import ANSWERS, PLAIN, PLAIN_RESULT
from support.servers.scripted.scripted_workspace_server import COMPLETE, ScriptedWorkspaceServer, fixed, held

pytestmark = pytest.mark.asyncio(loop_scope="module")
ALL_PLAYS = {**ANSWERS, "for another request": fixed(PLAIN.replace(b":7", b":8") + b"}")}
CLOSING = {"breaks off", "stream without an end", "for another request"}
"""Answers after which the next call needs a new connection."""
PASSED_ON = {
    "legacy": {"plain", "plain and signed", "trimmed", "of the older era"},
    "modern": {"plain", "plain and signed", "trimmed", "of the older era", "small", "signed"}
    | {"signed and more", "structured otherwise", "cached", "spaced", "asks"},
}
"""Answers that are not parsed."""
ERAS = pytest.mark.parametrize("era", ["modern", "legacy"])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def setup(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RegisteredSetup]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workspaces, "ROOT_CHECK_S", 60)  # nothing has to be looked at for what a test sends
        patch.setattr(pool, "REUSE_AGAIN_S", 0)  # one of the answers is for another request
        # one date in all heads of the server: with a head that is new to it, the route cache writes nothing
        patch.setattr(web_response, "rfc822_formatted_time", lambda: "Mon, 02 Nov 2026 10:00:00 GMT")
        async with registered_setup(tmp_path_factory.mktemp("fast")) as running:
            yield running


def same(answer: Answer) -> tuple[Any, ...]:
    """The parts that must be equal, with order and spelling: not the date and random ids."""
    fields = [(name, value) for name, value in answer.headers.items() if name != "Date"]
    return answer.status, fields, answer.messages if answer.is_stream else answer.body


async def call_uncached(client: RawConnection, tool: str, **options: Any) -> Answer:
    with calls_known_again(ever=False) as known:
        answer = await client.call(tool, **options)
    assert known == []
    return answer


@ERAS
@pytest.mark.parametrize("name", ALL_PLAYS)
async def test_cached_and_parsed_calls_get_the_same_answers(
    era: str, name: str, setup: RegisteredSetup
) -> None:
    """Status, header fields and bytes."""
    async with warmed(setup, era, "t") as client:
        setup.upstream.answers["t"] = ALL_PLAYS[name]
        if name == "trimmed":
            await client.call("t")  # a head that came before is known
        with calls_known_again() as known:
            fast = await client.call("t")
        assert len(known) == 1
        if not name.startswith("stream"):  # in how many pieces they come is a matter of chance
            assert known.answered == (name in PASSED_ON[era])
        assert same(fast) == same(await call_uncached(client, "t"))
        setup.upstream.answers["t"] = PLAIN_RESULT
        with calls_known_again() as known:
            assert (await client.call("t", 8)).result["content"] == COMPLETE["content"]
        assert (len(known) == 1) is (name not in CLOSING)


@ERAS
@pytest.mark.parametrize(
    "arguments",
    [
        {"a": 1},
        {"id": 7, "arguments": {"name": "u"}},
        {"a": '\\"},"jsonrpc":"2.0","id":1'},
        {"a": [[{}], "\n"]},
    ],
    ids=str,
)
async def test_cached_and_parsed_calls_send_the_same_request(
    era: str, arguments: Any, setup: RegisteredSetup
) -> None:
    """Every byte, and all header fields in their order."""
    own = ("Traceparent: 00-1-2-03", "X-MCP-Tool-Mode: all", "Cookie: secret", "Mcp-Param-A: 1")
    async with warmed(setup, era, "t", *own) as client:
        with calls_known_again() as known:
            fast = await client.call("t", 7, arguments)
        slow = await call_uncached(client, "t", arguments=arguments)
    assert len(known) == 1
    one, other = setup.upstream.called("t")[-2:]
    assert (one.body, one.target, one.headers) == (other.body, other.target, other.headers)
    assert same(fast) == same(slow)


@ERAS
async def test_calls_with_a_blank_behind_each_colon_are_cached(era: str, setup: RegisteredSetup) -> None:
    """As the encoder of Python writes them by default; the server gets the same request by either way."""
    client = await connected(setup, era, "t", "Traceparent: 00-1-2-03")
    setup.upstream.answers["t"] = PLAIN_RESULT

    def request(identity: int) -> bytes:
        call = json.loads(client.body("t", identity, {"a": [1, "b"]}))
        return client.request(json.dumps(call).encode())

    with calls_known_again() as known:
        for identity in range(6):  # the date in the server's heads may change in between
            fast = await client.send(request(identity))
    assert known.answered
    with calls_known_again(ever=False):
        slow = await client.send(request(5))
    first, second = setup.upstream.called("t")[-2:]
    assert (first.body, first.target, first.headers) == (second.body, second.target, second.headers)
    assert same(fast) == same(slow)
    client.close()


@pytest.mark.parametrize("meta", ['{"progressToken":1}', '{"x":{"id":1,"arguments":{}}}', "{}", "null"])
@pytest.mark.parametrize("is_first", [True, False])
async def test_additional_members_of_a_call_are_forwarded_unchanged(
    meta: str, is_first: bool, setup: RegisteredSetup
) -> None:
    """The manager inserts `_meta` without parsing the rest."""
    client = await connected(setup, "legacy", "t")
    members = [f'"_meta":{meta}', '"name":"t"', '"arguments":{"a":[1]}']
    params = ",".join(members if is_first else members[::-1])
    body = f'{{"method":"tools/call","params":{{{params}}},"jsonrpc":"2.0","id":7}}'.encode()
    request = client.request(body)
    with calls_known_again() as known:
        for _ in range(3):
            await client.send(request)
        assert known
    with calls_known_again(ever=False):
        await client.send(request)
    one, other = setup.upstream.called("t")[-2:]
    assert one.body == other.body
    client.close()


@ERAS
async def test_calls_with_a_new_progress_token_each_time_are_cached(
    era: str, setup: RegisteredSetup, known: Known
) -> None:
    client = await connected(setup, era, "t")
    setup.upstream.answers["t"] = PLAIN_RESULT

    def request(number: int) -> bytes:
        meta = {"claudecode/toolUseId": f"toolu_{number}", "progressToken": number}
        call = json.loads(client.body("t", number, {"a": number}))
        call["params"].setdefault("_meta", {}).update(meta)
        return client.request(json.dumps(call, separators=(",", ":")).encode())

    for number in range(20, 30):
        fast = await client.send(request(number))
        assert fast.message["id"] == number
    # the first ones may have to check the folder and parse the head of the answer
    assert len(known) >= 7
    assert known.answered >= 6
    with calls_known_again(ever=False):
        slow = await client.send(request(29))
    assert same(fast) == same(slow)
    one, other = setup.upstream.called("t")[-2:]
    assert one.body == other.body
    assert [name for name, _ in one.headers] == [name for name, _ in other.headers]
    differing = {
        name for (name, value), (_, own) in zip(one.headers, other.headers, strict=True) if value != own
    }
    assert differing == {b"traceparent"}
    assert one.params["_meta"]["claudecode/toolUseId"] == "toolu_29"
    client.close()


# -- sessions ----------------------------------------------------------------------------------------------


async def test_alternating_sessions_on_one_connection_are_cached(
    setup: RegisteredSetup, known: Known, read: list[bytes]
) -> None:
    """The session id changes with each call; a route cached in one session serves all."""
    async with warmed(setup, "legacy", "t") as client, warmed(setup, "legacy", "t") as other:
        read.clear()
        count, callers = len(known), []
        for number, lines in enumerate([client.lines, other.lines] * 4):
            client.lines = lines
            answer = await client.call("t", 100 + number)
            assert f"Mcp-Session-Id: {answer.headers['Mcp-Session-Id']}" in lines
            callers.append(setup.upstream.called("t")[-1].header("Lm-Tools-Bridge-Caller"))
        assert (len(known), read) == (count + 8, [])
        assert callers == callers[:2] * 4
        assert len(set(callers)) == 2
        for lines in (client.lines, other.lines):
            client.lines = lines
            fast = await client.call("t")
            assert same(fast) == same(await call_uncached(client, "t"))


@ERAS
async def test_alternating_workspaces_on_one_connection_are_cached(
    era: str, setup: RegisteredSetup, known: Known, read: list[bytes], tmp_path: Path
) -> None:
    """Each call reaches the workspace that its URL names, without parsing heads."""
    elsewhere = replace(setup, upstream=ScriptedWorkspaceServer(tmp_path, setup.manager.paths.control_socket))
    async with (
        elsewhere.upstream.serving(),
        warmed(setup, era, "t") as client,
        warmed(elsewhere, era, "t") as other,
    ):
        for one, at in ((client, setup), (other, elsewhere)):
            one.path = at.pure_url.removeprefix(at.manager.base)
            await one.warm("t")
        ways = [(client.lines, client.path, setup), (other.lines, other.path, elsewhere)]
        read.clear()
        for number in range(20):
            client.lines, client.path, at = ways[number % 2]
            assert (await client.call("t", 100 + number)).status == 200
            assert at.upstream.called("t")[-1].message["id"] == 100 + number
        assert len(read) <= 2, "more only under load, if no connection is free"


async def test_a_session_with_another_profile_shares_no_route(
    setup: RegisteredSetup, known: Known, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two sessions alternate on one connection; only the profile differs."""
    async with warmed(setup, "legacy", "t") as client:
        monkeypatch.setattr(SessionClient, "capabilities", {"experimental": {"more": {}}})
        async with warmed(setup, "legacy", "t") as other:
            capabilities = []
            for number, lines in enumerate([client.lines, other.lines] * 4):
                client.lines, count = lines, len(known)
                assert (await client.call("t", 100 + number)).status == 200
                assert len(known) == count + 1
                assert known.session is not None
                assert known[-1].profile == SessionProfile.of(known.session)
                capabilities.append(known.session.capabilities)
    assert capabilities == capabilities[:2] * 4
    assert b"more" in capabilities[1]
    assert b"more" not in capabilities[0]


@pytest.mark.parametrize("identity", ["nobody", "", " ", "x" * 129])
async def test_an_unknown_session_on_a_cached_connection_is_refused(
    identity: str, setup: RegisteredSetup, known: Known
) -> None:
    async with warmed(setup, "legacy", "t") as client:
        count, mine = len(known), client.lines
        client.lines = named(mine, identity)
        assert (await client.call("t")).status in (400, 404)
        client.lines = mine
        assert (await client.call("t")).status == 200
        assert len(known) == count + 1


@pytest.mark.parametrize("identity", ["", " "])
async def test_a_call_without_a_session_is_not_given_the_last_one(
    identity: str, setup: RegisteredSetup, known: Known
) -> None:
    """Except for the session id, both heads are the same bytes."""
    async with (
        warmed(setup, "legacy", "t", "User-Agent: mine") as client,
        warmed(setup, "legacy", "t", "User-Agent: other") as other,
    ):
        await other.call("t")
        count, mine = len(known), client.lines
        client.lines = named(other.lines, identity)
        answer = await client.call("t")
        assert answer.status in (400, 404)
        assert "Mcp-Session-Id" not in answer.headers
        assert len(known) == count
        client.lines = mine
        assert (await client.call("t")).status == 200


def named(lines: list[str], identity: str) -> list[str]:
    """The lines of a head, with another session id."""
    return [re.sub("(Mcp-Session-Id: ).*", rf"\g<1>{identity}", line) for line in lines]


# -- ids ---------------------------------------------------------------------------------------------------


@ERAS
@pytest.mark.parametrize(
    "identity", [0, 7, 10**15 - 1, 10**15, -1, "", "7", "x y", "\u00e9", '"', "x" * 64, "x" * 65]
)
async def test_ids_are_returned_unchanged(era: str, identity: Any, setup: RegisteredSetup) -> None:
    async with warmed(setup, era, "t") as client:
        for _ in range(2):  # free again at once
            answer = await client.call("t", identity)
            assert (answer.status, answer.message["id"]) == (200, identity)
        assert same(answer) == same(await call_uncached(client, "t", identity=identity))


@pytest.fixture
def known() -> Iterator[Known]:
    with calls_known_again() as found:
        yield found


@pytest.mark.parametrize("identity", [5, "five"])
async def test_an_id_that_is_in_flight_is_refused(
    identity: Any, setup: RegisteredSetup, known: Known
) -> None:
    async with warmed(setup, "legacy", "t") as client, client.other() as other:
        await together(setup, client, other)  # so that a connection to the server waits for each
        gate, before = asyncio.Event(), len(known)
        setup.upstream.answers["t"] = held(gate, PLAIN_RESULT)
        first = asyncio.create_task(client.call("t", identity))
        await sent(known, before + 1)
        for spelt in (json.dumps(identity), json.dumps(identity).replace("f", r"\u0066")):
            body = other.body("t", 12345).replace(b"12345", spelt.encode())
            assert (await other.send(other.request(body))).status == 400
        assert len(known) == before + 1
        gate.set()
        assert (await first).status == 200
        assert (await other.call("t", identity)).status == 200


async def together(setup: RegisteredSetup, *clients: RawConnection) -> None:
    """Call on all connections at the same time."""
    gate = asyncio.Event()
    setup.upstream.answers["t"] = held(gate, PLAIN_RESULT)
    count = len(setup.upstream.called("t"))
    calls = [asyncio.create_task(one.call("t", 50 + number)) for number, one in enumerate(clients)]
    async with asyncio.timeout(5):
        while len(setup.upstream.called("t")) < count + len(clients):
            await asyncio.sleep(0.001)
    gate.set()
    assert [(await one).status for one in calls] == [200] * len(clients)


@ERAS
async def test_the_limit_of_calls_in_flight_spans_all_workspaces(
    era: str, known: Known, tmp_path: Path
) -> None:
    """This manager allows one call in flight."""
    async with (
        registered_setup(tmp_path, in_flight_limit=1) as setup,
        warmed(setup, era, "t") as client,
        client.other() as other,
    ):
        gate, before = asyncio.Event(), len(known)
        setup.upstream.answers["t"] = held(gate, PLAIN_RESULT)
        first = asyncio.create_task(client.call("t"))
        await sent(known, before + 1)
        assert b"overloaded" in (await other.call("t", 8)).body
        gate.set()
        assert b"overloaded" not in (await first).body
        for number in range(4):
            assert b"overloaded" not in (await other.call("t", 20 + number)).body


async def test_a_number_and_a_string_are_different_ids(setup: RegisteredSetup, known: Known) -> None:
    async with warmed(setup, "legacy", "t") as client, client.other() as other:
        gate, before = asyncio.Event(), len(known)
        setup.upstream.answers["t"] = held(gate, PLAIN_RESULT)
        calls = [asyncio.create_task(one.call("t", name)) for one, name in [(client, 7), (other, "7")]]
        await sent(known, before + 1)
        gate.set()
        assert [(await one).message["id"] for one in calls] == [7, "7"]


# -- learning ----------------------------------------------------------------------------------------------


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The heads that were parsed."""
    found: list[bytes] = []
    usual = ClientHeadReader.read

    def noted(self: ClientHeadReader, raw: bytes) -> ReadHead[ClientHead] | RefusedHead:
        found.append(raw)
        return usual(self, raw)

    monkeypatch.setattr(ClientHeadReader, "read", noted)
    return found


@pytest.fixture
def learned(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The bodies that patterns were derived from."""
    found: list[bytes] = []

    def noted(body: bytes) -> Any:
        found.append(body)
        return derive_pattern(body)

    monkeypatch.setattr(route_cache, "derive_pattern", noted)
    return found


@ERAS
async def test_calls_that_always_differ_are_rarely_cached(
    era: str, setup: RegisteredSetup, known: Known, learned: list[bytes]
) -> None:
    client = await connected(setup, era, "t")
    setup.upstream.answers["t"] = PLAIN_RESULT
    for number in range(150):
        body = client.body(f"t{number}" if era == "legacy" else "t", 7, {"a": "\u00e9"})
        assert (await client.send(client.request(body))).status == 200
    assert len(learned) <= 2 * (CACHED_MISSES + 3)
    assert not known
    for _ in range(MISS_INTERVAL + 2):
        await client.call("t")
    assert known.answered
    count, setup.upstream.answers["another"] = len(known), PLAIN_RESULT
    for _ in range(3):  # similar calls have reset the count of misses
        await client.call("another" if era == "legacy" else "t")
    assert len(known) > count
    client.close()


async def test_the_number_of_request_lines_is_limited(setup: RegisteredSetup, known: Known) -> None:
    async with warmed(setup, "modern", "t") as client:
        await client.call("t")
    path, lines = known.path, [b"POST /%d HTTP/1.1\r\n" % number for number in range(3 * MAX_GROUPS)]
    assert path is not None
    last = path.recent(client.request(b""))
    assert last is not None
    for line in lines:
        path.remember(last, line)
        assert path.recent(line) is last
    assert sum(path.recent(line) is not None for line in lines) <= MAX_GROUPS


async def test_the_number_of_cached_routes_is_limited(
    setup: RegisteredSetup, known: Known, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(route_cache, "MAX_ROUTES", 3)
    async with warmed(setup, "legacy", "t") as client:
        path = known.path
        assert path is not None
        path.groups.clear()
        for number in range(20):
            await client.call(f"few{number % 5}", number)
            assert sum(len(group.routes) for group in path.groups.values()) <= 3 + MAX_GROUP_ROUTES * (
                number == 0
            )
        count = len(known)
        for _ in range(4):
            await client.call("t")
        assert len(known) > count


async def test_a_route_in_the_place_of_another_does_not_count_twice(
    setup: RegisteredSetup, known: Known, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(route_cache, "MAX_GROUP_ROUTES", 3)
    monkeypatch.setattr(route_cache, "MAX_ROUTES", 8)
    async with warmed(setup, "legacy", "t") as client:
        path = known.path
        assert path is not None
        counts = []
        for number in range(20):
            await client.call(f"few{number}", number)
            counts.append(sum(len(group.routes) for group in path.groups.values()))
        assert counts == sorted(counts), "the routes were dropped although they are few"


@ERAS
async def test_a_cached_call_is_not_cached_again(
    era: str, setup: RegisteredSetup, known: Known, learned: list[bytes]
) -> None:
    """Its answer had to be parsed, so the call fell back."""
    async with warmed(setup, era, "t") as client:
        setup.upstream.answers["t"] = ANSWERS["error"]
        learned.clear()
        count = len(known)
        for _ in range(3):
            await client.call("t")
        assert (len(known), learned) == (count + 3, [])
