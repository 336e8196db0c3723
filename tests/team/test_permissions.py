"""What the permissions on the documentation page ensure: a hostile member, and stolen credentials, get no further."""

from __future__ import annotations

import asyncio
import json
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
from lm_tools_bridge.team.calls import parts
from lm_tools_bridge.team.names import ALIVE_BUCKET, HOSTS_BUCKET, inbox_prefix, key_subject
from lm_tools_bridge.team.registry import publisher
from lm_tools_bridge.team.registry.bucket import ensure, listed
from lm_tools_bridge.team.registry.entry import HostEntry, OfferEntry, encoded
from support.clients.stateless_requests import body_of
from support.projects.team_members import team_caller, team_host, until_seen
from support.servers.network.nats_servers import NatsServer, running_nats

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


async def made_to_publish(client: Any, subject: str, payload: bytes, headers: dict[str, str]) -> None:
    """What a member may: to store under her own key, and to have it sent to a subject that she names."""
    own = key_subject(HOSTS_BUCKET, "mallory")
    await client.jetstream().publish(own, payload, headers=headers)
    query = json.dumps({"last_by_subj": own}).encode()
    await client.publish(f"$JS.API.DIRECT.GET.KV_{HOSTS_BUCKET}", query, reply=subject)
    await client.flush()


async def delivered(team: Team, subject: str) -> asyncio.Future[Any]:
    """The next message on a subject, as an administrator hears it."""
    admin = await team.client("admin")
    heard: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def hear(message: Any) -> None:
        if not heard.done():
            heard.set_result(message)
            await admin.close()

    await admin.subscribe(subject, cb=hear)
    await admin.flush()
    return heard


async def test_a_call_that_jetstream_was_made_to_send_runs_nothing(team: Team) -> None:
    """The server itself publishes it on a subject that names another caller."""
    seeds = team.seeds
    async with team_host((team.server.url,), "alice", nkey=str(seeds["alice"])) as host:
        client = await team.client("mallory")
        heard = await delivered(team, "lmtb.call.alice.docs.bob")
        body = json.dumps(body_of("tools/call", {"name": "write", "arguments": {"id": "forged"}})).encode()
        headers = {parts.CALL: "ab" * 16, parts.AT_ONCE: "1"}
        await made_to_publish(client, "lmtb.call.alice.docs.bob", body, headers)
        assert (await asyncio.wait_for(heard, 5)).data == body
        async with team_caller((team.server.url,), "bob", nkey=str(seeds["bob"])) as caller:
            await until_seen(caller.member, "alice")
            assert "result" in await caller.call("write", id="own")  # what came before it was looked at
        assert host.workspace.executed == {"own": 1}
        await client.close()


async def test_a_call_makes_its_host_write_no_entry(team: Team) -> None:
    """A host may answer to any subject that a message names, also to the key of its own entry."""
    seeds = team.seeds
    async with (
        team_host((team.server.url,), "alice", nkey=str(seeds["alice"])) as host,
        team_caller((team.server.url,), "bob", nkey=str(seeds["bob"])) as caller,
    ):
        await until_seen(caller.member, "alice")
        client = await team.client("mallory")
        before = (await listed(caller.member.connection.client, HOSTS_BUCKET))["alice"]
        for call in ("x", "cd" * 16):
            await client.publish("lmtb.call.alice.docs.mallory", b"{", reply=key_subject(HOSTS_BUCKET, "alice"),
                                 headers={parts.CALL: call})  # fmt: skip
        await client.flush()
        assert "result" in await caller.call("read")
        assert (await listed(caller.member.connection.client, HOSTS_BUCKET))["alice"] == before
        assert host.member.publisher.error is None
        await until_seen(caller.member, "alice")
        await client.close()


async def test_a_forged_entry_is_not_believed_and_does_not_stay(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher, "BEAT_S", 1.0)
    seeds = team.seeds
    async with (
        team_host((team.server.url,), "alice", nkey=str(seeds["alice"])) as host,
        team_caller((team.server.url,), "bob", nkey=str(seeds["bob"])) as caller,
    ):
        await until_seen(caller.member, "alice")
        asked = caller.member.connection.client
        own = (await listed(asked, HOSTS_BUCKET))["alice"]
        client = await team.client("mallory")
        heard = await delivered(team, key_subject(HOSTS_BUCKET, "alice"))
        forged = encoded(HostEntry("alice", offers=(OfferEntry("forged", "workspace"),)))
        await made_to_publish(client, key_subject(HOSTS_BUCKET, "alice"), forged, {})
        assert (await asyncio.wait_for(heard, 5)).data == forged
        async with asyncio.timeout(10):
            while host.member.publisher.error is None:
                await asyncio.sleep(0.01)
            while (await listed(asked, HOSTS_BUCKET))["alice"] != own:
                await asyncio.sleep(0.05)
        assert "forges it" in host.member.publisher.error
        assert caller.member.reader.view.names() == ["docs"]
        await client.close()


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
    from lm_tools_bridge.team.membership import Membership
    from support.projects.team_members import running_member

    held = Membership(servers=(team.server.url,), name="alice", nkey=str(unknown))
    async with running_member(held, "http://127.0.0.1:9/mcp") as member, asyncio.timeout(20):
        while member.connection.error is None:
            await asyncio.sleep(0.02)
        assert "authorization" in member.connection.error.lower()
        assert not member.connection.is_up
