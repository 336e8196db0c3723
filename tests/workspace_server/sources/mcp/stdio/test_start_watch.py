from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from support.servers.mcp_sources.stdio_servers import stdio_source
from workspace_server.call_context import CallContext
from workspace_server.sources.mcp import source as mcp_source
from workspace_server.sources.mcp.stdio.source import StdioSource, Timeouts
from workspace_server.sources.mcp.stdio.start_watch import MAX_QUOTED, explain, quoted

IMPATIENT = Timeouts(start_s=0.6, longest_start_s=8.0, write_s=5.0, polite_s=0.5, term_s=0.5)
SIGNS = {
    "standard error": 'sys.stderr.write("fetching\\n"); sys.stderr.flush(); time.sleep(0.1)',
    "standard output": 'put(b"fetching\\n"); time.sleep(0.1)',
    "processor time": "sum(range(200000))",
    "bytes": 'open("/dev/zero", "rb").read(4096); time.sleep(0.05)',
    "children": "subprocess.run(['true']); time.sleep(0.05)",
    "a child that works": "child = child or subprocess.Popen([sys.executable, '-c', 'while True: pass']);"
    " time.sleep(0.1)",
}


def slow(sign: str, seconds: float = 2.0) -> str:
    return f"""
        import subprocess
        child = None
        end = time.monotonic() + {seconds}
        while time.monotonic() < end:
            {sign}
        if child: child.kill()
        serve(echo)
    """


async def names(source: StdioSource) -> list[str]:
    return [tool.name for tool in await source.list_tools()]


@pytest.mark.parametrize("sign", SIGNS)
async def test_a_start_that_shows_life_goes_on_beyond_the_usual_limit(tmp_path: Path, sign: str) -> None:
    async with stdio_source(slow(SIGNS[sign]), tmp_path, timeouts=IMPATIENT) as source:
        assert await names(source) == ["echo"]
        assert source.status()["restarts"] == 0


async def test_a_start_that_shows_nothing_ends_at_the_usual_limit(tmp_path: Path) -> None:
    async with stdio_source(slow("time.sleep(30)"), tmp_path, timeouts=IMPATIENT) as source:
        began = time.monotonic()
        assert await names(source) == []
        assert time.monotonic() - began < 5
        assert source.state == "backoff"
        assert re.fullmatch(
            r"no answer to the handshake within [0-9.]+ s: it wrote nothing that answers.*", str(source.error)
        )


@pytest.mark.parametrize(
    "line",
    ["Listening on http://localhost:3000/mcp", "Waiting for a login", '{"jsonrpc":"2.0","id":1,"result":{}}'],
)
async def test_what_a_silent_server_wrote_on_standard_error_is_told(tmp_path: Path, line: str) -> None:
    program = slow(f"print({line!r}, file=sys.stderr, flush=True); time.sleep(30)")
    async with stdio_source(program, tmp_path, timeouts=IMPATIENT) as source:
        assert await names(source) == []
        assert str(source.error).count(f"; it wrote on standard error: {line}") == 1


async def test_a_start_does_not_go_on_for_ever(tmp_path: Path) -> None:
    limits = Timeouts(start_s=0.5, longest_start_s=1.5, polite_s=0.2, term_s=0.2)
    async with stdio_source(slow("sum(range(200000))", 30), tmp_path, timeouts=limits) as source:
        assert await names(source) == []
        assert "no answer to the handshake within 1.5 s" in str(source.error)


async def test_the_entrys_own_limit_holds_without_signs_of_life(tmp_path: Path) -> None:
    options: dict[str, Any] = {"timeouts": IMPATIENT, "start_timeout_s": 5.0}
    async with stdio_source(slow("time.sleep(2)"), tmp_path, **options) as source:
        assert await names(source) == ["echo"]


async def test_status_tells_how_long_a_start_takes(tmp_path: Path) -> None:
    async with stdio_source(slow(SIGNS["standard error"]), tmp_path, timeouts=IMPATIENT) as source:
        listing = asyncio.create_task(source.list_tools())
        while "startingForS" not in source.status():
            await asyncio.sleep(0.01)
        assert source.state == "starting"
        await listing
        assert "startingForS" not in source.status()


async def test_a_call_that_waits_for_a_start_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_source, "PROGRESS_S", 0.2)
    told: list[Any] = []

    async def notify(method: str, params: Any) -> None:
        told.append((method, params))

    params = {"_meta": msgspec.Raw(b'{"progressToken":"mine"}')}
    context = CallContext(arguments=msgspec.Raw(b"{}"), notify=notify, params=params)
    async with stdio_source(slow(SIGNS["standard error"], 1.0), tmp_path, timeouts=IMPATIENT) as source:
        await source.call_tool("echo", {}, context)
    assert told
    assert told[0][0] == "notifications/progress"
    assert "to start" in told[0][1]["message"]
    assert [params["progress"] for _, params in told] == sorted({params["progress"] for _, params in told})


