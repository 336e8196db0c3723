"""Tests of registered servers: when they are ready, suspect, replaced and removed."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from msgspec import structs

from lm_tools_bridge.protocol.internal.registration import Heartbeat
from manager.routing.state.registrations import (
    SWEEP_EVERY_S,
    TRANSITIONS,
    HeartbeatOutcome,
    Registration,
    Registrations,
    State,
    StateChange,
)


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
    return structs.replace(usual, **members)


class Table(Registrations):
    """The table with a manual clock and helpers for its events."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 100.0
        self.secrets = (f"secret {number}" for number in itertools.count(1))

    def receive(self, sent: Heartbeat) -> HeartbeatOutcome:
        return self.heartbeat(sent, self.now, lambda: next(self.secrets))

    def of(self, session_id: str) -> Registration:
        record = self.get(session_id)
        assert record is not None
        return record

    def confirm(self, session_id: str) -> list[StateChange]:
        record = self.of(session_id)
        return self.health_answered(record, record.nonce)

    def receive_and_confirm(self, sent: Heartbeat) -> None:
        self.receive(sent)
        self.confirm(sent.session_id)

    def wait(self, seconds: float) -> list[StateChange]:
        """Advance the clock, with a sweep every half second as in the daemon."""
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
    answer = table.receive(message())
    assert answer.first
    assert answer.record.secret == "secret 1"
    assert answer.changes == (StateChange("s1", None, State.STARTING),)
    assert table.matched() == []


def test_second_heartbeat_keeps_the_secret_and_the_start_time(table: Table) -> None:
    table.receive(message())
    table.wait(1)
    answer = table.receive(message())
    assert not answer.first
    assert answer.changes == ()
    assert (answer.record.secret, answer.record.registered_at) == ("secret 1", 100)
    assert table.last_seen("s1") == 101


def test_echoed_nonce_makes_ready(table: Table) -> None:
    table.receive(message())
    assert table.confirm("s1") == [StateChange("s1", State.STARTING, State.READY)]
    assert table.matched() == ["s1"]
    assert table.for_root("/ws/a") == table.of("s1")


@pytest.mark.parametrize("echoed", [None, "", "another"])
@pytest.mark.parametrize("confirmed_before", [False, True])
def test_wrong_nonce_stops_matching(table: Table, echoed: str | None, confirmed_before: bool) -> None:
    table.receive(message())
    if confirmed_before:
        table.confirm("s1")
    (change,) = table.health_answered(table.of("s1"), echoed)
    assert (change.after, change.cause) == (State.UNHEALTHY, "identity_mismatch")
    table.receive(message())
    assert table.matched() == []


def test_right_nonce_ends_a_mismatch(table: Table) -> None:
    table.receive(message())
    table.health_answered(table.of("s1"), "another")
    table.confirm("s1")
    assert table.matched() == ["s1"]
    assert table.of("s1").cause is None


@pytest.mark.parametrize("later", [{"port": 21101}, {"nonce": "n2"}, {"host": "::1"}])
@pytest.mark.parametrize("echoed", ["nonce of s1", "another"])
def test_outdated_health_answer_is_ignored(table: Table, later: dict[str, Any], echoed: str) -> None:
    asked = table.receive(message()).record
    table.receive(message(**later))
    assert table.health_answered(asked, echoed) == []
    assert table.of("s1").state is State.STARTING


def test_health_answer_after_bye_is_ignored(table: Table) -> None:
    asked = table.receive(message()).record
    table.bye("s1")
    assert table.health_answered(asked, asked.nonce) == []
    assert table.health_unanswered(asked) == []
    assert table.records() == ()


def test_heartbeat_replaces_the_whole_record(table: Table) -> None:
    table.receive(message(workspace_file="/ws/x.code-workspace", workspace_folders=("/ws/a", "/ws/b")))
    answer = table.receive(message(pid=4712, port=21105, host="::1"))
    record = answer.record
    assert (record.workspace_file, record.workspace_folders) == (None, ("/ws/a",))
    assert (record.pid, record.host, record.port) == (4712, "::1", 21105)
    assert not answer.first


def test_new_address_is_matched_at_once_but_suspect(table: Table) -> None:
    table.receive_and_confirm(message())
    answer = table.receive(message(port=21105))
    assert answer.changes == (StateChange("s1", State.READY, State.SUSPECT),)
    assert [record.port for record in table.candidates()] == [21105]
    assert table.confirm("s1") == [StateChange("s1", State.SUSPECT, State.READY)]


