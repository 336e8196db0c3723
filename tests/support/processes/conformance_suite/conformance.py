"""Runs the official conformance suite and parses its results.

`scripts/conformance` installs it. `conformance_chain.py` provides what it is run against.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Container
from dataclasses import dataclass, replace
from pathlib import Path

from support.servers.conformance import task_tools

LEG_S = 240.0
SCENARIO_MS = 15_000
EXPECTED = Path(__file__).parents[3] / "conformance" / "expected"
ENTRY = re.compile(r"  - (?P<key>[\w.-]+:\S+)  # (?P<reason>\S.+)")


@dataclass(frozen=True)
class Leg:
    """One run of the suite.

    Attributes:
        name: the revision its clients speak, or the suite's own version.
        release: which of the two installed releases it is.
        total: how many checks succeed against a server that does everything.
        options: what it is run with.
        scenarios: what is run, one by one; empty for all that there is.
    """

    name: str
    release: str
    total: int
    options: tuple[str, ...] = ()
    scenarios: tuple[str, ...] = ()


_PATIENT = ("--timeout", str(SCENARIO_MS))


def _revision(name: str, total: int) -> Leg:
    return Leg(name, "newer", total, ("--spec-version", name, *_PATIENT))


LEGS = {
    leg.name: leg
    for leg in (
        _revision("2025-03-26", 3),
        _revision("2025-06-18", 56),
        _revision("2025-11-25", 84),
        _revision("2026-07-28", 152),
        Leg("0.1.16", "older", 44),
        Leg("tasks", "newer", 44, _PATIENT, task_tools.SCENARIOS),
    )
}
"""By name; `tasks` is about the extension of that name, which belongs to no revision."""

_SINCE_2025_06_18 = (
    "server-initialize",
    "server-session-lifecycle",
    "logging-set-level",
    "ping",
    "tools-list",
    "resources-list",
    "prompts-list",
)
_SINCE_2025_11_25 = ("dns-rebinding-protection", "server-sse-multiple-streams", "server-sse-polling")
NEED_NO_WORKSPACE = {
    "2025-03-26": ("server-session-lifecycle",),
    "2025-06-18": _SINCE_2025_06_18,
    "2025-11-25": _SINCE_2025_06_18 + _SINCE_2025_11_25,
    "2026-07-28": (
        "tools-list",
        "resources-list",
        "prompts-list",
        "caching",
        "dns-rebinding-protection",
        "http-header-validation",
        "sep-2164-resource-not-found",
        "server-sse-multiple-streams",
        "input-required-result-missing-input-response",
        "input-required-result-tampered-state",
        "input-required-result-unsupported-methods",
        "input-required-result-validate-input",
    ),
}
"""Of the scenarios of a leg. The others need a server's own tools, prompts or resources."""


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

    def only(self, scenarios: Container[str]) -> Run:
        """The same without the other scenarios."""
        return replace(self, checks=tuple(check for check in self.checks if check.scenario in scenarios))

    def less_than(self, other: Run) -> dict[str, str]:
        """Key -> why, of the checks that succeed in the other run and not, or not as often, in this one.

        Scenarios that were not run here do not count.
        """
        ours = self._verdicts()
        theirs = other.only({check.scenario for check in self.checks})._verdicts()
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
        chosen = (scenario,) if scenario else leg.scenarios
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="conformance-") as results:
            options = ("--url", url, "--output-dir", results, *leg.options)
            said = [
                self._said(leg.release, *options, *what)
                for what in [("--scenario", one) for one in chosen] or [("--suite", "all")]
            ]
            checks = _read(Path(results))
        assert checks, said
        return Run(checks, time.monotonic() - began, "".join(said))

    def _said(self, release: str, *options: str) -> str:
        modules = self.folder / "npm/node_modules"
        own = modules / "node/bin/node"
        command = [str(own) if own.exists() else "node", str(modules / release / "dist/index.js"), "server"]
        done = subprocess.run(
            [*command, *options], capture_output=True, text=True, check=False, timeout=LEG_S
        )
        return done.stdout + done.stderr


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
