"""Tests of the workspaces that lost their registered server."""

from __future__ import annotations

from manager.supervision.registration.departures import MAX_DEPARTURES, Departures


def test_a_root_without_its_server_is_remembered_until_it_has_one_again() -> None:
    departures = Departures()
    departures.update({"/a": True, "/b": False}, 5.0)
    assert (departures.since("/a"), departures.since("/b"), departures.since("/c")) == (None, 5.0, None)
    departures.update({"/b": True}, 6.0)
    assert departures.since("/b") is None


def test_a_handshake_ends_it() -> None:
    departures = Departures()
    departures.update({"/a": False}, 5.0)
    departures.forget("/a")
    departures.forget("/never")
    assert departures.since("/a") is None


def test_their_number_is_limited() -> None:
    departures = Departures()
    for number in range(MAX_DEPARTURES + 1):
        departures.update({f"/{number}": False}, 5.0)
    assert departures.since("/0") is None
    assert departures.since(f"/{MAX_DEPARTURES}") == 5.0
