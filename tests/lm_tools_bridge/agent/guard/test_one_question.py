"""A call whose server asks for approval is asked for once, by the guard, with a real manager behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aiohttp
import pytest

from lm_tools_bridge.agent.agent_settings import AgentSettings
from lm_tools_bridge.agent.guard.guard import AskingGuard
from lm_tools_bridge.agent.manager_client.elicitation import Elicitation
from lm_tools_bridge.agent.manager_client.source import ManagerSource
from lm_tools_bridge.agent.messages import Call
from support.clients.scripted_person import ScriptedPerson
from support.projects.gateway import running_gateway

pytestmark = pytest.mark.processes

ASKS = 'requires_approval = true\n[parameters.path]\ntype = "string"\n'


@pytest.mark.parametrize(
    ("human_in_loop", "answers", "prompts", "text"),
    [
        (True, ["y"], ["Execute? ([y]/n): "], "wiped"),
        (False, ["y"], ["Execute? (y/[n]): "], "wiped"),
        (False, [""], ["Execute? (y/[n]): "], "User denied execution of wipe"),
    ],
)
async def test_one_call_is_one_question(
    tmp_path: Path, human_in_loop: bool, answers: list[str], prompts: list[str], text: str
) -> None:
    """Switched off, the guard asks nothing, and the server's question is the only one."""
    person = ScriptedPerson(*answers)
    guard = AskingGuard(person, AgentSettings(human_in_loop=human_in_loop), None)
    async with running_gateway(tmp_path) as gateway, aiohttp.ClientSession() as http:
        gateway.user_tool("wipe", "print('wiped')", ASKS)
        root, address = gateway.project("proj").root, gateway.manager.address
        source = ManagerSource(address, str(root), Elicitation(person, guard), http, start=None)
        tool = next(tool for tool in await source.list_tools() if tool.name == "wipe")
        arguments: dict[str, Any] = {"path": "/x\ny"}
        decision = await guard.decide(Call("1", "wipe", arguments), tool)
        outcome = await source.call("wipe", decision.arguments, lambda _: None)
        await source.close()
    assert text in outcome.content[0]["text"]
    assert person.prompts == prompts
