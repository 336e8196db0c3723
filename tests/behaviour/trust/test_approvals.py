"""Calls that wait for a person, answered in a terminal, on the page or in the client: first come, once."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from lm_tools_bridge.protocol import jsonrpc, names, sse
from manager.client import Control, ControlRefusal
from support.clients import self_approving
from support.clients.askable_client import AskableClient
from support.clients.page_client import opened, posted
from support.clients.raw_clients import Answer, SessionClient
from support.projects.gateway import FORMS, Gateway, Project, eventually, running_gateway

pytestmark = pytest.mark.asyncio(loop_scope="module")

SCRIPT = "import sys, pathlib; pathlib.Path('ran.txt').open('a').write('x'); print('done')\n"
TOML = 'requires_approval = true\n[parameters.token]\ntype = "string"\n'
WAIT_S = 60.0
YES = {"action": "accept", "content": {"approve": True}}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    async with running_gateway(tmp_path_factory.mktemp("gateway"), approval_wait_s=WAIT_S) as running:
        running.user_tool("risky", SCRIPT, TOML)
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(gateway: Gateway) -> Project:
    return gateway.project("shop")


@pytest.fixture
def project(shared: Project) -> Project:
    (shared.root / "ran.txt").unlink(missing_ok=True)
    return shared


def runs(project: Project) -> int:
    file = project.root / "ran.txt"
    return len(file.read_text()) if file.exists() else 0


async def control(gateway: Gateway, target: str, payload: dict[str, Any] | None = None) -> dict[str, Any]:
    socket = Control(gateway.manager.paths.control_socket)
    if payload is None:
        return await asyncio.to_thread(socket.get, target)
    return await asyncio.to_thread(socket.post, target, payload)


async def waiting(gateway: Gateway, count: int = 1) -> list[dict[str, Any]]:
    async def found() -> list[dict[str, Any]]:
        rows = (await control(gateway, "/approvals"))["approvals"]
        return rows if len(rows) == count else []

    return list(await eventually(found))


async def until_none_waits(gateway: Gateway) -> None:
    async def none() -> bool:
        return not (await control(gateway, "/approvals"))["approvals"]

    await eventually(none)


async def answer(gateway: Gateway, identity: str, *, approve: bool) -> dict[str, Any]:
    return await control(gateway, "/approvals/answer", {"id": identity, "approve": approve})


async def test_a_call_of_a_client_without_forms_waits_and_runs_once_approved(project: Project) -> None:
    gateway = project.gateway
    call = asyncio.create_task(project.modern.call("risky", {}, meta={"progressToken": "p"}))
    (row,) = await waiting(gateway)
    assert (row["tool"], row["workspace"], row["waits"]) == ("risky", row["workspace"], True)
    assert row["question"] == "Run risky?"
    assert runs(project) == 0
    said = await answer(gateway, row["id"], approve=True)
    assert (said["counts"], said["outcome"]) == (True, "approved")
    done = await call
    assert done.result["content"][0]["text"] == "done"
    assert runs(project) == 1
    (progress,) = [one for one in done.messages if one.get("method") == names.PROGRESS]
    assert "risky waits for a person's approval" in progress["params"]["message"]
    assert "lmtb approvals" in progress["params"]["message"]
    again = await answer(gateway, row["id"], approve=False)
    assert again["counts"] is False
    assert "approved in a terminal" in again["message"]
    await until_none_waits(gateway)


async def test_a_denied_call_never_runs(project: Project) -> None:
    call = asyncio.create_task((await project.legacy()).call("risky"))
    (row,) = await waiting(project.gateway)
    assert (await answer(project.gateway, row["id"], approve=False))["outcome"] == "denied"
    refused = (await call).refusal
    assert (refused["code"], refused["message"]) == (47121, "User denied execution of risky")
    assert runs(project) == 0


async def test_of_many_answers_at_once_one_counts(project: Project) -> None:
    call = asyncio.create_task(project.modern.call("risky"))
    (row,) = await waiting(project.gateway)
    said = await asyncio.gather(
        *(answer(project.gateway, row["id"], approve=bool(n % 2)) for n in range(3))
    )  # threads are few
    (first,) = [one for one in said if one["counts"]]
    result = (await call).result
    assert bool(result.get("isError")) is (first["outcome"] == "denied")
    assert runs(project) == (first["outcome"] == "approved")


async def test_a_call_whose_caller_left_takes_no_answer(project: Project) -> None:
    call = asyncio.create_task(project.modern.call("risky"))
    (row,) = await waiting(project.gateway)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    await until_none_waits(project.gateway)
    said = await answer(project.gateway, row["id"], approve=True)
    assert (said["counts"], said["outcome"]) == (False, "gone")
    assert runs(project) == 0


class Asking:
    """A call of a session client that shows forms, whose stream is read message by message."""

    def __init__(self, client: SessionClient) -> None:
        self.client = client

    async def __aenter__(self) -> Asking:
        body = self.client.body(names.TOOLS_CALL, {"name": "risky", "arguments": {}}, 7)
        self._opening = self.client.open(body)
        self.response = await self._opening.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._opening.__aexit__(*error)

    async def next(self) -> dict[str, Any]:
        async with asyncio.timeout(20):
            while True:
                frame = await self.response.content.readuntil(b"\n\n")
                for one in sse.Decoder().feed(frame):
                    if one.data:
                        return dict(json.loads(one.data))

    async def reply(self, question: dict[str, Any], result: dict[str, Any]) -> None:
        body = jsonrpc.dumps({"jsonrpc": "2.0", "id": question["id"], "result": result})
        assert (await self.client.post(body)).status == 202


async def askable(project: Project) -> SessionClient:
    return await AskableClient.connect(project.gateway.http, project.url)


async def test_an_answer_elsewhere_withdraws_the_form_of_a_session(project: Project) -> None:
    async with Asking(await askable(project)) as asking:
        question = await asking.next()
        assert question["method"] == names.ELICIT
        (row,) = await waiting(project.gateway)
        assert row["waits"] is False
        await answer(project.gateway, row["id"], approve=True)
        withdrawn = await asking.next()
        assert (withdrawn["method"], withdrawn["params"]["requestId"]) == (names.CANCELLED, question["id"])
        assert (await asking.next())["result"]["content"][0]["text"] == "done"
        assert runs(project) == 1
        await asking.reply(question, {"action": "decline"})
    await until_none_waits(project.gateway)


async def test_an_answer_in_the_client_withdraws_the_row(project: Project) -> None:
    async with Asking(await askable(project)) as asking:
        question = await asking.next()
        (row,) = await waiting(project.gateway)
        await asking.reply(question, YES)
        assert (await asking.next())["result"]["content"][0]["text"] == "done"
    await until_none_waits(project.gateway)
    said = await answer(project.gateway, row["id"], approve=False)
    assert said["counts"] is False
    assert "its client answered" in said["message"]
    assert runs(project) == 1


async def test_a_session_that_leaves_takes_its_row_along(project: Project) -> None:
    async with Asking(await askable(project)) as asking:
        await asking.next()
        (row,) = await waiting(project.gateway)
        cancelled = jsonrpc.notification(names.CANCELLED, {"requestId": 7})
        await asking.client.post(cancelled)
        await until_none_waits(project.gateway)
    assert (await answer(project.gateway, row["id"], approve=True))["counts"] is False
    assert runs(project) == 0


async def asked(project: Project) -> str:
    first = await project.modern.call("risky", meta=FORMS)
    assert first.result["resultType"] == "input_required"
    return str(first.result["requestState"])


async def repeated(project: Project, state: str, reply: dict[str, Any] | None) -> Answer:
    answers = {} if reply is None else {"inputResponses": {"approval": reply}}
    params = {"name": "risky", "arguments": {}, "requestState": state, "_meta": FORMS, **answers}
    return await project.modern.ask(names.TOOLS_CALL, params)


@pytest.mark.parametrize("reply", [None, {"action": "cancel"}, YES])
async def test_a_stateless_client_runs_with_a_yes_from_elsewhere(
    project: Project, reply: dict[str, Any] | None
) -> None:
    state = await asked(project)
    (row,) = await waiting(project.gateway)
    said = await answer(project.gateway, row["id"], approve=True)
    assert "when its client sends the call again" in said["message"]
    assert runs(project) == 0
    await until_none_waits(project.gateway)
    assert (await repeated(project, state, reply)).result["content"][0]["text"] == "done"
    assert (await repeated(project, state, YES)).error["code"] == -32602
    assert runs(project) == 1


@pytest.mark.parametrize(("elsewhere", "reply"), [(False, YES), (True, {"action": "decline"})])
async def test_a_no_counts_wherever_it_was_given(
    project: Project, elsewhere: bool, reply: dict[str, Any]
) -> None:
    state = await asked(project)
    (row,) = await waiting(project.gateway)
    await answer(project.gateway, row["id"], approve=elsewhere)
    assert (await repeated(project, state, reply)).refusal["code"] == 47121
    assert runs(project) == 0


async def test_status_names_the_call_without_its_arguments(project: Project) -> None:
    call = asyncio.create_task(project.modern.call("risky", {"token": "s3cret-value"}))
    (row,) = await waiting(project.gateway)
    status = await control(project.gateway, "/mcp/status")
    (shown,) = status["approvals"]
    assert (shown["id"], shown["tool"]) == (row["id"], "risky")
    assert "s3cret-value" not in json.dumps(status)
    assert "s3cret-value" not in json.dumps(row), "a member of this name is hidden"
    await answer(project.gateway, row["id"], approve=False)
    await call


@pytest.mark.parametrize(
    "payload", [{}, {"id": 1, "approve": True}, {"id": "x"}, {"id": "x", "approve": "yes"}]
)
async def test_an_answer_that_is_none_is_refused(gateway: Gateway, payload: dict[str, Any]) -> None:
    with pytest.raises(ControlRefusal) as refused:
        await control(gateway, "/approvals/answer", payload)
    assert refused.value.status == 400


CHILD = """
import json, socket, sys
for method, target in (
    ("POST", "/approvals/answer"), ("POST", "/page/ticket"), ("GET", "/approvals"), ("GET", "/approvals/changes"),
    ("POST", "/answer_approval"), ("POST", "/stop_call"), ("POST", "/tools/change"),
):
    body = json.dumps({
        "id": sys.argv[2], "approve": True, "cwd": sys.argv[3], "source": sys.argv[2] + ".yes", "tool": "risky",
        "change": "allow",
    }).encode()
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(sys.argv[1])
    sock.sendall(b"%s %s HTTP/1.0\\r\\nHost: localhost\\r\\nContent-Type: application/json\\r\\n"
                 b"Content-Length: %d\\r\\n\\r\\n" % (method.encode(), target.encode(), len(body)) + body)
    print(sock.recv(100).split()[1].decode())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a peer is known on Linux only")
