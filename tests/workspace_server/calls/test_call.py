"""The table of the ways a call runs is complete and consistent."""

from __future__ import annotations

import pytest

from workspace_server.calls.call import RULES, Continuation, Way


def test_every_way_has_rules_and_a_reason() -> None:
    assert set(RULES) == set(Way)
    assert len({rules.why for rules in RULES.values()}) == len(Way)
    assert all(rules.why.endswith(".") for rules in RULES.values())


def test_a_call_without_a_task_cannot_outlive_its_request() -> None:
    assert all(rules.needs_task for rules in RULES.values() if rules.may_become)


@pytest.mark.parametrize("way", [Way.NESTED, Way.INTERNAL])
def test_calls_of_the_users_own_programs_never_become_tasks(way: Way) -> None:
    assert Continuation.TASK not in RULES[way].may_become


def test_only_a_passed_through_server_checks_arguments_itself() -> None:
    assert [way for way, rules in RULES.items() if not rules.checks_arguments] == [Way.PASS_THROUGH]
