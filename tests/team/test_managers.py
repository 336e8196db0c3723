"""Two users with managers of their own, joined by the verbs of the command line."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from lm_tools_bridge.team import membership
from lm_tools_bridge.team.membership import OwnOffer
from lm_tools_bridge.team.registry.entry import MAX_OFFERS
from support.processes.managers.manager_home import ManagerHome, manager_home, until
from support.processes.managers.manager_in_process import make_project
from support.servers.network.nats_servers import NatsServer, running_nats

pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass
class User:
    """A user, with a project."""

    home: ManagerHome
    project: Path

    async def lmtb(self, *words: str) -> dict[str, Any]:
        """What a verb prints for programs; it has to succeed."""
        done = await self.home.lmtb(*words, "--json", cwd=self.project)
        assert done.code == 0, (words, done.out, done.err)
        said: dict[str, Any] = json.loads(done.out)
        return said

    async def state(self) -> dict[str, Any]:
        return await self.lmtb("team", "status")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def nats(nats_program: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[NatsServer]:
    async with running_nats(nats_program, tmp_path_factory.mktemp("nats")) as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def alice(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[User]:
    folder = tmp_path_factory.mktemp("alice")
    async with manager_home(folder) as home:
        await home.start()
        yield User(home, make_project(folder / "pages", **{"a.txt": "a page of alice\n"}))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bob(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[User]:
    folder = tmp_path_factory.mktemp("bob")
    required = {"LMTB_REQUIRE_TOKEN": "true"}  # offers are used with a token then
    async with manager_home(folder, environ=required) as home:
        await home.start()
        yield User(home, make_project(folder / "mine", **{"b.txt": "b\n"}))


async def connected(user: User) -> None:
    def looks() -> bool:
        return bool(user.home.control.get("/team").get("connected"))

    await until(looks, 30, lambda: user.home.control.get("/team"))


async def until_offered(user: User, offer: str) -> None:
    """Wait until a user sees an offer whose host is there."""

    def looks() -> bool:
        rows = user.home.control.get("/team/offers").get("offers", ())
        return any(
            one["name"] == offer and one["hosts"] and one["hosts"][0]["state"] == "ready" for one in rows
        )

    await until(looks, 30, lambda: user.home.control.get("/team/offers"))


async def until_recorded(user: User, is_it: Callable[[dict[str, Any]], bool]) -> None:
    """Wait for the record of a call, which a thread of the manager writes within a second."""
    deadline = time.monotonic() + 20
    while not any(map(is_it, found := (await user.lmtb("calls"))["calls"])):
        assert time.monotonic() < deadline, found


async def join(user: User, nats: NatsServer, name: str) -> None:
    """Bring a user into the team under this name."""
    if (await user.state())["joined"]:
        return
    joined = await user.lmtb("team", "join", nats.url, "--name", name)
    assert (joined["connected"], joined["registry"]["listed"], joined["error"]) == (True, True, None)


@pytest_asyncio.fixture(loop_scope="module")
async def team(nats: NatsServer, alice: User, bob: User) -> None:
    """Both are in the team, and bob uses the project of alice, whatever tests before this one left."""
    await join(alice, nats, "alice")
    await join(bob, nats, "bob")
    if "pages" not in [offer["name"] for offer in (await alice.state())["offers"]]:
        offered = await alice.lmtb("team", "offer", "--yes", "--title", "Pages")
        assert "lm_readFile" in offered["tools"]
        assert (offered["offer"], offered["policy"]) == ("pages", "read-only")
    await until_offered(bob, "pages")
    file = bob.home.paths.config_dir / "workspace.toml"
    is_new = not file.exists()
    used = await bob.lmtb("team", "use", "pages", "--yes")
    assert (used["namespace"], used["hosts"], used["written"]) == ("pages", ["alice"], is_new)


@pytest_asyncio.fixture(loop_scope="module")
async def without_team(bob: User) -> None:
    """Bob is in no team."""
    if (await bob.state())["joined"]:
        await bob.lmtb("team", "leave")


async def read_page(bob: User, offer: str = "pages") -> None:
    """Call a tool of alice's project as bob."""
    answer = await bob.lmtb("call", f"{offer}__lm_readFile", '{"filePath": "a.txt"}')
    assert "a page of alice" in json.dumps(answer)


