"""Every call through a running manager becomes one record, whatever path it takes."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from lm_tools_bridge.protocol import headers, jsonrpc, names
from lm_tools_bridge.protocol.internal.call_reports import CallTiming
from lm_tools_bridge.recorder.call_log import Call, CallLog, Contents, Filter
from lm_tools_bridge.recorder.contents import ALL, ContentRule, drop_rules, set_rule
from lm_tools_bridge.recorder.database import open_to_write
from support.clients.askable_client import AskableClient
from support.clients.raw_clients import Client
from support.http.client_connection import calls_known_again, connected
from support.http.event_stream import next_message
from support.projects.registered_setup import RegisteredSetup, registered_setup
from support.servers.scripted.scripted_answers import ANSWERS, QUESTION
from support.servers.scripted.scripted_workspace_server import COMPLETE, result

pytestmark = pytest.mark.asyncio(loop_scope="module")
ERAS = pytest.mark.parametrize("era", ["modern", "legacy"])
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TRACEPARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-01")
OUTCOMES = {
    "plain": "ok",
    "trimmed": "ok",
    "large": "ok",
    "stream": "ok",
    "stream of one event": "ok",
    "stream of one event, trimmed and large": "ok",
    "tool error": "error",
    "spaced tool error": "error",
    "error": "error",
    "breaks off": "workspace_server_died",
    "no message": "invalid_upstream_answer",
    "stream without an end": "workspace_server_died",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def setup(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RegisteredSetup]:
    async with registered_setup(tmp_path_factory.mktemp("recording")) as running:
        running.upstream.answers |= ANSWERS
        running.upstream.answers["tool error"] = result({**COMPLETE, "isError": True})
        running.upstream.answers["spaced tool error"] = result(b'{"content": [], "isError" : true }')
        yield running


async def client_of(setup: RegisteredSetup, era: str) -> Client:
    return setup.modern() if era == "modern" else await setup.legacy()


async def recorded(setup: RegisteredSetup, count: int, **wanted: Any) -> list[Call]:
    """The newest calls that match, once there are so many, oldest first."""
    for _ in range(500):
        log = CallLog.open(setup.manager.paths.calls_file)
        if log is not None:
            with log:
                found = log.find(Filter(**wanted), 1_000)
            if len(found) >= count:
                return found[::-1]
        await asyncio.sleep(0.02)
    raise AssertionError(f"fewer than {count} calls are recorded")


async def last_id(setup: RegisteredSetup) -> int:
    await (await client_of(setup, "modern")).call("plain", {"marker": 1})
    await asyncio.sleep(0)
    calls = await recorded(setup, 1)
    return calls[-1].id


@ERAS
@pytest.mark.parametrize("name", OUTCOMES)
async def test_each_kind_of_answer_becomes_one_record(setup: RegisteredSetup, era: str, name: str) -> None:
    known = (
        {call.id for call in await recorded(setup, 0, tool=name)} if setup.upstream.called(name) else set()
    )
    client = await client_of(setup, era)
    await client.call(name, {"a": "ü"})
    calls = [call for call in await recorded(setup, len(known) + 1, tool=name) if call.id not in known]
    (call,) = calls
    assert (call.outcome, call.era, call.project) == (OUTCOMES[name], era, call.project)
    assert call.project is not None
    assert (call.session is None) == (era == "modern")
    assert call.sent in {len('{"a": "\\u00fc"}'), len('{"a":"ü"}'.encode())}
    assert call.took >= (call.server or 0)
    if call.outcome == "ok":
        assert (call.received or 0) > 40


@ERAS
async def test_calls_of_the_route_cache_are_recorded_like_others(setup: RegisteredSetup, era: str) -> None:
    tool = f"cached {era}"
    setup.upstream.answers[tool] = ANSWERS["plain"]
    client = await connected(setup, era, tool)
    with calls_known_again() as known:
        for number in range(10):
            await client.call(tool, 100 + number, {"number": number})
    client.close()
    assert len(known) >= 5
    calls = await recorded(setup, 10, tool=tool)
    first = calls[0]
    assert len(calls) == 10
    for call in calls:
        assert (call.client, call.project, call.session) == (first.client, first.project, first.session)
        assert (call.sent, call.outcome) == (first.sent, "ok")
        assert call.server is not None
        assert call.manager is not None
        assert call.received == first.received


async def test_errors_of_cached_calls_are_recorded_as_errors(setup: RegisteredSetup) -> None:
    setup.upstream.answers["cached error"] = result(b'{"resultType":"complete","content":[],"isError":true}')
    client = await connected(setup, "modern", "cached error")
    with calls_known_again() as known:
        for number in range(10):
            await client.call("cached error", number, {"number": number})
    client.close()
    assert len(known) >= 5
    assert {call.outcome for call in await recorded(setup, 10, tool="cached error")} == {"error"}


@ERAS
async def test_a_handshake_and_a_call_without_workspace_are_recorded(
    setup: RegisteredSetup, era: str
) -> None:
    client = setup.modern(pure=False) if era == "modern" else await setup.legacy(bound=False)
    name = f"lost {era}"
    await client.call(name)
    await client.handshake(f"/nowhere/{era}")
    (lost,) = await recorded(setup, 1, tool=name)
    assert (lost.outcome, lost.code, lost.project) == ("workspace_not_set", 47100, None)
    failed = (await recorded(setup, 1, tool=names.HANDSHAKE, errors=True, after=lost.id))[-1]
    assert failed.era == era
    assert failed.outcome != "ok"
    assert failed.server is None


async def test_a_call_through_call_tool_has_the_name_of_its_tool(setup: RegisteredSetup) -> None:
    setup.upstream.answers["inner"] = ANSWERS["plain"]
    client = setup.modern(pure=False)
    inner = {"name": "inner", "arguments": {"x": 1}, "cwd": str(setup.upstream.root)}
    assert (await client.call(names.CALL_TOOL, inner)).status == 200
    (call,) = await recorded(setup, 1, tool="inner")
    assert (call.sent, call.outcome) == (len('{"x": 1}'), "ok")


async def test_a_question_to_the_user_is_one_record_more_with_the_time_it_took(
    setup: RegisteredSetup,
) -> None:
    setup.upstream.answers["asks once"] = result(QUESTION)
    caller = await AskableClient.connect(setup.http, setup.pure_url)
    async with caller.open(caller.body("tools/call", {"name": "asks once", "arguments": {}}, 7)) as response:
        question = await next_message(response)
        setup.upstream.answers["asks once"] = ANSWERS["plain"]
        await asyncio.sleep(0.05)  # how long the client takes
        await caller.post(jsonrpc.result(jsonrpc.dumps(question["id"]), {"action": "accept", "content": {}}))
        assert (await next_message(response))["id"] == 7
    asked, answered = await recorded(setup, 2, tool="asks once")
    assert (asked.outcome, answered.outcome) == ("input_required", "ok")
    assert asked.asked is None
    assert (answered.asked or 0) >= 50_000


@ERAS
async def test_a_trace_context_is_passed_on_and_recorded(setup: RegisteredSetup, era: str) -> None:
    name = f"traced {era}"
    setup.upstream.answers[name] = ANSWERS["plain"]
    client = await client_of(setup, era)
    for number in range(6):
        await client.call(name, {"n": number}, meta={"traceparent": TRACE[:-4] + f"{number}-01"})
    calls = await recorded(setup, 6, tool=name)
    sent = [received.params["_meta"]["traceparent"] for received in setup.upstream.called(name)]
    assert [call.trace for call in calls] == sent
    assert len(set(sent)) == 6


async def test_a_trace_context_in_a_header_is_passed_on_and_recorded(setup: RegisteredSetup) -> None:
    setup.upstream.answers["header"] = ANSWERS["plain"]
    client = setup.modern()
    client.extra = {"traceparent": TRACE}
    await client.call("header")
    (call,) = await recorded(setup, 1, tool="header")
    assert call.trace == TRACE
    assert setup.upstream.called("header")[0].header("traceparent") == TRACE


@ERAS
async def test_calls_without_a_trace_context_get_one_of_their_own(setup: RegisteredSetup, era: str) -> None:
    name = f"untraced {era}"
    setup.upstream.answers[name] = ANSWERS["plain"]
    client = await connected(setup, era, name)
    with calls_known_again() as known:
        for number in range(8):
            await client.call(name, 100 + number, {"number": number})
    client.close()
    assert len(known) >= 4  # of the route cache, the others not
    calls = await recorded(setup, 8, tool=name)
    received = setup.upstream.called(name)
    assert all("traceparent" not in one.params.get("_meta", {}) for one in received)  # bodies as they were
    sent = [one.header("traceparent") for one in received]
    assert [call.trace for call in calls] == sent
    assert len(set(sent)) == 8
    assert all(TRACEPARENT.fullmatch(one or "") for one in sent)


@ERAS
async def test_source_its_time_and_the_wait_for_approval_are_recorded(
    setup: RegisteredSetup, era: str
) -> None:
    name, timings = f"timed {era}", [CallTiming("stdio:git", 1_500 + number, 0) for number in range(6)]
    timings.append(CallTiming("scripts", 7, 20_000))
    client = await connected(setup, era, name)
    with calls_known_again() as known:
        for number, timing in enumerate(timings):
            setup.upstream.answers[name] = result(COMPLETE, **{headers.TOOK: timing.value.decode()})
            await client.call(name, 100 + number, {"number": number})
    client.close()
    assert len(known) >= 3  # of the route cache, the others not
    calls = await recorded(setup, len(timings), tool=name)
    found = [(call.source, call.source_took, call.approval or 0) for call in calls]
    assert found == [tuple(timing[:3]) for timing in timings]


@ERAS
async def test_a_call_that_goes_on_as_a_task_is_recorded_as_one(setup: RegisteredSetup, era: str) -> None:
    name = f"slow {era}"
    ends = CallTiming("scripts", 1, 0)
    timings = [ends, ends, ends, ends._replace(is_task=True), ends, ends._replace(is_task=True)]
    client = await connected(setup, era, name)
    with calls_known_again() as known:
        for number, timing in enumerate(timings):
            setup.upstream.answers[name] = result(COMPLETE, **{headers.TOOK: timing.value.decode()})
            await client.call(name, 100 + number, {"number": number})
    client.close()
    assert len(known) >= 3  # of the route cache, the others not
    calls = await recorded(setup, len(timings), tool=name)
    assert [call.outcome == "task" for call in calls] == [timing.is_task for timing in timings]
    assert {call.source for call in calls} == {"scripts"}


async def test_a_task_of_a_server_that_does_not_say_so_is_recorded_as_one(setup: RegisteredSetup) -> None:
    setup.upstream.answers["its task"] = result(
        b'{"resultType": "task", "taskId": "t1", "status": "working"}'
    )
    setup.upstream.answers["no task"] = result(b'{"resultType": "complete", "content": [], "kind": "task"}')
    for name in ("its task", "no task"):
        await setup.modern().call(name)
        (call,) = await recorded(setup, 1, tool=name)
        assert call.outcome == ("task" if name == "its task" else "ok")


async def test_no_trace_context_is_made_where_the_settings_say_so(tmp_path: Path) -> None:
    async with registered_setup(tmp_path, make_trace_context=False) as own:
        own.upstream.answers["t"] = ANSWERS["plain"]
        await own.modern().call("t")
        (call,) = await recorded(own, 1, tool="t")
        assert call.trace is None
        assert own.upstream.called("t")[0].header("traceparent") is None


async def test_nothing_is_recorded_if_the_settings_say_so(tmp_path: Path) -> None:
    async with registered_setup(tmp_path, record_calls=False) as own:
        own.upstream.answers["t"] = ANSWERS["plain"]
        await own.modern().call("t")
        async with own.http.get(f"{own.manager.base}/mcp/status") as response:
            assert (await response.json())["recorder"] is None
    assert not own.manager.paths.calls_file.exists()


async def test_status_and_metrics_count_what_is_recorded(setup: RegisteredSetup) -> None:
    setup.upstream.answers["counted"] = ANSWERS["plain"]
    await setup.modern().call("counted")
    await recorded(setup, 1, tool="counted")
    async with setup.http.get(f"{setup.manager.base}/mcp/status") as response:
        shown = (await response.json())["recorder"]
    assert (shown["problem"], shown["lost"], shown["contents"]) == (None, 0, False)
    assert shown["written"] >= 1
    async with setup.http.get(f"{setup.manager.base}/metrics") as response:
        text = await response.text()
    assert 'tool="counted",outcome="ok"' in text.replace(
        'outcome="ok",tool="counted"', 'tool="counted",outcome="ok"'
    )
    assert "lmtb_recorded_calls_total" in text


@ERAS
@pytest.mark.parametrize(
    "name", ["plain", "large", "stream", "stream of one event, trimmed and large", "error"]
)
async def test_contents_are_recorded_on_every_path_without_change_for_the_client(
    setup: RegisteredSetup, era: str, name: str
) -> None:
    client = await client_of(setup, era)
    plain = await client.call(name, {"q": 1}, identity=7)
    database = open_to_write(setup.manager.paths.calls_file)
    set_rule(database, ContentRule(ALL, 0, None))
    try:
        await until_contents(setup, is_on=True)
        told = await client.call(name, {"q": "what", "password": "hunter2"}, identity=7)
    finally:
        drop_rules(database, None)
        database.close()
    await until_contents(setup, is_on=False)
    assert told.message == plain.message
    found = await contents_of_last(setup, name)
    assert json.loads(found.arguments or "") == {"q": "what", "password": "[hidden]"}
    assert found.is_cut == ("large" in name)
    if not found.is_cut:
        assert "content" in (found.result or "") or "no such tool" in (found.result or "")


async def until_contents(setup: RegisteredSetup, *, is_on: bool) -> None:
    for _ in range(500):
        async with setup.http.get(f"{setup.manager.base}/mcp/status") as response:
            if (await response.json())["recorder"]["contents"] == is_on:
                return
        await asyncio.sleep(0.02)
    raise AssertionError("the rule takes no effect")


async def contents_of_last(setup: RegisteredSetup, tool: str) -> Contents:
    for _ in range(500):
        with CallLog.open(setup.manager.paths.calls_file) as log:
            newest = log.find(Filter(tool=tool), 1)[0]
            if (found := log.contents(newest.id)) is not None:
                return found
        await asyncio.sleep(0.02)
    raise AssertionError("no contents are recorded")


async def test_nothing_of_contents_is_recorded_by_default_or_logged(setup: RegisteredSetup) -> None:
    secret = "a very remarkable argument"
    setup.upstream.answers["quiet"] = ANSWERS["plain"]
    client = await setup.legacy()
    await client.call("quiet", {"q": secret})
    await recorded(setup, 1, tool="quiet")
    folder = setup.manager.paths.state_dir
    session = (client.header(b"").get(headers.SESSION) or "").encode()
    for file in folder.rglob("*"):
        if file.is_file():
            content = file.read_bytes()
            assert secret.encode() not in content
            assert not file.name.startswith("calls.") or session not in content
