"""Tests that a person can tell states from each other without colour."""

from __future__ import annotations

from typing import get_args

from lm_tools_bridge.terminal.tones import ASCII_MARKS, MARKS, Tone, tone_of
from manager.routing.state.client_overview import ClientState
from manager.routing.state.lifecycle import State
from workspace_server.source import SourceState


def test_every_state_that_is_shown_has_a_tone() -> None:
    states = {*get_args(SourceState), *(one.value for one in State), *(one.value for one in ClientState)}
    assert not {state for state in states if tone_of(state) is None}


def test_what_does_not_work_is_not_good() -> None:
    assert tone_of("ready") is Tone.GOOD
    assert tone_of("ready (stale)") is tone_of("backoff (stale)") is Tone.WARN
    assert tone_of("crash_looping (stale)") is tone_of("failed: no such file") is Tone.BAD
    assert tone_of("") is tone_of("something else") is None


def test_each_tone_has_a_mark_of_its_own() -> None:
    for marks in (MARKS, ASCII_MARKS):
        assert len(set(marks.values())) == len(Tone) and all(len(mark) == 1 for mark in marks.values())
    assert "".join(ASCII_MARKS.values()).isascii()