async def use_narrow_offer(alice: User, bob: User) -> dict[str, Any]:
    """Have bob use a second offer of alice's project, which has few tools."""
    offered = await alice.lmtb("team", "offer", "--yes", "--name", "narrow", "--tools", "lm_read*, lm_find*",
                               "--without", "lm_findText*")  # fmt: skip
    await until_offered(bob, "narrow")
    await bob.lmtb("team", "use", "narrow", "--yes")
    return offered


async def test_nothing_of_nats_is_loaded_without_a_team(tmp_path: Path) -> None:
    async with manager_home(tmp_path) as home:
        await home.start()
        user = User(home, make_project(tmp_path / "app"))
        assert await user.state() == {"ok": True, "joined": False, "error": None}
        pid = (await home.status())["pid"]
        maps = Path(f"/proc/{pid}/maps").read_text() if Path("/proc").is_dir() else ""
        assert "nacl" not in maps


@pytest.mark.usefixtures("team")
async def test_an_offer_is_used_in_the_project_of_another_user(bob: User) -> None:
    shown = (await bob.lmtb("team", "offers"))["offers"]
    assert ("pages", "Pages", "alice") in [
        (offer["name"], offer["title"], offer["hosts"][0]["host"]) for offer in shown
    ]
    await read_page(bob)


@pytest.mark.usefixtures("team")
async def test_the_call_is_recorded_on_both_sides(alice: User, bob: User) -> None:
    await read_page(bob)
    await until_recorded(
        alice, lambda one: one["client"].startswith("team:bob") and one["tool"] == "lm_readFile"
    )
    await until_recorded(bob, lambda one: one["tool"] == "pages__lm_readFile")


@pytest.mark.usefixtures("team")
async def test_offers_of_a_workspace_do_not_come_back_over_the_team(alice: User, bob: User) -> None:
    """Lists of two workspaces that use each other would grow for ever."""
    offered = await bob.lmtb("team", "offer", "--yes", "--name", "mine")
    assert not [one for one in offered["tools"] if one.startswith("pages__")]
    assert "lm_readFile" in offered["tools"]
    await bob.lmtb("team", "withdraw", "mine")


@pytest.mark.usefixtures("team")
async def test_an_offer_that_is_not_used_cannot_be_called(bob: User) -> None:
    await bob.lmtb("team", "unuse", "pages")
    done = await bob.home.lmtb(
        "call", "pages__lm_readFile", '{"filePath": "a.txt"}', "--json", cwd=bob.project
    )
    assert done.code != 0
    await bob.lmtb("team", "use", "pages", "--yes")


@pytest.mark.usefixtures("team")
async def test_an_offer_is_narrowed_to_tools(alice: User, bob: User) -> None:
    offered = await use_narrow_offer(alice, bob)
    assert "lm_readFile" in offered["tools"]
    assert all(one.startswith(("lm_read", "lm_find")) for one in offered["tools"])
    assert "lm_findTextInFiles" not in offered["tools"]
    shown = {one["name"]: (one["include"], one["exclude"]) for one in (await alice.state())["offers"]}
    assert shown == {"pages": ([], []), "narrow": (["lm_read*", "lm_find*"], ["lm_findText*"])}
    await read_page(bob, "narrow")
    done = await bob.home.lmtb("call", "narrow__lm_findTextInFiles", '{"query": "page"}', cwd=bob.project)
    assert done.code != 0
    done = await alice.home.lmtb("team", "offer", "--yes", "--tools", "lm_edit*", "--json", cwd=alice.project)
    failure = json.loads(done.out)["error"]
    assert (failure["reason"], "--tools" in failure["message"]) == ("nothing_to_offer", True)


