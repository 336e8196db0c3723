"""Which hosts get a call, and in which order."""

from __future__ import annotations

from collections import Counter

from lm_tools_bridge.team.registry.choice import MOST_CANDIDATES, Caller, candidates, ordered
from lm_tools_bridge.team.registry.entry import AliveEntry, HostEntry, OfferEntry
from lm_tools_bridge.team.registry.view import Provider

ME = Caller("me", "eu")
OFFER = OfferEntry("docs", "server")


def at(name: str, zone: str = "eu", capacity: int = 10) -> Provider:
    return Provider(HostEntry(name, zone=zone, capacity=capacity, offers=(OFFER,)), OFFER)


def test_the_least_used_host_is_first() -> None:
    alive = {"a": AliveEntry(5), "b": AliveEntry(1), "c": AliveEntry(3)}
    assert ordered([at("a"), at("b"), at("c")], alive, {}, ME) == ["b", "c", "a"]


def test_use_is_measured_by_capacity() -> None:
    alive = {"small": AliveEntry(2), "large": AliveEntry(4)}
    assert ordered([at("small", capacity=4), at("large", capacity=40)], alive, {}, ME) == ["large", "small"]


def test_calls_that_the_heartbeat_does_not_show_yet_count() -> None:
    alive = {"a": AliveEntry(0), "b": AliveEntry(1)}
    assert ordered([at("a"), at("b")], alive, {"a": 3}, ME) == ["b", "a"]


def test_the_own_zone_comes_first_even_if_it_is_busier() -> None:
    alive = {"far": AliveEntry(0), "near": AliveEntry(8)}
    assert ordered([at("far", "us"), at("near")], alive, {}, ME) == ["near", "far"]


def test_hosts_that_drain_are_full_or_dead_get_nothing() -> None:
    alive = {"drains": AliveEntry(0, draining=True), "full": AliveEntry(10), "free": AliveEntry(9)}
    found = [at("drains"), at("full"), at("dead"), at("free")]
    assert ordered(found, alive, {}, ME) == ["free"]


def test_the_reason_why_no_host_is_left_is_told() -> None:
    assert ordered([], {}, {}, ME) == "unknown"
    assert ordered([at("a")], {}, {}, ME) == "dead"
    assert ordered([at("a")], {"a": AliveEntry(0, draining=True)}, {}, ME) == "draining"
    assert ordered([at("a")], {"a": AliveEntry(10)}, {}, ME) == "full"


def test_only_accepted_hosts_are_candidates() -> None:
    found = candidates([at("a"), at("b")], {"b"}, ME)
    assert [one.host.host for one in found] == ["b"]
    assert len(candidates([at("a"), at("b")], None, ME)) == 2


def test_callers_spread_over_the_hosts_of_a_large_offer() -> None:
    every = [at(f"h{number}") for number in range(100)]
    first = Counter(
        candidates(every, None, Caller(f"c{number}", "eu"))[0].host.host for number in range(1000)
    )
    assert len(first) > 90
    assert max(first.values()) < 40
    assert len(candidates(every, None, ME)) == MOST_CANDIDATES


def test_candidates_of_the_own_zone_are_looked_at_first() -> None:
    every = [at(f"h{number}", "us") for number in range(100)] + [at("near")]
    assert candidates(every, None, ME)[0].host.host == "near"
