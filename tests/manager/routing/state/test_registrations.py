"""External servers: when they are ready, doubted, replaced and forgotten."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from typing import Any

import pytest

from manager.routing.state.registrations import (
    SWEEP_EVERY_S,
    TRANSITIONS,
    HeartbeatOutcome,
    Registration,
    Registrations,
    State,
    StateChange,
)
from protocol.internal.registration import Heartbeat


def message(session_id: str = "s1", **members: Any) -> Heartbeat:
    usual = Heartbeat(
        session_id=session_id,
        pid=4711,
        workspace_folders=("/ws/a",),
        workspace_file=None,
        host="127.0.0.1",
        port=21100,
        nonce=f"nonce of {session_id}",
        kind="workspace-server",
    )
    return replace(usual, **members)


class Table(Registrations):
    """The table with a hand-moved clock, and with the phrases the tests are told in."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 100.0
        self.secrets = (f"secret {number}" for number in itertools.count(1))

    def hear(self, said: Heartbeat) -> HeartbeatOutcome:
        return self.heartbeat(said, self.now, lambda: next(self.secrets))

    def of(self, session_id: str) -> Registration:
        record = self.get(session_id)
        assert record is not None
        return record

    def confirm(self, session_id: str) -> list[StateChange]:
        record = self.of(session_id)
        return self.health_answered(record, record.nonce)

    def hear_and_confirm(self, said: Heartbeat) -> None:
        self.hear(said)
        self.confirm(said.session_id)

    def wait(self, seconds: float) -> list[StateChange]:
        """Let time pass as the daemon does: with a sweep every half second."""
        changes: list[StateChange] = []
        for _ in range(round(seconds / SWEEP_EVERY_S)):
            self.now += SWEEP_EVERY_S
            changes += self.sweep(self.now)
        return changes

    def matched(self) -> list[str]:
        return [record.session_id for record in self.candidates()]


@pytest.fixture
def table() -> Table:
    return Table()


def test_first_heartbeat_registers_and_brings_a_secret(table: Table) -> None:
    answer = table.hear(message())
    assert answer.first
    assert answer.record.secret == "secret 1"
    assert answer.changes == (StateChange("s1", None, State.STARTING),)
    assert table.matched() == []


def test_second_heartbeat_keeps_the_secret_and_the_beginning(table: Table) -> None:
    table.hear(message())
    table.wait(1)
    answer = table.hear(message())
    assert not answer.first
    assert answer.changes == ()
    assert (answer.record.secret, answer.record.registered_at, answer.record.last_seen) == (
        "secret 1",
        100,
        101,
    )


def test_echoed_nonce_makes_ready(table: Table) -> None:
    table.hear(message())
    assert table.confirm("s1") == [StateChange("s1", State.STARTING, State.READY)]
    assert table.matched() == ["s1"]
    assert table.for_root("/ws/a") == table.of("s1")


@pytest.mark.parametrize("echoed", [None, "", "another"])
@pytest.mark.parametrize("confirmed_before", [False, True])
def test_wrong_nonce_ends_matching(table: Table, echoed: str | None, confirmed_before: bool) -> None:
    table.hear(message())
    if confirmed_before:
        table.confirm("s1")
    (change,) = table.health_answered(table.of("s1"), echoed)
    assert (change.after, change.cause) == (State.UNHEALTHY, "identity_mismatch")
    table.hear(message())
    assert table.matched() == []


def test_right_nonce_heals_a_mismatch(table: Table) -> None:
    table.hear(message())
    table.health_answered(table.of("s1"), "another")
    table.confirm("s1")
    assert table.matched() == ["s1"]
    assert table.of("s1").cause is None


@pytest.mark.parametrize("later", [{"port": 21101}, {"nonce": "n2"}, {"host": "::1"}])
@pytest.mark.parametrize("echoed", ["nonce of s1", "another"])
def test_answer_to_an_overtaken_question_says_nothing(
    table: Table, later: dict[str, Any], echoed: str
) -> None:
    asked = table.hear(message()).record
    table.hear(message(**later))
    assert table.health_answered(asked, echoed) == []
    assert table.of("s1").state is State.STARTING


def test_answer_after_bye_says_nothing(table: Table) -> None:
    asked = table.hear(message()).record
    table.bye("s1")
    assert table.health_answered(asked, asked.nonce) == []
    assert table.health_unanswered(asked) == []
    assert table.records() == ()


def test_record_is_replaced_whole(table: Table) -> None:
    table.hear(message(workspace_file="/ws/x.code-workspace", workspace_folders=("/ws/a", "/ws/b")))
    answer = table.hear(message(pid=4712, port=21105, host="::1"))
    record = answer.record
    assert (record.workspace_file, record.workspace_folders) == (None, ("/ws/a",))
    assert (record.pid, record.host, record.port) == (4712, "::1", 21105)
    assert not answer.first


