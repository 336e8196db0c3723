from __future__ import annotations

from typing import get_args

import pytest

from lm_tools_bridge.code_intelligence.server_process.server_supervisor import State
from lm_tools_bridge.protocol.internal import source_states
from lm_tools_bridge.protocol.internal.source_states import STATES, shown_state
from lm_tools_bridge.terminal.views import Tone, tone_of
from workspace_server.source import NOT_RUNNING, SourceState


def test_the_table_has_every_state_of_sources_and_language_servers() -> None:
    assert {*get_args(SourceState), *get_args(State), "degraded"} == STATES.keys()


@pytest.mark.parametrize("state", STATES)
def test_every_state_has_a_tone_that_fits_its_meaning(state: str) -> None:
    meaning, tone = STATES[state], tone_of(state)
    assert tone is not None
    assert (tone is Tone.BUSY) is meaning.is_starting
    assert (tone is Tone.BAD) is meaning.is_broken
    assert (tone in {Tone.GOOD, Tone.OFF}) is meaning.is_healthy


def test_a_state_is_healthy_or_something_else_but_not_both() -> None:
    for meaning in STATES.values():
        assert [meaning.is_healthy, meaning.is_starting, meaning.is_down].count(True) <= 1


def test_calls_are_refused_in_the_states_that_are_down() -> None:
    assert source_states.DOWN | {"disabled"} == NOT_RUNNING


def test_only_a_source_that_answers_is_degraded() -> None:
    assert [shown_state(state, "broken") for state in ("ready", "idle", "failed")] == [
        "degraded",
        "idle",
        "failed",
    ]
