"""The tables of faults and attacks: each row is shown by tests that exist, or is a limit with its reason."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from scripts.benchmarks.results.documents import replaced
from scripts.reliability.suite import ROOT, TESTS, read, run
from scripts.reliability.table import Result, Row, markdown, results, summary
from scripts.reliability.table import read as rows_of

TABLES = {"faults": "reliability.md", "attacks": "threat-model.md"}


@cache
def names_in(file: str) -> set[str]:
    """The names of the tests of a file."""
    tree = ast.parse((TESTS / file).read_text("utf-8"))
    return {one.name for one in tree.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize("name", TABLES)
def test_each_row_is_shown_by_tests_that_exist_or_has_a_reason(name: str) -> None:
    rows = rows_of(name)
    assert len({row.what for row in rows}) == len(rows)
    for row in rows:
        assert row.group and row.what and row.expected and (row.tests or row.limit), row.what
        assert len(set(row.tests)) == len(row.tests), row.what
        for test in row.tests:
            file, _, function = test.partition("::")
            assert function in names_in(file), test


@pytest.mark.parametrize(("name", "document"), TABLES.items())
def test_the_document_shows_each_row(name: str, document: str) -> None:
    text = (ROOT / "docs" / "build" / document).read_text("utf-8")
    for row in rows_of(name):
        assert f"| {row.what} | {row.expected}" in text, f"Next step: scripts/{name} --write-docs"
        assert row.limit in text, f"Next step: scripts/{name} --write-docs"


def test_the_document_has_marks_for_every_result() -> None:
    for document, names in {
        "reliability.md": ("faults", "chaos", "crowds", "soak"),
        "threat-model.md": ("attacks",),
    }.items():
        text = (ROOT / "docs" / "build" / document).read_text("utf-8")
        for name in names:
            replaced(text, name, "new")


REPORT = """<testsuites><testsuite>
<testcase classname="tests.process.lifecycle.test_stop" name="test_a[1]" />
<testcase classname="tests.process.lifecycle.test_stop" name="test_a[2]"><failure message="no" /></testcase>
<testcase classname="tests.process.lifecycle.test_stop" name="test_a[3]" />
<testcase classname="tests.test_b" name="test_b[1]"><skipped message="no root" /></testcase>
<testcase classname="tests.test_b" name="test_b[2]" />
<testcase classname="tests.test_b" name="test_c"><skipped message="no root" /></testcase>
<testcase classname="tests.test_b" name="test_d"><error message="no" /></testcase>
</testsuite></testsuites>"""


def test_a_test_fails_with_any_of_its_parameters() -> None:
    assert read(REPORT) == {
        "process/lifecycle/test_stop.py::test_a": ("failed", ""),
        "test_b.py::test_b": ("passed", ""),
        "test_b.py::test_c": ("skipped", "no root"),
        "test_b.py::test_d": ("failed", ""),
    }


def test_no_tests_are_run_for_rows_that_are_limits_only(tmp_path: Path) -> None:
    assert run([], tmp_path) == {}


def row(*tests: str, limit: str = "") -> Row:
    return Row("Group", "A fault", "it is held", tests, limit)


def words(*rows: Row) -> list[str]:
    return [one.word for one in results(rows, read(REPORT))]


def test_a_row_passes_only_with_all_its_tests() -> None:
    assert words(row("test_b.py::test_b")) == ["pass (1)"]
    assert words(row("test_b.py::test_b", "test_b.py::test_c")) == ["pass (1, 1 not tried here)"]
    assert words(row("test_b.py::test_c")) == ["not tried here: no root"]
    assert words(row("test_b.py::test_b", "test_b.py::test_d")) == ["**fail**: test_b.py::test_d"]
    assert words(row(limit="nobody can")) == ["limit"]


def test_a_test_that_did_not_run_has_failed() -> None:
    assert words(row("test_b.py::test_unknown")) == ["**fail**: test_b.py::test_unknown"]


def test_results_are_a_table_for_each_group_and_a_sentence() -> None:
    found = [Result(row("a", limit="partly"), passed=1), Result(row(limit="nobody can"))]
    assert markdown(found, "fault").splitlines() == [
        "**Group**",
        "",
        "| fault | expected | result |",
        "| --- | --- | --- |",
        "| A fault | it is held. *Limit:* partly | pass (1) |",
        "| A fault | it is held. *Limit:* nobody can | limit |",
    ]
    assert summary(found).startswith("2 rows: 1 pass (1 of them with a limit), 0 fail, 1 are limits only")
