"""Stdio servers that misbehave: time limits hold, answers reach the right caller, no process is left."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lm_tools_bridge.protocol import jsonrpc
from lm_tools_bridge.protocol.errors import Reason, Refusal
from support.processes.timeouts import within
from support.servers.mcp_sources.stdio_servers import alive, environment, program, stdio_source
from workspace_server.call_context import CallContext
from workspace_server.sources.mcp.stdio.restart_policy import RestartPolicy
from workspace_server.sources.mcp.stdio.source import StdioSource, Timeouts
from workspace_server.tool import CallOutcome, RpcError, ToolResult

HASTY = Timeouts(start_s=5, write_s=0.2, polite_s=0.05, term_s=0.05)


async def call(source: StdioSource, arguments: object = None, name: str = "echo") -> CallOutcome:
    text = msgspec.Raw(jsonrpc.dumps(arguments or {}))
    async with asyncio.timeout(10):
        return await source.call_tool(name, {}, CallContext(arguments=text))


def result(outcome: CallOutcome) -> Any:
    assert isinstance(outcome, msgspec.Raw), outcome
    return json.loads(jsonrpc.bytes_of(outcome))


def text(outcome: CallOutcome) -> str:
    (block,) = result(outcome)["content"]
    said: str = block["text"]
    return said


def refused(outcome: CallOutcome, reason: Reason, delivered: str) -> Refusal:
    assert isinstance(outcome, Refusal), outcome
    assert (outcome.reason, outcome.delivered) == (reason, delivered)
    assert "stdio:child" in outcome.message
    return outcome


async def eventually(condition: Callable[[], object], seconds: float = 5.0) -> None:
    """Waits until the condition is true."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


def never() -> RestartPolicy:
    """A policy that starts nothing again during a test."""
    record = RestartPolicy()
    record.looping = True
    return record


# --- what may come before, between and instead of an answer

BEFORE_THE_REPLY = {
    "notification": 'notify("notifications/whatever", {"id": 2})',
    "log": 'notify("notifications/message", {"level": "error", "data": "boo"})',
    "request": 'say({"jsonrpc": "2.0", "id": m["id"], "method": "ping"})',
    "request-with-an-id-of-its-own": 'say({"jsonrpc": "2.0", "id": "abc", "method": "roots/list"})',
    "progress-refuse_request-wanted": 'notify("notifications/progress", {"progressToken": m["id"], "progress": 1})',
    "cancels": 'notify("notifications/cancelled", {"requestId": m["id"]})',
}


@pytest.mark.parametrize("first", BEFORE_THE_REPLY.values(), ids=BEFORE_THE_REPLY)
async def test_messages_before_the_response_are_not_taken_for_it(tmp_path: Path, first: str) -> None:
    """A client that does not match ids would return each answer one call too late."""
    body = f"""
        def call(m):
            {first}
            answer(m["id"], text(m["params"]["arguments"]["n"]))
        serve(call)
    """
    async with stdio_source(body, tmp_path) as source:
        assert [text(await call(source, {"n": n})) for n in ("one", "two")] == ["one", "two"]


JUNK = {
    "banner": b"*** Welcome ***",
    "npm": b"npm warn deprecated",
    "blank": b"",
    "array": b"[]",
    "number": b"42",
    "object": b'{"level":"info"}',
    "no-version": b'{"id":1,"result":{}}',
    "other-version": b'{"jsonrpc":"1.0","id":1,"result":{}}',
    "method-no-string": b'{"jsonrpc":"2.0","method":7}',
    "truncated": b'{"jsonrpc":"2.0","id":1,"res',
    "deep": b'{"jsonrpc":"2.0","x":' + b"[" * 100_000,
    "utf8": b'{"jsonrpc":"2.0","method":"x","params":{"a":"\xff"}}',
    "nul": b'{"jsonrpc":"2.0","id":77,"result":{"a":"\x00"}}',
    "byte-order-mark": b"\xef\xbb\xbfready",
}


