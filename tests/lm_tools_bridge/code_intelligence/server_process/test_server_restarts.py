"""A server that ends is started again, ever later while it keeps ending."""

from __future__ import annotations

from lm_tools_bridge.code_intelligence.server_process.server_supervisor import (
    LOOP_ENDS,
    LOOP_WAIT_S,
    SETTLED_S,
    ServerRestarts,
)


def test_pauses_grow_and_end_in_a_long_one() -> None:
    restarts = ServerRestarts()
    pauses = []
    for _ in range(LOOP_ENDS + 1):
        restarts.note_end(100.0, 1.0, 0.5)
        pauses.append(restarts.pause(100.0))
    assert pauses == [0.5, 1.0, 2.0, 4.0, LOOP_WAIT_S, LOOP_WAIT_S]
    assert restarts.looping


def test_a_server_that_lived_long_has_a_clean_record() -> None:
    restarts = ServerRestarts()
    for _ in range(LOOP_ENDS):
        restarts.note_end(100.0, 0.0, 0.5)
    restarts.note_end(300.0, SETTLED_S, 0.5)
    assert not restarts.looping
    assert 0.29 < restarts.pause(300.2) < 0.31
    assert restarts.pause(301.0) == 0.0


def test_before_the_first_end_there_is_no_pause() -> None:
    assert ServerRestarts().pause(5.0) == 0.0
