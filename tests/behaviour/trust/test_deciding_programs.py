"""Programs that we started decide nothing: every listener, every deciding request, every way to hide.

A new listener or route needs a row here: those that the running manager has are compared with the rows.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest
import pytest_asyncio
from aiohttp import web

from lm_tools_bridge.page import routes as page_routes
from lm_tools_bridge.protocol import headers, names
from lm_tools_bridge.recorder import part as recorder
from lm_tools_bridge.remote_hosts import daemon_part as remote_hosts
from lm_tools_bridge.team import team
from manager.admin.control.control_socket import make_control_app
from manager.admin.control.decisions import FOR_ANYONE
from manager.admin.routes import make_app
from manager.client import Control
from support.clients import hiding_program
from support.clients.page_client import opened, ticket
from support.clients.raw_clients import BOTH, SessionClient
from support.clients.stateless_requests import body_of, headers_of
from support.http.admission_cases import allowed_methods
from support.processes.child_processes import output
from support.projects.gateway import FORMS, Gateway, Project, eventually, running_gateway
from workspace_server.processes.child_process import Command
from workspace_server.sources.scripts.script_confinement import script_confinement

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(sys.platform != "linux", reason="a peer is known on Linux only"),
]

WAYS: Mapping[str, tuple[str, bool]] = {
    "marked": ("plain", False),
    "marked, in a session of its own": ("detached", False),
    "marked, with a cleared environment": ("cleared", False),
    "confined": ("plain", True),
    "confined, in a session of its own": ("detached", True),
    "confined, with a cleared environment": ("cleared", True),
    "confined, with neither environment nor ancestors": ("orphaned", True),
}
"""What the program does to hide, and whether it is confined. Each is started as a workspace server starts it."""
SCRIPT = "import pathlib; pathlib.Path('ran.txt').open('a').write('x'); print('done')\n"
ME = {"name": "model", "version": "1"}
ASKS = "requires_approval = true\n"
YES = {"action": "accept", "content": {"approve": True}}
REFUSALS = ("HTTP/1.1 403", "47120", "may not change secrets")
OF_FEATURES = page_routes.FOR_ANYONE | recorder.FOR_ANYONE | remote_hosts.FOR_ANYONE | team.FOR_ANYONE
ANYONE = {entry.replace("{offer}", "x") for entry in FOR_ANYONE | OF_FEATURES}
Request = tuple[str, str, Mapping[str, str], str]


@dataclass
class Scene:
    """A manager whose listeners all listen, with a project whose tool waits for a person."""

    gateway: Gateway
    project: Project
    apps: dict[str, web.Application] = field(default_factory=dict)

    @property
    def control(self) -> Path:
        return self.gateway.manager.paths.control_socket

    def ask(self, target: str, payload: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return (
            Control(self.control).get(target)
            if payload is None
            else Control(self.control).post(target, payload)
        )

    @property
    def target(self) -> str:
        return f"/mcp?cwd={self.project.root}"

    def runs(self) -> int:
        file = self.project.root / "ran.txt"
        return len(file.read_text()) if file.exists() else 0

    def channel(self) -> dict[str, str]:
        (file,) = (self.gateway.manager.paths.runtime_dir / "internal").glob("*.json")
        found: dict[str, str] = json.loads(file.read_text())
        return found

    def deciding(self, app: str) -> list[tuple[str, str]]:
        """The routes of an application that not every program may use; HEAD is a GET without its body."""
        routes = [
            (method, path) for path, methods in allowed_methods(self.apps[app]).items() for method in methods
        ]
        plain = {(method.replace("HEAD", "GET"), path) for method, path in routes}
        return sorted((method, path) for method, path in plain if f"{method} {path}" not in ANYONE)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    apps: dict[str, web.Application] = {}

    def kept(name: str, make: Callable[..., web.Application]) -> Callable[..., web.Application]:
        def made(*parts: object) -> web.Application:
            app = make(*parts)  # the port and the tunnel have one each, of the same routes
            apps.setdefault(name, app)
            return app

        return made

    folder = tmp_path_factory.mktemp("gateway")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("manager.listener.pages.make_control_app", kept("control", make_control_app))
        patch.setattr("manager.listener.pages.make_app", kept("port", make_app))
        async with running_gateway(folder, approval_wait_s=60.0) as gateway:
            gateway.user_tool("risky", SCRIPT, ASKS)
            made = Scene(gateway, gateway.project("shop"), apps)
            await made.project.until_listed("risky")
            async with gateway.http.get(gateway.manager.base):
                pass  # has the application of the port made
            await asyncio.to_thread(made.ask, "/tunnel", {})
            await eventually(lambda: _has_socket(gateway.manager.paths.runtime_dir / "internal"))
            yield made


async def _has_socket(folder: Path) -> bool:
    """Whether the internal channel listens: the file that names its socket is there before the socket is."""
    return any(Path(json.loads(file.read_text())["socket"]).is_socket() for file in folder.glob("*.json"))


async def sent(way: str, place: object, requests: Sequence[Request], folder: Path) -> list[str]:
    """What the program that hides in this way is answered to its requests."""
    hides, is_confined = WAYS[way]
    fence = script_confinement(folder, folder, {}) if is_confined else None
    words = (sys.executable, "-I", hiding_program.__file__, hides, str(place), json.dumps(requests))
    said = await output(Command(words, {"PATH": os.environ["PATH"]}, str(folder), fence))
    lines = said.decode().splitlines()
    assert len(lines) == len(requests), lines
    return lines


def assert_refused(requests: Sequence[Request], answers: Sequence[str]) -> None:
    """An empty answer is that of a listener which closes the connections of confined programs."""
    done = [
        (request[:2], answer)
        for request, answer in zip(requests, answers, strict=True)
        if answer and not any(text in answer for text in REFUSALS)
    ]
    assert not done


async def test_every_socket_of_a_manager_has_a_row(scene: Scene) -> None:
    """`test_no_...` below try the control socket, the tunnel's, the internal channel and the port."""
    files = scene.gateway.manager.paths.runtime_dir.rglob("*")
    sockets = {str(file.name) for file in files if file.is_socket()}
    channel = Path(
        scene.channel()["socket"]
    )  # elsewhere if the runtime folder's path is too long for a socket
    assert channel.is_socket()
    assert sockets - {channel.name} == {"control.sock", "tunnel.sock"}
    listening = {one.laddr.port for one in psutil.Process().net_connections("tcp") if one.status == "LISTEN"}
    servers = {one["port"] for one in (await asyncio.to_thread(scene.ask, "/list"))["instances"]}
    assert listening - servers == {scene.gateway.manager.port}, (
        "a workspace server wants the manager's secret"
    )