async def test_invalid_output_is_skipped_and_counted(tmp_path: Path) -> None:
    """All of it is written before the response to the handshake and before each result."""
    junk = tmp_path / "junk"
    junk.write_bytes(b"".join(line + b"\n" for line in JUNK.values()))
    body = f"""
        junk = open({str(junk)!r}, "rb").read()
        def initialize(m): put(junk); answer(m["id"], initialize_result)
        def call(m): put(junk); answer(m["id"], text("fine"))
        serve(call)
    """
    async with stdio_source(body, tmp_path) as source:
        assert text(await call(source)) == "fine"
        await source.list_tools()
        assert source.status()["junk"] == 2 * len(JUNK)
        assert source.status()["firstJunk"][:2] == ["*** Welcome ***", "npm warn deprecated"]
        assert len(source.status()["firstJunk"]) == 5
        assert source.issues() == []


async def test_a_flood_of_invalid_output_is_a_warning(tmp_path: Path) -> None:
    body = """
        def call(m): put(b"junk\\n" * 1001); answer(m["id"], text("fine"))
        serve(call)
    """
    async with stdio_source(body, tmp_path) as source:
        assert text(await call(source)) == "fine"
        assert [(one.level, one.code) for one in source.issues()] == [("warning", "SOURCE_JUNK_OUTPUT")]


async def test_crlf_line_ends_are_accepted(tmp_path: Path) -> None:
    body = """
        def say(message): put(json.dumps(message).encode() + b"\\r\\n")
        serve(lambda m: answer(m["id"], text("fine")))
    """
    async with stdio_source(body, tmp_path) as source:
        assert text(await call(source)) == "fine"


WRONG_IDS = {
    "unknown": 'answer(99999, text("wrong"))',
    "null": 'answer(None, text("wrong"))',
    "other text": 'answer("x" + str(m["id"]), text("wrong"))',
    "fraction": 'put(b\'{"jsonrpc":"2.0","id":%d.5,"result":{}}\\n\' % m["id"])',
    "list": 'answer([m["id"]], text("wrong"))',
    "none": 'say({"jsonrpc": "2.0", "result": text("wrong")})',
    "earlier": 'answer(1, text("wrong"))',
}


@pytest.mark.parametrize("wrong", WRONG_IDS.values(), ids=WRONG_IDS)
async def test_a_response_with_an_unknown_id_is_dropped(tmp_path: Path, wrong: str) -> None:
    body = f"""
        def call(m):
            {wrong}
            answer(m["id"], text("right"))
            answer(m["id"], text("again"))
        serve(call)
    """
    async with stdio_source(body, tmp_path) as source:
        assert [text(await call(source)) for _ in range(2)] == ["right", "right"]
        await eventually(lambda: source.status()["strays"] + source.status()["junk"] >= 4)


async def test_responses_out_of_order_reach_their_callers_once(tmp_path: Path) -> None:
    """Each response is sent twice, and the server sends a cancellation that nobody requested."""
    body = """
        waiting = []
        def call(m):
            waiting.append(m)
            if len(waiting) == 50:
                notify("notifications/cancelled", {"requestId": waiting[0]["id"]})
                for one in reversed(waiting):
                    for _ in range(2):
                        answer(one["id"], text(str(one["params"]["arguments"]["n"])))
        serve(call)
    """
    async with stdio_source(body, tmp_path) as source:
        outcomes = await asyncio.gather(*(call(source, {"n": n}) for n in range(50)))
        assert [text(outcome) for outcome in outcomes] == [str(n) for n in range(50)]


@pytest.mark.parametrize(
    "broken",
    [
        b'"result":{"content":[],"n":NaN}',
        b'"result":{"n":-Infinity}',
        b'"result":{"t":"\\ud800 half"}',
        b'"result":{"content":[{"type":"text","text":"Gr\xfc\xdfe"}]}',
        b'"error":{"code":"x"}',
        b'"result":7',
        b'"result":{"t":"\x01"}',
        b'"result":{}} and more {',
        b'"id":99999,"result":{"content":[]}',
        b'"result":{"deep":' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    ],
    ids=[
        *("NaN", "Infinity", "half a character", "no UTF-8", "an error that is none", "no object"),
        *("a control character", "bytes behind it", "two ids", "deep"),
    ],
)
async def test_an_unreadable_result_becomes_an_error_result(tmp_path: Path, broken: bytes) -> None:
    """The caller does not have to wait for its time limit, and receives valid JSON."""
    body = f"""
        def call(m): put(b'{{"jsonrpc":"2.0","id":%d,' % m["id"] + {broken!r} + b"}}\\n")
        serve(call)
    """
    async with stdio_source(body, tmp_path) as source:
        for _ in range(2):
            outcome = await call(source)
            assert isinstance(outcome, ToolResult)
            assert outcome.is_error
            assert "stdio:child" in outcome.text