def test_localhost_equals_127_0_0_1(table: Table) -> None:
    table.receive_and_confirm(message())
    assert table.receive(message(host="localhost")).changes == ()


def test_new_address_gives_an_unhealthy_server_another_chance(table: Table) -> None:
    table.receive(message())
    table.health_answered(table.of("s1"), None)
    assert table.receive(message(port=21105)).record.state is State.STARTING


def test_another_nonce_is_another_server(table: Table) -> None:
    table.receive_and_confirm(message())
    answer = table.receive(message(nonce="n2"))
    assert answer.first
    assert (answer.record.secret, answer.record.state) == ("secret 2", State.STARTING)
    assert table.matched() == []


def test_changed_first_folder_moves_to_the_other_root(table: Table) -> None:
    table.receive_and_confirm(message())
    table.receive(message(workspace_folders=("/ws/b", "/ws/a")))
    assert table.for_root("/ws/a") is None
    assert table.for_root("/ws/b") == table.of("s1")


def test_missing_heartbeats_make_suspect_and_then_remove(table: Table) -> None:
    table.receive_and_confirm(message())
    assert table.wait(2) == []
    assert table.wait(0.5) == [StateChange("s1", State.READY, State.SUSPECT)]
    assert table.wait(7) == []
    assert table.matched() == ["s1"]
    assert table.wait(0.5) == [StateChange("s1", State.SUSPECT, State.GONE)]
    assert table.records() == table.candidates() == ()


def test_suspect_is_ready_again_only_by_a_health_answer(table: Table) -> None:
    table.receive_and_confirm(message())
    table.wait(3)
    assert table.receive(message()).record.state is State.SUSPECT
    table.confirm("s1")
    assert table.of("s1").state is State.READY


def test_missing_heartbeats_never_make_an_unconfirmed_server_matchable(table: Table) -> None:
    table.receive(message())
    table.wait(5)
    assert table.of("s1").state is State.STARTING
    assert table.matched() == []
    assert table.wait(5) == [StateChange("s1", State.STARTING, State.GONE)]


def test_heartbeat_after_removal_is_a_new_registration(table: Table) -> None:
    table.receive_and_confirm(message())
    table.wait(10)
    answer = table.receive(message())
    assert answer.first
    assert answer.record.state is State.STARTING


def test_process_exit_removes_all_its_servers_at_once(table: Table) -> None:
    table.receive_and_confirm(message("s1"))
    table.receive(message("s2", port=21101, workspace_folders=("/ws/b",)))
    table.receive_and_confirm(message("s3", port=21102, workspace_folders=("/ws/c",), pid=1))
    assert [change.session_id for change in table.exited(4711)] == ["s1", "s2"]
    assert table.matched() == ["s3"]


def test_bye_removes_at_once_and_may_be_repeated(table: Table) -> None:
    table.receive_and_confirm(message())
    assert table.bye("s1") == [StateChange("s1", State.READY, State.GONE)]
    assert table.bye("s1") == []
    assert table.for_root("/ws/a") is None


@pytest.mark.parametrize("seed", range(5))
def test_jittered_heartbeats_keep_a_server_matched(table: Table, seed: int) -> None:
    jitter = random.Random(seed)
    table.receive_and_confirm(message())
    start = table.now
    arrivals = iter(sorted(start + second + jitter.uniform(0, 1.2) for second in range(1, 610)))
    due = next(arrivals)
    while table.now < start + 600:
        table.now += 0.05
        if table.now >= due:
            table.receive(message())
            due = next(arrivals)
        assert table.sweep(table.now) == []
        assert table.matched() == ["s1"]


@pytest.mark.parametrize("woken_by", ["sweep", "heartbeat"])
def test_machine_suspend_does_not_count_as_missing_heartbeats(table: Table, woken_by: str) -> None:
    table.receive_and_confirm(message())
    table.receive_and_confirm(message("s2", port=21101, workspace_folders=("/ws/b",)))
    table.wait(1)
    table.now += 30
    assert (table.sweep(table.now) == []) if woken_by == "sweep" else table.receive(message()).changes == ()
    table.wait(1)
    table.receive(message())
    assert table.matched() == ["s1", "s2"]
    assert table.of("s2").state is State.READY
    # a server that does not wake up is still removed
    assert table.wait(0.5) == [StateChange("s2", State.READY, State.SUSPECT)]
    assert StateChange("s2", State.SUSPECT, State.GONE) in table.wait(7.5)


