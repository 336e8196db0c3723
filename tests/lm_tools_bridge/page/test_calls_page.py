"""The pages of recorded calls of a running manager: filters by GET, one call, figures, refusals."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio

from lm_tools_bridge.recorder.call_log import CallLog
from support.processes.managers.manager_in_process import RunningManager, running_manager
from support.recorded_calls import ended

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningManager]:
    folder: Path = tmp_path_factory.mktemp("calls-page")
    async with running_manager(folder) as manager:
        from lm_tools_bridge.recorder.recorder import Limits, Recorder

        writer = Recorder(manager.paths.calls_file, Limits(10**8, 1e6, 1e6))
        for number in range(4):
            writer.observe_call(ended(f"tool-{number}", outcome="error" if number == 2 else "ok"))
        writer.flush()
        yield manager


@pytest_asyncio.fixture(loop_scope="module")
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as http:
        yield http


async def shown(session: aiohttp.ClientSession, manager: RunningManager, path: str) -> tuple[int, str]:
    async with session.get(f"{manager.base}{path}") as response:
        assert response.content_type == "text/html"
        policy = response.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none';")
        assert "form-action 'self'" in policy
        assert response.headers["Cache-Control"] == "no-store"
        return response.status, await response.text()


async def test_filters_in_the_address_choose_among_calls(
    running: RunningManager, session: aiohttp.ClientSession
) -> None:
    code, text = await shown(session, running, "/page/calls")
    assert (code, text.count('href="/page/call?id=')) == (200, 4)
    code, text = await shown(session, running, "/page/calls?errors=1&tool=tool-*")
    assert (code, text.count('href="/page/call?id=')) == (200, 1)
    assert ">tool-2<" in text


async def test_one_call_has_a_page_of_its_own(
    running: RunningManager, session: aiohttp.ClientSession
) -> None:
    with CallLog.open(running.paths.calls_file) as log:
        number = log.last_id()
    code, text = await shown(session, running, f"/page/call?id={number}")
    assert code == 200
    assert f"lmtb replay {number}" in text
    assert (await shown(session, running, "/page/call?id=99999"))[0] == 404
    assert (await shown(session, running, "/page/call?id=x"))[0] == 400


async def test_figures_count_each_tool_and_client(
    running: RunningManager, session: aiohttp.ClientSession
) -> None:
    code, text = await shown(session, running, "/page/calls/figures?tool=tool-2")
    assert code == 200
    assert "Tokens (about)" in text
    assert "/page/calls?tool=tool-2&amp;client=agent" in text


async def test_a_wrong_field_is_400_with_a_sentence(
    running: RunningManager, session: aiohttp.ClientSession
) -> None:
    code, text = await shown(session, running, "/page/calls?since=soon")
    assert code == 400
    assert "length of time" in text


async def test_pages_of_others_cannot_read_calls(
    running: RunningManager, session: aiohttp.ClientSession
) -> None:
    for headers in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "same-site"}):
        async with session.get(f"{running.base}/page/calls", headers=headers) as response:
            assert response.status == 403
    async with session.post(f"{running.base}/page/calls", json={}) as response:
        assert response.status == 405


async def test_a_lookup_does_not_hold_the_event_loop(
    running: RunningManager, session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    import threading

    begun, release = threading.Event(), threading.Event()

    def slow(*_: object) -> list[object]:
        begun.set()
        release.wait(10)
        return []

    monkeypatch.setattr(CallLog, "find", slow)
    page = asyncio.create_task(shown(session, running, "/page/calls"))
    await asyncio.to_thread(begun.wait, 10)
    async with session.get(f"{running.base}/mcp/health") as response:
        assert response.status == 200, "others are served meanwhile"
    release.set()
    assert (await page)[0] == 200
