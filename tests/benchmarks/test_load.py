"""What the load sends, and what it is read to have said."""

from __future__ import annotations

import json
import re

import pytest

from scripts.benchmarks.cases import ALL, QUICK
from scripts.benchmarks.contest import alike
from scripts.benchmarks.load import ID, Call, Target, Told, heads_of, read, script
from scripts.benchmarks.processes import Cores

TARGET = Target("ours", 1, ["http://127.0.0.1:1/mcp", "http://127.0.0.1:1/w/a/mcp?x=1"], ["s1"])


def test_heads_take_addresses_in_turns_and_say_the_length_of_the_body() -> None:
    call = Call("legacy", "tool")
    first, second = heads_of(TARGET, call)
    assert first.startswith("POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:1\r\n")
    assert second.startswith("POST /w/a/mcp?x=1 HTTP/1.1\r\n")
    assert f"Content-Length: {len(call.body)}\r\n" in first
    assert "\r\nMcp-Session-Id: s1\r\n" in first
    assert first.endswith("\r\n\r\n")


def test_only_sessions_have_ids_and_only_the_stateless_era_says_who_asks() -> None:
    assert "Mcp-Session-Id" not in heads_of(TARGET, Call("modern", "tool"))[0]
    assert "_meta" in json.loads(Call("modern", "tool").body)["params"]
    assert "_meta" not in json.loads(Call("legacy", "tool").body)["params"]


def test_ids_keep_their_length_so_that_the_head_stays_true() -> None:
    body = Call("legacy", "tool").body
    lua = script(["HEAD"], body)
    assert body.count(ID) == 1
    assert re.search(r"id, threads = (\d+), 1", lua)[1] == ID.decode()  # type: ignore[index]
    assert lua.count("HEAD") == 1


def test_what_wrk_says_is_read() -> None:
    assert read("noise\nRESULT 500 2000000 50000 12.5 99.0 3\n", 1.5) == Told(
        500, 2.0, 100, 12.5, 99.0, 3, 1.5
    )
    with pytest.raises(RuntimeError, match="unable to connect"):
        read("unable to connect", 0)


def test_labels_are_words_to_choose_by_and_quick_cases_are_among_all() -> None:
    assert len({case.label for case in ALL}) == len(ALL)
    assert set(QUICK) <= set(ALL)


@pytest.mark.parametrize(
    ("available", "measured", "load", "backend"), [([4, 2], 2, 4, 4), ([0, 1, 2, 3], 0, 1, 2), ([5], 5, 5, 5)]
)
def test_what_is_measured_shares_its_processor_only_where_there_is_one(
    available: list[int], measured: int, load: int, backend: int
) -> None:
    assert Cores.of(available) == Cores(frozenset({measured}), frozenset({load}), frozenset({backend}))


@pytest.mark.parametrize(("size", "same"), [(500, True), (540, True), (800, False), (300, False), (0, True)])
def test_refusals_are_told_from_answers_by_their_size(size: float, same: bool) -> None:
    """Where nobody answered at all, there is nothing to tell."""
    assert alike(size, 500) is same


def test_connections_stay_with_their_session_where_they_are_kept() -> None:
    assert "turn = turn % #heads + 1" in script(["A", "B"], Call("legacy", "tool").body)
    assert "turn = (turn - 1) % #heads + 1" in script(["A", "B"], Call("legacy", "tool").body, kept=True)