def test_new_address_is_matched_at_once_but_doubted(table: Table) -> None:
    table.hear_and_confirm(message())
    answer = table.hear(message(port=21105))
    assert answer.changes == (StateChange("s1", State.READY, State.SUSPECT),)
    assert [record.port for record in table.candidates()] == [21105]
    assert table.confirm("s1") == [StateChange("s1", State.SUSPECT, State.READY)]


def test_localhost_is_no_new_address(table: Table) -> None:
    table.hear_and_confirm(message())
    assert table.hear(message(host="localhost")).changes == ()


def test_new_address_gives_an_unhealthy_server_another_chance(table: Table) -> None:
    table.hear(message())
    table.health_answered(table.of("s1"), None)
    assert table.hear(message(port=21105)).record.state is State.STARTING


def test_another_nonce_is_another_server(table: Table) -> None:
    table.hear_and_confirm(message())
    answer = table.hear(message(nonce="n2"))
    assert answer.first
    assert (answer.record.secret, answer.record.state) == ("secret 2", State.STARTING)
    assert table.matched() == []


def test_changed_first_folder_moves_to_the_other_root(table: Table) -> None:
    table.hear_and_confirm(message())
    table.hear(message(workspace_folders=("/ws/b", "/ws/a")))
    assert table.for_root("/ws/a") is None
    assert table.for_root("/ws/b") == table.of("s1")


def test_silence_is_suspect_then_out(table: Table) -> None:
    table.hear_and_confirm(message())
    assert table.wait(2) == []
    assert table.wait(0.5) == [StateChange("s1", State.READY, State.SUSPECT)]
    assert table.wait(7) == []
    assert table.matched() == ["s1"]
    assert table.wait(0.5) == [StateChange("s1", State.SUSPECT, State.GONE)]
    assert table.records() == table.candidates() == ()


def test_suspect_is_ready_again_only_by_a_health_answer(table: Table) -> None:
    table.hear_and_confirm(message())
    table.wait(3)
    assert table.hear(message()).record.state is State.SUSPECT
    table.confirm("s1")
    assert table.of("s1").state is State.READY


def test_silence_never_makes_an_unconfirmed_server_matchable(table: Table) -> None:
    table.hear(message())
    table.wait(5)
    assert table.of("s1").state is State.STARTING
    assert table.matched() == []
    assert table.wait(5) == [StateChange("s1", State.STARTING, State.GONE)]


def test_return_after_silence_is_a_new_registration(table: Table) -> None:
    table.hear_and_confirm(message())
    table.wait(10)
    answer = table.hear(message())
    assert answer.first
    assert answer.record.state is State.STARTING


def test_exit_of_the_process_ends_all_its_servers_at_once(table: Table) -> None:
    table.hear_and_confirm(message("s1"))
    table.hear(message("s2", port=21101, workspace_folders=("/ws/b",)))
    table.hear_and_confirm(message("s3", port=21102, workspace_folders=("/ws/c",), pid=1))
    assert [change.session_id for change in table.exited(4711)] == ["s1", "s2"]
    assert table.matched() == ["s3"]


def test_bye_ends_at_once_and_may_come_twice(table: Table) -> None:
    table.hear_and_confirm(message())
    assert table.bye("s1") == [StateChange("s1", State.READY, State.GONE)]
    assert table.bye("s1") == []
    assert table.for_root("/ws/a") is None


@pytest.mark.parametrize("seed", range(5))
def test_jittered_heartbeats_never_leave_matching(table: Table, seed: int) -> None:
    jitter = random.Random(seed)
    table.hear_and_confirm(message())
    start = table.now
    arrivals = iter(sorted(start + second + jitter.uniform(0, 1.2) for second in range(1, 610)))
    due = next(arrivals)
    while table.now < start + 600:
        table.now += 0.05
        if table.now >= due:
            table.hear(message())
            due = next(arrivals)
        assert table.sweep(table.now) == []
        assert table.matched() == ["s1"]


@pytest.mark.parametrize("woken_by", ["sweep", "heartbeat"])
def test_sleep_of_the_machine_makes_nobody_silent(table: Table, woken_by: str) -> None:
    table.hear_and_confirm(message())
    table.hear_and_confirm(message("s2", port=21101, workspace_folders=("/ws/b",)))
    table.wait(1)
    table.now += 30
    assert (table.sweep(table.now) == []) if woken_by == "sweep" else table.hear(message()).changes == ()
    table.wait(1)
    table.hear(message())
    assert table.matched() == ["s1", "s2"]
    assert table.of("s2").state is State.READY
    # and whoever does not wake up is still found out
    assert table.wait(0.5) == [StateChange("s2", State.READY, State.SUSPECT)]
    assert StateChange("s2", State.SUSPECT, State.GONE) in table.wait(7.5)


