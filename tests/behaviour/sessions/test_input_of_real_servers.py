"""Real servers ask for input during a call: elicitation, sampling, roots, log messages.

The servers use pipes and HTTP and send requests of their own (MCP ≤ 2025-11-25). `test_input_requests.py` has the
details for session clients.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import mcp
import mcp_types as types
import pytest
import pytest_asyncio

from lm_tools_bridge.protocol import names
from support.clients.raw_clients import Answer, StatelessClient
from support.projects.gateway import FORMS, Gateway, Project, eventually
from support.servers.mcp_sources.stdio_servers import program
from support.servers.sdk_servers.third_party import ThirdParty, stdio_command

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.processes]

EVERY_CLIENT = pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])
EVERY_SERVER = pytest.mark.parametrize("server", ["pipes", "http", "new"])
ROOT = "file:///somewhere/else"
ASKER = """
tools[:] = [{"name": name, "inputSchema": {"type": "object"}} for name in ("ask", "late", "quick", "page", "die", "cancelled")]
asked, ended, late = {}, [], []
def ask(id, name):
    asked["q%d" % id] = id
    say({"jsonrpc": "2.0", "id": "q%d" % id, "method": "elicitation/create",
         "params": {"message": name, "requestedSchema": {"type": "object", "properties": {}}}})
def call(m):
    name, id = m["params"]["name"], m["id"]
    if name == "page":
        error = {"code": -32042, "message": "open it", "data": {"elicitations": [
            {"mode": "url", "elicitationId": "e", "url": "https://example.com/x", "message": "Please"}]}}
        say({"jsonrpc": "2.0", "id": id, "error": error})
    elif name == "die":
        os._exit(3)
    elif name == "cancelled":
        answer(id, text(json.dumps(ended)))
    elif name == "late":
        late.append(id)
    elif name == "quick":
        for one in late: ask(one, "late")
        answer(id, text(str(len(late))))
        late.clear()
    else:
        ask(id, name)
def other(m):
    if m.get("id") in asked:
        answer(asked.pop(m["id"]), text(json.dumps(m.get("result", m.get("error")), ensure_ascii=False)))
    elif m.get("method") == "notifications/cancelled":
        ended.append(m["params"]["requestId"])
serve(call)
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def project(gateway: Gateway, third_party_server: ThirdParty) -> Project:
    made = gateway.project("asking")
    local = {key: dict(zip(("command", "args"), (one[0], list(one[1:])), strict=True)) for key, one in {
        "pipes": stdio_command("--legacy"), "small": program(ASKER)}.items()}  # fmt: skip
    away = {
        "http": {"type": "http", "url": third_party_server.at("legacy/mcp")},
        "new": {"type": "http", "url": third_party_server.at("modern/mcp")},
    }
    made.servers(**local, **away)
    await made.trust()
    await made.until_listed("pipes__elicit", "http__elicit", "new__elicit", "small__ask")
    return made


class User:
    """Whoever sits at an official client: says what was asked, and remembers it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.asked: list[str] = []
        self.logs: list[Any] = []

    async def elicited(self, context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        self.asked.append(params.message)
        return types.ElicitResult(action="accept", content={"name": self.name})

    async def sampled(
        self, context: Any, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult:
        self.asked.append("a completion")
        said = types.TextContent(type="text", text=self.name)
        return types.CreateMessageResult(role="assistant", content=said, model="m")

    async def rooted(self, context: Any) -> types.ListRootsResult:
        self.asked.append("roots")
        return types.ListRootsResult(roots=[types.Root(uri=ROOT)])

    async def logged(self, params: types.LoggingMessageNotificationParams) -> None:
        self.logs.append(params.data)

    def client(self, project: Project, mode: str, **options: Any) -> mcp.Client:
        return mcp.Client(
            project.pinned_url,
            mode=mode,
            read_timeout_seconds=20,
            elicitation_callback=self.elicited,
            sampling_callback=self.sampled,
            list_roots_callback=self.rooted,
            logging_callback=self.logged,
            **options,
        )


async def told(client: mcp.Client, tool: str, **arguments: Any) -> Any:
    """What the server says it was answered."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result
    return result.structured_content


@EVERY_CLIENT
@EVERY_SERVER
async def test_every_input_request_reaches_the_user_and_the_answer_the_server(
    project: Project, server: str, mode: str
) -> None:
    user = User("Zoë")
    async with user.client(project, mode) as client:
        answer = await told(client, f"{server}__elicit", message="Your name?")
        assert (answer["action"], answer["content"]) == ("accept", {"name": "Zoë"})
        answer = await told(client, f"{server}__sample", prompt="Well?")
        assert (answer["content"]["text"], answer["model"]) == ("Zoë", "m")
        answer = await told(client, f"{server}__roots")
        assert [one["uri"] for one in answer["roots"]] == [ROOT]
    assert user.asked == ["Your name?", "a completion", "roots"]


