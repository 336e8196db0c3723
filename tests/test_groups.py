"""Tests of the groups that run only where they are asked for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from support import groups

HERE: Final = Path(__file__)


class Item(SimpleNamespace):
    """A test as far as groups look at it: where it is and how it is marked."""

    __hash__ = object.__hash__

    def iter_markers(self) -> list[Any]:
        return [SimpleNamespace(name=name) for name in self.marks]


def config(*options: str, args: tuple[str, ...] = ()) -> Any:
    """A configuration with these options."""
    given: Mapping[str, bool] = dict.fromkeys(options, True)
    return SimpleNamespace(
        getoption=lambda name: given.get(name.removeprefix("--"), False),
        invocation_params=SimpleNamespace(dir=HERE.parent),
        args=list(args),
        hook=SimpleNamespace(pytest_deselected=lambda items: None),
    )


def kept(given: Any) -> list[str]:
    """Which of four tests run with this configuration."""
    tests: Any = [
        Item(name="unmarked", path=HERE, marks=["asyncio"]),
        Item(name="terminal", path=HERE, marks=["terminals", "timeout"]),
        Item(name="process", path=HERE, marks=["processes"]),
        Item(name="standing for it", path=HERE, marks=["processes", "always"]),
    ]
    groups.leave_out(given, tests)
    return [test.name for test in tests]


def test_tests_of_groups_run_only_if_asked_for() -> None:
    assert kept(config()) == ["unmarked", "standing for it"]
    assert kept(config("terminals")) == ["unmarked", "terminal", "standing for it"]
    assert kept(config("whole")) == ["unmarked", "terminal", "process", "standing for it"]


@pytest.mark.parametrize("named", [HERE.name, f"{HERE.name}::test_x", str(HERE)])
def test_a_file_that_is_named_runs_whatever_its_group(named: str) -> None:
    assert len(kept(config(args=(named,)))) == 4


def test_a_folder_that_is_named_runs_without_its_groups() -> None:
    assert len(kept(config(args=(".",)))) == 2


def test_what_was_not_asked_for_is_named_by_its_option() -> None:
    named = groups.not_asked_for(config("whole", "browser"))
    assert named == [
        "--real-servers",
        "--conformance",
        "--clients",
        "--languages",
        "--repositories",
        "--nats",
        "--remote",
    ]
    assert "--terminals" in groups.not_asked_for(config("processes"))
    assert "--processes" not in groups.not_asked_for(config("processes"))
