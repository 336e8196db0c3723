"""Requests that wrk sends, and the results that are parse_output from its output."""

from __future__ import annotations

import json
import re

import pytest

from scripts.benchmarks.cases import ALL, QUICK
from scripts.benchmarks.environment.processes import Cores
from scripts.benchmarks.load.comparison import is_same_size
from scripts.benchmarks.load.wrk import ID, Call, Target, WrkResult, lua_script, parse_output, request_heads

TARGET = Target("ours", 1, ["http://127.0.0.1:1/mcp", "http://127.0.0.1:1/w/a/mcp?x=1"], ["s1"])


def test_heads_use_the_addresses_in_turns_and_state_the_content_length() -> None:
    call = Call("legacy", "tool")
    first, second = request_heads(TARGET, call)
    assert first.startswith("POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:1\r\n")
    assert second.startswith("POST /w/a/mcp?x=1 HTTP/1.1\r\n")
    assert f"Content-Length: {len(call.body)}\r\n" in first
    assert "\r\nMcp-Session-Id: s1\r\n" in first
    assert first.endswith("\r\n\r\n")


def test_only_sessions_send_a_session_id_and_only_stateless_calls_a_meta() -> None:
    assert "Mcp-Session-Id" not in request_heads(TARGET, Call("modern", "tool"))[0]
    assert "_meta" in json.loads(Call("modern", "tool").body)["params"]
    assert "_meta" not in json.loads(Call("legacy", "tool").body)["params"]


def test_ids_keep_their_length_so_that_the_content_length_holds() -> None:
    body = Call("legacy", "tool").body
    lua = lua_script(["HEAD"], body)
    assert body.count(ID) == 1
    assert re.search(r"id, threads = (\d+), 1", lua)[1] == ID.decode()
    assert lua.count("HEAD") == 1


def test_the_output_of_wrk_is_parsed() -> None:
    assert parse_output("noise\nRESULT 500 2000000 50000 12.5 99.0 3\n", 1.5) == WrkResult(
        500, 2.0, 100, 12.5, 99.0, 3, 1.5
    )
    with pytest.raises(RuntimeError, match="unable to connect"):
        parse_output("unable to connect", 0)


def test_labels_are_unique_and_quick_cases_are_among_all() -> None:
    assert len({case.label for case in ALL}) == len(ALL)
    assert set(QUICK) <= set(ALL)


@pytest.mark.parametrize(
    ("available", "measured", "load", "backend"), [([4, 2], 2, 4, 4), ([0, 1, 2, 3], 0, 1, 2), ([5], 5, 5, 5)]
)
def test_the_measured_process_shares_its_processor_only_if_there_is_one(
    available: list[int], measured: int, load: int, backend: int
) -> None:
    assert Cores.of(available) == Cores(frozenset({measured}), frozenset({load}), frozenset({backend}))


@pytest.mark.parametrize(("size", "same"), [(500, True), (540, True), (800, False), (300, False), (0, True)])
def test_refusals_differ_from_answers_by_their_size(size: float, same: bool) -> None:
    """Without any answer, no difference is reported."""
    assert is_same_size(size, 500) is same


def test_sticky_connections_keep_their_session() -> None:
    assert "turn = turn % #heads + 1" in lua_script(["A", "B"], Call("legacy", "tool").body)
    assert "turn = (turn - 1) % #heads + 1" in lua_script(
        ["A", "B"], Call("legacy", "tool").body, sticky=True
    )
