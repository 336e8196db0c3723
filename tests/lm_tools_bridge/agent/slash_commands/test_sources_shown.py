"""`/servers` shows every source with its state, `/toggle` and `/tools` switch, `/list` shows a tool."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from lm_tools_bridge.agent.conversation.toolbox import Toolbox
from lm_tools_bridge.agent.slash_commands.tool_commands import list_tools, servers, toggle, tools
from support.agent_doubles import ListedTools
from support.clients.scripted_person import ScriptedPerson


class Person(ScriptedPerson):
    """Keeps the lines of tables."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[str] = []

    def lines(self, lines: Sequence[str]) -> None:
        self.rows.extend(lines)


async def shown(answer: dict[str, Any]) -> Person:
    async def lmtb(*words: str) -> dict[str, Any]:
        assert words == ("servers",)
        return answer

    person = Person()
    session: Any = SimpleNamespace(screen=person, toolbox=Toolbox([ListedTools("read")]), lmtb=lmtb)
    await servers(session, "")
    return person


async def test_servers_are_shown_with_their_programs_and_addresses() -> None:
    person = await shown(
        {
            "ok": True,
            "sources": [
                {"id": "stdio:git", "state": "ready", "program": "uvx", "pid": 7},
                {"id": "remote:web", "state": "auth_required", "origin": "https://example.org"},
                {"id": "stdio:new", "state": "pending_trust", "error": "not trusted yet"},
                {"id": "stdio:bad", "state": "failed", "program": "bad", "error": "it ended"},
                {"id": "stdio:off", "state": "disabled"},
            ],
        }
    )
    words = [[word for word in row.split() if word != "-"] for row in person.rows]
    assert ["stdio:git", "ACTIVE", "stdio", "uvx"] in words
    assert ["remote:web", "PENDING", "remote", "https://example.org"] in words
    assert ["stdio:new", "PENDING", "stdio", "not", "trusted", "yet"] in words
    assert ["stdio:bad", "ERROR", "stdio", "bad", "it", "ended"] in words
    assert ["stdio:off", "DISABLED", "stdio"] in words


async def test_without_an_answer_of_the_manager_its_own_sources_are_shown() -> None:
    person = await shown(
        {"ok": False, "error": {"message": "no manager is running", "nextStep": "run: lmtb up"}}
    )
    assert any(row.split()[:2] == ["local", "ACTIVE"] for row in person.rows)
    assert person.notices == ["the workspace's sources are not known: no manager is running; run: lmtb up"]


@pytest.mark.parametrize("name", ["stdio:git", "git"])
async def test_a_source_of_the_workspace_is_switched_elsewhere(name: str) -> None:
    async def lmtb(*words: str) -> dict[str, Any]:
        assert words == ("servers",)
        return {"ok": True, "sources": [{"id": "stdio:git", "state": "ready"}]}

    person = Person()
    session: Any = SimpleNamespace(screen=person, toolbox=Toolbox([ListedTools("read")]), lmtb=lmtb)
    await toggle(session, name)
    assert person.notices == [
        "stdio:git belongs to the workspace and cannot be switched here: set enabled in its entry of "
        "workspace.toml, or switch its tools one by one with /tools NAME off"
    ]


async def test_a_tool_of_the_agent_is_switched_for_this_session() -> None:
    person = Person()
    toolbox = Toolbox([ListedTools("os_assistant_uptime", name="os_assistant")])
    session: Any = SimpleNamespace(screen=person, toolbox=toolbox)
    await tools(session, "os_assistant_uptime off")
    assert person.notices == ["os_assistant_uptime is off in this session"]
    assert toolbox.disabled == {"os_assistant_uptime"}


async def test_a_tool_is_shown_with_what_the_provider_is_not_given() -> None:
    person = Person()
    session: Any = SimpleNamespace(
        screen=person, toolbox=Toolbox([ListedTools("read")]), conversation=SimpleNamespace(provider="gemini"),
        schema_changes=lambda schema: ["additionalProperties was dropped"],
    )  # fmt: skip
    await list_tools(session, "read")
    assert person.rows[0] == "read, from local"
    assert person.rows[-2:] == ["changed for gemini:", "  additionalProperties was dropped"]
