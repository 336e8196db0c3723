"""Which calls of other members a host admits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lm_tools_bridge.team.calls.gate import CALLS_OF_ONE, Gate
from lm_tools_bridge.team.calls.parts import CONFIRM_S, LONGEST_CALL_S, SILENCE_S


def identity(number: int) -> str:
    return f"{number:032x}"


def admit(gate: Gate, number: int, caller: str = "bob", now: float = 0.0) -> str | None:
    return gate.admit(identity(number), caller, now, at_once=False)


def test_a_call_runs_once_after_its_caller_confirmed_it() -> None:
    gate = Gate(4)
    assert admit(gate, 1) is None
    assert gate.go(identity(1), "bob", 1)
    assert not gate.go(identity(1), "bob", 1)


def test_an_id_is_never_admitted_twice() -> None:
    gate = Gate(4)
    assert admit(gate, 1) is None
    assert admit(gate, 1) == "repeated"
    gate.end(identity(1), 5)
    assert admit(gate, 1, now=LONGEST_CALL_S) == "repeated"
    assert not gate.go(identity(1), "bob", 6)


def test_nobody_else_can_confirm_continue_or_cancel_a_call() -> None:
    gate = Gate(4)
    admit(gate, 1)
    assert not gate.go(identity(1), "mallory", 0)
    assert not gate.hear(identity(1), "mallory", 0)
    assert gate.hear(identity(1), "bob", 0)


def test_one_caller_cannot_take_all_places() -> None:
    gate = Gate(1000)
    for number in range(CALLS_OF_ONE):
        assert admit(gate, number) is None
    assert admit(gate, 99) == "too_many"
    assert admit(gate, 100, "alice") is None
    gate.end(identity(0), 1)
    assert admit(gate, 101) is None


def test_capacity_is_not_exceeded() -> None:
    gate = Gate(2)
    assert [admit(gate, number, f"caller{number}") for number in range(3)] == [None, None, "busy"]
    assert gate.in_flight == 2


def test_a_host_that_drains_admits_nothing_but_runs_what_it_accepted() -> None:
    gate = Gate(4)
    admit(gate, 1)
    gate.is_draining = True
    assert admit(gate, 2) == "draining"
    assert gate.go(identity(1), "bob", 1)


def test_ids_that_are_no_ids_are_refused() -> None:
    gate = Gate(4)
    for text in ("", "x", "G" * 32, "a" * 33, "A" * 32):
        assert gate.admit(text, "bob", 0, at_once=True) == "invalid"


def test_calls_that_nobody_confirms_or_waits_for_are_abandoned() -> None:
    gate = Gate(4)
    admit(gate, 1)
    admit(gate, 2)
    gate.go(identity(2), "bob", 1)
    assert gate.abandoned(CONFIRM_S) == []
    assert gate.abandoned(CONFIRM_S + 0.1) == [identity(1)]
    assert set(gate.abandoned(1 + SILENCE_S + 0.1)) == {identity(1), identity(2)}
    gate.hear(identity(1), "bob", 5)  # only a confirmation keeps it
    gate.hear(identity(2), "bob", 5)
    assert gate.abandoned(1 + SILENCE_S + 0.1) == [identity(1)]


@given(
    st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["admit", "go", "end"]), st.sampled_from("abc")))
)
def test_whatever_arrives_in_whatever_order_no_call_runs_twice(steps: list[tuple[int, str, str]]) -> None:
    gate, runs = Gate(3), [0] * 10
    for now, (number, what, caller) in enumerate(steps):
        if what == "admit":
            admit(gate, number, caller, now)
        elif what == "go":
            runs[number] += gate.go(identity(number), caller, now)
        else:
            gate.end(identity(number), now)
        assert gate.in_flight <= 3
    assert max(runs) <= 1