# --- sizes and rates


async def test_a_large_result_is_passed_on(tmp_path: Path) -> None:
    """The result has 8 MiB."""
    body = 'serve(lambda m: answer(m["id"], text("x" * 8 * 2**20)))'
    async with stdio_source(body, tmp_path) as source:
        assert len(text(await call(source))) == 8 * 2**20


async def test_a_line_over_the_limit_restarts_the_server(tmp_path: Path) -> None:
    """All waiting calls get error 47106."""
    body = """
        def call(m):
            if m["params"]["arguments"]["n"] == 2:
                for _ in range(33): put(b"x" * 2**20)
                time.sleep(60)
        serve(call)
    """
    async with stdio_source(body, tmp_path, timeouts=HASTY) as source:
        outcomes = await asyncio.gather(call(source, {"n": 1}), call(source, {"n": 2}))
        for outcome in outcomes:
            refused(outcome, Reason.RESPONSE_TOO_LARGE, "unknown")
        await eventually(lambda: source.state == "ready")


async def test_a_line_without_end_runs_into_the_deadline(tmp_path: Path) -> None:
    """The server writes one byte at a time."""
    body = """
        def call(m):
            while True: put(b"x"); time.sleep(0.01)
        serve(call)
    """
    async with stdio_source(body, tmp_path, timeouts=HASTY) as source:
        await source.list_tools()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await source.call_tool("echo", {}, CallContext())


STRINGS = (
    'a "quoted" }{ \\',
    "line\nand\ttab\r",
    "\u2028\u2029\x00\x1f",
    "é\u00e9 😀 \U0001f9d1\u200d\U0001f680",
    "\\u00e9 \\ud83d",
    '}\n{"jsonrpc":"2.0","id":1,"result":{}}\n',
)


async def test_strings_are_passed_on_exactly(tmp_path: Path) -> None:
    """White space between JSON tokens, such as a line end, must not split the message."""
    async with stdio_source(
        'serve(lambda m: answer(m["id"], text(json.dumps(m["params"]["arguments"]))))', tmp_path
    ) as source:
        arguments = {"strings": STRINGS, "big": 2**70}
        for raw in (json.dumps(arguments, indent=2), json.dumps(arguments, ensure_ascii=False)):
            context = CallContext(arguments=msgspec.Raw(raw.encode()))
            outcome = await source.call_tool("echo", {}, context)
            assert json.loads(text(outcome)) == {"strings": list(STRINGS), "big": 2**70}


RESULTS: dict[str, dict[str, object]] = {
    "message": {"message": "no error at all", "error": None},
    "two-texts": {"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
    "image": {
        "content": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}, {"type": "new", "x": 1}]
    },
    "error": {"content": [{"type": "text", "text": "it failed\u001b[31m"}], "isError": True},
    "structured": {"content": [], "structuredContent": [1, None], "_meta": {"a/b": 1}, "x": 2**70},
    "empty": {},
    "typed": {"content": [], "resultType": "complete"},
}


async def test_results_pass_through_unchanged(tmp_path: Path) -> None:
    """Only `resultType` and `content` are added where they are missing."""
    body = 'serve(lambda m: answer(m["id"], m["params"]["arguments"]))'
    async with stdio_source(body, tmp_path) as source:
        for expected in RESULTS.values():
            outcome = await call(source, expected)
            assert result(outcome) == {"resultType": "complete", "content": [], **expected}