@pytest.mark.parametrize("shape", [{"nonce": None, "kind": "editor"}, {"kind": "editor"}])
def test_editor_is_listed_and_never_matched(table: Table, shape: dict[str, Any]) -> None:
    answer = table.hear(message(**shape))
    assert answer.record.secret is None
    table.health_answered(answer.record, answer.record.nonce)
    assert [record.state for record in table.records()] == [State.LISTED]
    assert table.matched() == []
    assert table.wait(10) == [StateChange("s1", State.LISTED, State.GONE)]


def test_first_ready_instance_keeps_the_root(table: Table) -> None:
    table.hear(message("slow"))
    table.hear_and_confirm(message("quick", port=21101))
    assert table.confirm("slow") == [StateChange("slow", State.STARTING, State.STANDBY)]
    table.hear(message("slow"))
    table.confirm("slow")
    assert table.matched() == ["quick"]


@pytest.mark.parametrize("end", ["bye", "exit", "mismatch", "no answer", "other root"])
def test_standby_takes_over_when_the_first_goes(table: Table, end: str) -> None:
    table.hear_and_confirm(message("one", pid=1))
    table.hear_and_confirm(message("two", port=21101))
    match end:
        case "bye":
            changes = table.bye("one")
        case "exit":
            changes = table.exited(1)
        case "mismatch":
            changes = table.health_answered(table.of("one"), "another")
        case "no answer":
            changes = [change for _ in range(3) for change in table.health_unanswered(table.of("one"))]
        case _:
            changes = list(table.hear(message("one", pid=1, workspace_folders=("/ws/b",))).changes)
    assert StateChange("two", State.STANDBY, State.READY) in changes
    assert table.for_root("/ws/a") == table.of("two")


def test_instance_that_comes_back_queues_behind(table: Table) -> None:
    table.hear_and_confirm(message("one"))
    table.hear_and_confirm(message("two", port=21101))
    table.health_answered(table.of("one"), None)
    assert table.confirm("one") == [StateChange("one", State.UNHEALTHY, State.STANDBY)]
    assert table.matched() == ["two"]


def test_suspect_holder_keeps_the_root(table: Table) -> None:
    table.hear_and_confirm(message("one"))
    table.hear_and_confirm(message("two", port=21101))
    for _ in range(3):
        table.wait(1)
        table.hear(message("two", port=21101))
    assert table.of("one").state is State.SUSPECT
    assert table.matched() == ["one"]


def test_suspect_standby_does_not_jump_the_line(table: Table) -> None:
    table.hear_and_confirm(message("one"))
    table.hear_and_confirm(message("two", port=21101))
    for _ in range(3):
        table.wait(1)
        table.hear(message("one"))
    assert table.of("two").state is State.SUSPECT
    assert table.confirm("two") == [StateChange("two", State.SUSPECT, State.STANDBY)]
    assert table.matched() == ["one"]


def test_second_claim_to_a_port_casts_doubt_on_the_first(table: Table) -> None:
    table.hear_and_confirm(message("one"))
    answer = table.hear(message("two", host="localhost", workspace_folders=("/ws/b",)))
    assert StateChange("one", State.READY, State.SUSPECT) in answer.changes
    # only the claim does, not each heartbeat that repeats it
    table.confirm("one")
    assert table.hear(message("two", host="localhost", workspace_folders=("/ws/b",))).changes == ()


@pytest.mark.parametrize("asked", ["one", "two"])
@pytest.mark.parametrize(("right", "wrong"), [("one", "two"), ("two", "one")])
def test_of_two_on_one_port_the_echoed_nonce_counts(table: Table, asked: str, right: str, wrong: str) -> None:
    for name in ("one", "two"):
        table.hear(message(name, workspace_folders=(f"/ws/{name}",)))
        table.confirm(name)
    table.health_answered(table.of(asked), f"nonce of {right}")
    assert table.matched() == [right]
    assert table.of(wrong).cause == "identity_mismatch"


def test_three_unanswered_questions_in_a_row_tell(table: Table) -> None:
    """An instance that no longer answers must not hold its root for ever."""
    table.hear_and_confirm(message())
    table.health_unanswered(table.of("s1"))
    table.health_unanswered(table.of("s1"))
    table.confirm("s1")
    assert [table.health_unanswered(table.of("s1")) for _ in range(2)] == [[], []]
    assert table.health_unanswered(table.of("s1")) == [
        StateChange("s1", State.READY, State.UNHEALTHY, "no_answer")
    ]


