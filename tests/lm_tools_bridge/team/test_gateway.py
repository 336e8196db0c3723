"""The endpoint of an offer: what it keeps of hosts that may be hostile."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import ClientSession, web

from lm_tools_bridge.protocol.errors import Refusal
from lm_tools_bridge.team import gateway
from lm_tools_bridge.team.calls.remote_call import TIMED_OUT, Head
from lm_tools_bridge.team.gateway import Gateway
from lm_tools_bridge.team.membership import Use
from support.clients.stateless_requests import body_of, headers_of
from support.servers.scripted.scripted_workspace import served

DOCS = Use("docs", "docs")


@dataclass
class Answer:
    """The answer of a host."""

    host: str
    content: bytes

    async def body(self) -> AsyncIterator[bytes]:
        for start in range(0, len(self.content), 65536):
            yield self.content[start : start + 65536]


@dataclass
class Team:
    """A connection, and hosts that answer every call."""

    is_up: bool = True
    error: str | None = None
    host: str = "alice"
    content: bytes = b"{}"
    max_payload: int = 1_000_000
    repeats: Callable[[str], bool] = field(default=lambda _: False)

    @property
    def client(self) -> Team:
        return self

    @contextlib.asynccontextmanager
    async def call(
        self, client: Any, use: Use, body: bytes, *, repeats: Callable[[str], bool], deadline_s: float
    ) -> AsyncIterator[Any]:
        self.repeats = repeats
        yield Answer(self.host, self.content), Head(200, "application/json")


def tools(**hints: bool) -> bytes:
    listed = [{"name": name, "annotations": {"readOnlyHint": hint}} for name, hint in hints.items()]
    return json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"tools": listed}}).encode()


@contextlib.asynccontextmanager
async def asking(team: Team) -> AsyncIterator[Callable[..., Any]]:
    ready = asyncio.Event()
    if team.is_up:
        ready.set()
    made = Gateway(team, team, ready)

    async def serve(request: web.Request) -> web.StreamResponse:
        return await made.serve(request, DOCS)

    async with served("/team/docs", serve) as url, ClientSession() as http:

        async def ask(method: str, params: dict[str, Any] | None = None) -> Any:
            body = body_of(method, params)
            async with http.post(url, data=json.dumps(body), headers=headers_of(body, None)) as response:
                return json.loads(await response.read())

        yield ask


async def test_what_a_host_says_of_its_tools_counts_for_itself_alone() -> None:
    team = Team(content=tools(read=True, write=False))
    async with asking(team) as ask:
        await ask("tools/list")
        assert team.repeats("alice")  # a list does no harm
        await ask("tools/call", {"name": "read"})
        assert [team.repeats(host) for host in ("alice", "mallory")] == [True, False]
        await ask("tools/call", {"name": "write"})
        assert not team.repeats("alice")
        team.host, team.content = "mallory", tools(write=True)
        await ask("tools/list")
        await ask("tools/call", {"name": "write"})
        assert [team.repeats(host) for host in ("alice", "mallory")] == [False, True]


async def test_a_tool_that_no_longer_says_so_may_not_repeat() -> None:
    team = Team(content=tools(read=True))
    async with asking(team) as ask:
        await ask("tools/list")
        team.content = tools(read=False)
        await ask("tools/list", {"cursor": "next"})
        await ask("tools/call", {"name": "read"})
        assert not team.repeats("alice")


async def test_a_list_without_an_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway, "MAX_LIST_BYTES", 100_000)
    async with asking(Team(content=b"x" * 500_000)) as ask:
        error = (await ask("tools/list"))["error"]
    assert (error["code"], "larger than" in error["message"]) == (47112, True)


async def test_of_a_host_few_tools_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway, "_MOST_TOOLS", 3)
    team = Team()
    async with asking(team) as ask:
        for page in range(4):
            team.content = tools(**{f"t{page}{number}": True for number in range(2)})
            await ask("tools/list", {"cursor": "next"})
        known = []
        for name in ("t00", "t01", "t10", "t11", "t30"):
            await ask("tools/call", {"name": name})
            known.append(team.repeats("alice"))
    assert known == [True, True, True, False, False]


async def test_a_large_list_is_answered_whole_and_marked() -> None:
    hints = {f"tool_{number}": True for number in range(8000)}
    async with asking(Team(content=tools(**hints))) as ask:
        listed = (await ask("tools/list"))["result"]["tools"]
    assert len(listed) == 8000
    assert listed[-1]["_meta"]["lm-tools-bridge/team"] == {"host": "alice", "offer": "docs"}


async def test_without_a_connection_the_cause_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway, "READY_S", 0.01)
    async with asking(Team(is_up=False, error="the server offers no TLS")) as ask:
        error = (await ask("tools/list"))["error"]
    assert "offers no TLS" in error["message"]
    assert (error["code"], error["data"]["delivered"]) == (47109, "no")


@pytest.mark.parametrize("method", ["resources/read", "prompts/get", "initialize"])
async def test_what_is_not_carried_says_what_is(method: str) -> None:
    async with asking(Team()) as ask:
        error = (await ask(method))["error"]
    assert error["code"] == -32601
    assert "Next step: use its tools" in error["message"]


def error(refusal: Refusal) -> dict[str, object]:
    said: dict[str, object] = json.loads(refusal.as_error(b"1"))["error"]
    return said


@pytest.mark.parametrize(
    ("refusal", "code", "delivered", "step"),
    [
        (gateway.unreachable("no route"), 47109, "no", "lmtb team status"),
        (gateway.no_host("docs", "unknown"), 47109, "no", "lmtb team status"),
        (gateway.no_host("docs", "not_accepted"), 47109, "no", "lmtb team use docs --host HOST"),
        (gateway.no_host("docs", "full"), 47105, "no", "wait 2 s, then retry"),
        (gateway.no_host("docs", "\x1b[31mhostile"), 47109, "no", "lmtb team status"),
        (gateway.lost_answer("docs", TIMED_OUT), 47104, "unknown", ""),
        (
            gateway.lost_answer("docs", "its host stopped"),
            47112,
            "unknown",
            "check whether the request took effect",
        ),
    ],
)
def test_every_refusal_says_whether_it_ran_and_what_to_do(
    refusal: Refusal, code: int, delivered: str, step: str
) -> None:
    said = error(refusal)
    data = said["data"]
    assert isinstance(data, dict)
    assert (said["code"], data["delivered"]) == (code, delivered)
    assert data["nextStep"]
    assert step in data["nextStep"]
    assert "hostile" not in str(said)
