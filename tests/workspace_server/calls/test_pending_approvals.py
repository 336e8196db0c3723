"""Calls that wait for a person: each takes one answer, the first, and none once its time is over."""

from __future__ import annotations

import asyncio

import pytest

from workspace_server.calls.pending_approvals import PendingApproval, PendingApprovals


def call(identity: str = "a", *, waits: bool = True, seconds: float = 60.0, **other: str) -> PendingApproval:
    members = {"tool": "run", "client": "c", "question": "Run run?", "caller": "", **other}
    return PendingApproval(identity, **members, since=100.0, until=100.0 + seconds, waits=waits)


@pytest.mark.parametrize("waits", [True, False])
async def test_the_first_answer_counts(waits: bool) -> None:
    pending, one = PendingApprovals(), call(waits=waits)
    assert pending.add(one)
    assert pending.answer("a", approve=False) == "denied"
    assert pending.answer("a", approve=True) == ("gone" if waits else "late")
    assert one.approved is False


async def test_after_its_time_a_call_takes_no_answer() -> None:
    pending, one = PendingApprovals(), call(seconds=0.0)
    pending.add(one)
    assert await asyncio.wait_for(one.answer, 5) is None
    assert pending.answer("a", approve=True) == "gone"
    assert one.approved is None
    assert pending.as_json() == []


async def test_a_withdrawn_call_takes_no_answer() -> None:
    pending, one = PendingApprovals(), call()
    pending.add(one)
    pending.withdraw("a")
    pending.withdraw("a")
    assert pending.answer("a", approve=True) == "gone"
    assert one.approved is None


async def test_an_answer_stays_known_until_the_client_comes_for_it() -> None:
    pending = PendingApprovals()
    pending.add(call(waits=False))
    assert pending.answer_of("a") is None
    pending.answer("a", approve=True)
    assert pending.answer_of("a") is True
    assert pending.as_json()[0]["approved"] is True
    pending.withdraw("a")
    assert pending.answer_of("a") is None


async def test_with_the_manager_only_calls_of_sessions_end() -> None:
    pending = PendingApprovals()
    pending.add(call("a", caller="s1", waits=False))
    pending.add(call("b", waits=False))
    pending.withdraw_sessions()
    assert [one["id"] for one in pending.as_json()] == ["b"]


async def test_too_many_calls_and_a_server_that_stops_take_no_more() -> None:
    pending = PendingApprovals(most=1)
    assert pending.add(call("a"))
    assert not pending.add(call("b"))
    pending.close()
    assert not pending.add(call("c"))
    assert pending.answer("a", approve=True) == "gone"


async def test_listeners_hear_every_change_until_they_leave() -> None:
    pending, heard = PendingApprovals(), []
    leave = pending.listen(lambda: heard.append(pending.changes))
    pending.add(call(waits=False))
    pending.answer("a", approve=True)
    leave()
    pending.withdraw("a")
    assert heard == [1, 2]


async def test_an_id_that_is_taken_is_refused() -> None:
    pending, first, second = PendingApprovals(), call(), call(tool="other")
    assert pending.add(first)
    assert not pending.add(second)
    assert pending.answer("a", approve=True) == "approved"
    assert (first.approved, second.approved) == (True, None)