def test_misses_at_an_old_address_do_not_count(table: Table) -> None:
    table.hear_and_confirm(message())
    asked = table.of("s1")
    table.health_unanswered(asked)
    table.health_unanswered(asked)
    table.hear(message(port=21105))
    for _ in range(3):
        assert table.health_unanswered(asked) == []
    assert table.health_unanswered(table.of("s1")) == []
    assert table.of("s1").state is State.SUSPECT


def test_server_that_turns_into_an_editor_is_no_longer_matched(table: Table) -> None:
    table.hear_and_confirm(message())
    answer = table.hear(message(kind="editor"))
    assert (answer.first, answer.record.secret, answer.record.state) == (True, None, State.LISTED)
    assert table.matched() == []


def in_state(state: State) -> Table:
    """A table whose server `s1` is in this state, at port 21100."""
    table = Table()
    if state is State.STANDBY:
        table.hear_and_confirm(message("holder", port=21109))
    table.hear(message())
    if state in {State.READY, State.STANDBY, State.SUSPECT}:
        table.confirm("s1")
    if state is State.SUSPECT:
        table.wait(2.5)
    if state is State.UNHEALTHY:
        table.health_answered(table.of("s1"), None)
    assert table.of("s1").state is state
    return table


@pytest.mark.parametrize(
    ("state", "wrong_nonce", "no_answer", "moved", "contested"),
    [
        (State.STARTING, State.UNHEALTHY, State.UNHEALTHY, State.STARTING, State.STARTING),
        (State.READY, State.UNHEALTHY, State.UNHEALTHY, State.SUSPECT, State.SUSPECT),
        (State.STANDBY, State.UNHEALTHY, State.UNHEALTHY, State.SUSPECT, State.SUSPECT),
        (State.SUSPECT, State.UNHEALTHY, State.UNHEALTHY, State.SUSPECT, State.SUSPECT),
        (State.UNHEALTHY, State.UNHEALTHY, State.UNHEALTHY, State.STARTING, State.UNHEALTHY),
    ],
)
def test_each_event_leads_where_it_should(
    state: State, wrong_nonce: State, no_answer: State, moved: State, contested: State
) -> None:
    table = in_state(state)
    table.health_answered(table.of("s1"), "another")
    assert table.of("s1").state is wrong_nonce
    table = in_state(state)
    for _ in range(3):
        table.health_unanswered(table.of("s1"))
    assert table.of("s1").state is no_answer
    table = in_state(state)
    assert table.hear(message(port=21105)).record.state is moved
    table = in_state(state)
    table.hear(message("rival", workspace_folders=("/ws/b",)))
    assert table.of("s1").state is contested


def test_secrets_and_nonces_stay_out_of_the_printed_form(table: Table) -> None:
    printed = repr(table.hear(message()))
    assert "secret 1" not in printed
    assert "nonce of" not in printed


def test_every_state_can_be_left_for_good() -> None:
    """An instance in any state can go, and none comes back from there."""
    assert {before for (before, _), after in TRANSITIONS.items() if after is State.GONE} == set(State)
    assert {after for (before, _), after in TRANSITIONS.items() if before is State.GONE} == {State.GONE}


@pytest.mark.parametrize("seed", range(20))
def test_candidates_hold_their_roots_whatever_happens(seed: int) -> None:
    """Random conversations; each root has one holder, and no unproven server is matched."""
    chance, table = random.Random(seed), Table()
    for _ in range(300):
        name = chance.choice("abcd")
        port, root = chance.choice([21100, 21101]), chance.choice(["/ws/a", "/ws/b"])
        record = table.get(name)
        match chance.randrange(7):
            case 0 | 1:
                table.hear(message(name, port=port, workspace_folders=(root,), kind="workspace-server"))
            case 2 if record:
                table.health_answered(record, chance.choice([f"nonce of {other}" for other in "abcd"]))
            case 3 if record:
                table.confirm(name)
            case 4 if record:
                table.health_unanswered(record)
            case 5:
                table.wait(chance.choice([0.5, 3]))
            case 6 if chance.random() < 0.2:
                table.bye(name)
        by_root = {record.root: record for record in table.candidates()}
        assert len(by_root) == len(table.candidates())
        for record in table.records():
            holder = by_root.get(record.root)
            if record.state in {State.READY, State.SUSPECT, State.STANDBY}:
                assert holder is not None
                assert (record.state is State.STANDBY) <= (record != holder)
                assert (record.state is State.READY) <= (record == holder)
            else:
                assert record != holder
