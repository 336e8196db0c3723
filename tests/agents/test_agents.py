"""Agent programs that others wrote work through the manager, as their users configure them.

Each is run headless. A scripted model decides what it does, and records which tools it was offered.
"""

from __future__ import annotations

import json

import pytest

from manager.routing.client_profiles import client_traits, profile_of
from support.clients.agent_workplace import NONCE, OTHER_NONCE, SLOW_S, Workplace, after_first, script
from workspace_server.tool_search.definitions import search_name

TEXT = "größe ☕"
PROMISING = """
tools.append({"name": "promising", "inputSchema": {"type": "object"}, "outputSchema": {"type": "object"}})
serve(lambda m: answer(m["id"], m["params"]["arguments"]))
"""


async def test_built_in_tools_are_in_the_first_request_and_can_be_called(workplace: Workplace) -> None:
    model = await workplace.work(script(workplace.reads("nonce.txt")))
    first, second = model.requests
    assert "lm_readFile" in workplace.offered(first), sorted(first.tools)
    assert NONCE in second.last_result


async def test_a_call_after_a_crash_of_the_manager_succeeds(workplace: Workplace) -> None:
    """The model has its first result when the manager is killed, and another one is there when it goes on."""
    steps = script(workplace.reads("nonce.txt"), workplace.reads("other.txt"), before={2: workplace.crash})
    model = await workplace.work(steps)
    assert NONCE in model.requests[1].last_result
    assert OTHER_NONCE in model.requests[2].last_result


async def test_a_call_after_a_restart_of_the_manager_succeeds(workplace: Workplace) -> None:
    """It is stopped in order, with its servers."""
    steps = script(workplace.reads("nonce.txt"), workplace.reads("other.txt"), before={2: workplace.restart})
    model = await workplace.work(steps)
    assert OTHER_NONCE in model.requests[2].last_result


async def test_a_call_after_a_crash_of_the_workspace_server_succeeds(workplace: Workplace) -> None:
    reading = (workplace.reads("nonce.txt"), workplace.reads("other.txt"))
    model = await workplace.work(script(*reading, before={2: workplace.kill_server}))
    assert OTHER_NONCE in model.requests[2].last_result


@pytest.mark.parametrize("workplace", ["claude-code", "codex", "gemini-cli", "opencode"], indirect=True)
async def test_it_accepts_the_file_that_we_write_and_doctor_agrees(workplace: Workplace) -> None:
    listed = await workplace.lists_servers()
    assert "lm-tools-bridge" in listed
    if workplace.agent.client != "codex-mcp-client":  # which only prints the configuration
        assert "onnected" in listed and "isconnected" not in listed, listed
    title = profile_of(workplace.agent.client).title
    doctor = await workplace.as_its_user("doctor", "--json")
    found = [one for one in json.loads(doctor.out)["checks"] if one["check"] == title]
    assert [one["level"] for one in found] == ["ok"], found
    assert f"{workplace.project}, found by" in found[0]["message"]


async def test_its_user_sees_it_by_name_and_with_its_project(workplace: Workplace) -> None:
    seen: list[str] = []

    async def look() -> None:
        seen.extend([(await workplace.home.lmtb(verb)).out for verb in ("whoami", "sessions")])

    await workplace.work(script(workplace.reads("nonce.txt"), before={2: look}))
    whoami, sessions = seen
    assert f"{workplace.agent.introduction}  (" in whoami
    assert str(workplace.project) in whoami
    has_session = "(sessions " in whoami
    assert (workplace.agent.client in sessions) == has_session, sessions


async def test_tools_of_a_trusted_server_are_in_the_first_request(workplace: Workplace) -> None:
    """It starts slowly, but `lmtb trust` started it once: its list is known."""
    await workplace.trust_server(SLOW_S)
    model = await workplace.work(script(workplace.calls("demo__text", text=TEXT)))
    first, second = model.requests
    assert {"lm_readFile", "demo__text"} <= workplace.offered(first)
    assert TEXT in second.last_result


async def test_the_model_sees_all_of_a_result_whichever_part_says_it(workplace: Workplace) -> None:
    """Gemini CLI shows only text, and Claude Code and Codex only structured content where there is any."""
    await workplace.trust_program(PROMISING)
    alone = {"content": [], "structuredContent": {"number": 4711}}
    beside = {"content": [{"type": "text", "text": "in words"}], "structuredContent": {"number": 4712}}
    link = {"type": "resource_link", "uri": "file:///report.md", "name": "report"}
    steps = script(
        workplace.calls("demo__echo", **alone),
        workplace.calls("demo__echo", **beside),
        workplace.calls("demo__promising", **beside),
        workplace.calls("demo__echo", content=[link]),
        workplace.reads("nonce.txt"),
    )
    _, first, second, promised, linked, read = (await workplace.work(steps)).requests
    assert "4711" in first.last_result
    assert "in words" in second.last_result
    assert "4712" in second.last_result
    assert "4712" in promised.last_result
    assert "file:///report.md" in linked.last_result
    assert read.last_result.count(NONCE) == 1


@pytest.mark.parametrize("workplace", ["claude-code", "codex", "qwen-code", "cline"], indirect=True)
async def test_an_agent_that_does_not_wait_can_call_tools_of_a_starting_server(workplace: Workplace) -> None:
    """It has the built-in tools at once, and a tool that waits for the others."""
    workplace.add_server(SLOW_S)
    model = await workplace.work(script(workplace.executes("demo__text", text=TEXT)))
    first, second = model.requests
    search = search_name(client_traits(profile_of(workplace.agent.client)))
    assert {"lm_readFile", search, "execute_tool"} <= workplace.offered(first)
    assert "demo__text" not in workplace.offered(first)
    assert TEXT in second.last_result


@pytest.mark.parametrize("workplace", ["claude-code"], indirect=True)
async def test_tools_of_a_server_that_started_late_join_the_list(workplace: Workplace) -> None:
    """The model goes on when the server runs, and calls its tool as soon as it is offered."""
    workplace.add_server(SLOW_S)
    steps = workplace.calls_once_offered(
        workplace.calls("demo__text", text=TEXT), workplace.reads("nonce.txt")
    )
    model = await workplace.work(after_first(workplace.server_runs, steps))
    assert "lm_readFile" in workplace.offered(model.requests[0])
    assert "demo__text" not in workplace.offered(model.requests[0])
    assert TEXT in model.requests[-1].last_result


@pytest.mark.parametrize(
    "workplace", ["gemini-cli", "opencode", "copilot-cli", "kilo", "continue"], indirect=True
)
async def test_an_agent_that_waits_has_all_tools_in_its_first_request(workplace: Workplace) -> None:
    workplace.add_server(SLOW_S)
    model = await workplace.work(script(workplace.calls("demo__text", text=TEXT)))
    first, second = model.requests
    assert {"lm_readFile", "demo__text"} <= workplace.offered(first)
    assert TEXT in second.last_result


@pytest.mark.parametrize(
    "workplace", ["claude-code", "gemini-cli", "opencode", "copilot-cli", "kilo"], indirect=True
)
async def test_a_tool_that_appears_during_the_work_joins_the_list(workplace: Workplace) -> None:
    await workplace.trust_server()
    appears, appeared = workplace.calls("demo__change_tools"), workplace.calls("demo__appeared")
    model = await workplace.work(workplace.calls_once_offered(appeared, appears))
    assert "demo__appeared" not in workplace.offered(model.requests[0])
    assert "appeared" in model.requests[-1].last_result
