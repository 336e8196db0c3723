"""Tests of the lifecycle of a workspace server: all transitions, back-off and crash loop."""

from __future__ import annotations

import itertools

import pytest

from manager.routing.state.lifecycle import (
    FAST_EXIT_S,
    FAST_EXITS,
    RETRY_LOOPING_S,
    TRANSITIONS,
    Event,
    Lifecycle,
    State,
)

S, E = State, Event
MIDDLE = 0.5
"""The random value that gives the exact pause."""

TABLE = {
    (S.STOPPED, E.START): S.STARTING,
    (S.STOPPED, E.STOP): S.STOPPED,
    (S.STOPPED, E.LOOPED): S.CRASH_LOOPING,
    (S.STARTING, E.ANSWERED): S.READY,
    (S.STARTING, E.EXITED): S.STOPPED,
    (S.STARTING, E.STOP): S.STOPPING,
    (S.READY, E.ANSWERED): S.READY,
    (S.READY, E.MISSED): S.SUSPECT,
    (S.READY, E.EXITED): S.STOPPED,
    (S.READY, E.STOP): S.STOPPING,
    (S.SUSPECT, E.ANSWERED): S.READY,
    (S.SUSPECT, E.MISSED): S.SUSPECT,
    (S.SUSPECT, E.GAVE_UP): S.UNHEALTHY,
    (S.SUSPECT, E.EXITED): S.STOPPED,
    (S.SUSPECT, E.STOP): S.STOPPING,
    (S.UNHEALTHY, E.ANSWERED): S.READY,
    (S.UNHEALTHY, E.MISSED): S.UNHEALTHY,
    (S.UNHEALTHY, E.GAVE_UP): S.UNHEALTHY,
    (S.UNHEALTHY, E.EXITED): S.STOPPED,
    (S.UNHEALTHY, E.STOP): S.STOPPING,
    (S.STOPPING, E.EXITED): S.STOPPED,
    (S.STOPPING, E.STOP): S.STOPPING,
    (S.CRASH_LOOPING, E.START): S.STARTING,
    (S.CRASH_LOOPING, E.STOP): S.STOPPED,
}

DEEDS = {
    E.START: lambda life: life.start(100.0),
    E.ANSWERED: lambda life: life.answered(),
    E.MISSED: lambda life: life.missed(100.0),
    E.EXITED: lambda life: life.exited(100.0, MIDDLE),
    E.STOP: lambda life: life.stop(),
}
"""Calls that cause an event; `unhealthy` and `crash looping` follow from misses and exits."""


def started(now: float = 0.0, *, misses_allowed: int = 3) -> Lifecycle:
    life = Lifecycle(misses_allowed=misses_allowed)
    life.start(now)
    life.answered()
    return life


@pytest.mark.parametrize(
    "pair", list(itertools.product(State, Event)), ids=lambda pair: f"{pair[0].value}-{pair[1].value}"
)
def test_the_table_holds_exactly_these_transitions(pair: tuple[State, Event]) -> None:
    state, event = pair
    assert TRANSITIONS[state].get(event) is TABLE.get(pair)


@pytest.mark.parametrize(
    ("state", "event"),
    [(state, event) for state in State for event in DEEDS],
    ids=lambda one: one.value,
)
def test_an_event_follows_the_table_or_raises_an_exception(state: State, event: Event) -> None:
    life = Lifecycle(state=state, misses_allowed=99)
    if (state, event) in TABLE:
        DEEDS[event](life)
        assert life.state is TABLE[state, event]
    elif state is S.STARTING and event is E.MISSED:
        life.missed(1.0)  # a start is not measured by health requests
        assert life.state is S.STARTING
    else:
        with pytest.raises(KeyError):
            DEEDS[event](life)


def test_only_ready_and_suspect_servers_get_calls() -> None:
    assert {state for state in State if Lifecycle(state=state).is_serving} == {S.READY, S.SUSPECT}


