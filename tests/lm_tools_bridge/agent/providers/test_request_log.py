"""Tests the log of requests: what it tells, that it is private and bounded, and what it never holds."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.agent.messages import (
    AssistantMessage,
    Call,
    ModelEvent,
    ModelRequest,
    ProviderFailure,
    Result,
    SystemMessage,
    TextPart,
    ToolMessage,
    UserMessage,
)
from lm_tools_bridge.agent.providers import request_log
from lm_tools_bridge.agent.providers.request_log import LoggedProvider, RequestLog, is_wanted
from support.agent_doubles import ScriptedProvider, Step, call, calling, saying
from support.clock import ManualClock

CANARY = "canary-4711"
HISTORY = (
    SystemMessage(CANARY),
    UserMessage(f"say {CANARY}"),
    AssistantMessage(CANARY, (Call("1", "read", {"path": CANARY}),)),
    ToolMessage(Result("1", "read", CANARY)),
)


async def lines(folder: Path, *replies: list[Step]) -> list[dict[str, Any]]:
    """What is logged of these replies."""
    log = RequestLog(folder)
    provider = LoggedProvider(ScriptedProvider(*replies), log, ManualClock())
    for _ in replies:
        try:
            async for _ in provider.reply(ModelRequest("small", HISTORY, (), True, 4096)):
                pass
        except ProviderFailure:
            pass
    log.close()
    return [json.loads(line) for line in log.file.read_text().splitlines()]


async def test_a_request_is_told_in_numbers(tmp_path: Path) -> None:
    [line] = await lines(tmp_path, saying("hello", tokens=70))
    assert (line["provider"], line["model"], line["outcome"]) == ("ollama", "small", "completed")
    assert (line["messages"], line["characters"], line["reply_characters"]) == (4, 4 * len(CANARY) + 4, 5)
    assert (line["prompt_count"], line["window"], line["calls"]) == (70, 4096, 0)


async def test_nothing_that_was_said_is_logged(tmp_path: Path) -> None:
    failure = ProviderFailure("ollama", f"the request was refused (400: {CANARY})", CANARY)
    found = await lines(tmp_path, saying(CANARY), calling(call("read", path=CANARY)), [failure])
    assert [line["outcome"] for line in found][2] == "failed: the request was refused (400"
    assert CANARY not in (tmp_path / request_log.FILE).read_text()


class Broken(ScriptedProvider):
    """A provider with a fault of its own."""

    async def reply(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        yield TextPart("begun")
        raise ValueError(CANARY)


@pytest.mark.parametrize(
    ("close", "outcome"), [("raise", "fault: ValueError"), ("cancel", "cancelled"), ("leave", "cancelled")]
)
async def test_only_what_was_cancelled_is_called_so(tmp_path: Path, close: str, outcome: str) -> None:
    log = RequestLog(tmp_path)
    request, stuck = ModelRequest("small", HISTORY, (), True, 4096), asyncio.Event()
    inner = Broken() if close == "raise" else ScriptedProvider([TextPart("begun"), stuck])
    events = LoggedProvider(inner, log, ManualClock()).reply(request)
    assert await anext(events) == TextPart("begun")
    if close == "leave":
        await events.aclose()
    else:
        reading = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        if close == "cancel":
            reading.cancel()
        [ended] = await asyncio.gather(reading, return_exceptions=True)
        assert type(ended) is (ValueError if close == "raise" else asyncio.CancelledError)
    log.close()
    text = log.file.read_text()
    assert json.loads(text)["outcome"] == outcome
    assert CANARY not in text


async def test_the_log_is_private_and_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_log, "MOST", 1000)
    folder = tmp_path / "logs"
    await lines(folder, *(saying("x") for _ in range(20)))
    files = sorted(folder.iterdir())
    assert [file.name for file in files] == ["agent-debug.log", "agent-debug.log.1"]
    assert all(file.stat().st_size <= 1000 for file in files)
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


@pytest.mark.parametrize(
    ("setting", "variable", "wanted"),
    [(False, None, False), (True, None, True), (False, "1", True), (False, "0", False), (False, "", False)],
)
def test_setting_or_variable_switch_it_on(setting: bool, variable: str | None, wanted: bool) -> None:
    environ = {} if variable is None else {"LMTB_AGENT_DEBUG": variable}
    assert is_wanted(setting, environ) is wanted