async def test_an_error_of_the_server_reaches_its_caller(tmp_path: Path) -> None:
    body = """
        error = {"code": -32099, "message": "no", "data": {"why": [1, None]}}
        serve(lambda m: say({"jsonrpc": "2.0", "id": m["id"], "error": error}))
    """
    async with stdio_source(body, tmp_path) as source:
        await source.list_tools()
        began = time.monotonic()
        outcome = await call(source)
        assert time.monotonic() - began < within(1)
        assert isinstance(outcome, RpcError)
        assert (outcome.code, outcome.message) == (-32099, "no")
        assert outcome.data is not None
        assert json.loads(jsonrpc.bytes_of(outcome.data)) == {"why": [1, None]}


async def test_definitions_are_not_changed(tmp_path: Path) -> None:
    definition = {
        "name": "odd.tool",
        "inputSchema": {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "object",
            "additionalProperties": {"type": ["string", "null"]},
            "properties": {"description": {"type": "string", "default": {"description": "\u200bkept"}}},
        },
        "annotations": {"readOnlyHint": True},
        "x-vendor": {"a": [1]},
    }
    body = f"tools = [json.loads({json.dumps(json.dumps(definition))})]\nserve(echo)"
    async with stdio_source(body, tmp_path) as source:
        (tool,) = await source.list_tools()
        assert tool.definition == definition


# --- processes that do not come, do not answer, do not read, do not go


@pytest.mark.parametrize("command", [("/nonexistent/server", "--token=hunter2"), ("no-such-program", "x")])
async def test_a_missing_program_is_a_failed_source(tmp_path: Path, command: tuple[str, ...]) -> None:
    """The error names the command, but neither arguments nor values of variables."""
    async with stdio_source(command, tmp_path, env={"SECRET": "hunter2"}) as source:
        assert await source.list_tools() == ()
        assert source.state == "failed"
        outcome = refused(await call(source), Reason.SOURCE_UNAVAILABLE, "no")
        assert command[0] in (source.error or "")
        assert "hunter2" not in f"{source.error}{outcome.text}{source.status()}"


async def test_a_program_that_is_not_executable_is_a_failed_source(tmp_path: Path) -> None:
    (tmp_path / "server").write_text("#!/bin/sh\n")
    async with stdio_source((str(tmp_path / "server"),), tmp_path) as source:
        assert await source.list_tools() == ()
        assert source.state == "failed"


async def test_a_handshake_without_answer_is_tried_again_later(tmp_path: Path) -> None:
    timeouts = Timeouts(start_s=0.2, polite_s=0.05, term_s=0.05)
    async with stdio_source("time.sleep(60)", tmp_path, timeouts=timeouts, policy=never) as source:
        assert await source.list_tools() == ()
        assert source.state == "crash_looping"
        assert "no answer to the handshake within 0." in (source.error or "")
        assert refused(await call(source), Reason.SOURCE_UNAVAILABLE, "no").retry_after_ms


async def test_a_cancelled_call_is_cancelled_at_the_server(tmp_path: Path) -> None:
    """The notification has the id of the request to the server; the next call succeeds."""
    body = """
        def other(m):
            if m["method"] == "notifications/cancelled": sys.stderr.write("cancelled %s\\n" % m["params"]["requestId"])
        def call(m):
            if m["params"]["arguments"]: answer(m["id"], text("fine"))
            else: sys.stderr.write("silent at %s\\n" % m["id"])
            sys.stderr.flush()
        serve(call)
    """
    async with stdio_source(body, tmp_path) as source:
        given_up = asyncio.create_task(call(source))
        await eventually(lambda: source.status()["stderr"])
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        assert text(await call(source, {"n": 1})) == "fine"
        await eventually(lambda: len(source.status()["stderr"]) == 2)
        (silent, cancelled) = source.status()["stderr"]
        assert silent.split()[-1] == cancelled.split()[-1]
        assert source.status()["inFlight"] == 0


LAST = "; it wrote on standard error: called"
ENDINGS = {
    "exits": ("os._exit(3)", f"exited with code 3{LAST}"),
    "is killed": ("os.kill(os.getpid(), 9)", f"was ended by SIGKILL{LAST}"),
    "closes its output but lives": ("os.close(1); out.close(); time.sleep(60)", "closed its output"),
    "leaves somebody who holds its output": (
        "os.fork() and os._exit(0) or time.sleep(60)",
        f"exited with code 0{LAST}",
    ),
}