@pytest.mark.parametrize("shape", [{"nonce": None, "kind": "editor"}, {"kind": "editor"}])
def test_editor_is_listed_and_never_matched(table: Table, shape: dict[str, Any]) -> None:
    answer = table.receive(message(**shape))
    assert answer.record.secret is None
    table.health_answered(answer.record, answer.record.nonce)
    assert [record.state for record in table.records()] == [State.LISTED]
    assert table.matched() == []
    assert table.wait(10) == [StateChange("s1", State.LISTED, State.GONE)]


def test_first_ready_instance_keeps_the_root(table: Table) -> None:
    table.receive(message("slow"))
    table.receive_and_confirm(message("quick", port=21101))
    assert table.confirm("slow") == [StateChange("slow", State.STARTING, State.STANDBY)]
    table.receive(message("slow"))
    table.confirm("slow")
    assert table.matched() == ["quick"]


@pytest.mark.parametrize("end", ["bye", "exit", "mismatch", "no answer", "other root"])
def test_standby_takes_over_when_the_first_goes(table: Table, end: str) -> None:
    table.receive_and_confirm(message("one", pid=1))
    table.receive_and_confirm(message("two", port=21101))
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
            changes = list(table.receive(message("one", pid=1, workspace_folders=("/ws/b",))).changes)
    assert StateChange("two", State.STANDBY, State.READY) in changes
    assert table.for_root("/ws/a") == table.of("two")


def test_returning_instance_becomes_the_last_standby(table: Table) -> None:
    table.receive_and_confirm(message("one"))
    table.receive_and_confirm(message("two", port=21101))
    table.health_answered(table.of("one"), None)
    assert table.confirm("one") == [StateChange("one", State.UNHEALTHY, State.STANDBY)]
    assert table.matched() == ["two"]


def test_suspect_holder_keeps_the_root(table: Table) -> None:
    table.receive_and_confirm(message("one"))
    table.receive_and_confirm(message("two", port=21101))
    for _ in range(3):
        table.wait(1)
        table.receive(message("two", port=21101))
    assert table.of("one").state is State.SUSPECT
    assert table.matched() == ["one"]


def test_suspect_standby_does_not_take_over(table: Table) -> None:
    table.receive_and_confirm(message("one"))
    table.receive_and_confirm(message("two", port=21101))
    for _ in range(3):
        table.wait(1)
        table.receive(message("one"))
    assert table.of("two").state is State.SUSPECT
    assert table.confirm("two") == [StateChange("two", State.SUSPECT, State.STANDBY)]
    assert table.matched() == ["one"]


def test_second_server_on_a_port_makes_the_first_suspect(table: Table) -> None:
    table.receive_and_confirm(message("one"))
    answer = table.receive(message("two", host="localhost", workspace_folders=("/ws/b",)))
    assert StateChange("one", State.READY, State.SUSPECT) in answer.changes
    # only the claim does, not each heartbeat that repeats it
    table.confirm("one")
    assert table.receive(message("two", host="localhost", workspace_folders=("/ws/b",))).changes == ()


@pytest.mark.parametrize("asked", ["one", "two"])
@pytest.mark.parametrize(("right", "wrong"), [("one", "two"), ("two", "one")])
def test_echoed_nonce_decides_between_two_servers_on_one_port(
    table: Table, asked: str, right: str, wrong: str
) -> None:
    for name in ("one", "two"):
        table.receive(message(name, workspace_folders=(f"/ws/{name}",)))
        table.confirm(name)
    table.health_answered(table.of(asked), f"nonce of {right}")
    assert table.matched() == [right]
    assert table.of(wrong).cause == "identity_mismatch"


def test_three_health_misses_in_a_row_make_unhealthy(table: Table) -> None:
    """An instance that no longer answers must not keep its root."""
    table.receive_and_confirm(message())
    table.health_unanswered(table.of("s1"))
    table.health_unanswered(table.of("s1"))
    table.confirm("s1")
    assert [table.health_unanswered(table.of("s1")) for _ in range(2)] == [[], []]
    assert table.health_unanswered(table.of("s1")) == [
        StateChange("s1", State.READY, State.UNHEALTHY, "no_answer")
    ]


def test_misses_at_an_old_address_do_not_count(table: Table) -> None:
    table.receive_and_confirm(message())
    asked = table.of("s1")
    table.health_unanswered(asked)
    table.health_unanswered(asked)
    table.receive(message(port=21105))
    for _ in range(3):
        assert table.health_unanswered(asked) == []
    assert table.health_unanswered(table.of("s1")) == []
    assert table.of("s1").state is State.SUSPECT


