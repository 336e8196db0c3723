"""The filters of the pages of calls: what their fields mean, and what is refused with a sentence."""

from __future__ import annotations

import pytest

from lm_tools_bridge.recorder.page.query import MAX_FIELD, address, call_number, read_query

NOW_S = 1_800_000_000.0


def test_fields_become_a_filter() -> None:
    fields = {"client": " agent ", "project": "shop", "tool": "git__*", "session": "0a", "since": "2h",
              "slow": "200", "errors": "1", "before": "51", "other": "x"}  # fmt: skip
    query = read_query(fields, NOW_S)
    wanted = query.wanted
    assert query.problem is None
    assert (wanted.client, wanted.project, wanted.tool, wanted.session) == ("agent", "shop", "git__*", "0a")
    assert (wanted.errors, wanted.slower_than_us, wanted.before) == (True, 200_000, 51)
    assert wanted.since_ms == round((NOW_S - 7200) * 1000)
    assert "before" not in query.given


def test_empty_fields_choose_nothing() -> None:
    query = read_query({"client": "  ", "since": ""}, NOW_S)
    assert (query.given, query.problem, query.wanted.client) == ({}, None, None)


@pytest.mark.parametrize(
    ("name", "value"),
    [("since", "soon"), ("since", "9999999999999-01"), ("slow", "x"), ("slow", "-1"), ("slow", "nan"), ("slow", "inf"),
     ("tool", "t" * (MAX_FIELD + 1))],
)  # fmt: skip
def test_what_cannot_be_used_is_said_and_nothing_is_looked_up(name: str, value: str) -> None:
    assert read_query({name: value}, NOW_S).problem is not None


@pytest.mark.parametrize("since", ["0001-01-01", "9999-12-31", "999999999999d"])
def test_times_far_away_fit_into_the_database(since: str) -> None:
    found = read_query({"since": since}, NOW_S).wanted.since_ms
    assert found is None or -(2**63) < found < 2**63


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5", "²", "9" * 17, "x"])
def test_other_texts_are_no_ids(text: str) -> None:
    assert call_number(text) is None
    assert read_query({"before": text}, NOW_S).wanted.before is None


def test_an_address_has_its_fields_encoded() -> None:
    assert address("/p", {"tool": '"><b>&', "n": 1}) == "/p?tool=%22%3E%3Cb%3E%26&n=1"
    assert address("/p", {}) == "/p"
