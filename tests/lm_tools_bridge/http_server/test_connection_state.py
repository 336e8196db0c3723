"""The table of a connection's states: complete, connected, and without a way back from the end."""

from __future__ import annotations

import pytest

from lm_tools_bridge.http_server.connection_state import TRANSITIONS, Event, State

LIVING = [state for state in State if state is not State.CLOSED]


def reachable(start: State) -> set[State]:
    found, waiting = {start}, [start]
    while waiting:
        for state in TRANSITIONS[waiting.pop()].values():
            if state not in found:
                found.add(state)
                waiting.append(state)
    return found


def test_every_state_is_in_the_table_and_can_be_reached() -> None:
    assert set(TRANSITIONS) == set(State)
    assert reachable(State.IDLE) == set(State)


def test_every_event_can_happen() -> None:
    assert {event for events in TRANSITIONS.values() for event in events} == set(Event)


@pytest.mark.parametrize("state", LIVING)
def test_a_connection_can_be_lost_in_every_state(state: State) -> None:
    assert TRANSITIONS[state][Event.LOST] is State.CLOSED


def test_nothing_happens_after_the_end() -> None:
    assert TRANSITIONS[State.CLOSED] == {}
    assert reachable(State.CLOSING) == {State.CLOSING, State.CLOSED}


@pytest.mark.parametrize("state", [State.SERVING, State.DELEGATED, State.DISCARDING])
def test_no_request_is_begun_or_refused_before_the_last_one_is_answered(state: State) -> None:
    begin = {Event.HEAD_ADMITTED, Event.REQUEST_READ, Event.DELEGATED, Event.CALL_CACHED, Event.REFUSED}
    assert begin.isdisjoint(TRANSITIONS[state])
