"""The official suite as part of every run of the tests: the two latest revisions, through both eras and both transports.

One test, so that one process has the servers; with `--conformance` the other files ask about much more.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from support.conformance import LEGS, Run, Suite
from support.conformance_chain import conformance_chain, news

ASKED = ("2025-11-25", "2026-07-28")
ENDPOINTS = ("direct", "stdio-legacy", "http-modern")


def test_servers_behind_us_are_as_they_are_directly(suite: Suite, tmp_path: Path) -> None:
    """One endpoint's legs follow each other: a server asked by two clients at once may not know whom to ask."""

    def run(endpoint: str) -> dict[str, Run]:
        return {leg: suite.run(LEGS[leg], chain.url(endpoint)) for leg in ASKED}

    with conformance_chain(tmp_path, *ENDPOINTS) as chain, ThreadPoolExecutor(2) as pool:
        directly, *behind_us = pool.map(run, ENDPOINTS)
    assert {leg: run.passed for leg, run in directly.items()} == {leg: LEGS[leg].total for leg in ASKED}
    assert not {
        (leg, endpoint): unexpected
        for endpoint, found in zip(ENDPOINTS[1:], behind_us, strict=True)
        for leg in ASKED
        if (unexpected := news(LEGS[leg], endpoint, found[leg], directly[leg]))
    }
