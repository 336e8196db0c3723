"""Texts and figures of the measured sections."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scripts.benchmarks.__main__ import options
from scripts.benchmarks.cases import Case
from scripts.benchmarks.forwarding import hop
from scripts.benchmarks.results.report import quick_text, targets_text
from scripts.benchmarks.results.rounds import Measured
from scripts.benchmarks.scaling import memory
from scripts.benchmarks.section import Section
from scripts.benchmarks.startup.starting import at_share

ONE = Measured(
    cpu=10,
    alone=10,
    rate=100,
    p50=60,
    p99=90,
    refused=0,
    busy=1,
    load=0.1,
    backend=0.2,
    others=0,
    size=500,
    rss=40,
)
CHEAP, SLOW = Case("modern", "json", "200B", 16), Case("legacy", "json", "200B", 1)


def test_the_hop_is_relative_to_nginx_and_latency_to_a_direct_call() -> None:
    found = {
        CHEAP: {"nginx": ONE, "ours": replace(ONE, cpu=13, refused=1)},
        SLOW: {"nginx": ONE, "ours": replace(ONE, p50=80), "direct": replace(ONE, p50=20)},
    }
    assert hop.figures(found) == {
        "cpu modern": 1.3,
        "rate modern": 100,
        "added p50 legacy": 1.5,
        "refused calls": 1,
    }


def test_large_answers_report_the_worse_era_and_memory_relative_to_small() -> None:
    large = [Case(era, "sse", "1MB", 4) for era in ("modern", "legacy")]
    found = {
        CHEAP: {"nginx": ONE, "ours": ONE},
        large[0]: {"nginx": ONE, "ours": replace(ONE, rate=90, rss=50)},
        large[1]: {"nginx": ONE, "ours": replace(ONE, rate=70, rss=44)},
    }
    figures = hop.figures(found)
    assert figures["rate 1MB sse"] == 0.7
    assert figures["large memory"] == 1.25


def test_the_front_page_quotes_both_eras_and_the_worse_latency() -> None:
    text = quick_text(
        {"cpu modern": 1.31, "cpu legacy": 1.42, "added p50 modern": 1.05, "added p50 legacy": 1.1}
    )
    assert "1.31 ×" in text
    assert "1.42 ×" in text
    assert "1.10 ×" in text


def test_a_partial_run_lists_only_its_own_targets() -> None:
    part = [Section("memory", "", figures={"session KiB": 0.5})]
    assert len(targets_text(part, whole=False).splitlines()) == 3
    assert "not measured" in targets_text(part, whole=True)


def test_the_value_at_a_share_is_a_percentile() -> None:
    assert at_share(range(1, 21), 0.95) == 20
    assert at_share([5], 0.95) == 5


def test_memory_is_reported_in_a_table() -> None:
    assert "| connection, idle | 3.34 |" in memory.text({"connection": 3.34}, 2000)


def test_an_unknown_section_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        options(["--only", "hop,nothing"])
    assert "no section nothing; there are: hop, " in capsys.readouterr().err