BANNER = 'sys.stdout.write("Loading... "); sys.stdout.flush()\nserve(echo)'
FRAMED = r"""
def say(message):
    data = json.dumps(message).encode()
    put(b"Content-Length: %d\r\n\r\n" % len(data) + data)
serve(echo)
"""
BARE = 'def answer(id, result): say({"id": id, "result": result})\nserve(echo)'
PRETTY = 'def say(message): put(json.dumps(message, indent=1).encode() + b"\\n")\nserve(echo)'
WIDE = 'def say(message): put((json.dumps(message) + "\\n").encode("utf-16-le"))\nserve(echo)'
CLOSED = "os.close(out.fileno()); os.close(1); time.sleep(30)"
TOKEN = 'put(b"key=" + os.environ["KEY"].encode() + b"\\n"); time.sleep(30)'


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (BANNER, 'on the same line; the first such line: "Loading... {'),
        (FRAMED, "Content-Length headers; a stdio MCP server writes one JSON message a line; the first such"),
        (BARE, 'its messages lack "jsonrpc"'),
        (PRETTY, "over several lines"),
        (WIDE, "UTF-16"),
        (CLOSED, "closed its output"),
        (TOKEN, 'the first such line: "key=[hidden]"'),
        ('put(b"Usage: x\\n"); sys.exit(3)', "exited with code 3: it writes lines that are no messages"),
    ],
)
async def test_a_silent_handshake_says_why_and_what_came_first(
    tmp_path: Path, body: str, reason: str
) -> None:
    limits = Timeouts(start_s=1.0, longest_start_s=1.0, polite_s=0.2, term_s=0.2)
    env = {"KEY": "s3cret-v4lue"}
    async with stdio_source(body, tmp_path, timeouts=limits, env=env) as source:
        assert await names(source) == []
        assert reason in str(source.error)
        refusal = await source.call_tool("echo", {}, CallContext(arguments=msgspec.Raw(b"{}")))
        assert reason.split(";", maxsplit=1)[0] in str(refusal)


@pytest.mark.parametrize(
    "body",
    [
        'def answer(id, result): say({"jsonrpc": "2.0", "id": str(id), "result": result})\nserve(echo)',
        'def answer(id, result): say({"jsonrpc": "2.0", "id": float(id), "result": result})\nserve(echo)',
        'def say(m): put(b"\\xef\\xbb\\xbf" + json.dumps(m).encode() + b"\\n")\nserve(echo)',
    ],
)
async def test_ids_as_text_and_byte_order_marks_are_accepted(tmp_path: Path, body: str) -> None:
    async with stdio_source(body, tmp_path) as source:
        assert await names(source) == ["echo"]
        outcome = await source.call_tool("echo", {}, CallContext(arguments=msgspec.Raw(b"{}")))
        assert isinstance(outcome, msgspec.Raw)


ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{}}'


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([b"Content-Length: 80", b"", ANSWER[:-1]], "Content-Length"),
        ([b"content-length:80\r"], "Content-Length"),
        ([b"Loading... " + ANSWER], "before its message on the same line"),
        ([ANSWER + b" ready"], "more text follows its message"),
        ([b'{"id":1,"result":{}}'], 'lack "jsonrpc"'),
        ([b'{"jsonrpc":"1.0","id":1,"result":{}}'], 'lack "jsonrpc"'),
        ([b"{", b'  "jsonrpc": "2.0",', b'  "id": 1', b"}"], "over several lines"),
        ([b'{"jsonrpc": "2.0",', b'"id": 1}'], "over several lines"),
        ([b"[" + ANSWER + b"]"], "batch"),
        ([b"{'jsonrpc': '2.0', 'id': 1}"], "single quotes"),
        (["\ufeff{}".encode("utf-16-le"), b"\0"], "UTF-16"),
        (["INFO starting".encode("utf-16-le")], "UTF-16"),
        ([b"INFO starting", b"INFO ready"], "logs belong on standard error"),
        ([ANSWER.replace(b":1,", b":77,")], "an id that was not asked"),
        ([b'{"jsonrpc":"2.0","method":"notifications/message","params":{}}'], "nothing that answers"),
        ([], "nothing that answers"),
    ],
)
def test_the_reason_of_a_silent_handshake_is_named(lines: list[bytes], reason: str) -> None:
    assert reason in explain(lines)


@pytest.mark.parametrize("number", [b"77", b"null", b'"x"'])
def test_an_answer_to_another_request_is_quoted(number: bytes) -> None:
    line = ANSWER.replace(b":1,", b":%b," % number)
    assert explain([line]) == f"it answers with an id that was not asked; the first such line: {quoted(line)}"


def test_a_banner_before_a_fault_does_not_hide_it() -> None:
    said = explain([b"My server v1", b"[INFO] up", b'{"id":1,"result":{}}'])
    assert 'lack "jsonrpc"' in said
    assert said.endswith('the first such line: "My server v1"')


@pytest.mark.parametrize(
    ("unfinished", "reason"),
    [(ANSWER, "line feed"), (b"Loading... ", "without a line end"), (b"Content-Length: 8", "Content-Length")],
)
def test_output_without_a_line_end_is_told(unfinished: bytes, reason: str) -> None:
    assert reason in explain([], unfinished)


def test_a_line_is_quoted_in_one_line_without_escapes_and_cut() -> None:
    assert quoted(b"\x1b[31mred\x1b[0m\ta\x07\xff") == '"red\\ta\ufffd"'.replace("\\t", "\\t")
    assert len(quoted(b"x" * 10_000)) <= MAX_QUOTED + 2
    assert "\n" not in quoted(b"a\rb\x0bc")
