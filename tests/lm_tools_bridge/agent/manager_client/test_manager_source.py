"""The agent uses a real manager and real workspace servers as one of its sources of tools."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from lm_tools_bridge.agent.manager_client.elicitation import Elicitation
from lm_tools_bridge.agent.manager_client.source import ManagerSource
from lm_tools_bridge.agent.tool_source import Outcome
from manager.client import Control
from support.clients.scripted_person import ScriptedPerson
from support.projects.gateway import Gateway, Project, eventually, running_gateway
from support.servers.mcp_sources.stdio_servers import program

pytestmark = pytest.mark.asyncio(loop_scope="module")
ASKS = 'visibility = "native"\nrequires_approval = true\n[parameters.path]\ntype = "string"\n'


class Yes:
    """Approves every call, and remembers what it was asked."""

    def __init__(self, answer: bool = True) -> None:
        self.asked: list[tuple[str, str | None, Mapping[str, Any]]] = []
        self._answer = answer

    async def approve(self, question: str, name: str | None, arguments: Mapping[str, Any]) -> bool:
        self.asked.append((question, name, arguments))
        return self._answer


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    async with running_gateway(tmp_path_factory.mktemp("agent")) as running:
        yield running


@pytest.fixture(scope="module")
def shared_project(gateway: Gateway) -> Project:
    """One for all tests: each would start a server of its own."""
    return gateway.project("proj")


@pytest.fixture
def project(shared_project: Project) -> Iterator[Project]:
    yield shared_project
    shared_project.clear()


class Agent:
    """A source at a project, with the person and the approver behind it."""

    def __init__(self, source: ManagerSource, person: ScriptedPerson, approver: Yes) -> None:
        self.source = source
        self.person = person
        self.approver = approver
        self.progress: list[str] = []

    async def names(self) -> list[str]:
        return [tool.name for tool in await self.source.list_tools()]

    async def call(self, name: str, /, **arguments: Any) -> Outcome:
        return await self.source.call(name, arguments, self.progress.append)


def text_of(outcome: Outcome) -> str:
    return "\n".join(block["text"] for block in outcome.content)


@pytest_asyncio.fixture(loop_scope="module")
async def agents(project: Project) -> AsyncIterator[Any]:
    """Makes agents in the project; ends them at the end."""
    made: list[ManagerSource] = []
    async with aiohttp.ClientSession() as http:

        def make(*answers: Any, approves: bool = True, opened: Any = None, **options: Any) -> Agent:
            person, approver = ScriptedPerson(*answers), Yes(approves)
            elicitation = Elicitation(person, approver, opened)
            members = {"version": "7", "start": None, **options}
            source = ManagerSource(
                project.gateway.manager.address, str(project.root), elicitation, http, **members
            )
            made.append(source)
            return Agent(source, person, approver)

        yield make
        for source in made:
            await source.close()


async def test_the_tools_of_the_folder_are_listed_and_called(project: Project, agents: Any) -> None:
    toml = '[parameters.who]\ntype = "string"'
    project.gateway.user_tool("greet", "import lmtb_tool\nprint('Hello,', lmtb_tool.get('who'))", toml)
    agent = agents()
    tools = {tool.name: tool for tool in await agent.source.list_tools()}
    assert tools["greet"].input_schema["properties"]["who"]["type"] == "string"
    outcome = await agent.call("greet", who="Zoë\n\u2028\\")
    assert (text_of(outcome), outcome.is_error) == ("Hello, Zoë\n\u2028\\", False)
    assert agent.source.state().state == "ready"


async def test_who_asked_is_told_when_the_tools_change(project: Project, agents: Any) -> None:
    agent, told = agents(), asyncio.Event()
    await agent.names()
    unsubscribe = agent.source.on_change(told.set)
    project.gateway.user_tool("greet", "print('Hello')")

    async def is_told() -> bool:
        return told.is_set()

    await eventually(is_told)
    assert "greet" in await agent.names()
    unsubscribe()


@pytest.mark.parametrize("value", ["\t", '"', "}", "😀é", "end\\", "x" * 2**20])
async def test_arguments_reach_a_tool_unchanged(project: Project, agents: Any, value: str) -> None:
    script = "import hashlib, lmtb_tool\nprint(hashlib.sha256(lmtb_tool.get('text').encode()).hexdigest())"
    project.gateway.user_tool("digest", script, '[parameters.text]\ntype = "string"')
    outcome = await agents().call("digest", text=value)
    assert text_of(outcome) == hashlib.sha256(value.encode()).hexdigest()


async def test_calls_go_on_after_the_projects_server_was_killed(project: Project, agents: Any) -> None:
    project.gateway.user_tool("greet", "print('Hello')")
    agent = agents()
    assert text_of(await agent.call("greet")) == "Hello"
    control = Control(project.gateway.manager.paths.control_socket, 30.0)
    [instance] = (await asyncio.to_thread(control.get, "/mcp/status"))["instanceDetails"]
    os.kill(instance["pid"], signal.SIGKILL)

    async def works() -> bool:
        return text_of(await agent.call("greet")) == "Hello"

    await eventually(works, 20)
    assert "greet" in await agent.names()


async def test_status_shows_the_agent_like_any_client(project: Project, agents: Any) -> None:
    agent = agents()
    await agent.names()
    control = Control(project.gateway.manager.paths.control_socket, 30.0)
    status = await asyncio.to_thread(control.get, "/mcp/status")
    assert "lmtb-agent" in json.dumps(status)


async def test_a_new_tool_is_in_the_next_list(project: Project, agents: Any) -> None:
    agent = agents()
    assert "late" not in await agent.names()
    project.gateway.user_tool("late")

    async def is_listed() -> bool:
        return "late" in await agent.names()

    await eventually(is_listed)


async def test_an_unchanged_list_is_not_asked_for_again(agents: Any) -> None:
    agent = agents()

    async def is_settled() -> bool:
        first = await agent.source.list_tools()
        return first is await agent.source.list_tools()

    await eventually(is_settled)


async def test_the_server_asks_for_approval_of_the_call_that_runs(project: Project, agents: Any) -> None:
    project.gateway.user_tool("wipe", "print('wiped')", ASKS)
    agent = agents()
    assert text_of(await agent.call("wipe", path="/x")) == "wiped"
    ((question, name, arguments),) = agent.approver.asked
    assert question.splitlines()[0] == "Run wipe?"
    assert (name, arguments) == ("wipe", {"path": "/x"})
    assert agent.person.prompts == []


async def test_a_declined_approval_is_a_refusal_that_did_not_run(project: Project, agents: Any) -> None:
    project.gateway.user_tool("wipe", "print('wiped')", ASKS)
    outcome = await agents(approves=False).call("wipe", path="/x")
    assert (outcome.is_error, outcome.code, outcome.delivered) == (True, 47121, False)
    assert "Next step: " in text_of(outcome)


async def test_an_unknown_tool_is_an_error_with_its_code(agents: Any) -> None:
    outcome = await agents().call("openllm_secrets_get")
    assert (outcome.is_error, outcome.code) == (True, -32602)
    assert "not found" in text_of(outcome)


async def test_a_failing_tool_is_an_error_with_its_text(project: Project, agents: Any) -> None:
    project.gateway.user_tool("fails", "raise SystemExit('broken pipe in the cellar')")
    outcome = await agents().call("fails")
    assert outcome.is_error
    assert "broken pipe in the cellar" in text_of(outcome)


async def test_cancelling_a_call_ends_it_at_its_server(project: Project, agents: Any, tmp_path: Path) -> None:
    begun, ended = tmp_path / "begun", tmp_path / "ended"
    script = (
        "import pathlib, signal, sys, time\n"
        f"signal.signal(signal.SIGTERM, lambda *_: (pathlib.Path({str(ended)!r}).touch(), sys.exit()))\n"
        f"pathlib.Path({str(begun)!r}).touch()\ntime.sleep(60)"
    )
    project.gateway.user_tool("sleeps", script)
    project.gateway.configure("[tools]\nconfine_scripts = false\n")
    agent = agents()
    call = asyncio.create_task(agent.call("sleeps"))
    await eventually(lambda: _exists(begun), 20)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await eventually(lambda: _exists(ended), 20)


async def _exists(path: Path) -> bool:
    return path.exists()


async def test_a_call_that_takes_too_long_says_so(project: Project, agents: Any) -> None:
    project.gateway.user_tool("sleeps", "import time\ntime.sleep(60)")
    agent = agents(tool_s=1.0)
    await agent.names()
    outcome = await agent.call("sleeps")
    assert (outcome.is_error, outcome.code) == (True, 47104)
    assert "no result within 1 s" in text_of(outcome)


async def test_discovery_mode_lists_little_and_calls_everything(project: Project, agents: Any) -> None:
    project.gateway.user_tool("greet", "print('Hello')")
    agent = agents()
    assert "greet" in await agent.names()
    await agent.source.set_discovery(True)
    names = await agent.names()
    assert "greet" not in names
    assert {"tool_search", "execute_tool"} <= set(names)
    assert text_of(await agent.call("execute_tool", name="greet", arguments={})) == "Hello"
    await agent.source.set_discovery(False)
    assert "greet" in await agent.names()


QUESTIONS = """
tools[:] = [{"name": "form", "inputSchema": {"type": "object"}}, {"name": "page", "inputSchema": {"type": "object"}},
            {"name": "steps", "inputSchema": {"type": "object"}}]
