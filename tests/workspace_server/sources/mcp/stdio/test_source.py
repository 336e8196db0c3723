"""Stdio sources with real processes: the SDK's server in both eras, caches, sharing, stopping."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lm_tools_bridge.protocol import jsonrpc
from lm_tools_bridge.protocol.errors import Reason, Refusal
from lm_tools_bridge.text import redaction
from support.servers.mcp_sources.stdio_servers import QUICK, program, stdio_source
from support.servers.sdk_servers.third_party import direct, stdio_command
from workspace_server.call_context import CallContext
from workspace_server.sources.mcp.lists.list_cache import ListCache
from workspace_server.sources.mcp.stdio import restart_policy
from workspace_server.sources.mcp.stdio.source import StdioSource, Timeouts
from workspace_server.tool import CallOutcome, RpcError

PID = 'serve(lambda m: answer(m["id"], text(str(os.getpid()))))'


async def call(
    source: StdioSource, name: str = "echo", arguments: object = None, **options: Any
) -> CallOutcome:
    raw = msgspec.Raw(jsonrpc.dumps(arguments or {}))
    async with asyncio.timeout(15):
        return await source.call_tool(name, {}, CallContext(arguments=raw, **options))


def value(outcome: CallOutcome) -> Any:
    assert isinstance(outcome, msgspec.Raw), outcome
    return json.loads(jsonrpc.bytes_of(outcome))


async def text(source: StdioSource, **options: Any) -> str:
    said: str = value(await call(source, **options))["content"][0]["text"]
    return said


async def eventually(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.01)


# --- the official SDK

EVERY_KIND = (
    "text", "two_texts", "image", "audio", "embedded_text", "embedded_blob", "resource_link", "mixed", "nothing",
    "structured", "structured_schema", "structured_list", "is_error",
)  # fmt: skip


@pytest.mark.processes
@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_the_sdks_server_answers_as_it_does_directly(tmp_path: Path, era: Any) -> None:
    """Compares definitions, results of every kind, errors, progress and pages."""
    command = stdio_command(f"--{era}", "--page-size=3")
    async with direct(command, era) as server, stdio_source(command, tmp_path, timeouts=Timeouts()) as source:
        expected = {one["name"]: one for one in await server.definitions()}
        tools = {tool.name: tool.definition for tool in await source.list_tools()}
        assert tools.keys() == expected.keys()
        assert tools["text"] == expected["text"]
        status = source.status()
        assert status["program"] == Path(command[0]).name
        assert (status["era"], status["serverInfo"]["name"]) == (era, "third-party")
        assert source.state == "ready"
        for name in EVERY_KIND:
            ours, theirs = value(await call(source, name)), await server.call(name)
            assert {"resultType": "complete", **theirs} == ours, name
        failed = await call(source, "rpc_error", {"code": 4711, "message": "no"})
        assert isinstance(failed, RpcError)
        assert (failed.code, failed.message) == (4711, "no")
        notifications: list[Any] = []

        async def notify(method: str, params: Any) -> None:
            notifications.append((method, json.loads(jsonrpc.dumps(params))))

        params = {"_meta": msgspec.Raw(b'{"progressToken":"mine"}')}
        await call(source, "progress", {"steps": 3}, notify=notify, params=params)
        assert [(method, note["progressToken"], note["progress"]) for method, note in notifications] == [
            ("notifications/progress", "mine", step) for step in (1, 2, 3)
        ]


# --- the cache


async def test_a_cached_list_is_offered_without_starting_the_server(tmp_path: Path) -> None:
    """It is marked as stale until the first call starts the server and the list is refreshed."""
    cache = ListCache(tmp_path / "lists")
    names = tmp_path / "names"
    names.write_text("old")
    body = f"""
        def list_tools(m):
            name = open({str(names)!r}).read()
            answer(m["id"], {{"tools": [{{"name": name, "inputSchema": {{"type": "object"}}}}]}})
        serve(echo)
    """
    async with stdio_source(body, tmp_path, cache=cache, env={"LMTB_TEST_MARK": "first"}) as source:
        assert [tool.name for tool in await source.list_tools()] == ["old"]
        assert not source.stale
    names.write_text("new")
    async with stdio_source(body, tmp_path, cache=cache, env={"LMTB_TEST_MARK": "first"}) as source:
        stale_states = []
        source.watch(lambda: stale_states.append(source.stale))
        assert [tool.name for tool in await source.list_tools()] == ["old"]
        assert (source.state, source.stale, source.status()["pid"]) == ("idle", True, None)
        await call(source, "old")
        await eventually(lambda: not source.stale)
        assert [tool.name for tool in await source.list_tools()] == ["new"]
        assert stale_states[-1] is False


async def test_the_first_list_in_another_worktree_is_the_one_of_the_repository(tmp_path: Path) -> None:
    """Nothing is started for it. An entry that names its project's folder means the other one there."""
    cache, main, tree = ListCache(tmp_path / "lists"), tmp_path / "main", tmp_path / "tree"
    main.mkdir()
    tree.mkdir()
    environ = {"LMTB_TEST_MARK": "first", "HERE": f"{main}/x"}
    async with stdio_source("serve(echo)", main, cache=cache, env=environ) as source:
        names = [tool.name for tool in await source.list_tools()]
    environ = {"LMTB_TEST_MARK": "first", "HERE": f"{tree}/x"}
    trees = [str(main)]
    async with stdio_source("serve(echo)", tree, cache=cache, env=environ, trees=lambda: trees) as source:
        assert [tool.name for tool in await source.list_tools()] == names != []
        assert (source.state, source.stale, source.status()["pid"]) == ("idle", True, None)


