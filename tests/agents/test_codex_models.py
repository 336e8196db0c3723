"""Codex with models of its own catalogue, which defer all tools of MCP servers.

With most of them the model writes JavaScript that calls tools and filters their descriptions (`exec`); with
`gpt-5.5` it finds tools by a search of Codex. A model that Codex does not know, as in the other tests, is shown all.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import AsyncIterator, Mapping
from functools import partial
from pathlib import Path

import pytest

from support.clients.agent_table import AGENTS
from support.clients.agent_workplace import NONCE, Workplace, script, workplace_of
from support.clients.agents import KEY, InstalledAgents, Place
from support.projects.script_tools import write_tool
from support.servers.models.formats.steps import Call, ModelRequest

CODE_MODE, SEARCH = "gpt-6.2-sol", "gpt-5.5"
NAMESPACE = "mcp__lm_tools_bridge"
SHOWN = 250
"""Characters of instructions that Codex shows beside the namespace."""
GENERIC = ("symbol", "references", "diagnostics", "script", "server", "project", "search")
"""Words by which models look for tools."""
MAX_REPEATED = 220
"""Characters that may stand behind each tool beside its own description."""


def _configure(model: str, place: Place) -> Mapping[str, str]:
    """A Codex that uses this model, and our manager by its address."""
    settings = f"""
model = "{model}"
model_provider = "scripted"
check_for_update_on_startup = false
[model_providers.scripted]
name = "scripted"
base_url = "{place.model}/v1"
wire_api = "responses"
env_key = "SCRIPTED_KEY"
[analytics]
enabled = false
[projects.{json.dumps(str(place.project))}]
trust_level = "trusted"
[mcp_servers.lm-tools-bridge]
url = "{place.manager}"
env_http_headers = {{ "X-Workspace-Cwd" = "PWD" }}
required = true
"""
    place.write(".codex/config.toml", settings)
    return {"SCRIPTED_KEY": KEY, "CODEX_HOME": str(place.home / ".codex")}


@pytest.fixture
async def codex(
    request: pytest.FixtureRequest, agents: InstalledAgents, tmp_path: Path
) -> AsyncIterator[Workplace]:
    """Codex with a model of its catalogue, and a project with a trusted server and one that waits for trust."""
    agent = dataclasses.replace(AGENTS["codex"], configure=partial(_configure, request.param))
    async with workplace_of(agent, agents, tmp_path.resolve()) as place:
        await place.trust_server()
        waiting = {"mcpServers": {"notes": {"command": "serve-notes"}}}
        (place.project / ".mcp.json").write_text(json.dumps(waiting))
        yield place


with_code = pytest.mark.parametrize("codex", [CODE_MODE], indirect=True)
with_search = pytest.mark.parametrize("codex", [SEARCH], indirect=True)


def runs(code: str) -> Call:
    """The model runs JavaScript."""
    return Call("functions.exec", {"input": code})


def calls(tool: str, **arguments: object) -> Call:
    """The model's JavaScript calls one of our tools."""
    return runs(f"text(await tools.{NAMESPACE}__{tool}({json.dumps(arguments)}))")


def namespace_line(request: ModelRequest) -> str:
    """What the model is shown of all our tools before it looks for any."""
    (line,) = re.findall(rf"- {NAMESPACE}: (.*?)\\n", json.dumps(request.body, ensure_ascii=False))
    return str(line)


@pytest.mark.parametrize("codex", [CODE_MODE, SEARCH], indirect=True)
async def test_the_first_request_names_what_is_behind_and_what_waits_for_trust(codex: Workplace) -> None:
    (first,) = (await codex.work(script())).requests
    line = namespace_line(first)
    assert len(line) <= SHOWN
    assert line.startswith("Gateway to demo")
    assert f"`lmtb trust {codex.project}`: notes." in line
    assert not any(name.startswith(NAMESPACE) for name in first.tools), "they are deferred"


@with_search
async def test_a_search_of_codex_finds_our_tools_and_nothing_of_ours_is_called_like_it(
    codex: Workplace,
) -> None:
    steps = script(Call("tool_search", {"query": "read a file"}), codex.reads("nonce.txt"))
    _, found, read = (await codex.work(steps)).requests
    assert f"{NAMESPACE}.lm_readFile" in found.tools
    assert f"{NAMESPACE}.tool_search" not in found.tools
    assert NONCE in read.last_result


@with_code
async def test_code_calls_our_tools_and_finds_few_by_a_word(codex: Workplace) -> None:
    mine = f"ALL_TOOLS.filter(tool => tool.name.startsWith('{NAMESPACE}__demo__'))"
    lengths = runs(f"text(JSON.stringify({mine}.map(tool => tool.description)))")
    matches = runs(
        f"text(JSON.stringify({json.dumps(GENERIC)}.map(word =>"
        f" {mine}.filter(tool => new RegExp(word).test(tool.description.split('exec tool')[0])).length)))"
    )
    steps = script(calls("lm_readFile", filePath="nonce.txt"), lengths, matches)
    _, read, described, counted = (await codex.work(steps)).requests
    assert NONCE in read.last_result
    descriptions = json.loads(described.last_result.partition("Output:")[2])
    gateway = [
        text[text.index("Gateway to") :].partition("exec tool declaration")[0] for text in descriptions
    ]
    assert len(gateway) > 20
    assert max(map(len, gateway)) <= MAX_REPEATED + len(str(codex.project)) * 2
    counts = dict(zip(GENERIC, json.loads(counted.last_result.partition("Output:")[2]), strict=True))
    assert max(counts.values()) <= 5, f"of {len(gateway)} tools match: {counts}"


@with_code
async def test_tools_that_come_later_are_reached_in_the_same_thread(codex: Workplace) -> None:
    """Codex never lists again."""

    async def comes() -> None:
        write_tool(codex.home.paths.config_dir / "tools", "late", "print('here it is')\n")

    finds = calls("execute_tool", name="tool_search", arguments={"query": "late"})
    reaches = calls("execute_tool", name="late", arguments={})
    steps = script(calls("lm_readFile", filePath="nonce.txt"), finds, reaches, before={2: comes})
    _, _, found, reached = (await codex.work(steps)).requests
    assert '"late"' in found.last_result.replace("\\", "")
    assert "here it is" in reached.last_result