FORM = {"type": "object", "required": ["count"], "properties": {
    "count": {"type": "integer"}, "colour": {"type": "string", "enum": ["red", "blue"]}, "sure": {"type": "boolean"}}}
asked = {}
def call(m):
    name = m["params"]["name"]
    if name == "steps":
        token = m["params"]["_meta"]["progressToken"]
        notify("notifications/progress", {"progressToken": token, "progress": 1, "total": 2, "message": "half\\x1b[2J"})
        answer(m["id"], text("done"))
        return
    asked["q"] = m["id"]
    params = {"message": "Who?", "requestedSchema": FORM} if name == "form" else {
        "mode": "url", "url": "https://example.org/sign?in", "elicitationId": "e", "message": "Sign in"}
    say({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": params})
def other(m):
    if m.get("id") == "q" and "method" not in m:
        answer(asked["q"], text(json.dumps(m.get("result"))))
    elif "id" in m and "method" in m:
        say({"jsonrpc": "2.0", "id": m["id"], "error": {"code": -32601, "message": "no"}})
serve(call)
"""


@pytest_asyncio.fixture(loop_scope="module")
async def asking(project: Project) -> None:
    """The project has a server whose tools ask for a form, for a page, and report progress."""
    command, *arguments = program(QUESTIONS)
    project.servers(third={"command": command, "args": arguments})
    await project.trust()


async def named(agent: Agent, end: str) -> str:
    """The full name of a tool of the project's server, as soon as it is listed."""

    async def found() -> str | None:
        return next((name for name in await agent.names() if name.endswith(end)), None)

    return str(await eventually(found, 20))


async def test_a_form_is_asked_field_by_field_with_checks(asking: None, agents: Any) -> None:
    agent = agents("many", "3", "green", "blue", "y")
    outcome = await agent.call(await named(agent, "form"))
    content = {"count": 3, "colour": "blue", "sure": True}
    assert json.loads(text_of(outcome)) == {"action": "accept", "content": content}
    assert agent.person.prompts == ["count: "] * 2 + ["colour [red/blue], optional: "] * 2 + [
        "sure [y/n], optional: "
    ]
    assert "a whole number is expected" in agent.person.notices


@pytest.mark.parametrize(
    ("typed", "action"), [(None, "decline"), ("/decline", "decline"), ("/cancel", "cancel")]
)
async def test_a_form_can_be_declined_and_cancelled(
    asking: None, agents: Any, typed: str | None, action: str
) -> None:
    agent = agents("3", typed)
    outcome = await agent.call(await named(agent, "form"))
    assert json.loads(text_of(outcome)) == {"action": action}


async def test_the_time_of_the_person_is_not_the_time_of_the_call(asking: None, agents: Any) -> None:
    async def slowly() -> str:
        await asyncio.sleep(1.5)
        return "3"

    agent = agents(slowly, "", "", tool_s=1.2)
    outcome = await agent.call(await named(agent, "form"))
    assert json.loads(text_of(outcome)) == {"action": "accept", "content": {"count": 3}}


@pytest.mark.parametrize(("typed", "action"), [("y", "accept"), ("", "decline"), (None, "decline")])
async def test_a_page_is_shown_and_opened_only_after_yes(
    asking: None, agents: Any, typed: str | None, action: str
) -> None:
    opened: list[str] = []
    agent = agents(typed, opened=opened.append)
    outcome = await agent.call(await named(agent, "page"))
    assert json.loads(text_of(outcome))["action"] == action
    assert "https://example.org/sign?in" in agent.person.shown
    assert opened == (["https://example.org/sign?in"] if action == "accept" else [])


async def test_progress_is_shown_without_its_control_characters(asking: None, agents: Any) -> None:
    agent = agents()
    assert text_of(await agent.call(await named(agent, "steps"))) == "done"
    assert agent.progress == ["half\\x1b[2J (1/2)"]