async def test_every_route_that_anybody_may_use_exists_and_every_other_one_decides(scene: Scene) -> None:
    assert scene.deciding("control") == [
        ("GET", "/approvals"), ("GET", "/approvals/changes"), ("POST", "/answer_approval"),
        ("POST", "/approvals/answer"), ("POST", "/page/revoke"), ("POST", "/page/ticket"), ("POST", "/restart"),
        ("POST", "/shutdown"), ("POST", "/stop_call"), ("POST", "/team/preview"), ("POST", "/team/reload"),
        ("POST", "/tokens/reload"), ("POST", "/tools/change"), ("POST", "/tunnel"),
    ]  # fmt: skip
    assert scene.deciding("port") == [("POST", "/page/action"), ("POST", "/page/session")]
    routes = [allowed_methods(app) for app in scene.apps.values()]
    existing = {
        f"{method} {path}" for found in routes for path, methods in found.items() for method in methods
    }
    assert existing >= ANYONE


@pytest.mark.parametrize("way", WAYS)
async def test_no_hidden_program_decides_on_the_control_socket(scene: Scene, way: str) -> None:
    about = {"cwd": str(scene.project.root), "tool": "risky", "change": "allow", "id": "x", "approve": True}
    requests: list[Request] = [
        (method, path, {}, json.dumps(about) if method == "POST" else "")
        for method, path in scene.deciding("control")
    ]
    requests += [("POST", "/lines", {}, json.dumps({key: value})) for key, value in LINES.items()]
    assert_refused(requests, await sent(way, scene.control, requests, scene.project.root))


LINES = {"connect": "build", "renew": "build", "forget": True}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("listener", ["port", "tunnel"])
async def test_no_hidden_program_acts_on_the_page_not_even_with_the_secrets_of_a_browser(
    scene: Scene, listener: str, way: str
) -> None:
    manager = scene.gateway.manager
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as browser:
        proof = await opened(manager, browser)
        (cookie,) = browser.cookie_jar
    act = {"Cookie": f"{cookie.key}={cookie.value}", "X-Page-Proof": proof}
    requests: list[Request] = [
        ("POST", "/page/session", {}, json.dumps({"ticket": await ticket(manager)})),
        ("POST", "/page/action", act, json.dumps({"action": "restart-manager"})),
    ]
    assert [request[:2] for request in requests[::-1]] == scene.deciding("port")
    place = manager.port if listener == "port" else manager.paths.tunnel_socket
    assert_refused(requests, await sent(way, place, requests, scene.project.root))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("listener", ["port", "tunnel"])
