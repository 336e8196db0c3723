"""TLS with a certificate authority of one's own, and credentials of accounts: JWTs of an operator."""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from nats.aio.client import Client
from nats.errors import NoRespondersError

import manager
from lm_tools_bridge.team import reports
from lm_tools_bridge.team.member import Member
from lm_tools_bridge.team.membership import Membership, OwnOffer
from lm_tools_bridge.team.names import ALIVE_BUCKET, HOSTS_BUCKET
from lm_tools_bridge.team.registry.bucket import ensure
from support.projects.team_members import running_member, team_caller, team_host, until_seen
from support.servers.network.certificates import Authority
from support.servers.network.nats_operator import Account, Operator
from support.servers.network.nats_servers import NatsServer, running_nats

pytestmark = pytest.mark.asyncio(loop_scope="module")
PAGE = Path(manager.__file__).parents[1] / "docs" / "team.md"
NOWHERE = "http://127.0.0.1:9/mcp"
HOUR_NS = 3600 * 10**9


def of_the_page() -> dict[str, Any]:
    """The permissions of the documentation page, for any name, as a scoped signing key has them."""
    block = re.search(r"```conf\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert block is not None
    found = {
        kind: re.findall(r'"([^"]+)"', re.search(rf"{kind}: \[(.*?)\]", block.group(1), re.DOTALL)[1])
        for kind in ("publish", "subscribe")
    }
    publish, subscribe = ([one.replace("alice", "{{name()}}") for one in found[kind]] for kind in found)
    return {
        "pub": {"allow": publish},
        "sub": {"allow": subscribe},
        "resp": {"max": 100_000, "ttl": HOUR_NS},
    }


@dataclass
class World:
    """A server with TLS and two teams, each an account; `users` are files of credentials, and public keys."""

    server: NatsServer
    config: Callable[[], str]
    authority: Authority
    team: Account
    users: dict[str, tuple[Path, str]]

    @property
    def servers(self) -> tuple[str, ...]:
        return (f"tls://127.0.0.1:{self.server.port}",)

    def files(self, user: str) -> dict[str, str]:
        """What `lmtb team join` is given as paths."""
        return {"creds": str(self.users[user][0]), "ca": str(self.authority.file)}

    def held(self, user: str, **members: Any) -> Membership:
        given = {"servers": self.servers, "name": user, **self.files(user), **members}
        return Membership(**given)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(nats_program: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    folder = tmp_path_factory.mktemp("operator")
    authority = Authority(folder, "own-ca")
    issued = authority.issue("server", "127.0.0.1")
    team, other = Account("TEAM", of_the_page()), Account("OTHER", of_the_page())
    operator = Operator(team, other)
    tls = f"tls {{ cert_file: '{issued.cert}', key_file: '{issued.key}' }}\n"
    users = {name: team.user(folder, name) for name in ("alice", "bob", "carol", "dave")}
    users["eve"] = other.user(folder, "eve")
    users["late"] = team.user(folder, "late", exp=int(time.time()) - 60)
    async with running_nats(nats_program, folder, tls + operator.config()) as server:
        for account in (team, other):
            await with_buckets(server, account.administrator(folder), authority)
        yield World(server, lambda: tls + operator.config(), authority, team, users)


async def told(member: Member) -> str:
    """The problem of a connection."""
    async with asyncio.timeout(30):
        while member.connection.error is None:
            await asyncio.sleep(0.02)
    return member.connection.error


async def with_buckets(server: NatsServer, creds: Path, authority: Authority) -> None:
    """Make the buckets of a team, as its administrator."""
    client = Client()
    tls = ssl.create_default_context(cafile=authority.file)
    await client.connect(server.url, user_credentials=str(creds), tls=tls)
    for bucket in (HOSTS_BUCKET, ALIVE_BUCKET):
        await ensure(client, bucket)
    await client.close()


async def test_members_with_credentials_of_an_operator_work_over_tls(world: World) -> None:
    """With the permissions of the page, from one scoped signing key for all."""
    async with (
        team_host(world.servers, "alice", **world.files("alice")) as host,
        team_caller(world.servers, "bob", **world.files("bob")) as caller,
    ):
        await until_seen(caller.member, "alice")
        assert (await caller.call("write", id="one"))["result"]["content"][0]["text"] == "x"
        assert host.member.host_calls.answered == {"bob": 1}
        assert (caller.member.connection.error, host.member.connection.error) == (None, None)


async def test_another_account_sees_and_reaches_nothing(world: World) -> None:
    """Also with the name and the offer of a member of the team."""
    async with (
        team_host(world.servers, "alice", **world.files("alice")) as host,
        team_caller(world.servers, "eve", ("alice",), **world.files("eve")) as eve,
    ):
        assert (await reports.offers(eve.member, ""))["offers"] == []
        assert (await eve.call("read"))["error"]["data"]["delivered"] == "no"
        with pytest.raises(NoRespondersError):
            await eve.member.connection.client.request("lmtb.call.alice.docs.eve", b"{}", timeout=5)
        assert (host.workspace.seen, host.member.host_calls.answered) == ({}, {})


@pytest.mark.parametrize("trusted", ["none", "other"])
async def test_a_server_of_another_authority_is_told_nothing(
    world: World, tmp_path: Path, trusted: str
) -> None:
    ca = None if trusted == "none" else str(Authority(tmp_path, "other-ca").file)
    async with running_member(world.held("alice", ca=ca), NOWHERE) as member:
        said = await told(member)
        assert "the certificate of the server is not trusted" in said
        assert "join with the team's certificates: --ca FILE" in said
        assert not member.connection.is_up


async def test_a_certificate_for_another_address_is_refused(world: World) -> None:
    servers = (f"tls://localhost:{world.server.port}",)
    async with running_member(world.held("alice", servers=servers), NOWHERE) as member:
        said = await told(member)
        assert "not trusted" in said
        assert "check the address" in said


async def test_credentials_that_expired_are_refused(world: World) -> None:
    async with running_member(world.held("late"), NOWHERE) as member:
        async with asyncio.timeout(30):
            while "does not accept the credentials" not in (said := await told(member)):
                assert "may not accept the credentials" in said  # it hung up before its word was read
                await asyncio.sleep(0.05)
        assert not member.ready.is_set()


async def test_stolen_credentials_speak_for_their_owner_alone(world: World) -> None:
    """A thief takes the name of another member: it gets no calls of that one, and changes no entry."""
    async with (
        team_host(world.servers, "alice", **world.files("alice")) as host,
        team_caller(world.servers, "bob", ("alice",), **world.files("bob")) as caller,
    ):
        await until_seen(caller.member, "alice")
        before = caller.member.reader.view.providers("docs")
        thief = Membership(servers=world.servers, name="alice", offers=(OwnOffer("docs", "/x", policy="all"),),
                           **world.files("carol"))  # fmt: skip
        async with running_member(thief, NOWHERE) as member:
            assert "permissions violation" in (await told(member)).lower()
            for number in range(5):
                assert "result" in await caller.call("write", id=f"n{number}")
            assert member.host_calls.answered == {}
        assert caller.member.reader.view.providers("docs") == before
        assert host.workspace.executed == {f"n{number}": 1 for number in range(5)}


async def test_credentials_that_are_revoked_end_their_connection(world: World) -> None:
    """At once, with a call that runs; others go on."""
    async with (
        team_host(world.servers, "alice", **world.files("alice")) as host,
        team_caller(world.servers, "dave", ("alice",), **world.files("dave")) as dave,
        team_caller(world.servers, "bob", ("alice",), **world.files("bob")) as bob,
    ):
        await until_seen(dave.member, "alice")
        await until_seen(bob.member, "alice")
        running = asyncio.create_task(dave.call("slow"))
        async with asyncio.timeout(10):
            await host.workspace.running.wait()
        world.team.revoked[world.users["dave"][1]] = int(time.time()) + 1
        world.server.config = world.config()
        world.server.reload()
        assert (await asyncio.wait_for(running, 30))["error"]["data"]["delivered"] == "unknown"
        async with asyncio.timeout(30):
            while "does not accept the credentials" not in (dave.member.connection.error or ""):
                await asyncio.sleep(0.05)
            while host.member.host_calls.gate.in_flight:
                await asyncio.sleep(0.05)
        assert (await dave.call("read"))["error"]["data"]["delivered"] == "no"
        assert "result" in await bob.call("read")
        assert host.workspace.cancelled == 1


async def test_a_server_that_wants_certificates_of_clients_gets_them(
    nats_program: Path, tmp_path: Path
) -> None:
    authority = Authority(tmp_path, "ca")
    issued, own = authority.issue("server", "127.0.0.1"), authority.issue("alice")
    tls = f"tls {{ cert_file: '{issued.cert}', key_file: '{issued.key}', ca_file: '{authority.file}', verify: true }}"
    async with running_nats(nats_program, tmp_path, tls) as server:
        held = Membership(servers=(server.url,), name="alice", ca=str(authority.file))
        async with running_member(held, NOWHERE) as member:
            assert "TLS fails" in await told(member)
        held = msgspec.structs.replace(held, cert=str(own.cert), key=str(own.key))
        async with running_member(held, NOWHERE) as member, asyncio.timeout(20):
            await member.ready.wait()
            assert member.connection.error is None