async def test_the_list_of_another_configuration_is_not_used(tmp_path: Path) -> None:
    cache = ListCache(tmp_path / "lists")
    async with stdio_source("serve(echo)", tmp_path, cache=cache, env={"LMTB_TEST_MARK": "one"}) as source:
        await source.list_tools()
    async with stdio_source("serve(echo)", tmp_path, cache=cache, env={"LMTB_TEST_MARK": "two"}) as source:
        await source.list_tools()
        assert source.status()["pid"] is not None


async def test_a_changed_definition_is_offered_and_reported(tmp_path: Path) -> None:
    """The server announces it with `list_changed`."""
    body = """
        def call(m):
            tools[0]["description"] = "now this"
            notify("notifications/tools/list_changed")
            answer(m["id"], text("done"))
        serve(call)
    """
    async with stdio_source(body, tmp_path) as source:
        await source.list_tools()
        assert source.issues() == []
        await call(source)
        await eventually(source.issues)
        assert [one.code for one in source.issues()] == ["TOOL_DEFINITION_CHANGED"]
        assert (await source.list_tools())[0].description == "now this"


async def test_a_failed_list_keeps_the_old_one_and_calls_still_work(tmp_path: Path) -> None:
    body = """
        asked = []
        def list_tools(m):
            asked.append(m)
            if len(asked) == 2: say({"jsonrpc": "2.0", "id": m["id"], "error": {"code": -32603, "message": "broken"}})
            else: answer(m["id"], {"tools": tools})
        serve(echo)
    """
    async with stdio_source(body, tmp_path) as source:
        assert len(await source.list_tools()) == 1
        await source.refresh()
        await eventually(lambda: source.error)
        assert [tool.name for tool in await source.list_tools()] == ["echo"]
        (issue,) = source.issues()
        assert (issue.level, issue.code) == ("warning", "SOURCE_UNAVAILABLE")
        assert issue.message == "Failed to fetch tools: tools/list: broken (-32603)"
        assert source.stale
        assert value(await call(source))["content"]
        await source.refresh()
        await eventually(lambda: not source.stale)
        assert (source.error, source.issues()) == (None, [])


# --- who shares a process


async def test_all_clients_of_the_workspace_share_one_process(tmp_path: Path) -> None:
    async with stdio_source(PID, tmp_path) as source:
        assert await text(source, caller="a") == await text(source, caller="b")