@pytest.mark.usefixtures("team")
async def test_an_offer_is_used_again_as_it_was_first(alice: User, bob: User) -> None:
    """To accept hosts that came later."""
    await use_narrow_offer(alice, bob)
    file = bob.home.paths.config_dir / "workspace.toml"
    before = file.read_text()
    again = await bob.lmtb("team", "use", "pages", "--yes")
    assert (again["namespace"], again["written"]) == ("pages", False)
    for words, reason in (
        (("pages", "--as", "other"), "already_used"),
        (("pages", "--project", str(bob.project)), "already_used"),
        (("narrow", "--as", "pages"), "already_used"),
    ):
        done = await bob.home.lmtb("team", "use", *words, "--yes", "--json", cwd=bob.project)
        failure = json.loads(done.out)["error"]
        assert (failure["reason"], str(file) in failure["nextStep"]) == (reason, True)
    assert file.read_text() == before
    uses = {one["offer"]: one["namespace"] for one in (await bob.state())["uses"]}
    assert uses == {"pages": "pages", "narrow": "narrow"}


@pytest.mark.usefixtures("team")
async def test_no_more_is_offered_than_others_read(bob: User) -> None:
    folder = bob.home.paths.config_dir
    many = tuple(OwnOffer(f"o{number}", str(bob.project)) for number in range(MAX_OFFERS))
    held = membership.change(folder, lambda now: msgspec.structs.replace(now, offers=many))
    done = await bob.home.lmtb("team", "offer", "--yes", "--name", "last", "--json", cwd=bob.project)
    membership.change(folder, lambda now: msgspec.structs.replace(now, offers=()))
    failure = json.loads(done.out)["error"]
    assert (failure["reason"], "withdraw" in failure["nextStep"]) == ("too_many_offers", True)
    assert len(held.offers) == MAX_OFFERS


@pytest.mark.usefixtures("team")
async def test_a_manager_that_is_restarted_is_in_the_team_again(alice: User, bob: User) -> None:
    done = await alice.home.lmtb("restart")
    assert done.code == 0, done.err
    await connected(alice)
    await until_offered(bob, "pages")
    await read_page(bob)


@pytest.mark.usefixtures("team")
async def test_leaving_takes_the_offers_away(alice: User, bob: User) -> None:
    assert (await alice.lmtb("team", "leave"))["left"] is True
    assert not (await alice.state())["joined"]

    def gone() -> bool:
        return not bob.home.control.get("/team/offers").get("offers")

    await until(gone, 30, lambda: bob.home.control.get("/team/offers"))
    assert (await bob.lmtb("team", "leave"))["left"] is True
    assert (await bob.lmtb("team", "leave"))["left"] is False


@pytest.mark.usefixtures("without_team")
async def test_joining_tells_at_once_why_there_is_no_connection(bob: User) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        joined = await bob.lmtb("team", "join", f"nats://127.0.0.1:{taken.getsockname()[1]}")
    assert not joined["connected"]
    assert "refused" in joined["error"].lower()
    assert (await bob.lmtb("team", "leave"))["left"] is True


@pytest.mark.usefixtures("without_team")
@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("join", "nats://me:secret@127.0.0.1:4222"), "secret_in_url"),
        (("join", "http://127.0.0.1:4222"), "invalid_url"),
        (("join", "nowhere-context"), "no_context"),
        (("join", "nats://127.0.0.1:4222", "--creds", "/nowhere/x.creds"), "no_file"),
        (("join", "nats://127.0.0.1:4222", "--name", "a.b"), "invalid_name"),
        (("offer", "--yes"), "not_joined"),
        (("use", "x", "--yes"), "not_joined"),
        (("withdraw", "x"), "not_joined"),
    ],
)
async def test_what_cannot_be_done_is_refused_with_a_reason(
    bob: User, words: tuple[str, ...], reason: str
) -> None:
    done = await bob.home.lmtb("team", *words, "--json", cwd=bob.project)
    assert done.code == 1
    failure = json.loads(done.out)["error"]
    assert failure["reason"] == reason
    assert "secret" not in failure["message"].replace("a secret", "")
    assert failure["nextStep"]
