"""The official conformance suite; run only where that is asked for: `pytest tests/conformance --conformance`.

The suite takes seconds for each leg, so all that the selected tests ask about is run at once, two endpoints at a time;
one endpoint's legs follow each other, because a server that is asked by two clients at once may not know whom to ask.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import manager
from support.conformance import LEGS, Run, Suite
from support.conformance_chain import BY_FOLDER, SOURCES, Chain, conformance_chain

HERE = Path(__file__).parent
SCRIPT = Path(manager.__file__).parents[1] / "scripts" / "conformance"
NOT_HERE = 75
"""The script's exit code where Node is missing or the registry cannot be reached."""
INSTALL_S = 180.0
ALL_S = 300.0
Runs = Callable[[str, str], Run]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave them out, or give them time: the first one waits for the installation, others for the suite."""
    ours = [item for item in items if item.path.is_relative_to(HERE)]
    if not config.getoption("--conformance"):
        config.hook.pytest_deselected(items=ours)
        items[:] = [item for item in items if item not in ours]
    for item in ours:
        item.add_marker(pytest.mark.timeout(INSTALL_S + ALL_S))


@pytest.fixture(scope="session")
def suite() -> Suite:
    """The suite, installed."""
    done = subprocess.run(
        [str(SCRIPT), "--install"], env={**os.environ, "PYTHON": sys.executable},
        capture_output=True, text=True, check=False, timeout=INSTALL_S,
    )  # fmt: skip
    if done.returncode == NOT_HERE:
        pytest.skip(f"the conformance suite cannot be installed: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    return Suite(Path(done.stdout.splitlines()[-1]))


@pytest.fixture(scope="session")
def wanted(request: pytest.FixtureRequest) -> dict[str, list[str]]:
    """Endpoint -> legs, of all selected tests."""
    found: dict[str, list[str]] = defaultdict(list)
    for item in request.session.items:
        params: dict[str, Any] = item.callspec.params if hasattr(item, "callspec") else {}
        if {"leg", "endpoint"} <= params.keys():
            for endpoint in ("direct", params["endpoint"]):
                if params["leg"] not in found[endpoint]:
                    found[endpoint].append(params["leg"])
    return found


@pytest.fixture(scope="session")
def chain(wanted: dict[str, list[str]], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chain]:
    """A manager, and behind it the conformance server in all ways that are asked about."""
    sources = [one for one in SOURCES if one in wanted or one + BY_FOLDER in wanted]
    with conformance_chain(tmp_path_factory.mktemp("chain"), *sources) as made:
        yield made


@pytest.fixture(scope="session")
def runs(suite: Suite, chain: Chain, wanted: dict[str, list[str]]) -> Iterator[Runs]:
    """What a leg found at an endpoint."""

    def run_all(endpoint: str) -> dict[str, Run]:
        return {leg: suite.run(LEGS[leg], chain.url(endpoint)) for leg in wanted[endpoint]}

    with ThreadPoolExecutor(2) as pool:
        found = {endpoint: pool.submit(run_all, endpoint) for endpoint in wanted}
        yield lambda leg, endpoint: found[endpoint].result(ALL_S)[leg]