async def test_each_session_has_a_process_of_its_own_until_it_is_idle(tmp_path: Path) -> None:
    timeouts = Timeouts(start_s=5, polite_s=0.5, term_s=0.5, idle_s=0.3)
    async with stdio_source(PID, tmp_path, sharing="session", timeouts=timeouts) as source:
        first = await text(source, caller="a")
        assert await text(source, caller="b") != first
        assert await text(source, caller="a") == first
        assert source.state == "ready"
        await eventually(lambda: source.status()["processes"] == 0)
        assert await text(source, caller="a") != first


async def test_each_call_has_a_process_of_its_own_that_ends_with_it(tmp_path: Path) -> None:
    async with stdio_source(PID, tmp_path, sharing="call") as source:
        assert len(await source.list_tools()) == 1
        await eventually(lambda: source.status()["pid"] is None)
        pids = {await text(source), await text(source)}
        assert len(pids) == 2
        for pid in pids:
            with pytest.raises(ProcessLookupError):
                os.kill(int(pid), 0)


@pytest.mark.parametrize(
    ("sharing", "done"),
    [
        ("workspace", "it was ended and is ready again"),
        ("session", "2 processes ended; each session starts its own"),
        ("call", "no process ran; each call starts its own"),
    ],
)
async def test_a_restart_ends_every_process(tmp_path: Path, sharing: Any, done: str) -> None:
    async with stdio_source(PID, tmp_path, sharing=sharing) as source:
        before = {await text(source, caller="a"), await text(source, caller="b")}
        # the first lists are read in processes of their own there
        await eventually(lambda: sharing != "call" or not source._processes.supervisors)
        assert await source.restart() == done
        for pid in before:
            with pytest.raises(ProcessLookupError):
                os.kill(int(pid), 0)
        assert await text(source, caller="a") not in before


async def test_a_process_of_a_call_ends_with_the_cancelled_call(tmp_path: Path) -> None:
    """Cancelled in the middle."""
    body = "def call(m): sys.stderr.write('called\\n'); sys.stderr.flush(); time.sleep(60)\nserve(call)"
    timeouts = Timeouts(start_s=5, polite_s=0.05, term_s=0.05)
    async with stdio_source(body, tmp_path, sharing="call", timeouts=timeouts) as source:
        await source.list_tools()
        cancelled = asyncio.create_task(call(source))
        await eventually(lambda: source.status()["stderr"])
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        assert source.status()["processes"] == 0


# --- states


async def test_a_refresh_starts_a_server_whose_program_was_missing(tmp_path: Path) -> None:
    """The user installs the program and refreshes."""
    path = tmp_path / "server"
    async with stdio_source((str(path),), tmp_path) as source:
        assert await source.list_tools() == ()
        refused = await call(source)
        assert isinstance(refused, Refusal)
        assert refused.reason is Reason.SOURCE_UNAVAILABLE
        assert source.state == "failed"
        path.write_text(f"#!/bin/sh\nexec {shlex.join(program('serve(echo)'))}\n")
        path.chmod(0o755)
        await source.refresh()
        await eventually(lambda: source.state == "ready" and not source.stale)
        assert len(await source.list_tools()) == 1
        assert source.error is None


