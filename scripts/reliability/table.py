"""Reads the tables of faults and attacks, and renders their results. Pure, but for reading the files."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

HERE = Path(__file__).parent
Outcome = Literal["passed", "failed", "skipped"]


@dataclass(frozen=True)
class Row:
    """A fault or an attack.

    Attributes:
        group: the heading it stands under.
        what: the fault or the attack.
        expected: what happens then.
        tests: node ids of pytest, relative to `tests/`; all of them show it.
        limit: what is not held, with the reason; may stand beside tests.
    """

    group: str
    what: str
    expected: str
    tests: tuple[str, ...] = ()
    limit: str = ""


@dataclass(frozen=True)
class Result:
    """The result of a row: how many of its tests had which outcome, and the names of those that failed."""

    row: Row
    passed: int = 0
    failed: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()

    @property
    def word(self) -> str:
        """The result in a word, or a few."""
        if self.failed:
            return f"**fail**: {', '.join(self.failed)}"
        if not self.row.tests:
            return "limit"
        if not self.passed:
            return f"not tried here: {'; '.join(sorted(set(self.skipped)))}"
        beside = f", {len(self.skipped)} not tried here" if self.skipped else ""
        return f"pass ({self.passed}{beside})"


def read(name: str) -> list[Row]:
    """The rows of the table in `<name>.toml`, in their order."""
    groups = tomllib.loads((HERE / f"{name}.toml").read_text("utf-8"))["group"]
    return [
        Row(group["name"], one["what"], one["expected"], tuple(one.get("tests", ())), one.get("limit", ""))
        for group in groups for one in group["row"]
    ]  # fmt: skip


def results(rows: Iterable[Row], outcomes: Mapping[str, tuple[Outcome, str]]) -> list[Result]:
    """The result of each row; a test without an outcome has failed, because it did not run."""
    return [_result(row, outcomes) for row in rows]


def _result(row: Row, outcomes: Mapping[str, tuple[Outcome, str]]) -> Result:
    found = {test: outcomes.get(test, ("failed", "")) for test in row.tests}
    failed = tuple(test for test, (outcome, _) in found.items() if outcome == "failed")
    skipped = tuple(reason for outcome, reason in found.values() if outcome == "skipped")
    return Result(row, len(found) - len(failed) - len(skipped), failed, skipped)


def markdown(found: Iterable[Result], column: str) -> str:
    """The results as a Markdown table for each group. `column` is the head of the first column."""
    lines: list[str] = []
    group = ""
    for one in found:
        if one.row.group != group:
            group = one.row.group
            lines += ["", f"**{group}**", "", f"| {column} | expected | result |", "| --- | --- | --- |"]
        limit = f"{one.row.expected}. *Limit:* {one.row.limit}" if one.row.limit else one.row.expected
        lines.append(f"| {one.row.what} | {limit} | {one.word} |")
    return "\n".join(lines).strip()


def summary(found: Iterable[Result]) -> str:
    """How many rows have which result, in a sentence."""
    every = list(found)
    failed = [one for one in every if one.failed]
    untried = [one for one in every if one.row.tests and not one.failed and not one.passed]
    limits = [one for one in every if not one.row.tests]
    passed = len(every) - len(failed) - len(untried) - len(limits)
    partly = sum(bool(one.row.limit) for one in every if one.row.tests)
    tests = sum(one.passed for one in every)
    return (
        f"{len(every)} rows: {passed} pass ({partly} of them with a limit), {len(failed)} fail, "
        f"{len(limits)} are limits only, {len(untried)} could not be tried on this machine. {tests} tests."
    )
