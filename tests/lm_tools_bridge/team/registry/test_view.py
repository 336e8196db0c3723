"""The view of a team: complete lists, changes, staleness and expiry."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping

import pytest

from lm_tools_bridge.team.registry.entry import AliveEntry, HostEntry, OfferEntry
from lm_tools_bridge.team.registry.view import (
    ENTRY_TTL_S,
    MOST_CANDIDATES,
    Caller,
    Provider,
    TeamView,
    candidates,
    ordered,
)


def host(name: str, *offers: str, digest: str = "d") -> HostEntry:
    return HostEntry(name, offers=tuple(OfferEntry(one, "server", digest=digest) for one in offers))


def hosts_of(view: TeamView, offer: str) -> list[str]:
    return [one.host.host for one in view.providers(offer)]


def listed(entries: Mapping[str, HostEntry | str], now: float) -> TeamView:
    view = TeamView()
    for name, entry in entries.items():
        view.put(name, entry, now)
    return view


def test_a_list_replaces_what_was_known() -> None:
    view = TeamView()
    view.put("old", host("old", "docs"), 0)
    view.replace(
        listed({"a": host("a", "docs", "db"), "b": host("b", "docs"), "bad": "it cannot be read"}, 1)
    )
    assert hosts_of(view, "docs") == ["a", "b"]
    assert view.names() == ["db", "docs"]
    assert view.ignored == {"bad": "it cannot be read"}
    assert view.is_listed


def test_an_entry_that_changes_takes_its_old_offers_away() -> None:
    view = TeamView()
    view.put("a", host("a", "docs", "db"), 0)
    view.put("a", host("a", "db"), 1)
    assert hosts_of(view, "docs") == []
    assert view.names() == ["db"]


def test_an_entry_that_becomes_unusable_takes_the_host_away() -> None:
    view = TeamView()
    view.put("a", host("a", "docs"), 0)
    view.put("a", "it cannot be read", 1)
    assert (hosts_of(view, "docs"), view.ignored) == ([], {"a": "it cannot be read"})
    view.put("a", host("a", "docs"), 2)
    assert (hosts_of(view, "docs"), view.ignored) == (["a"], {})


def test_hosts_with_different_tools_under_one_name_are_told_apart() -> None:
    view = TeamView()
    view.replace(listed({"a": host("a", "docs", digest="1"), "b": host("b", "docs", digest="2")}, 0))
    assert not view.offers(view.names())[0].is_uniform
    view.put("b", host("b", "docs", digest="1"), 1)
    assert view.offers(view.names())[0].is_uniform


def test_in_a_partition_the_last_list_stays_and_has_an_age() -> None:
    view = TeamView()
    view.replace(listed({"a": host("a", "docs")}, 0))
    assert view.stale_for(10) is None
    view.lost(10)
    view.lost(20)  # lost again while lost
    view.expire(10 + 2 * ENTRY_TTL_S)
    assert hosts_of(view, "docs") == ["a"]
    assert view.stale_for(70) == 60
    view.replace(listed({"a": host("a", "docs")}, 80))
    assert view.stale_for(90) is None


def test_a_host_that_is_not_renewed_expires() -> None:
    view = TeamView()
    view.put("a", host("a", "docs"), 0)
    view.put("b", host("b", "docs"), 100)
    view.expire(ENTRY_TTL_S + 50)
    assert hosts_of(view, "docs") == ["b"]


def test_offers_are_found_by_name_title_and_repository() -> None:
    view = TeamView()
    offers = (
        OfferEntry("docs", "server", title="All Pages"),
        OfferEntry("db", "server", repository="https://x/Store"),
    )
    view.put("a", HostEntry("a", offers=offers), 0)
    assert [view.names(pattern) for pattern in ("do", "pages", "store", "none", "")] == [
        ["docs"], ["docs"], ["db"], [], ["db", "docs"],
    ]  # fmt: skip


def test_twenty_thousand_offers_are_found_quickly() -> None:
    view = TeamView()
    offers = [[f"w{number}-{one}" for one in range(20)] for number in range(1000)]
    view.replace(listed({f"h{number}": host(f"h{number}", *names) for number, names in enumerate(offers)}, 0))
    begun = time.process_time()
    assert hosts_of(view, "w500-7") == ["h500"]
    assert time.process_time() - begun < 0.05


def test_more_hosts_than_any_team_has_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lm_tools_bridge.team.registry.view.MOST_HOSTS", 2)
    monkeypatch.setattr("lm_tools_bridge.team.registry.view._MOST_IGNORED", 3)
    view = TeamView()
    for number in range(9):
        view.put(f"h{number}", host(f"h{number}", "docs"), 0)
    assert hosts_of(view, "docs") == ["h0", "h1"]
    assert list(view.ignored) == ["h2", "h3", "h4"]
    view.put("h0", host("h0", "db"), 1)
    assert hosts_of(view, "db") == ["h0"]
    view.remove("h1")
    view.put("h5", host("h5", "docs"), 2)
    assert hosts_of(view, "docs") == ["h5"]


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
