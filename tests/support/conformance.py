"""The official conformance suite as a program: what it is run with, and what it found.

`scripts/conformance` installs it. What it is run against is elsewhere (`conformance_chain.py`).
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

LEG_S = 240.0
SCENARIO_MS = 15_000
EXPECTED = Path(__file__).parents[1] / "conformance" / "expected"
ENTRY = re.compile(r"  - (?P<key>[\w.-]+:\S+)  # (?P<reason>\S.+)")


@dataclass(frozen=True)
class Leg:
    """One run of the suite.

    Attributes:
        name: the revision its clients speak, or the suite's own version.
        release: which of the two installed releases it is.
        options: what it is run with.
        total: how many checks succeed against a server that does everything.
    """

    name: str
    release: str
    options: tuple[str, ...]
    total: int


def _revision(name: str, total: int) -> Leg:
    options = ("--suite", "all", "--spec-version", name, "--timeout", str(SCENARIO_MS))
    return Leg(name, "newer", options, total)


LEGS = {
    leg.name: leg
    for leg in (
        _revision("2025-03-26", 3),
        _revision("2025-06-18", 56),
        _revision("2025-11-25", 84),
        _revision("2026-07-28", 152),
        Leg("0.1.16", "older", ("--suite", "all"), 44),
    )
}


@dataclass(frozen=True)
class Check:
    """One of the suite's verdicts; `status` is `SUCCESS`, `FAILURE`, `WARNING`, `SKIPPED` or `INFO`."""

    scenario: str
    name: str
    status: str
    message: str = ""

    @property
    def key(self) -> str:
        """Its name as files of expected failures have it."""
        return f"{self.scenario}:{self.name}"


@dataclass(frozen=True)
class Run:
    """What one leg found; `said` is all the suite printed."""

    checks: tuple[Check, ...]
    seconds: float
    said: str

    @property
    def passed(self) -> int:
        """How many checks succeeded."""
        return sum(check.status == "SUCCESS" for check in self.checks)

    @property
    def total(self) -> int:
        """How many checks there were that could fail."""
        return sum(check.status in ("SUCCESS", "FAILURE") for check in self.checks)

    @property
    def wrong(self) -> dict[str, str]:
        """Key -> message of what must or should be otherwise."""
        return {check.key: check.message for check in self.checks if check.status in ("FAILURE", "WARNING")}

    def less_than(self, other: Run) -> dict[str, str]:
        """Key -> why, of the checks that succeed in the other run and not, or not as often, in this one."""
        ours, theirs = self._verdicts(), other._verdicts()
        return {
            key: self.wrong.get(key, "not judged, or not as often")
            for key in sorted({*ours, *theirs})
            if ours[key]["SUCCESS"] < theirs[key]["SUCCESS"] or _faults(ours[key]) > _faults(theirs[key])
        }

    def _verdicts(self) -> dict[str, Counter[str]]:
        found: dict[str, Counter[str]] = defaultdict(Counter)
        for check in self.checks:
            found[check.key][check.status] += 1
        return found


def _faults(verdicts: Counter[str]) -> int:
    return verdicts["FAILURE"] + verdicts["WARNING"]


@dataclass(frozen=True)
class Suite:
    """The installed suite; `folder` is what `scripts/conformance --install` printed."""

    folder: Path

    def run(self, leg: Leg, url: str, scenario: str = "") -> Run:
        """Run one leg, or one of its scenarios. Blocks for some seconds.

        Raises:
            AssertionError: the suite found no verdict at all; with what it printed.
        """
        modules = self.folder / "npm/node_modules"
        own = modules / "node/bin/node"
        options = leg.options
        if scenario:
            options = ("--scenario", scenario, *options[2:])
        with tempfile.TemporaryDirectory(prefix="conformance-") as results:
            command = [
                str(own) if own.exists() else "node",
                str(modules / leg.release / "dist/index.js"),
                *("server", "--url", url, "--output-dir", results, *options),
            ]
            began = time.monotonic()
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LEG_S)
            seconds = time.monotonic() - began
            checks = _read(Path(results))
        said = done.stdout + done.stderr
        assert checks, said
        return Run(checks, seconds, said)


def _read(results: Path) -> tuple[Check, ...]:
    """What the suite left in its folder: `server-<scenario>-<time>/checks.json` each."""
    found = []
    for file in sorted(results.glob("*/checks.json")):
        scenario = re.sub(r"^server-|-\d{4}-\d\d-\d\dT[\d-]+Z$", "", file.parent.name)
        found += [
            Check(scenario, one["id"], one["status"], one.get("errorMessage") or "")
            for one in json.loads(file.read_text())
        ]
    return tuple(found)


def expected_failures(leg: Leg, run: Run, *kinds: str) -> dict[str, str]:
    """Key -> reason of what a client notices of us in the scenarios of this run.

    The files, one for every endpoint and one for each of these kinds, are as the suite itself reads them.

    Raises:
        AssertionError: an entry has no reason beside it.
    """
    ran = {check.scenario for check in run.checks}
    return {
        key: reason
        for name in (leg.name, *(f"{leg.name}.{kind}" for kind in kinds))
        for key, reason in _entries(EXPECTED / f"{name}.yaml")
        if key.partition(":")[0] in ran
    }


def _entries(file: Path) -> list[tuple[str, str]]:
    lines = file.read_text().splitlines() if file.exists() else []
    entries = [ENTRY.fullmatch(line) for line in lines if line.startswith("  -")]
    assert all(entries), f"{file}: each entry is `  - scenario:check  # reason`"
    return [(entry["key"], entry["reason"]) for entry in entries if entry]
