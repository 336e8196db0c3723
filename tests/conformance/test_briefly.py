"""The official suite as part of `--walkthroughs`: the two latest revisions, both eras, both transports.

One test, so that one process has the servers; with `--conformance` the other files ask about much more.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support.processes.conformance_suite.conformance import LEGS, Run, Suite
from support.processes.conformance_suite.conformance_chain import conformance_chain, news

pytestmark = pytest.mark.walkthroughs

ASKED = {
    "direct": ("2025-11-25", "2026-07-28"),
    "stdio-legacy": ("2026-07-28",),
    "http-modern": ("2025-11-25",),
}
"""Behind us each server is asked in the other era than its own."""


def test_servers_behind_us_are_as_they_are_directly(suite: Suite, tmp_path: Path) -> None:
    """One endpoint's legs follow each other: a server asked by two clients at once may not know whom to ask."""

    def run(endpoint: str) -> dict[str, Run]:
        return {leg: suite.run(LEGS[leg], chain.url(endpoint)) for leg in ASKED[endpoint]}

    with conformance_chain(tmp_path, *ASKED) as chain, ThreadPoolExecutor(2) as pool:
        found = dict(zip(ASKED, pool.map(run, ASKED), strict=True))
    directly = found.pop("direct")
    assert {leg: run.passed for leg, run in directly.items()} == {leg: LEGS[leg].total for leg in directly}
    assert not {
        (leg, endpoint): unexpected
        for endpoint, runs in found.items()
        for leg, run in runs.items()
        if (unexpected := news(LEGS[leg], endpoint, run, directly[leg]))
    }
