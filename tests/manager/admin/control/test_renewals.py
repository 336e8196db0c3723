"""Tests of heartbeats that say nothing new."""

from __future__ import annotations

from typing import Any

from manager.admin.control.renewals import MAX_REMEMBERED, Renewals

BEAT: dict[str, Any] = {"sessionId": "s1", "port": 21100, "workspaceFolders": ["/ws/a"]}


class Registry:
    """Renews what `known` holds, and notes it."""

    def __init__(self) -> None:
        self.known = {"s1"}
        self.renewed: list[str] = []

    def renew(self, session_id: str) -> bool:
        self.renewed.append(session_id)
        return session_id in self.known


def test_only_a_heartbeat_that_equals_the_last_accepted_one_renews() -> None:
    registry = Registry()
    renewals = Renewals(registry.renew)
    assert not renewals.renews(BEAT)
    renewals.remember(BEAT)
    assert renewals.renews(dict(BEAT))
    assert not renewals.renews({**BEAT, "port": 21101})
    assert not renewals.renews({**BEAT, "workspaceFile": "/ws/a.code-workspace"})
    assert not renewals.renews({**BEAT, "sessionId": "s2"})
    assert registry.renewed == ["s1"]


def test_the_senders_own_time_does_not_count() -> None:
    renewals = Renewals(Registry().renew)
    renewals.remember({**BEAT, "lastSeen": 1})
    assert renewals.renews({**BEAT, "lastSeen": 2})
    assert renewals.renews(BEAT)


def test_a_registration_that_needs_more_is_not_renewed() -> None:
    registry = Registry()
    renewals = Renewals(registry.renew)
    renewals.remember(BEAT)
    registry.known.clear()
    assert not renewals.renews(BEAT)


def test_what_is_no_heartbeat_renews_nothing() -> None:
    renewals = Renewals(Registry().renew)
    for payload in ({}, {"sessionId": None}, {"sessionId": ["s1"]}):
        assert not renewals.renews(payload)


def test_the_number_of_senders_is_limited() -> None:
    renewals = Renewals(lambda _: True)
    for number in range(MAX_REMEMBERED + 1):
        renewals.remember({**BEAT, "sessionId": f"s{number}"})
    assert not renewals.renews({**BEAT, "sessionId": "s0"})
    assert renewals.renews({**BEAT, "sessionId": f"s{MAX_REMEMBERED}"})
