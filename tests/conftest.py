"""Fixtures of the whole suite: isolation first, then a running manager."""

from __future__ import annotations

import os
import sys

# Without compiled files every worker rewrites all assertions again, and each of hundreds of processes compiles all that
# it imports. Before other imports, whose files are then kept as well.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

import asyncio
import gc
import itertools
import ssl
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, settings

from support import groups, portable
from support.clock import VirtualTime
from support.examples import DEFAULT, WHOLE
from support.processes.managers.manager_in_process import RunningManager, running_manager

pytest_plugins = ["support.verb_fixtures"]

# The suite tries the same few examples each time, with `--whole` four times as many.
# `--hypothesis-profile thorough` looks for new ones.
settings.register_profile(
    "suite",
    max_examples=DEFAULT,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("whole", settings.get_profile("suite"), max_examples=WHOLE)
settings.register_profile("thorough", max_examples=10 * WHOLE, deadline=None)
settings.load_profile("suite")


def pytest_addoption(parser: pytest.Parser) -> None:
    """What is not tested unless it is asked for."""
    groups.add_options(parser)
    portable.add_option(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Markers of the groups, and how many examples are tried."""
    portable.require_hidden(config)
    groups.add_markers(config)
    if config.getoption(groups.WHOLE) and not config.getoption("hypothesis_profile", None):
        settings.load_profile("whole")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the groups that nobody asked for."""
    groups.leave_out(config, items)
    portable.skip_what_cannot_run(items)


def pytest_collection(session: pytest.Session) -> None:
    """Collecting thousands of tests makes no garbage; looking for it again and again takes a tenth of the time."""
    gc.disable()


def pytest_collection_finish(session: pytest.Session) -> None:
    """What was collected stays: no collection of garbage looks at it again."""
    gc.enable()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say in one line what did not run."""
    if options := groups.not_asked_for(config):
        terminalreporter.write_line(f"Groups that were not asked for: {' '.join(options)}")


@pytest.fixture(scope="session")
def _homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """New home folders; numbered here, because the factory looks at all former ones each time."""
    place = tmp_path_factory.mktemp("users")
    return (place / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def _no_user_folders(_homes: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the user's home, configuration or running manager."""
    home = next(_homes)
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in list(os.environ):
        if name.startswith(("XDG_", "LMTB_")):
            monkeypatch.delenv(name)


@pytest.fixture(scope="session", autouse=True)
def _one_certificate(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Hundreds of processes would read all certificates of the system, and none speaks to the world."""
    known = ssl.create_default_context().get_ca_certs(binary_form=True)
    if not known or any(pytestconfig.getoption(f"--{name}") for name in groups.OUTWARD):
        yield
        return
    file = tmp_path_factory.mktemp("certificates") / "one.pem"
    file.write_text(ssl.DER_cert_to_PEM_cert(known[0]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(file))
        yield


@pytest.fixture(autouse=True)
def _quiet_log() -> Iterator[None]:
    """Log lines go nowhere unless a test asks for them."""
    structlog.configure(processors=[_drop], cache_logger_on_first_use=False)
    yield
    structlog.reset_defaults()


def _drop(*_: object) -> str:
    raise structlog.DropEvent


@pytest.fixture
async def virtual_time() -> AsyncIterator[VirtualTime]:
    """The time of the test's event loop, which passes at once; for tests without other processes."""
    with pytest.MonkeyPatch.context() as patch:
        yield VirtualTime(asyncio.get_running_loop(), patch)


@pytest.fixture
async def manager(tmp_path: Path) -> AsyncIterator[RunningManager]:
    """A running manager with quick settings."""
    async with running_manager(tmp_path / "manager") as running:
        yield running
