"""The official conformance suite: briefly in every run, thoroughly with `pytest tests/conformance --conformance`."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import manager
from support.conformance import LEGS, Run, Suite
from support.conformance_chain import ENDPOINTS, Chain, conformance_chain

HERE = Path(__file__).parent
BRIEFLY = HERE / "test_briefly.py"
SCRIPT = Path(manager.__file__).parents[1] / "scripts" / "conformance"
NOT_HERE = 75
"""The script's exit code where Node is missing or the registry cannot be reached."""
INSTALL_S = 180.0
ALL_S = 300.0


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what was not asked for; give the others time: the first one waits for the installation."""
    ours = [item for item in items if item.path.is_relative_to(HERE)]
    left_out = [item for item in ours if (item.path == BRIEFLY) is config.getoption("--conformance")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]
    for item in ours:
        item.add_marker(pytest.mark.timeout(INSTALL_S + ALL_S))


@pytest.fixture(scope="session")
def suite(request: pytest.FixtureRequest) -> Suite:
    """The suite, installed. That it cannot be is a failure only for who asked for it."""
    try:
        done = subprocess.run(
            [str(SCRIPT), "--install"], env={**os.environ, "PYTHON": sys.executable},
            capture_output=True, text=True, check=False, timeout=INSTALL_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        pytest.skip(f"the conformance suite cannot be installed within {INSTALL_S:.0f} s")
    if done.returncode == NOT_HERE or (done.returncode and not request.config.getoption("--conformance")):
        pytest.skip(f"the conformance suite cannot be installed: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    return Suite(Path(done.stdout.splitlines()[-1]))


@pytest.fixture(scope="session")
def chain(suite: Suite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chain]:
    """A manager, and behind it the servers in all ways there are."""
    with conformance_chain(tmp_path_factory.mktemp("chain"), *ENDPOINTS) as made:
        yield made


@pytest.fixture(scope="session")
def runs(suite: Suite, chain: Chain) -> Callable[[str, str], Run]:
    """What a leg found at an endpoint; run when it is first asked for."""
    return functools.cache(lambda leg, endpoint: suite.run(LEGS[leg], chain.url(endpoint)))