def test_three_health_misses_in_a_row_make_it_unhealthy() -> None:
    life = started()
    states = []
    for now in (5.0, 10.0, 15.0, 20.0):
        life.missed(now)
        states.append(life.state)
    assert states == [S.SUSPECT, S.SUSPECT, S.UNHEALTHY, S.UNHEALTHY]
    assert life.hung_for(25.0) == 20.0


def test_one_answer_resets_the_misses() -> None:
    life = started()
    life.missed(1.0)
    life.missed(2.0)
    life.answered()
    assert (life.state, life.hung_for(9.0)) == (S.READY, 0.0)
    life.missed(3.0)
    life.missed(4.0)
    assert life.state is S.SUSPECT


def test_a_new_start_resets_the_misses() -> None:
    life = started()
    life.missed(1.0)
    life.exited(100.0, MIDDLE)
    life.start(101.0)
    life.answered()
    assert life.hung_for(200.0) == 0.0


def test_after_an_exit_the_next_start_waits() -> None:
    life = started()
    life.exited(1.0, MIDDLE)
    assert life.restarts == 1
    assert life.wait_before_start(1.0) == 0.5
    assert life.wait_before_start(1.4) == pytest.approx(0.1)
    assert life.wait_before_start(99.0) == 0.0


def test_five_fast_exits_are_a_crash_loop() -> None:
    life = Lifecycle()
    for attempt in range(1, FAST_EXITS + 1):
        assert life.state is S.STOPPED
        life.start(attempt * 100.0)
        life.answered()
        life.exited(attempt * 100.0 + FAST_EXIT_S - 0.1, MIDDLE)
    assert FAST_EXITS == 5
    assert life.state is S.CRASH_LOOPING
    assert life.wait_before_start(attempt * 100.0 + FAST_EXIT_S - 0.1) == RETRY_LOOPING_S


def test_an_exit_before_ready_is_a_fast_exit() -> None:
    life = Lifecycle()
    for now in range(0, 500, 100):
        life.start(float(now))
        life.exited(now + 99.0, MIDDLE, never_ready=True)
    assert life.state is S.CRASH_LOOPING


def test_a_long_run_resets_the_fast_exits() -> None:
    life = Lifecycle()
    for now in range(0, 2000, 100):
        life.start(float(now))
        life.answered()
        life.exited(now + (FAST_EXIT_S if now % 300 == 0 else 1.0), MIDDLE)
    assert life.state is S.STOPPED
    assert life.restarts == 20


def test_another_failure_keeps_the_crash_loop() -> None:
    life = Lifecycle(state=S.CRASH_LOOPING, fast_exits=FAST_EXITS)
    life.start(1000.0)
    life.exited(1001.0, MIDDLE, never_ready=True)
    assert life.state is S.CRASH_LOOPING
    assert life.wait_before_start(1001.0) == RETRY_LOOPING_S


def test_a_crash_loop_can_last_a_day() -> None:
    """The back-off does not overflow a float."""
    life = Lifecycle(state=S.CRASH_LOOPING, fast_exits=1440)
    life.start(1000.0)
    life.exited(1001.0, MIDDLE)
    assert life.wait_before_start(1001.0) == RETRY_LOOPING_S


def test_a_requested_stop_is_no_crash() -> None:
    life = started()
    life.stop()
    life.exited(1.0, MIDDLE)
    assert (life.state, life.restarts, life.fast_exits, life.wait_before_start(1.0)) == (S.STOPPED, 0, 0, 0.0)


def test_a_stop_ends_a_crash_loop() -> None:
    life = Lifecycle(state=S.CRASH_LOOPING, fast_exits=7, not_before=1e9)
    life.stop()
    assert (life.state, life.fast_exits, life.wait_before_start(0.0)) == (S.STOPPED, 0, 0.0)


def test_a_handshake_skips_the_back_off_once() -> None:
    life = started()
    life.exited(1.0, MIDDLE)
    life.forgive()
    assert life.wait_before_start(1.0) == 0.0
    life.start(1.0)
    life.exited(2.0, MIDDLE, never_ready=True)
    assert life.wait_before_start(2.0) == 1.0
