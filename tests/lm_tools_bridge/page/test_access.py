"""Who may act on the page: tickets, and the two secrets of a session."""

from __future__ import annotations

from itertools import count

from lm_tools_bridge.page.access import (
    IDLE_S,
    MOST_SESSIONS,
    MOST_TICKETS,
    SESSION_S,
    TICKET_S,
    Access,
    Secrets,
)
from support.clock import ManualClock


class Desk:
    """An access table with a clock of its own and secrets that can be told apart."""

    def __init__(self) -> None:
        numbers = count(1)
        self.clock = ManualClock()
        self.access = Access(self.clock, lambda: f"secret-{next(numbers)}")

    def opened(self) -> Secrets:
        secrets = self.access.open_session(self.access.issue_ticket(), "a browser")
        assert secrets is not None
        return secrets


def test_a_ticket_opens_a_session_whose_two_secrets_may_act() -> None:
    desk = Desk()
    assert desk.access.may_act(*desk.opened())


def test_a_ticket_opens_one_session_only() -> None:
    desk = Desk()
    ticket = desk.access.issue_ticket()
    assert desk.access.open_session(ticket, "first") is not None
    assert desk.access.open_session(ticket, "second") is None


def test_a_ticket_ends_after_a_minute() -> None:
    desk = Desk()
    ticket = desk.access.issue_ticket()
    desk.clock.now += TICKET_S
    assert desk.access.open_session(ticket, "late") is None


def test_a_guessed_ticket_opens_nothing() -> None:
    desk = Desk()
    desk.access.issue_ticket()
    for guess in ("", "secret-2", "secret-1 ", "\ud800", "x" * 100_000):
        assert desk.access.open_session(guess, "guess") is None


def test_the_cookie_alone_may_not_act() -> None:
    desk = Desk()
    cookie, _ = desk.opened()
    assert not desk.access.may_act(cookie, "")


def test_the_proof_alone_may_not_act() -> None:
    desk = Desk()
    _, proof = desk.opened()
    assert not desk.access.may_act("", proof)


def test_secrets_of_two_sessions_do_not_fit_together() -> None:
    desk = Desk()
    first, second = desk.opened(), desk.opened()
    assert not desk.access.may_act(first.cookie, second.proof)


def test_an_unused_session_ends() -> None:
    desk = Desk()
    secrets = desk.opened()
    desk.clock.now += IDLE_S
    assert not desk.access.may_act(*secrets)


def test_use_keeps_a_session_but_not_for_ever() -> None:
    desk = Desk()
    secrets = desk.opened()
    step = IDLE_S / 2
    for _ in range(int(SESSION_S / step) - 1):
        desk.clock.now += step
        assert desk.access.may_act(*secrets)
    desk.clock.now += step
    assert not desk.access.may_act(*secrets)


def test_revoking_ends_sessions_and_tickets() -> None:
    desk = Desk()
    secrets, ticket = desk.opened(), desk.access.issue_ticket()
    assert desk.access.revoke() == 1
    assert not desk.access.may_act(*secrets)
    assert desk.access.open_session(ticket, "revoked") is None
    assert desk.access.sessions() == []


def test_of_too_many_tickets_the_oldest_ends() -> None:
    desk = Desk()
    tickets = [desk.access.issue_ticket() for _ in range(MOST_TICKETS + 1)]
    assert desk.access.open_session(tickets[0], "oldest") is None
    assert desk.access.open_session(tickets[1], "next") is not None


def test_of_too_many_sessions_the_oldest_ends() -> None:
    desk = Desk()
    opened = [desk.opened() for _ in range(MOST_SESSIONS + 1)]
    assert not desk.access.may_act(*opened[0])
    assert all(desk.access.may_act(*one) for one in opened[1:])
    assert len(desk.access.sessions()) == MOST_SESSIONS


def test_one_session_is_ended_by_its_number_and_others_go_on() -> None:
    access = Access(lambda: 0.0, iter(map(str, range(100))).__next__)
    first, second = (access.open_session(access.issue_ticket(), name) for name in ("one", "two"))
    assert first is not None
    assert second is not None
    found = access.revoke_one(1)
    assert found is not None
    assert found.browser == "one"
    assert access.revoke_one(1) is None
    assert not access.may_act(*first)
    assert access.may_act(*second)
    assert [one["number"] for one in access.as_json()] == [2]
