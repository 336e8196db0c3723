"""Sealed states: valid for one call, secret and tamper-proof."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.protocol.internal import request_state
from workspace_server.calls.request_state import REPEAT, SUSPENDED, RequestStates, StateBinding

NOW = 1_800_000_000.0
CALL = StateBinding("tools/call", "run", {"a": 1}, "f1", "somebody")


@pytest.mark.parametrize(
    "other",
    [
        {"method": "prompts/get"},
        {"name": "other"},
        {"arguments": {"a": 2}},
        {"arguments": {"a": True}},
        {"fingerprint": "f2"},
        {"caller": ""},
    ],
)
def test_a_state_is_for_its_call_only(other: dict[str, Any]) -> None:
    """not for another method, tool, arguments, content or caller."""
    states = RequestStates("w")
    state = states.seal(SUSPENDED, CALL, NOW, "inside")
    assert states.open(state, replace(CALL, **other), NOW) is None
    opened = states.open(state, CALL, NOW)
    assert opened is not None
    assert (opened.kind, opened.inner) == (SUSPENDED, "inside")


def test_a_state_is_for_its_workspace_only(tmp_path: Path) -> None:
    """Also where both have one key, and somebody writes the other one in front."""
    first, second = RequestStates("one", tmp_path), RequestStates("two", tmp_path)
    state = first.seal(REPEAT, CALL, NOW)
    assert RequestStates("one", tmp_path).open(state, CALL, NOW) is not None, "another run"
    assert second.kind_of(state) is None
    assert second.open(state, CALL, NOW) is None
    assert second.open(state.replace("lmtb2.one.", "lmtb2.two."), CALL, NOW) is None


def test_the_order_of_members_is_no_difference() -> None:
    states = RequestStates("w")
    state = states.seal(REPEAT, StateBinding("m", "n", {"a": 1, "b": 2}), NOW)
    assert states.open(state, StateBinding("m", "n", {"b": 2, "a": 1}), NOW) is not None


def test_what_is_inside_cannot_be_read_and_the_workspace_can() -> None:
    """Encrypted; in front stands whose it is, so that it finds its way back."""
    states = RequestStates("ws-1")
    state = states.seal(REPEAT, CALL, NOW, "the state of a stranger")
    assert request_state.workspace_of(state) == "ws-1"
    assert states.kind_of(state) == REPEAT
    for word in ("stranger", "run", "somebody"):
        assert word not in state.removeprefix("lmtb2.ws-1.run."), word
    assert states.seal(REPEAT, CALL, NOW, "the state of a stranger") != state


def test_one_changed_character_anywhere_makes_it_worthless() -> None:
    """Nothing can be turned into something else, the kind included."""
    states = RequestStates("w")
    state = states.seal(REPEAT, CALL, NOW)
    for at in range(len(state)):
        changed = state[:at] + ("A" if state[at] != "A" else "B") + state[at + 1 :]
        assert states.open(changed, CALL, NOW) is None, at
    assert states.open(state.replace(".run.", ".held."), CALL, NOW) is None
    assert RequestStates("w").open(state, CALL, NOW) is None, "another key"


@pytest.mark.parametrize(("later", "good"), [(-1, False), (0, True), (599, True), (600, False)])
def test_a_state_is_good_for_ten_minutes(later: float, good: bool) -> None:
    states = RequestStates("w")
    assert (states.open(states.seal(REPEAT, CALL, NOW), CALL, NOW + later) is not None) is good
