"""Where a path is in the order of results."""

from __future__ import annotations

import os

import pytest

from workspace_server.sources.builtin.search.query import Places


def test_places_are_in_the_order_of_directories_and_names() -> None:
    places = Places()
    names = sorted(["a", "z", "é", "\udcff", "\U0001f600", "\uffff", "B", "a b"], key=os.fsencode)
    places.add("d/", names)
    places.add("", lambda: ["x", "y"])
    paths = [*(f"d/{name}" for name in names), "x", "y"]
    assert [places.of(path) for path in paths] == [*((0, n) for n in range(8)), (1, 0), (1, 1)]
    assert [places.of(path) for path in ("d/x", "d", "a", "d/a/z", "d/", "", "z")] == [None] * 7


def test_names_are_looked_up_without_a_look_at_each(monkeypatch: pytest.MonkeyPatch) -> None:
    places, looks = Places(), 0
    places.add("", [f"{number:06}" for number in range(250_000)])

    def noted(name: str) -> bytes:
        nonlocal looks
        looks += 1
        return name.encode()

    monkeypatch.setattr(os, "fsencode", noted)
    assert places.of("123456") == (0, 123_456)
    assert looks < 25
