"""What the permissions on the documentation page ensure: a hostile member, and stolen credentials, get no further."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import nkeys
import pytest
import pytest_asyncio
from nats.aio.client import Client

import manager
from manager.team.names import ALIVE_BUCKET, HOSTS_BUCKET, inbox_prefix
from manager.team.registry.bucket import ensure
from support.projects.team_members import team_caller, team_host, until_seen
from support.servers.nats_servers import NatsServer, running_nats

pytestmark = pytest.mark.asyncio(loop_scope="module")
PAGE = Path(manager.__file__).parents[1] / "docs" / "team.md"
MEMBERS = ("alice", "bob", "mallory")


class Team:
    """A server with the page's permissions for three members, each with a seed in a file."""

    def __init__(self, folder: Path) -> None:
        self.seeds = {name: folder / f"{name}.nk" for name in (*MEMBERS, "admin")}
        for path in self.seeds.values():
            path.write_bytes(nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER))
        block = re.search(r"```conf\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
        assert block is not None
        begin, user, end = re.split(r"(?<=users: \[\n)|(?=    \]\n  \}\n\})", block.group(1))
        users = [
            user.replace("alice", name).replace("ALICE_PUBLIC_KEY", self.public(name)) for name in MEMBERS
        ]
        self.config = f"{begin}{''.join(users)}{{ nkey: {self.public('admin')} }}\n{end}"
        self.server: NatsServer

    def public(self, name: str) -> str:
        return nkeys.from_seed(self.seeds[name].read_bytes()).public_key.decode()

    async def client(self, name: str, problems: list[str] | None = None) -> Any:
        """A plain client with the credentials of a member, as an attacker would use them."""
        client = Client()

        async def on_error(error: Exception) -> None:
            if problems is not None:
                problems.append(str(error))

        await client.connect(
            self.server.url,
            nkeys_seed=str(self.seeds[name]),
            inbox_prefix=inbox_prefix(name),
            error_cb=on_error,
        )
        return client


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def team(nats_program: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Team]:
    folder = tmp_path_factory.mktemp("team")
    made = Team(folder)
    async with running_nats(nats_program, folder, made.config) as made.server:
        admin = await made.client("admin")
        await ensure(admin, HOSTS_BUCKET)
        await ensure(admin, ALIVE_BUCKET)
        await admin.close()
        yield made


async def until_told(problems: list[str]) -> None:
    """The server tells a violation after the fact."""
    async with asyncio.timeout(5):
        while not problems:
            await asyncio.sleep(0.01)


async def test_members_work_with_the_permissions_of_the_page(team: Team) -> None:
    servers, seeds = (team.server.url,), team.seeds
    async with (
        team_host(servers, "alice", nkey=str(seeds["alice"])) as host,
        team_caller(servers, "bob", nkey=str(seeds["bob"])) as caller,
    ):
        await until_seen(caller.member, "alice")
        assert (await caller.call("write", id="one"))["result"]["content"][0]["text"] == "x"
        assert len((await caller.call("big", size=5_000_000))["result"]["content"][0]["text"]) == 5_000_000
        assert caller.member.connection.error is None
        assert host.member.host_calls.answered == {"bob": 2}
        assert host.member.connection.error is None


@pytest.mark.parametrize(
    "subject",
    [
        "lmtb.call.alice.docs.bob",  # a call in the name of another
        "lmtb.control.alice.bob",  # a cancellation in the name of another
        "$KV.lmtb_hosts.alice",  # another host's entry
        "$KV.lmtb_alive.alice",  # another host's heartbeat
        "_INBOX_bob.x",  # a forged answer
        "$JS.API.STREAM.DELETE.KV_lmtb_hosts",  # the whole registry
        "$JS.API.STREAM.PURGE.KV_lmtb_hosts",
        "$SRV.PING",
    ],
)
async def test_a_hostile_member_may_not_send(team: Team, subject: str) -> None:
    problems: list[str] = []
    client = await team.client("mallory", problems)
    await client.publish(subject, b"{}")
    await until_told(problems)
    await client.close()
    assert "permissions violation" in problems[0].lower()


@pytest.mark.parametrize(
    "subject", ["lmtb.call.alice.*.*", "lmtb.call.>", "lmtb.control.alice.*", "_INBOX_bob.>", "_INBOX.>", ">"]
)
async def test_a_hostile_member_may_not_hear(team: Team, subject: str) -> None:
    problems: list[str] = []
    client = await team.client("mallory", problems)
    await client.subscribe(subject, queue="q")
    await until_told(problems)
    await client.close()
    assert "permissions violation" in problems[0].lower()


async def test_credentials_that_are_revoked_get_no_connection(team: Team, tmp_path: Path) -> None:
    unknown = tmp_path / "unknown.nk"
    unknown.write_bytes(nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER))
    from manager.team.membership import Membership
    from support.projects.team_members import running_member

    held = Membership(servers=(team.server.url,), name="alice", nkey=str(unknown))
    async with running_member(held, "http://127.0.0.1:9/mcp") as member, asyncio.timeout(20):
        while member.connection.error is None:
            await asyncio.sleep(0.02)
        assert "authorization" in member.connection.error.lower()
        assert not member.connection.is_up
