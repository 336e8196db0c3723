"""Every client, in every way it can be configured, with everything it can do.

The table is `support/clients/client_table.py`.

One manager serves all of them, with a server of somebody else behind it. Every client stays connected from its
first check to its last, as it does at work; so one restart of the manager shows what all of them make of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from support.clients.client_driver import Driver, OneShot
from support.clients.client_table import ABILITIES, CANNOT, CLIENTS, Installed
from support.processes.managers.manager_home import ManagerHome, ManagerProcess, manager_home, until
from support.processes.managers.manager_in_process import make_project
from support.processes.managers.stdio_families import configure, entry
from support.servers.sdk_servers.third_party import stdio_command

pytestmark = pytest.mark.asyncio(loop_scope="module")
NONCE = "of this project"
AWAY_S = 1.5
"""How long no manager is there after a crash: longer than systemd waits before it starts the next."""
HEARD_S = 3.0
"""After how long another change is made: the first may have come before the client listened."""


@dataclass
class User:
    """A manager that can be replaced, always at the same address, and a project."""

    home: ManagerHome
    manager: ManagerProcess
    project: Path
    ends: Counter[signal.Signals] = field(default_factory=Counter)

    @property
    def url(self) -> str:
        return f"{self.manager.address}?cwd={self.project}"

    async def replace_manager(self, number: signal.Signals) -> None:
        """End the manager by a signal, and start another one."""
        self.manager.send(number)
        await self.manager.ended()
        if number is signal.SIGKILL:
            await asyncio.sleep(AWAY_S)
        self.manager = await self.home.start(http_port=self.manager.port, has_file_tools="no")
        self.ends[number] += 1


@dataclass
class Client:
    """One of the table's clients at work; `seen` are the ends of managers that it has already been checked after."""

    user: User
    at_work: Any
    seen: Counter[signal.Signals]

    async def counted(self, kind: str, tool: str) -> int:
        """How often the server began, finished or cancelled calls of a tool."""
        counts = json.loads(text_of(await self.at_work.call("demo__ledger")))
        return int(counts[kind].get(tool, 0))

    async def outlive(self, number: signal.Signals) -> None:
        """Have the manager ended by this signal, unless that has happened since the last check."""
        if self.seen[number] == self.user.ends[number]:
            await self.user.replace_manager(number)


class Crowd:
    """All clients, each started when it is first wanted."""

    def __init__(self, user: User, clients: Installed) -> None:
        self._user = user
        self._clients = clients
        self._members: dict[str, Client] = {}

    async def member(self, name: str) -> Client:
        """A client that is connected and knows the tools."""
        kind, where = CLIENTS[name], (self._user.project, self._user.home.environ)
        client = self._members.get(name)
        if client is None:
            at_work: Driver | OneShot
            if kind.program == "inspector":
                at_work = OneShot(self._clients.inspector(kind, self._user.url), *where)
            else:
                options = self._clients.options(kind, self._user.url)
                at_work = Driver(self._clients.driver(kind), options, *where)
            client = self._members[name] = Client(self._user, at_work, Counter(self._user.ends))
        if isinstance(client.at_work, Driver) and not client.at_work.is_running:
            assert await client.at_work.start() == kind.negotiated
            await lists_all_tools(client)
        return client

    async def close(self) -> None:
        """End them all."""
        await asyncio.gather(*(client.at_work.close() for client in self._members.values()))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def crowd(clients: Installed, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Crowd]:
    """Ends with the proof that no client left anything behind."""
    folder = tmp_path_factory.mktemp("clients").resolve()
    async with manager_home(folder / "user") as home:
        configure(home, entry("demo", stdio_command()))
        project = make_project(folder / "proj", **{"nonce.txt": NONCE})
        crowd = Crowd(User(home, await home.start(has_file_tools="no"), project), clients)
        yield crowd
        await crowd.close()


