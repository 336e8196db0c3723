"""A server that works on its answer is slow; one that sleeps, is stopped or spins hangs."""

from __future__ import annotations

import pytest

from manager.routing.state.lifecycle import SLOW_S, Lifecycle, State
from manager.routing.state.slowness import ProcessorTime, is_slow


@pytest.mark.parametrize(
    ("ran", "waited", "blocked", "slow"),
    [
        (0.0, 0.0, False, False),  # asleep, or stopped
        (0.0001, 0.0002, False, False),
        (0.001, 0.9, False, True),  # others have the processors
        (0.0, 0.5, False, True),
        (0.3, 0.0, False, True),  # works
        (0.99, 0.0, False, False),  # an endless loop
        (0.0, 0.0, True, True),  # its memory is swapped out
    ],
)
def test_what_it_does_while_it_is_waited_for_tells(
    ran: float, waited: float, blocked: bool, slow: bool
) -> None:
    before = ProcessorTime(7.0, 3.0)
    assert is_slow(before, ProcessorTime(7.0 + ran, 3.0 + waited, blocked), 1.0) is slow


def test_a_server_of_which_nothing_is_known_is_not_slow() -> None:
    assert not is_slow(None, ProcessorTime(1.0), 1.0)
    assert not is_slow(ProcessorTime(1.0), None, 1.0)


def serving() -> Lifecycle:
    cycle = Lifecycle()
    cycle.start(0.0)
    cycle.answered()
    return cycle


def test_a_slow_server_keeps_its_calls_until_it_was_silent_for_too_long() -> None:
    cycle = serving()
    for now in range(5, int(SLOW_S), 5):
        cycle.missed(now, is_slow=True)
        assert (cycle.state, cycle.is_serving, cycle.hung_for(now)) == (State.SUSPECT, True, 0.0)
    for now in (SLOW_S + 5, SLOW_S + 10, SLOW_S + 15):
        cycle.missed(now, is_slow=True)
    assert cycle.state is State.UNHEALTHY
    assert cycle.hung_for(SLOW_S + 15) == 10.0


def test_an_answer_ends_the_silence() -> None:
    cycle = serving()
    cycle.missed(5.0, is_slow=True)
    cycle.answered()
    cycle.missed(SLOW_S + 6.0, is_slow=True)
    assert cycle.misses == 0


def test_misses_of_a_hanging_server_count_beside_slow_ones() -> None:
    cycle = serving()
    for slow in (False, True, False, True, False):
        assert cycle.state is not State.UNHEALTHY
        cycle.missed(5.0, is_slow=slow)
    assert cycle.state is State.UNHEALTHY