async def test_a_crash_loop_shows_standard_error(tmp_path: Path) -> None:
    """The last 20 lines are shown."""

    body = """
        for n in range(30): sys.stderr.write("line %d\\n" % n)
        sys.exit(3)
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(restart_policy, "FIRST_S", 0.01)
        async with stdio_source(body, tmp_path) as source:
            assert await source.list_tools() == ()
            await eventually(lambda: source.state == "crash_looping")
            status = source.status()
            assert (status["restarts"], status["pid"]) == (4, None)
            assert status["stderr"] == [f"line {n}" for n in range(10, 30)]
            assert source.error == "exited with code 3; it wrote on standard error: line 29"


@pytest.mark.parametrize("sharing", ["workspace", "session", "call"])
async def test_closing_is_final_and_may_be_repeated(tmp_path: Path, sharing: Any) -> None:
    async with stdio_source("serve(echo)", tmp_path, timeouts=QUICK, sharing=sharing) as source:
        await source.list_tools()
        starts = source.status()["restarts"]
        await asyncio.gather(source.close(), source.close())
        await source.refresh()
        refused = await call(source)
        assert isinstance(refused, Refusal)
        assert source.status()["pid"] is None
        assert source.status()["restarts"] == starts


@pytest.mark.parametrize("sharing", ["workspace", "session", "call"])
@pytest.mark.parametrize("after_s", [0, 0.01, 0.03, 0.06, 0.1])
async def test_closing_at_any_time_leaves_no_process(tmp_path: Path, sharing: Any, after_s: float) -> None:
    """During start, handshake, listing, call or end; `stdio_source` checks that no process is left."""
    timeouts = Timeouts(start_s=5, polite_s=0.05, term_s=0.05)
    async with stdio_source("serve(echo)", tmp_path, sharing=sharing, timeouts=timeouts) as source:
        under_way: list[asyncio.Task[Any]] = [
            asyncio.create_task(call(source, caller=str(n))) for n in range(2)
        ]
        under_way.append(asyncio.create_task(source.refresh()))
        await asyncio.sleep(after_s)
        under_way[0].cancel()
        await source.close()
        outcomes = await asyncio.gather(*under_way, return_exceptions=True)
        assert isinstance(outcomes[1], Refusal | msgspec.Raw)


@pytest.mark.parametrize("sharing", ["workspace", "session", "call"])
async def test_a_call_that_comes_after_the_close_starts_no_process(tmp_path: Path, sharing: Any) -> None:
    """It may have been reading a stored list meanwhile."""
    async with stdio_source("serve(echo)", tmp_path, sharing=sharing) as source:
        await source.close()
        assert isinstance(await call(source, caller="late"), Refusal)
        assert source.status()["pid"] is None


@pytest.mark.parametrize("sharing", ["workspace", "session", "call"])
@pytest.mark.parametrize("command", ["sys.exit(1)", ("/nonexistent/server",)], ids=["exits", "missing"])
async def test_listing_after_each_change_does_not_loop(tmp_path: Path, sharing: Any, command: Any) -> None:
    """The catalog lists a source again whenever the source reports a change."""
    async with stdio_source(command, tmp_path, sharing=sharing) as source:
        lists: list[asyncio.Task[Any]] = []
        source.watch(lambda: lists.append(asyncio.create_task(source.list_tools())))
        await source.list_tools()
        await asyncio.sleep(0.15)
        assert len(lists) < 8
        assert source.status()["restarts"] == 0
        assert source.state == ("backoff" if command == "sys.exit(1)" else "failed")
        refused = await call(source)
        assert isinstance(refused, Refusal)
        assert (source.error or "") in refused.message
        await asyncio.gather(*lists)


async def test_standard_error_is_logged_without_the_servers_variables(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """`lmtb log --server` shows it."""
    body = 'print("connecting with", os.environ["KEY"], file=sys.stderr, flush=True)\nserve(echo)'
    async with stdio_source(body, tmp_path, env={"KEY": "canary-value"}) as source:
        await source.list_tools()
    said = capfd.readouterr().err
    assert '"event": "source_stderr"' in said
    assert "connecting with [hidden]" in said
    assert "canary-value" not in said


async def test_first_call_waits_until_a_server_knows_its_roots(tmp_path: Path) -> None:
    """Some servers request roots after the handshake, and refuse every call until they have processed them."""
    body = """
    ready = [float("inf")]
    def other(m):
        if m.get("method") == "notifications/initialized":
            say({"jsonrpc": "2.0", "id": 1, "method": "roots/list"})
        elif "result" in m: ready[0] = time.monotonic() + 0.04
    def call(m):
        known = time.monotonic() >= ready[0]
        answer(m["id"], text("welcome" if known else "access denied"))
    serve(call)
    """
    async with stdio_source(body, tmp_path) as source:
        outcome = await source.call_tool("echo", {}, CallContext())
        assert isinstance(outcome, msgspec.Raw)
        assert b"welcome" in bytes(outcome)


async def test_the_last_line_of_standard_error_says_why_a_server_ended(tmp_path: Path) -> None:
    """Values of variables that were set for the server are hidden."""
    body = 'print("fatal: no repository,", os.environ["KEY"], file=sys.stderr, flush=True)\nsys.exit(3)'
    async with stdio_source(body, tmp_path, env={"KEY": "canary-value"}) as source:
        await source.list_tools()
        assert (
            source.error == "exited with code 3; it wrote on standard error: fatal: no repository, [hidden]"
        )


async def test_a_secret_of_the_store_becomes_a_variable_of_the_server_at_its_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it is stored then, and hidden in what the server writes."""
    monkeypatch.setattr(redaction, "_values", set())
    asked: list[str] = []

    async def read(name: str) -> str:
        asked.append(name)
        redaction.hide("canary-value")
        return "canary-value"

    body = 'print("I got", os.environ["KEY"], file=sys.stderr, flush=True)\nsys.exit(3)'
    async with stdio_source(body, tmp_path, env_secrets={"KEY": "my.key"}, secrets=read) as source:
        assert asked == []
        await source.list_tools()
        assert source.error == "exited with code 3; it wrote on standard error: I got [hidden]"
        assert asked[0] == "my.key"