def text_of(result: dict[str, Any]) -> str:
    """The text of a call that must not fail."""
    assert not result.get("isError"), result
    return str(result["content"][0]["text"])


async def lists_all_tools(client: Client) -> None:
    """The project's own and those of its servers; a server that has just started may take a moment."""
    async with asyncio.timeout(20):
        while "demo__slow" not in (names := await client.at_work.tools()):
            await asyncio.sleep(0.1)
    assert {"lm_readFile", "demo__text"} <= set(names)


async def calls_tools_of_its_project(client: Client) -> None:
    """Only this project's server can know the answer."""
    assert NONCE in text_of(await client.at_work.call("lm_readFile", filePath="nonce.txt"))
    assert text_of(await client.at_work.call("demo__text", text="größe ☕")) == "größe ☕"


async def hears_of_progress(client: Client) -> None:
    """The first is enough: the TypeScript SDK forgets those that reach it together with the response."""
    number, result = client.at_work.put("call", tool="demo__progress", arguments={"steps": 3})
    assert text_of(await asyncio.wait_for(result, 20)) == "3 steps"
    heard = client.at_work.progress[number]
    assert heard == [1, 2, 3][: len(heard)]


async def cancels_a_call(client: Client) -> None:
    """The server is told."""
    started, cancelled = [await client.counted(kind, "slow") for kind in ("started", "cancelled")]
    number, result = client.at_work.put("call", tool="demo__slow", arguments={"seconds": 60})
    async with asyncio.timeout(20):
        while await client.counted("started", "slow") == started:
            await asyncio.sleep(0.05)
        client.at_work.put("cancel", call=number)
        while await client.counted("cancelled", "slow") == cancelled:
            await asyncio.sleep(0.05)
    with pytest.raises(Exception, match="cancelled"):
        await result


async def answers_a_question(client: Client) -> None:
    """In the middle of a call."""
    assert "Ada" in text_of(await client.at_work.call("demo__elicit"))


async def hears_of_a_changed_list(client: Client) -> None:
    await client.at_work.ask("listen")
    known = client.at_work.changes
    async with asyncio.timeout(20):
        while client.at_work.changes == known:
            await client.at_work.call("demo__change_tools")
            with contextlib.suppress(AssertionError):
                await until(lambda: client.at_work.changes > known, HEARD_S)


async def outlives_a_restart(client: Client) -> None:
    """The manager is stopped in order, and its servers with it."""
    await client.outlive(signal.SIGTERM)
    await calls_once_more(client)


async def outlives_a_crash(client: Client) -> None:
    """The manager is killed; the next one finds its servers."""
    await client.outlive(signal.SIGKILL)
    await calls_once_more(client)


async def calls_once_more(client: Client) -> None:
    """The client is the same process and has not been told anything."""
    assert NONCE in text_of(await client.at_work.call("lm_readFile", filePath="nonce.txt"))
    await lists_all_tools(client)


CHECKS: dict[str, Callable[[Client], Awaitable[None]]] = {
    "list": lists_all_tools,
    "call": calls_tools_of_its_project,
    "progress": hears_of_progress,
    "cancel": cancels_a_call,
    "question": answers_a_question,
    "list change": hears_of_a_changed_list,
    "restart": outlives_a_restart,
    "crash": outlives_a_crash,
    "list change again": hears_of_a_changed_list,
}


def _cell(client: str, ability: str) -> Any:
    reason = CANNOT.get((client, ability))
    return pytest.param(
        client, ability, marks=[pytest.mark.skip(reason=f"{client}: {reason}")] if reason else []
    )


@pytest.mark.parametrize(
    ("name", "ability"), [_cell(client, ability) for ability in ABILITIES for client in CLIENTS]
)
async def test_client_can(crowd: Crowd, name: str, ability: str) -> None:
    client = await crowd.member(name)
    await CHECKS[ability](client)
    client.seen = Counter(client.user.ends)
