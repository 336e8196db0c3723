"""Runs chosen tests of the suite in one run of pytest, and reads the outcome of each from its XML report."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from pathlib import Path

from scripts.reliability.table import Outcome

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
WORKERS = "2"
OPTIONS = {"team": "--nats", "remote_hosts": "--remote", "languages": "--languages"}
"""Folders whose tests run only if an option asks for them; without what they need they are skipped."""


def run(tests: Iterable[str], folder: Path) -> dict[str, tuple[Outcome, str]]:
    """Run these tests; return the outcome of each, with the reason if it was skipped.

    Args:
        tests: node ids relative to `tests/`, without parameters.
        folder: a temporary folder, for the report.
    """
    report = folder / "report.xml"
    chosen = [f"tests/{one}" for one in sorted(set(tests), key=place)]
    if not chosen:
        return {}  # pytest would run everything
    options = [option for folder, option in OPTIONS.items() if any(_is_in(folder, one) for one in chosen)]
    command = [sys.executable, "-m", "pytest", "-q", "-n", WORKERS, *options, f"--junitxml={report}", *chosen]
    subprocess.run(command, cwd=ROOT, check=False)
    return read(report.read_text("utf-8")) if report.exists() else {}


def _is_in(folder: str, test: str) -> bool:
    return test.startswith(f"tests/{folder}/")


def place(test: str) -> tuple[str, int]:
    """Where a test is, so that those of a file run in their order: some share a manager."""
    file, _, name = test.partition("::")
    return file, (TESTS / file).read_text("utf-8").find(f"def {name}(")


def read(report: str) -> dict[str, tuple[Outcome, str]]:
    """The outcomes in a report, by node ids relative to `tests/` without parameters."""
    found: dict[str, tuple[Outcome, str]] = {}
    for case in ET.fromstring(report).iter("testcase"):
        test = node_id(case.get("classname", ""), case.get("name", ""))
        found[test] = worse(found.get(test), outcome(case))
    return found


def node_id(classname: str, name: str) -> str:
    """The node id of a test in a report, without parameters: `process/lifecycle/test_stop.py::test_a`."""
    return f"{classname.removeprefix('tests.').replace('.', '/')}.py::{name.partition('[')[0]}"


def outcome(case: ET.Element) -> tuple[Outcome, str]:
    """The outcome of one test."""
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed", ""
    if (skipped := case.find("skipped")) is not None:
        return "skipped", skipped.get("message", "")
    return "passed", ""


def worse(one: tuple[Outcome, str] | None, other: tuple[Outcome, str]) -> tuple[Outcome, str]:
    """The outcome that counts: a failure, else a success, else that it was skipped."""
    order = ("skipped", "passed", "failed")
    return other if one is None or order.index(other[0]) > order.index(one[0]) else one