async def test_a_program_that_a_server_started_can_neither_decide_nor_read_nor_get_a_ticket(
    project: Project,
) -> None:
    call = asyncio.create_task(project.modern.call("risky"))
    (row,) = await waiting(project.gateway)
    socket = str(project.gateway.manager.paths.control_socket)
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", CHILD, socket, row["id"], str(project.root)),
        env={**os.environ, names.CHILD_VARIABLE: "i-1.x"},
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await child.communicate()
    assert output.split() == [b"403"] * 7
    assert runs(project) == 0
    assert (await answer(project.gateway, row["id"], approve=False))["counts"] is True
    await call


async def test_the_page_shows_the_arguments_and_answers_once(project: Project) -> None:
    manager = project.gateway.manager
    call = asyncio.create_task(project.modern.call("risky", {"token": "<b>x</b>"}))
    (row,) = await waiting(project.gateway)
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as browser:
        async with browser.get(f"{manager.base}/", headers={"Accept": "text/html"}) as response:
            shown = await response.text()
        assert "risky waits for your approval" in shown
        assert f'data-id="{row["id"]}"' in shown
        assert "<b>x</b>" not in shown
        action = {"action": "answer-approval", "id": row["id"], "answer": "once"}
        url = f"{manager.base}/page/action"
        assert (await posted(browser, url, action))[0] == 403, "without a session nothing is answered"
        proof = {"X-Page-Proof": await opened(manager, browser)}
        assert (await posted(browser, url, {**action, "answer": "maybe"}, proof))[1]["ok"] is False
        assert runs(project) == 0
        assert (await posted(browser, url, action, proof))[1] == {
            "ok": True,
            "text": "risky was approved, once.",
        }
        assert (await call).result["content"][0]["text"] == "done"
        again = (await posted(browser, url, {**action, "answer": "deny"}, proof))[1]
        assert (again["ok"], again["text"]) == (False, "Nothing was changed: approved on the page.")
    assert runs(project) == 1