def test_server_that_turns_into_an_editor_is_no_longer_matched(table: Table) -> None:
    table.receive_and_confirm(message())
    answer = table.receive(message(kind="editor"))
    assert (answer.first, answer.record.secret, answer.record.state) == (True, None, State.LISTED)
    assert table.matched() == []


def in_state(state: State) -> Table:
    """A table whose server `s1` is in this state, at port 21100."""
    table = Table()
    if state is State.STANDBY:
        table.receive_and_confirm(message("holder", port=21109))
    table.receive(message())
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
def test_each_event_has_its_transition(
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
    assert table.receive(message(port=21105)).record.state is moved
    table = in_state(state)
    table.receive(message("rival", workspace_folders=("/ws/b",)))
    assert table.of("s1").state is contested


def test_repr_has_no_secrets_and_nonces(table: Table) -> None:
    printed = repr(table.receive(message()))
    assert "secret 1" not in printed
    assert "nonce of" not in printed


def test_every_state_can_be_removed() -> None:
    """An instance can be removed in any state, and no event leads back."""
    assert {before for (before, _), after in TRANSITIONS.items() if after is State.GONE} == set(State)
    assert {after for (before, _), after in TRANSITIONS.items() if before is State.GONE} == {State.GONE}


@pytest.mark.parametrize("seed", range(20))
def test_each_root_has_one_holder_after_random_events(seed: int) -> None:
    """Also, no unconfirmed server is ever matched."""
    chance, table = random.Random(seed), Table()
    for _ in range(300):
        name = chance.choice("abcd")
        port, root = chance.choice([21100, 21101]), chance.choice(["/ws/a", "/ws/b"])
        record = table.get(name)
        match chance.randrange(7):
            case 0 | 1:
                table.receive(message(name, port=port, workspace_folders=(root,), kind="workspace-server"))
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


def test_it_tells_which_roots_got_a_server_and_which_lost_their_last_one(table: Table) -> None:
    """Once each. A server that was never ready, or that another one replaces, is nothing to tell."""
    table.receive(message("never-ready", workspace_folders=("/ws/b",)))
    table.bye("never-ready")
    assert table.take_changed_roots() == {}
    table.receive_and_confirm(message("s1"))
    assert table.take_changed_roots() == {"/ws/a": True}
    table.receive_and_confirm(message("s2", port=21101))
    table.bye("s1")
    assert table.take_changed_roots() == {}
    table.receive(message("s2", port=21101, workspace_folders=("/ws/c",)))
    assert table.take_changed_roots() == {"/ws/a": False, "/ws/c": True}


def test_a_root_whose_server_is_unhealthy_has_lost_it_until_it_answers(table: Table) -> None:
    table.receive_and_confirm(message())
    table.take_changed_roots()
    table.health_answered(table.of("s1"), "another nonce")
    assert table.take_changed_roots() == {"/ws/a": False}
    assert table.is_unhealthy("/ws/a")
    table.confirm("s1")
    assert table.take_changed_roots() == {"/ws/a": True}
    assert not table.is_unhealthy("/ws/a")


def test_an_unchanged_heartbeat_renews_a_server_that_can_serve(table: Table) -> None:
    table.receive_and_confirm(message())
    for _ in range(20):
        table.wait(1)
        assert table.renew("s1", table.now)
    assert table.of("s1").state is State.READY
    assert table.last_seen("s1") == table.now
    assert not table.renew("nobody", table.now)


def test_a_server_that_has_to_be_checked_is_not_renewed(table: Table) -> None:
    table.receive(message())
    assert not table.renew("s1", table.now)
    table.confirm("s1")
    table.wait(3)
    assert table.of("s1").state is State.SUSPECT
    assert not table.renew("s1", table.now)
    table.health_answered(table.of("s1"), None)
    assert not table.renew("s1", table.now)


def test_a_health_answer_concerns_few_of_many_servers_at_one_address(table: Table) -> None:
    """Thousands that claim one address, of which one is there, cost no more each than a few."""
    for number in range(3000):
        table.receive(message(f"s{number}", workspace_folders=(f"/ws/{number}",)))
    table.confirm("s0")
    looked_at: list[str] = []
    apply = table._apply

    def counted(session_id: str, *rest: Any) -> None:
        looked_at.append(session_id)
        apply(session_id, *rest)

    table._apply = counted
    table.health_answered(table.of("s7"), "nonce of s0")
    table.receive(message("one more", workspace_folders=("/ws/more",)))
    assert len(looked_at) < 12
    assert table.of("s7").state is State.UNHEALTHY
    assert table.matched() == ["s0"]
