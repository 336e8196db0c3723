"""Tests of port reservations: which port, and for how long."""

from __future__ import annotations

from collections.abc import Collection

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from manager.routing.state.port_leases import LIFETIME_S, PortExhausted, PortLeases

OWN = 47000


def ask(
    leases: PortLeases,
    session_id: str,
    start: int = 21100,
    now: float = 0.0,
    *,
    in_use: Collection[int] = (),
    occupied: Collection[int] = (),
    present: int | None = None,
) -> int | PortExhausted:
    return leases.allocate(
        session_id,
        start,
        now,
        in_use=in_use,
        own_port=OWN,
        bindable=lambda port: port not in occupied,
        present=present,
    )


def test_first_free_port_from_the_start_is_given() -> None:
    assert ask(PortLeases(), "a") == 21100


def test_taken_ports_are_passed_over() -> None:
    leases = PortLeases()
    assert ask(leases, "a", OWN - 1) == OWN - 1
    assert ask(leases, "b", OWN - 1, in_use={OWN + 1}, occupied={OWN + 2}) == OWN + 3


def test_three_servers_skip_a_port_of_another_process() -> None:
    leases = PortLeases()
    ports = [ask(leases, name, occupied={21100}) for name in "abc"]
    assert ports == [21101, 21102, 21103]


def test_asker_with_a_live_instance_gets_its_present_port() -> None:
    leases = PortLeases()
    ask(leases, "a")
    assert ask(leases, "a", 30000, present=25000, occupied={25000}) == 25000
    assert leases.current() == ()


def test_asking_again_renews_the_same_port() -> None:
    leases = PortLeases()
    ask(leases, "a", now=0)
    # the server may have bound the port by now, so it would not be free
    assert ask(leases, "a", 21050, now=10, occupied={21100}) == 21100
    assert ask(leases, "b", now=20) == 21101
    assert ask(leases, "b", now=25) == 21101


def test_renewal_gives_another_port_when_a_live_instance_took_it() -> None:
    leases = PortLeases()
    ask(leases, "a")
    assert ask(leases, "a", in_use={21100}) == 21101


def test_asking_from_above_releases_the_lower_port() -> None:
    leases = PortLeases()
    ask(leases, "a")
    assert ask(leases, "a", 21101) == 21101
    assert ask(leases, "b") == 21100


def test_reservation_ends_after_its_lifetime() -> None:
    leases = PortLeases()
    ask(leases, "a", now=0)
    assert ask(leases, "b", now=LIFETIME_S - 0.1) == 21101
    assert [lease.session_id for lease in leases.sweep(LIFETIME_S)] == ["a"]
    assert ask(leases, "c", now=LIFETIME_S) == 21100


def test_renewed_reservation_outlives_a_younger_one() -> None:
    leases = PortLeases()
    ask(leases, "a", now=0)
    ask(leases, "b", now=1)
    ask(leases, "a", now=2)
    assert [lease.session_id for lease in leases.sweep(16)] == ["b"]


def test_released_port_is_free_at_once() -> None:
    leases = PortLeases()
    ask(leases, "a")
    leases.release("a")
    leases.release("never heard of")
    assert ask(leases, "b") == 21100


def test_thousand_askers_get_a_thousand_ports() -> None:
    leases = PortLeases()
    ports = {ask(leases, str(number)) for number in range(1000)}
    assert ports == set(range(21100, 22100))


def test_nothing_free_up_to_the_last_port_is_a_refusal() -> None:
    leases = PortLeases()
    assert ask(leases, "a", 65535) == 65535
    assert ask(leases, "b", 65535) == PortExhausted(65535)
    assert ask(leases, "a", 65530, occupied=range(65530, 65536), in_use={65535}) == PortExhausted(65530)
    assert leases.current() == ()


@pytest.mark.parametrize("start", [1, 21100, 65535])
def test_own_port_is_never_given(start: int) -> None:
    leases = PortLeases()
    port = leases.allocate("a", start, 0, in_use=(), own_port=start, bindable=lambda _: True)
    assert port == (PortExhausted(65535) if start == 65535 else start + 1)


SESSIONS = st.sampled_from("abcde")
STARTS = st.integers(65528, 65535)


class LeasesEqualModel(RuleBasedStateMachine):
    """Compares the leases with a model, a list of (session, port, end)."""

    def __init__(self) -> None:
        super().__init__()
        self.leases = PortLeases()
        self.now = 0.0
        self.model: dict[str, tuple[int, float]] = {}

    def expire(self) -> None:
        self.model = {who: lease for who, lease in self.model.items() if lease[1] > self.now}

    @rule(
        who=SESSIONS, start=STARTS, in_use=st.sets(STARTS, max_size=3), occupied=st.sets(STARTS, max_size=3)
    )
    def allocate(self, who: str, start: int, in_use: set[int], occupied: set[int]) -> None:
        self.expire()
        old = self.model.pop(who, (0, 0.0))[0]
        reserved = {port for port, _ in self.model.values()}
        free = [
            port for port in range(start, 65536) if port not in reserved | in_use | occupied and port != 65530
        ]
        expected = old if old >= start and old not in in_use else min(free, default=None)
        given = self.leases.allocate(
            who, start, self.now, in_use=in_use, own_port=65530, bindable=lambda port: port not in occupied
        )
        if expected is None:
            assert given == PortExhausted(start)
        else:
            assert given == expected
            self.model[who] = (expected, self.now + LIFETIME_S)

    @rule(who=SESSIONS)
    def release(self, who: str) -> None:
        self.leases.release(who)
        self.model.pop(who, None)

    @rule(seconds=st.floats(0, 20))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.leases.sweep(self.now)
        self.expire()

    @invariant()
    def both_agree(self) -> None:
        current = {lease.session_id: (lease.port, lease.expires_at) for lease in self.leases.current()}
        assert current == self.model


LeasesEqualModel.TestCase.settings = settings(stateful_step_count=25)
TestLeasesKeepTheirPromises = LeasesEqualModel.TestCase