async def test_always_writes_the_policy_and_the_next_call_is_not_asked_about(project: Project) -> None:
    manager = project.gateway.manager
    call = asyncio.create_task(project.modern.call("risky"))
    (row,) = await waiting(project.gateway)
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as browser:
        proof = {"X-Page-Proof": await opened(manager, browser)}
        action = {"action": "answer-approval", "id": row["id"], "answer": "always"}
        said = (await posted(browser, f"{manager.base}/page/action", action, proof))[1]
    assert "runs without asking from now on, in every project" in said["text"]
    await call
    assert (await project.modern.call("risky")).result["content"][0]["text"] == "done"
    assert runs(project) == 2
    project.gateway.configure("")


@pytest.mark.parametrize(
    ("written", "code"),
    [("[approvals]\nrisky = 'deny'\n", 47121), ("[tools]\ndisabledDelta = ['risky']\n", None)],
)
async def test_what_was_forbidden_while_it_waited_does_not_run(
    project: Project, written: str, code: int | None
) -> None:
    call = asyncio.create_task(project.modern.call("risky"))
    (row,) = await waiting(project.gateway)
    project.gateway.configure(written)
    assert (await answer(project.gateway, row["id"], approve=True))["counts"] is True
    refused = await call
    if code is not None:
        assert refused.refusal["code"] == code
    assert runs(project) == 0
    project.gateway.configure("")


