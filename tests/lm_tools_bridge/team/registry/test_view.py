"""The view of a team: complete lists, changes, staleness and expiry."""

from __future__ import annotations

import time
from collections.abc import Mapping

import pytest

from lm_tools_bridge.team.registry.entry import HostEntry, OfferEntry
from lm_tools_bridge.team.registry.view import ENTRY_TTL_S, TeamView


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
