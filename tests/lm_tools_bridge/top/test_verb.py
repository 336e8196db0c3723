"""The bell rings once for each thing that begins to wait."""

from __future__ import annotations

from lm_tools_bridge.top.verb import Bell


def test_the_bell_rings_for_what_is_new() -> None:
    written: list[str] = []
    bell = Bell(written.append)
    rings = []
    for keys in (["a"], ["a"], ["a", "b"], ["b"], ["a", "b"], ["c", "d"]):
        written.clear()
        bell.note([{"key": key} for key in keys])
        rings.append("".join(written))
    assert rings == ["", "", "\a", "", "", "\a"]
