"""Groups of tests that run only where they are asked for: their options, their markers and who is left out.

The default suite is what a change needs every few minutes. What takes long by nature has a group that is named by
what it needs; continuous integration asks for all `LOCAL` ones with `--whole`. A test file that is named on the
command line runs whatever its group. In a file of a group, a test marked `always` stands for it in the default suite.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

LOCAL = {
    "processes": "real programs that are started, killed and restarted, and real deadlines",
    "terminals": "real terminals and editors with a real agent in them",
    "walkthroughs": "what the documents show and promise, done step by step as a user would",
}
"""Groups of the markers of the same names. They need nothing that the project does not install anyway."""

OUTWARD = {
    "real-servers": "MCP servers that others wrote; installs them with npm and pip",
    "conformance": "the official conformance suite; installs it with npm",
    "clients": "MCP clients and agents that others wrote; installs them with npm and pip",
    "languages": "language servers that others wrote; installs them with npm and pip",
    "repositories": "source trees that others wrote; gets them from Debian, and installs language servers",
    "nats": "a team on real NATS servers; installs one with pip",
    "remote": "projects on other hosts over a real ssh server, which must be installed",
}
"""Groups for which something may be installed first; each has a folder whose `conftest.py` leaves it out."""

WHOLE = "whole"
ALWAYS = "always"


def add_options(parser: pytest.Parser) -> None:
    """One option a group, and one for all local ones."""
    for name, what in {**LOCAL, **OUTWARD}.items():
        parser.addoption(f"--{name}", action="store_true", help=f"also test with {what}")
    help_text = "also test the page in Chromium, which must be installed"
    parser.addoption("--browser", action="store_true", help=help_text)
    help_text = f"{', '.join(f'--{name}' for name in LOCAL)} and all examples of property tests"
    parser.addoption(f"--{WHOLE}", action="store_true", help=help_text)


def add_markers(config: pytest.Config) -> None:
    """One marker a local group, and one for the tests that stand for it."""
    config.addinivalue_line("markers", f"{ALWAYS}: runs in the default suite, though its file is of a group")
    for name, what in LOCAL.items():
        config.addinivalue_line("markers", f"{name}: needs {what}; runs with --{name} or --{WHOLE}")


def not_asked_for(config: pytest.Config) -> list[str]:
    """The options of the groups that do not run."""
    is_whole = config.getoption(WHOLE)
    names = [name for name in LOCAL if not is_whole and not config.getoption(name)]
    names += [name for name in (*OUTWARD, "browser") if not config.getoption(f"--{name}")]
    return [f"--{name}" for name in names]


def leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests of local groups that were not asked for."""
    closed = {option.removeprefix("--") for option in not_asked_for(config)} & LOCAL.keys()
    named = named_files(config.invocation_params.dir, config.args)

    def is_left_out(item: pytest.Item) -> bool:
        marks = {mark.name for mark in item.iter_markers()}
        return bool(marks & closed) and ALWAYS not in marks and item.path not in named

    left_out = {item for item in items if is_left_out(item)}
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


def leave_out_folder(
    config: pytest.Config, items: list[pytest.Item], folder: Path, option: str, *, seconds: float = 0
) -> None:
    """Deselect a folder's tests unless the option asks for them; else give each so many seconds, if any."""
    _leave_out(config, items, {item for item in items if item.path.is_relative_to(folder)}, option, seconds)


def leave_out_users(
    config: pytest.Config, items: list[pytest.Item], fixture: str, option: str, *, seconds: float
) -> None:
    """The same with the tests that use a fixture: the first one waits until it has installed programs."""
    ours = {item for item in items if fixture in getattr(item, "fixturenames", ())}
    _leave_out(config, items, ours, option, seconds)


def _leave_out(
    config: pytest.Config, items: list[pytest.Item], ours: set[pytest.Item], option: str, seconds: float
) -> None:
    if not config.getoption(option):
        config.hook.pytest_deselected(items=list(ours))
        items[:] = [item for item in items if item not in ours]
    for item in ours if seconds else ():
        item.add_marker(pytest.mark.timeout(seconds))


def named_files(folder: Path, arguments: Sequence[str]) -> set[Path]:
    """The files among the arguments of pytest, which may be folders, files, and tests in files."""
    paths: Iterable[Path] = (folder / argument.partition("::")[0] for argument in arguments)
    return {path.resolve() for path in paths if path.is_file()}
