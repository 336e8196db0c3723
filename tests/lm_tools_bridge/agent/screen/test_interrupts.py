"""Ctrl-C cancels what runs; the agent leaves only if it is pressed twice within 2 s."""

from __future__ import annotations

from lm_tools_bridge.agent.screen.interrupts import TWICE_S, Interrupts
from support.clock import ManualClock


def test_only_two_presses_within_two_seconds_leave() -> None:
    clock = ManualClock()
    interrupts = Interrupts(clock)
    presses = []
    for seconds in (0, TWICE_S + 0.1, TWICE_S):
        clock.now += seconds
        presses.append(interrupts.press())
    assert presses == [False, False, True]
