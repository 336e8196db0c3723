"""Each kind of language server runs once for all callers, and is replaced when it fails."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from lm_tools_bridge.code_intelligence.server import RequestTimedOut, ServerGone, Unavailable
from lm_tools_bridge.code_intelligence.server_process.running_server import RunningServer
from support.processes.child_processes import alive, until
from support.servers.language_servers.scripted_kinds import LIMITS, Pooled, pooled

PID = "serve(lambda m: 'id' in m and (answer(m, os.getpid()) if m['method'] == 'pid' else os._exit(7)))"
FILE = Path("/x/a.txt")


async def server_of(pooled: Pooled) -> RunningServer:
    [found] = await pooled.pool.for_file(FILE, "symbols")
    assert isinstance(found, RunningServer), found
    return found


async def unavailable(pooled: Pooled) -> Unavailable:
    [found] = await pooled.pool.for_file(FILE, "symbols")
    assert isinstance(found, Unavailable)
    return found


async def test_nothing_starts_before_it_is_needed(tmp_path: Path) -> None:
    async with pooled(PID, tmp_path) as made:
        assert [kind.name for kind in made.pool.known_kinds()] == ["scripted"]
        assert [kind.name for kind in made.pool.runnable()] == ["scripted"]
        assert await made.pool.for_file(Path("/x/a.unknown"), "symbols") == []
        assert await made.pool.server_named("unknown") is None
        assert made.pool.find("unknown") is None
        assert made.pool.find("scripted") == made.kinds.kinds["scripted"]
        assert made.pool.status() == []
        assert made.syncs == []


async def test_fifty_callers_share_one_process_that_knows_all_changes(tmp_path: Path) -> None:
    async with pooled(PID, tmp_path) as made:
        servers = await asyncio.gather(*(server_of(made) for _ in range(50)))
        pids = await asyncio.gather(*(server.request("pid") for server in servers))
        named = await made.pool.server_named("scripted")
        assert (len(set(pids)), named) == (1, servers[0])
        [sync] = made.syncs
        assert len(sync.said("tell_changes")) == 51
        [status] = made.pool.status()
        assert (status.name, status.state, status.version) == ("scripted", "ready", "0.5")
        assert (status.pid, status.open_documents) == (pids[0], 3)
    assert not alive(pids[0])


async def test_a_crashed_server_is_started_again_and_told_so(tmp_path: Path) -> None:
    async with pooled(PID, tmp_path) as made:
        first = await server_of(made)
        with pytest.raises(ServerGone):
            await first.request("crash")
        assert made.pool.status()[0].state == "backoff"
        second = await server_of(made)
        assert await second.request("pid") != first.pid
        [status] = made.pool.status()
        assert (status.state, status.restarts, status.error) == ("ready", 1, "scripted exited with code 7")


async def test_a_server_that_never_starts_is_tried_less_and_less_often(tmp_path: Path) -> None:
    async with pooled("open(os.environ['COUNT'], 'a').write('x'); sys.exit('no library')", tmp_path) as made:
        count = tmp_path / "count"
        made.kinds.env["COUNT"] = str(count)
        for _ in range(4):  # after pauses of 0.5, 1 and 2 s; the next is 4 s, which no caller waits for
            found = await unavailable(made)
        asked = await asyncio.gather(*(unavailable(made) for _ in range(20)))
    assert count.read_text() == "xxxx"
    assert found.state == "failed"
    assert "it wrote on standard error: no library" in found.reason
    assert all("it is started again in 4 s" in one.reason for one in asked)


async def test_a_server_that_hangs_is_replaced(tmp_path: Path) -> None:
    hangs_once = """
        hung = os.path.exists("hung")
        open("hung", "w").close()
        serve(echo if hung else lambda m: time.sleep(1000))
    """
    async with pooled(hangs_once, tmp_path) as made:
        first = await server_of(made)
        with pytest.raises(RequestTimedOut):
            await first.request("slow", timeout_s=0.1)
        await until(lambda: first.ended)
        second = await server_of(made)
        assert await second.request("echo", 5) == 5
        assert "hangs" in str(made.pool.status()[0].error)
        await until(lambda: not alive(first.pid))


async def test_a_server_that_cannot_take_in_a_change_is_replaced_for_all(tmp_path: Path) -> None:
    async with pooled(PID, tmp_path) as made:
        first = await server_of(made)
        made.syncs[0].is_outdated = True
        later = await asyncio.gather(*(server_of(made) for _ in range(10)))
        assert {server.pid for server in later} == {later[0].pid} != {first.pid}
        [status] = made.pool.status()
        assert (status.state, status.restarts, status.error) == ("ready", 0, None)
        await until(lambda: not alive(first.pid))


async def test_a_restart_starts_all_anew_whatever_failed_before(tmp_path: Path) -> None:
    async with pooled({"good": PID, "bad": "sys.exit('no library')"}, tmp_path) as made:
        good = next(
            one for one in await made.pool.for_file(FILE, "symbols") if isinstance(one, RunningServer)
        )
        for _ in range(4):
            found = await made.pool.server_named("bad")
        assert "it is started again in 4 s" in str(found)
        made.pool.restart()
        again = await made.pool.server_named("bad")
        assert "it is started again in" not in str(again)
        assert (await made.pool.server_named("good")) != good
        await until(lambda: not alive(good.pid))


async def test_an_idle_server_is_stopped_and_started_when_needed(tmp_path: Path) -> None:
    async with pooled(PID, tmp_path, replace(LIMITS, idle_s=0.2)) as made:
        first = await server_of(made)
        await until(lambda: made.pool.status()[0].state == "idle", seconds=5)
        await until(lambda: not alive(first.pid))
        second = await server_of(made)
        assert second.pid != first.pid
        assert made.pool.status()[0].restarts == 0


async def test_a_kind_may_have_an_idle_time_of_its_own(tmp_path: Path) -> None:
    async with pooled(PID, tmp_path) as made:
        made.kinds.limits["idle_s"] = 0.2
        pid = await (await server_of(made)).request("pid")
        await until(lambda: made.pool.status()[0].state == "idle")
        await until(lambda: not alive(pid))


async def test_a_kind_may_have_a_memory_limit_of_its_own(tmp_path: Path) -> None:
    async with pooled(PID, tmp_path, measure=lambda _: 5 * 2**30) as made:
        await server_of(made)
        made.kinds.limits["memory_limit_bytes"] = 4 * 2**30
        await server_of(made)
        await until(lambda: "the limit is 4.0 GiB" in (made.pool.status()[0].error or ""))


async def test_a_server_that_works_is_not_idle(tmp_path: Path) -> None:
    body = "serve(lambda m: 'id' in m and (time.sleep(0.6), answer(m, 1)))"
    async with pooled(body, tmp_path, replace(LIMITS, idle_s=0.1)) as made:
        assert await (await server_of(made)).request("x") == 1


async def test_a_server_that_uses_too_much_memory_is_replaced(tmp_path: Path) -> None:
    used = {"bytes": 5 * 2**30}
    limits = replace(LIMITS, memory_bytes=4 * 2**30)
    async with pooled(PID, tmp_path, limits, measure=lambda pid: used["bytes"]) as made:
        first = await server_of(made)
        await until(lambda: first.ended)
        used["bytes"] = 2**30
        second = await server_of(made)
        await until(lambda: made.pool.status()[0].memory_bytes == 2**30)
        assert second.ended is None
        assert made.pool.status()[0].error == (
            "scripted was ended: it used 5.0 GiB of memory; the limit is 4.0 GiB"
        )


@pytest.mark.parametrize(
    ("limits", "state"), [({"idle_s": 0.2}, "idle"), ({"memory_limit_bytes": 2**20}, "backoff")]
)
async def test_limits_of_a_kind_replace_the_usual_ones(
    tmp_path: Path, limits: dict[str, Any], state: str
) -> None:
    async with pooled(PID, tmp_path) as made:
        made.kinds.limits = limits
        await server_of(made)
        await until(lambda: made.pool.status()[0].state == state, seconds=5)


async def test_values_of_its_variables_are_in_no_text_about_its_end(tmp_path: Path) -> None:
    async with pooled("sys.exit('token ' + os.environ['TOKEN'])", tmp_path) as made:
        made.kinds.env["TOKEN"] = "s3cret-value"
        reason = (await unavailable(made)).reason
    assert "s3cret" not in reason
    assert "token [hidden]" in reason


async def test_the_memory_of_a_server_includes_what_it_started(tmp_path: Path) -> None:
    body = """
        import subprocess
        child = subprocess.Popen([sys.executable, "-c", "x = bytearray(60_000_000); input()"], stdin=subprocess.PIPE)
        serve()
    """
    async with pooled(body, tmp_path) as made:
        server = await server_of(made)
        await until(lambda: (made.pool.status()[0].memory_bytes or 0) > 60_000_000, seconds=10)
        children = psutil.Process(server.pid).children()
    assert not any(alive(child.pid) for child in children)


async def test_trust_that_is_taken_away_ends_the_server(tmp_path: Path) -> None:
    async with pooled(PID, tmp_path) as made:
        server = await server_of(made)
        made.kinds.forbid("scripted")
        assert (await unavailable(made)).state == "untrusted"
        await until(lambda: not alive(server.pid))
        assert made.pool.runnable() == []
        assert made.pool.find("scripted") == made.kinds.unavailable["scripted"]


async def test_a_server_whose_program_or_settings_change_is_replaced(tmp_path: Path) -> None:
    async with pooled(PID, tmp_path) as made:
        first = await server_of(made)
        made.kinds.env["MORE"] = "1"
        second = await server_of(made)
        made.kinds.kinds["scripted"] = replace(made.kinds.kinds["scripted"], settings={"a": 1})
        third = await server_of(made)
        assert len({first.pid, second.pid, third.pid}) == 3
        assert not alive(first.pid)


async def test_of_alternatives_the_first_that_runs_is_asked(tmp_path: Path) -> None:
    async with pooled({"best": "sys.exit(1)", "good": PID, "poor": PID}, tmp_path) as made:
        made.kinds.groups = [["best", "good", "poor"]]
        good, failed = await made.pool.for_project("diagnostics")
        assert isinstance(good, RunningServer)
        assert isinstance(failed, Unavailable)
        assert (good.specification.name, failed.specification.name) == ("good", "best")
        made.kinds.forbid("best", "missing")
        assert await made.pool.for_project("diagnostics") == [good]
        made.kinds.limit("good", "found by syntax alone")
        found = await made.pool.for_project("diagnostics")
        assert [type(one).__name__ for one in found] == ["RunningServer", "Unavailable"]
        made.kinds.forbid("good")
        made.kinds.forbid("poor")
        states = [one.state for one in await made.pool.for_project("symbols") if isinstance(one, Unavailable)]
        assert states == ["missing", "untrusted", "untrusted"]


async def test_a_slow_server_delays_no_other(tmp_path: Path) -> None:
    slow = "read(); time.sleep(30)"
    async with pooled({"slow": slow, "quick": PID}, tmp_path, replace(LIMITS, wait_s=4)) as made:
        failed, quick = await made.pool.for_project("symbols")
        assert isinstance(quick, RunningServer)
        assert isinstance(failed, Unavailable)
        assert failed.reason == "slow is still starting; ask again"


async def test_a_call_waits_for_a_start_no_longer_than_it_says_and_the_start_goes_on(tmp_path: Path) -> None:
    slow = "read(); time.sleep(2.5); serve()"
    async with pooled({"slow": slow, "quick": PID}, tmp_path) as made:
        begun = asyncio.get_running_loop().time()
        starting, quick = await made.pool.for_project("symbols", wait_s=0)
        assert asyncio.get_running_loop().time() - begun < 2.4
        assert isinstance(quick, RunningServer)
        assert isinstance(starting, Unavailable)
        assert (starting.state, starting.reason) == ("starting", "slow is still starting; ask again")
        assert starting.specification.name == "slow"
        await until(lambda: len(made.syncs) == 2)


async def test_servers_that_are_not_asked_are_not_started(tmp_path: Path) -> None:
    async with pooled({"one": PID, "other": PID}, tmp_path) as made:
        (asked,) = await made.pool.for_project("symbols", is_asked=lambda kind: kind.name == "other")
        assert isinstance(asked, RunningServer)
        assert asked.specification.name == "other"
        assert [status.name for status in made.pool.status()] == ["other"]


async def test_a_caller_that_gives_up_does_not_stop_the_start(tmp_path: Path) -> None:
    body = "time.sleep(0.5); serve()"
    async with pooled(body, tmp_path) as made:
        task = asyncio.create_task(server_of(made))
        await until(lambda: made.syncs)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        server = await server_of(made)
        assert len(made.syncs) == 1
        assert server.ended is None


@pytest.mark.parametrize("fault", [ValueError("x"), ServerGone("it is gone")])
async def test_a_part_that_cannot_start_is_a_failed_server(
    tmp_path: Path, fault: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(self: Any) -> None:
        raise fault

    monkeypatch.setattr("support.servers.language_servers.scripted_language_server.RecordedSync.begin", fails)
    async with pooled("serve()", tmp_path) as made:
        assert (await unavailable(made)).state == "failed"


@pytest.mark.parametrize(
    "body", [PID, "read(); time.sleep(60)", "import signal; signal.signal(15, 1); serve()"]
)
async def test_closing_ends_everything_and_starts_nothing(tmp_path: Path, body: str) -> None:
    async with pooled(body, tmp_path) as made:
        task = asyncio.create_task(made.pool.for_file(FILE, "symbols"))
        await until(lambda: made.syncs)
        started = asyncio.get_running_loop().time()
        await made.pool.close()
        await made.pool.close()
        assert asyncio.get_running_loop().time() - started < 5
        await asyncio.gather(task, return_exceptions=True)
        assert (await unavailable(made)).reason == "scripted was stopped"
        peer = made.syncs[0].peer
        assert isinstance(peer, RunningServer)
        assert not alive(peer.pid)
        assert len(made.syncs) == 1