async def test_a_server_whose_secret_is_not_stored_does_not_start_and_says_how_to_store_it(
    tmp_path: Path,
) -> None:
    async def read(_: str) -> None:
        return None

    async with stdio_source("sys.exit(3)", tmp_path, env_secrets={"KEY": "my.key"}, secrets=read) as source:
        await source.list_tools()
        assert source.error == 'the secret "my.key" is not set; store it with: lmtb secrets set my.key'
        assert source.status()["pid"] is None


async def test_a_server_that_ends_at_once_is_told_which_variables_are_not_set(tmp_path: Path) -> None:
    """Those that its entry names and whose default was used; one line to add."""
    async with stdio_source("sys.exit(3)", tmp_path, defaulted=("TOKEN", "HOST")) as source:
        await source.list_tools()
        await eventually(lambda: source.error)
        assert source.error is not None
        assert source.error.startswith(
            "exited with code 3; TOKEN, HOST are not set, so the default was used: "
        )
        assert 'write TOKEN=… into a file outside of git and name that file as "env_file"' in source.error


async def test_a_server_that_ends_for_want_of_a_variable_is_told_how_to_pass_it_on(tmp_path: Path) -> None:
    """If the manager has it. Of one that nobody has, or that the server got, nothing is said."""
    words = "SERVICE_TOKEN and OTHER_TOKEN and GIVEN_TOKEN are required, ERROR"
    body = f"print({words!r}, file=sys.stderr, flush=True)\nsys.exit(1)"
    variables = {"SERVICE_TOKEN": "canary-value", "GIVEN_TOKEN": "x"}
    async with stdio_source(body, tmp_path, env={"GIVEN_TOKEN": "x"}, variables=lambda: variables) as source:
        await source.list_tools()
        await eventually(lambda: source.error)
        assert source.error is not None
        line = 'add env = { SERVICE_TOKEN = "${SERVICE_TOKEN}" } to its entry'
        assert source.error.endswith(f"SERVICE_TOKEN is set, but not passed on: {line}")
        assert "canary" not in source.error
        assert source.status()["lacking"] == ["OTHER_TOKEN"]


async def test_a_server_that_hangs_is_replaced_and_never_runs_what_was_sent_to_it(tmp_path: Path) -> None:
    """It is stopped after its start; calls in flight may have run."""
    ran = tmp_path / "ran"
    body = (
        f"def work(m):\n    open({str(ran)!r}, 'a').write(json.dumps(m['params']['arguments']))\n"
        "    answer(m['id'], text(str(os.getpid())))\nserve(work)"
    )
    quick = Timeouts(start_s=5.0, write_s=5.0, polite_s=0.1, term_s=0.1, silent_s=0.1, ping_s=0.3)
    async with stdio_source(body, tmp_path, timeouts=quick) as source:
        first = int(await text(source))
        os.kill(first, signal.SIGSTOP)
        in_flight = asyncio.create_task(call(source, arguments={"in": "flight"}))
        for number in range(2):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await call(source, arguments={"given up": number})
        lost = await in_flight
        assert isinstance(lost, Refusal)
        assert (lost.reason, lost.delivered) == (Reason.SOURCE_UNAVAILABLE, "unknown")
        assert "it hangs" in lost.message
        assert int(await text(source)) != first
    assert ran.read_text() == "{}{}"
