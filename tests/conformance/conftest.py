"""The official conformance suite: briefly with `--walkthroughs`, thoroughly with `--conformance`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.processes.conformance_suite.conformance import LEGS, Run, Suite
from support.processes.conformance_suite.conformance_chain import ENDPOINTS, Chain, conformance_chain
from support.processes.installations.installing import install

HERE = Path(__file__).parent
BRIEFLY = HERE / "test_briefly.py"
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
def suite(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Suite:
    """The suite, installed. That it cannot be is a failure only for who asked for it."""
    lock = tmp_path_factory.getbasetemp().parent / "conformance.lock"
    wanted = request.config.getoption("--conformance")
    what = "the conformance suite"
    return Suite(install(what, "conformance", "--install", seconds=INSTALL_S, lock=lock, is_wanted=wanted))


@pytest.fixture(scope="session")
def chain(suite: Suite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chain]:
    """A manager, and behind it the servers in all ways there are."""
    with conformance_chain(tmp_path_factory.mktemp("chain"), *ENDPOINTS) as made:
        yield made


@pytest.fixture(scope="session")
def runs(suite: Suite, chain: Chain) -> Callable[[str, str], Run]:
    """What a leg found at an endpoint; run when it is first asked for."""
    return functools.cache(lambda leg, endpoint: suite.run(LEGS[leg], chain.url(endpoint)))