@EVERY_CLIENT
async def test_each_user_of_a_shared_server_gets_their_own_input_requests(
    project: Project, mode: str
) -> None:
    """Over HTTP, each question comes on the stream of its own call."""
    users = [User(f"user {number}") for number in range(6)]

    async def serve(user: User) -> None:
        async with user.client(project, mode) as client:
            for _ in range(3):
                answer = await told(client, "http__elicit", message=f"You, {user.name}?")
                assert answer["content"] == {"name": user.name}

    await asyncio.gather(*map(serve, users))
    assert [user.asked for user in users] == [[f"You, {user.name}?"] * 3 for user in users]


async def test_an_input_request_is_sent_even_if_another_call_ends(project: Project) -> None:
    """Over pipes nobody says about which of a session's calls it is; the user is the same one."""
    user = User("Zoë")
    async with user.client(project, "legacy") as client, asyncio.timeout(20):
        late = asyncio.create_task(client.call_tool("small__late"))
        while (quick := await client.call_tool("small__quick")).content[0].text == "0":
            assert not late.done()
        assert (quick.is_error, user.name in str(await late)) == (False, True)


@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
@EVERY_CLIENT
async def test_log_messages_reach_the_client_that_requests_them(project: Project, mode: str) -> None:
    wants, quiet = User("wants"), User("quiet")
    async with wants.client(project, mode, log_level="info" if mode != "legacy" else None) as client:
        if mode == "legacy":
            await client.set_logging_level("info")
        for server in ("pipes", "http"):
            await client.call_tool(f"{server}__progress", {"steps": 2})
    async with quiet.client(project, mode) as client:
        await client.call_tool("pipes__progress", {"steps": 2})
    assert wants.logs == [{"step": 1}, {"step": 2}] * 2
    assert quiet.logs == ([] if mode != "legacy" else [{"step": 1}, {"step": 2}]), (
        "in a session, some come unasked"
    )


async def asked(client: StatelessClient, tool: str) -> dict[str, Any]:
    """What to repeat the call with, but for the answers, after its first round."""
    first = (await client.call(tool, meta=FORMS)).result
    assert first["resultType"] == "input_required"
    return {"name": tool, "arguments": {}, "requestState": first["requestState"], "_meta": FORMS}


async def answered(client: StatelessClient, call: dict[str, Any], answer: Any) -> Answer:
    return await client.ask(names.TOOLS_CALL, {**call, "inputResponses": {"q1": answer}})


async def test_a_suspended_call_resumes_once_and_only_for_its_client(project: Project) -> None:
    client, other = project.modern, project.modern
    first, second = await asked(client, "small__ask"), await asked(other, "pipes__elicit")
    crossed = await answered(client, {**second, "name": "small__ask"}, {"action": "cancel"})
    changed = await answered(client, {**first, "arguments": {"a": 1}}, {"action": "cancel"})
    assert [one.error["code"] for one in (crossed, changed)] == [-32602, -32602]
    done = await answered(other, first, {"action": "accept", "content": {"n": 1.5}})
    assert json.loads(done.result["content"][0]["text"]) == {"action": "accept", "content": {"n": 1.5}}
    assert (await answered(client, first, {"action": "accept"})).error["code"] == -32602
    assert (await answered(client, second, {"action": "decline"})).payload["action"] == "decline"


async def test_a_client_without_capabilities_learns_which_are_required(project: Project) -> None:
    """With the status of HTTP, too; the server's call is cancelled, and its question answered."""
    client = project.modern
    refused = await client.call("small__ask")
    assert (refused.status, refused.error["code"]) == (400, -32021)
    assert refused.error["data"] == {"requiredCapabilities": {"elicitation": {"form": {}}}}

    async def cancelled() -> bool:
        return (await client.call("small__cancelled")).result["content"][0]["text"] != "[]"

    await eventually(cancelled)
    assert (await client.call("new__elicit")).result["resultType"] == "input_required", "it did not look"


async def test_a_required_url_is_an_error_in_a_session(
    project: Project,
) -> None:
    """Error -32042 (URL elicitation required, MCP 2025-11-25) in a session, an input request otherwise."""
    meta = {names.META_CAPABILITIES: {"elicitation": {"url": {}}}}
    first = (await project.modern.call("small__page", meta=meta)).result
    assert first["inputRequests"]["q1"]["params"]["url"] == "https://example.com/x"
    with_session = await project.legacy()
    refused = (await with_session.call("small__page")).error
    assert (refused["code"], refused["data"]["elicitations"][0]["elicitationId"]) == (-32042, "e")


async def test_a_servers_death_ends_a_suspended_call(project: Project) -> None:
    """The client that comes back learns of it."""
    call = await asked(project.modern, "small__ask")
    assert (await project.modern.call("small__die")).refusal["code"] == 47109
    refusal = (await answered(project.modern, call, {"action": "accept"})).refusal
    assert refusal["code"] == 47109
    assert refusal["delivered"] == "unknown"
