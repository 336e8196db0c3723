"""Which host a call is sent to after another one failed, and what its caller is told at the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from lm_tools_bridge.team.calls import parts
from lm_tools_bridge.team.calls.caller import Calls, NoHost
from lm_tools_bridge.team.calls.remote_call import Head, Unknown
from lm_tools_bridge.team.membership import Membership, Use
from lm_tools_bridge.team.registry.entry import AliveEntry, HostEntry, OfferEntry
from lm_tools_bridge.team.registry.view import TeamView

DOCS = Use("docs", "docs")
HEAD = {parts.PART: "head", parts.STATUS: "200", parts.CONTENT_TYPE: "application/json"}
ACCEPTED = {parts.PART: "accepted"}
LOST = {parts.PART: "failed", parts.REASON: "no_answer"}
GONE = {"Status": "503"}


@dataclass
class Message:
    subject: str
    headers: Mapping[str, str]
    data: bytes = b""


class Registry:
    """Hosts that all are there."""

    def __init__(self, *hosts: str) -> None:
        self.view = TeamView()
        for host in hosts:
            self.view.put(host, HostEntry(host, offers=(OfferEntry("docs", "server"),)), 0)

    async def alive(self, client: Any, hosts: list[str]) -> dict[str, AliveEntry]:
        return {host: AliveEntry() for host in hosts}

    def doubt(self, host: str) -> None:
        """Nothing is kept."""


class Client:
    """Answers each attempt by the next row of a script, whichever host gets it."""

    def __init__(self, *script: list[Mapping[str, str]]) -> None:
        self.script = list(script)
        self.asked: list[str] = []
        self.receive: Any = None

    def new_inbox(self) -> str:
        return "_INBOX_me.x"

    async def subscribe(self, subject: str, cb: Any) -> None:
        self.receive = cb

    async def publish(
        self, subject: str, payload: bytes, reply: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        if subject.startswith("lmtb.call."):
            self.asked.append(subject.split(".")[2])
            for said in self.script.pop(0):
                await self.receive(Message(reply, said))


async def outcome(
    *script: list[Mapping[str, str]], may_repeat: bool | str, use: Use = DOCS
) -> tuple[Any, list[str]]:
    """`may_repeat` is a host where it may, or whether it may at all of them."""
    client = Client(*script)
    calls = Calls(Membership(servers=(), name="me"), Registry("a", "b", "c"))
    await calls.listen(client)
    async with calls.call(
        client, use, b"{}", repeats=lambda host: may_repeat in (True, host), deadline_s=60
    ) as answer:
        pass
    assert not calls.in_flight
    return answer, client.asked


@pytest.mark.parametrize("later", [[GONE], [{parts.PART: "refused", parts.REASON: "busy"}]])
async def test_a_call_that_an_earlier_host_may_have_run_is_unknown(later: list[Mapping[str, str]]) -> None:
    answer, asked = await outcome([ACCEPTED, LOST], later, later, may_repeat=True)
    assert (answer, len(asked)) == (Unknown("its host got no answer from its own workspace"), 3)


async def test_an_answer_of_a_later_host_is_the_answer() -> None:
    answer, asked = await outcome([ACCEPTED, LOST], [ACCEPTED, HEAD], may_repeat=True)
    assert isinstance(answer, tuple)
    assert (answer[1], len(asked)) == (Head(200, "application/json"), 2)


async def test_a_call_that_no_host_took_did_not_run() -> None:
    answer, asked = await outcome([GONE], [GONE], [GONE], may_repeat=False)
    assert (answer, len(set(asked))) == (NoHost("gone"), 3)


async def test_a_call_that_may_not_repeat_is_not_sent_again_after_a_loss() -> None:
    answer, asked = await outcome([ACCEPTED, LOST], may_repeat=False)
    assert (answer, len(asked)) == (Unknown("its host got no answer from its own workspace"), 1)


async def test_what_one_host_says_of_a_tool_does_not_count_for_another() -> None:
    """Otherwise a hostile host could have a tool of another one called twice."""
    first = (await outcome([GONE], [GONE], [GONE], may_repeat=False))[1][0]
    for says_so in {"a", "b", "c"} - {first}:
        assert len((await outcome([ACCEPTED, LOST], [ACCEPTED, LOST], may_repeat=says_so))[1]) == 1
    assert len((await outcome([ACCEPTED, LOST], [ACCEPTED, LOST], may_repeat=first))[1]) == 2


async def test_hosts_that_are_not_accepted_are_told_apart_from_none() -> None:
    answer, asked = await outcome(may_repeat=False, use=Use("docs", "docs", ("other",)))
    assert (answer, asked) == (NoHost("not_accepted"), [])
    answer, _ = await outcome(may_repeat=False, use=Use("nothing", "docs"))
    assert answer == NoHost("unknown")