async def test_no_hidden_program_answers_a_form(scene: Scene, listener: str, way: str) -> None:
    manager = scene.gateway.manager
    place = manager.port if listener == "port" else manager.paths.tunnel_socket
    async with asked_in_a_session(scene) as (answer, session):
        answers = await answers_of_stateless_clients(scene)
        requests = [answer, *answers, in_session(answers[0], session)]
        assert_refused(requests, await sent(way, place, requests, scene.project.root))
    assert scene.runs() == 0


@asynccontextmanager
async def asked_in_a_session(scene: Scene) -> AsyncIterator[tuple[Request, Mapping[str, str]]]:
    """The answer to the question about a call of a client with a session, and the fields of the session."""
    client = FormClient(scene.gateway.http, scene.project.url)
    await client.begin()
    fields = client.header(b"")
    call = client.body(names.TOOLS_CALL, {"name": "risky", "arguments": {}}, 2)
    async with client.open(call) as stream:
        question: dict[str, Any] = {}
        while "id" not in question:
            line = await stream.content.readline()
            question = json.loads(line[6:]) if line.startswith(b'data: {"') else {}
        body = json.dumps({"jsonrpc": "2.0", "id": question["id"], "result": YES})
        yield ("POST", scene.target, fields, body), fields


class FormClient(SessionClient):
    capabilities: Mapping[str, Any] = {"elicitation": {"form": {}}}

    async def begin(self) -> None:
        params = {"protocolVersion": self.revision, "capabilities": self.capabilities, "clientInfo": ME}
        opened = await self.ask(names.INITIALIZE, params)
        self.session = opened.headers[headers.SESSION]


async def answers_of_stateless_clients(scene: Scene) -> list[Request]:
    """The call that brings the answer, the same in other letters, and the answer to a question of a task."""
    asked = await scene.project.modern.call("risky", meta=FORMS)
    answers = dict.fromkeys(asked.result["inputRequests"], YES)
    given = {"inputResponses": answers, "requestState": asked.result["requestState"]}
    call = body_of(names.TOOLS_CALL, {"name": "risky", "arguments": {}, **given}, **FORMS)
    update = body_of("tasks/update", {"taskId": "t", "inputResponses": answers}, **FORMS)
    fields, text = {**headers_of(call, None), "Accept": BOTH}, json.dumps(call)
    return [
        ("POST", scene.target, fields, text),
        ("POST", scene.target, fields, text.replace('"action"', '"\\u0061ction"')),
        ("POST", scene.target, {**headers_of(update, None), "Accept": BOTH}, json.dumps(update)),
    ]


def in_session(request: Request, session: Mapping[str, str]) -> Request:
    """The request of a stateless client, as one of a session."""
    method, target, _, body = request
    message = json.loads(body)
    del message["params"]["_meta"]
    return method, target, session, json.dumps(message)


@pytest.mark.parametrize("way", WAYS)
async def test_no_hidden_program_changes_secrets_on_the_internal_channel(scene: Scene, way: str) -> None:
    channel = scene.channel()
    store = {"key": "k", "value": "v"}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("secrets/store", store),
        ("secrets/delete", {"key": "k"}),
        ("config/set", {"provider": "p", "config": {"apiBase": "http://x"}, "scope": "user"}),
        ("tools/call", {"name": "openllm_secrets_set", "arguments": store}),
    ]
    requests: list[Request] = [
        (hiding_program.LINE, method, {}, _message(method, {"auth": channel["auth"], **params}))
        for method, params in calls
    ]
    assert_refused(requests, await sent(way, channel["socket"], requests, scene.project.root))


async def test_a_program_that_we_started_may_send_what_its_verbs_need(scene: Scene) -> None:
    """`lmtb tools`, `calls` and `servers restart` are verbs for anyone: so are their routes."""
    about = json.dumps({"cwd": str(scene.project.root)})
    targets = ("/inspect", "/refresh", "/restart_sources", "/recorded/write")
    requests: list[Request] = [("POST", target, {}, about) for target in targets]
    answers = await sent("marked", str(scene.control), requests, scene.project.root)
    assert [answer.split()[1] for answer in answers] == ["200"] * len(requests)


async def test_the_same_program_decides_if_it_is_the_users(scene: Scene) -> None:
    requests = [
        ("GET", "/approvals", {}, ""),
        ("POST", "/page/ticket", {}, "{}"),
        ("POST", "/lines", {}, json.dumps({"forget": True})),
    ]
    words = (sys.executable, "-I", hiding_program.__file__, "plain", str(scene.control), json.dumps(requests))
    made = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
    said, _ = await made.communicate()
    assert [line.split()[1] for line in said.decode().splitlines()] == ["200"] * 3


def _message(method: str, params: Mapping[str, Any]) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