@pytest.mark.parametrize(("ending", "reason"), ENDINGS.values(), ids=ENDINGS)
async def test_a_server_that_ends_during_calls_fails_them_at_once(
    tmp_path: Path, ending: str, reason: str
) -> None:
    """All its calls fail and are not repeated; then the server is started again."""
    body = f"""
        def call(m):
            sys.stderr.write("called\\n"); sys.stderr.flush()
            if m["params"]["arguments"]["n"] == 2: {ending}
        serve(call)
    """
    async with stdio_source(body, tmp_path, timeouts=HASTY) as source:
        await source.list_tools()
        began = time.monotonic()
        outcomes = await asyncio.gather(call(source, {"n": 1}), call(source, {"n": 2}))
        assert time.monotonic() - began < within(1)
        for outcome in outcomes:
            assert reason in refused(outcome, Reason.SOURCE_UNAVAILABLE, "unknown").message
        assert source.state == "backoff"
        assert len(await source.list_tools()) == 1
        assert source.stale
        await eventually(lambda: source.state == "ready" and not source.stale)
        assert source.status()["restarts"] == 1
        assert source.status()["stderr"] == []


async def test_a_server_that_does_not_read_does_not_block_the_loop(tmp_path: Path) -> None:
    """A call that was not fully written was not delivered; for one that was, delivery is unknown."""
    body = """
        def call(m): time.sleep(60)
        serve(call)
    """
    async with stdio_source(body, tmp_path, timeouts=HASTY) as source:
        await source.list_tools()
        small = asyncio.create_task(call(source, {"n": 1}))
        await asyncio.sleep(0)
        large = asyncio.create_task(call(source, {"n": "x" * 2**20}))
        longest, last = 0.0, time.monotonic()
        while not large.done():
            await asyncio.sleep(0.005)
            longest, last = max(longest, time.monotonic() - last), time.monotonic()
        refused(large.result(), Reason.SOURCE_UNAVAILABLE, "no")
        refused(await small, Reason.SOURCE_UNAVAILABLE, "unknown")
        assert longest < within(0.05)


async def test_a_flood_on_standard_error_changes_nothing(tmp_path: Path) -> None:
    """The server writes 5 MB, most of it without a line end."""
    body = """
        def call(m):
            os.write(2, b"a line\\n")
            for _ in range(80): os.write(2, b"x" * 65536)
            answer(m["id"], text("fine"))
        serve(call)
    """
    async with stdio_source(body, tmp_path) as source:
        assert text(await call(source)) == "fine"
        assert sum(map(len, source.status()["stderr"])) <= 2_000


async def test_a_server_that_ignores_sigterm_is_killed_with_its_children(tmp_path: Path) -> None:
    """A grandchild runs in a session of its own."""
    body = """
        import signal
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0: time.sleep(60)
            os._exit(0)
        def call(m): answer(m["id"], text("fine")); time.sleep(60)
        serve(call)
    """
    async with stdio_source(body, tmp_path, timeouts=HASTY) as source:
        assert text(await call(source)) == "fine"
        mark = source._server.env["LMTB_TEST_MARK"]
        await eventually(lambda: len(alive(mark)) == 2)
        began = time.monotonic()
        await source.close()
        assert time.monotonic() - began < within(1)
        assert alive(mark) == []


async def test_reserved_names_are_ordinary_in_a_namespace(tmp_path: Path) -> None:
    names = ["lmToolsBridge.callTool", "openllm_secrets_get", "tool_search", "execute_code"]
    body = f"""
        tools = [{{"name": name, "inputSchema": {{"type": "object"}}}} for name in {names}]
        serve(lambda m: answer(m["id"], text(m["params"]["name"])))
    """
    async with stdio_source(body, tmp_path) as source:
        assert [tool.name for tool in await source.list_tools()] == names
        assert source.namespace == "child"
        assert [text(await call(source, name=name)) for name in names] == names


