"""Checks of files that take long rest, so that a project cannot make each request long."""

from __future__ import annotations

import pytest

from workspace_server.catalog.active_sources import BRIEF_S, REST, CheckRest


class Machine:
    """A machine on which a check takes `costs` seconds of processor time."""

    def __init__(self, costs: float) -> None:
        self.costs = costs
        self.now, self.used, self.checks = 100.0, 0.0, 0
        self.rest = CheckRest(lambda: self.now, lambda: self.used)

    def request(self, decisions: int = 0) -> bool:
        """A request arrives; returns whether its check was made."""
        if self.rest.may_hold and self.rest.holds(decisions):
            return False
        with self.rest.measured():
            self.rest.note(decisions)
            self.used += self.costs
            self.now += self.costs
            self.checks += 1
        return True


def test_a_brief_check_is_made_for_every_request() -> None:
    machine = Machine(BRIEF_S * 0.9)
    assert all(machine.request() for _ in range(20))


@pytest.mark.parametrize("costs", [BRIEF_S * 1.1, 1.2, 30.0])
def test_a_long_check_takes_a_tenth_of_the_time_at_most(costs: float) -> None:
    machine, end = Machine(costs), 100.0 + 100 * costs
    while machine.now < end:
        machine.request()
        machine.now += costs / 100
    assert 9 <= machine.checks <= 100 / (1 + REST) + 1


def test_after_a_decision_of_the_user_the_check_is_made_at_once() -> None:
    machine = Machine(2.0)
    assert [machine.request(decisions) for decisions in (1, 1, 2, 2)] == [True, False, True, False]


def test_a_rest_can_be_ended() -> None:
    machine = Machine(2.0)
    assert machine.request()
    machine.rest.end()
    assert machine.request()


def test_a_check_that_became_brief_rests_no_more() -> None:
    machine = Machine(2.0)
    machine.request()
    machine.costs, machine.now = 0.0, machine.now + REST * 2.0
    assert all(machine.request() for _ in range(3))


def test_a_check_that_fails_does_not_rest() -> None:
    machine = Machine(2.0)
    with pytest.raises(OSError), machine.rest.measured():
        machine.used += 2.0
        raise OSError
    assert not machine.rest.holds(None)