async def test_a_manager_that_stops_ends_the_wait_and_the_tool_does_not_run(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, approval_wait_s=WAIT_S) as gateway:
        gateway.user_tool("risky", SCRIPT, TOML)
        project = gateway.project("shop")
        call = asyncio.create_task(project.modern.call("risky"))
        await waiting(gateway)
        gateway.manager.daemon.ask_to_stop("an upgrade")
        async with asyncio.timeout(25):  # less than calls in flight may take
            refused = (await call).refusal
    assert refused["code"] == 47120
    assert "nobody approved risky while it waited" in refused["message"]
    assert runs(project) == 0


async def answered_by_a_program(project: Project, era: str, *closes: str, **environ: str) -> str:
    """What a program prints that calls the tool and approves its own call."""
    program = [sys.executable, self_approving.__file__, era, project.url, "risky", *closes]
    made = await asyncio.create_subprocess_exec(
        *program, env={**os.environ, **environ}, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await made.communicate()
    return output.decode()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells whose a connection is")
@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_program_that_a_server_started_does_not_approve_its_own_call(
    project: Project, era: str
) -> None:
    said = await answered_by_a_program(project, era, **{names.CHILD_VARIABLE: "i-1.x"})
    assert "may not answer for the user" in said
    assert "lmtb approvals" in said
    assert runs(project) == 0
    await answered_by_a_program(project, era, "closes", **{names.CHILD_VARIABLE: "i-1.x"})
    assert runs(project) == 0
    await answered_by_a_program(project, era)  # a client of the user: the same program does work
    assert await eventually(partial(run_count, project)) == 1


async def run_count(project: Project) -> int:
    return runs(project)