async def test_a_storm_of_changes_is_one_refresh_at_a_time(tmp_path: Path) -> None:
    """After 1,000 notifications the list has the last state."""
    body = """
        count = 0
        def list_tools(m):
            global count
            count += 1
            answer(m["id"], {"tools": [*tools, {"name": "list%d" % count, "inputSchema": {"type": "object"}}]})
        def call(m):
            for _ in range(1000): notify("notifications/tools/list_changed")
            answer(m["id"], text("fine"))
        serve(call)
    """
    async with stdio_source(body, tmp_path) as source:
        states = []
        source.watch(lambda: states.append(source.state))
        assert [tool.name for tool in await source.list_tools()] == ["echo", "list1"]
        assert text(await call(source)) == "fine"

        async def refreshed() -> bool:
            return [tool.name for tool in await source.list_tools()][1] != "list1"

        async with asyncio.timeout(within(1)):
            while not await refreshed():
                await asyncio.sleep(0.02)
        await asyncio.sleep(0)
        assert [tool.name for tool in await source.list_tools()][1] in ("list2", "list3")


async def test_invalid_and_excess_requests_do_not_disturb_the_call(tmp_path: Path) -> None:
    """Unknown, huge, malformed and far too many requests, before and after the result of the call."""
    body = """
        responses = []
        def other(m): responses.append(m["id"]) if "id" in m else None
        def ask(id, method, params): say({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        def call(m):
            if m["params"]["name"] == "report": return answer(m["id"], text(json.dumps(responses)))
            ask("unknown", "vendor/question", {})
            ask("huge", "elicitation/create", {"message": "x" * 10_000_000})
            ask("broken", "elicitation/create", ["no", "object"])
            ask("good", "elicitation/create", {"message": "?", "requestedSchema": {}})
            for n in range(1000): ask("n%d" % n, "sampling/createMessage", {"messages": [], "maxTokens": 1})
            answer(m["id"], text("fine"))
            ask("late", "elicitation/create", {"message": "?"})
            answer(m["id"], text("twice"))
        serve(call)
    """
    requests: list[str] = []

    async def ask(method: str, params: msgspec.Raw) -> msgspec.Raw | RpcError:
        requests.append(method)
        return msgspec.Raw(b"{}")

    async with stdio_source(body, tmp_path) as source, asyncio.timeout(within(5)):
        outcome = await source.call_tool("t", {}, CallContext(ask=ask))
        assert text(outcome) == "fine"
        while "late" not in (answered := json.loads(text(await call(source, name="report")))):
            await asyncio.sleep(0.01)
        assert {"unknown", "huge", "broken", "good"} <= set(answered)
        assert "elicitation/create" in requests
        assert len(requests) <= 1_002, "neither the huge one nor the late one"
        assert source.status()["strays"] >= 1


async def test_a_hostile_server_does_not_disturb_others(tmp_path: Path) -> None:
    """One floods and never answers; calls of the other stay fast."""
    flood = "while True: put(b'junk ' * 1000 + b'\\n')"
    async with (
        stdio_source(flood, tmp_path, timeouts=HASTY) as hostile,
        stdio_source("serve(echo)", tmp_path) as good,
    ):
        listing = asyncio.create_task(hostile.list_tools())
        await good.list_tools()
        began = time.monotonic()
        for _ in range(20):
            await call(good)
        assert time.monotonic() - began < within(1)
        assert not listing.done()
        listing.cancel()


async def test_fifty_callers_share_one_process_with_its_environment(tmp_path: Path) -> None:
    """No shell, the workspace as working folder, and only the configured environment variables."""
    body = """
        def call(m):
            answer(m["id"], text(json.dumps([os.getpid(), os.getcwd(), dict(os.environ), sys.argv[1:]])))
        serve(call)
    """
    command = (*program(body), "$(id) `id` ; *")
    async with stdio_source(command, tmp_path, env={"MINE": "1"}) as source:
        outcomes = await asyncio.gather(*(call(source) for _ in range(50)))
        (words,) = {text(outcome) for outcome in outcomes}
        pid, folder, environ, arguments = json.loads(words)
        assert pid == source.status()["pid"]
        assert folder == str(tmp_path)
        assert arguments == ["$(id) `id` ; *"]
        assert environ.keys() - {"LMTB_TEST_MARK", "LMTB_CHILD", "LC_CTYPE"} == {*await environment(), "MINE"}
