"""Reading entries of the registry, which hostile members may have written."""

from __future__ import annotations

import json

import pytest

from lm_tools_bridge.team.registry.entry import (
    MAX_ENTRY_BYTES,
    MAX_OFFERS,
    AliveEntry,
    HostEntry,
    OfferEntry,
    encoded,
    read_alive,
    read_host,
)

ENTRY = HostEntry("build-1", "1.0", "eu", 8, 1, (OfferEntry("docs", "workspace", title="Docs", tools=3),))


def changed(**members: object) -> bytes:
    return json.dumps({**json.loads(encoded(ENTRY)), **members}).encode()


def test_an_entry_is_read_as_it_was_written() -> None:
    assert read_host("build-1", encoded(ENTRY)) == ENTRY


def test_unknown_members_of_later_versions_are_skipped() -> None:
    assert read_host("build-1", changed(later=[1])) == ENTRY


@pytest.mark.parametrize(
    ("key", "payload", "why"),
    [
        ("build-2", encoded(ENTRY), "another host"),
        ("build-1", b"{", "cannot be read"),
        ("build-1", b"[" * 10_000, "cannot be read"),
        ("build-1", b'"x"', "cannot be read"),
        ("build-1", b" " * (MAX_ENTRY_BYTES + 1), "larger"),
        ("a.b", changed(host="a.b"), "another host"),
        ("build-1", changed(capacity=0), "capacity"),
        ("build-1", changed(offers=[{"name": "a b", "kind": "workspace"}]), "invalid name"),
        ("build-1", changed(offers=[{"name": "x>", "kind": "workspace"}]), "invalid name"),
        ("build-1", changed(offers=[{"name": "x", "kind": "workspace"}] * 2), "same name"),
        ("build-1", changed(offers=[{"name": f"x{n}", "kind": "server"} for n in range(MAX_OFFERS + 1)]), "more than"),
        ("build-1", changed(offers=[{"name": "x", "kind": "everything"}]), "cannot be read"),
        ("build-1", changed(offers=[{"name": "x", "kind": "server", "policy": "root"}]), "cannot be read"),
    ],
)  # fmt: skip
def test_an_entry_that_cannot_be_used_is_ignored_with_a_reason(key: str, payload: bytes, why: str) -> None:
    read = read_host(key, payload)
    assert isinstance(read, str)
    assert why in read


@pytest.mark.parametrize(
    "text", ["\x1b[2J\x1b]0;owned\x07", "a\u202eb", "x" * 5000, "\u2066\u200b", "é" * 300]
)
def test_texts_of_others_are_short_and_have_no_control_characters(text: str) -> None:
    offer = {"name": "docs", "kind": "workspace", "title": text, "repository": text, "revision": text}
    read = read_host("build-1", changed(version=text, zone=text, offers=[offer]))
    assert isinstance(read, HostEntry)
    for shown in (
        read.version,
        read.zone,
        read.offers[0].title,
        read.offers[0].repository,
        read.offers[0].revision,
    ):
        assert len(shown) <= 200 * 10
        assert shown.isprintable()
        assert "\x1b" not in shown
        assert "\u202e" not in shown


def test_a_heartbeat_is_read() -> None:
    assert read_alive(encoded(AliveEntry(3, draining=True))) == AliveEntry(3, draining=True)


@pytest.mark.parametrize("payload", [b"", b"[]", b'{"inFlight": -1}', b'{"inFlight": "x"}', b"[" * 10_000])
def test_a_heartbeat_that_cannot_be_used_is_none(payload: bytes) -> None:
    assert read_alive(payload) is None
