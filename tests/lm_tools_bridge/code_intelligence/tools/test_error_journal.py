"""Which errors are new to which client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from lm_tools_bridge.code_intelligence.tools import error_journal
from lm_tools_bridge.code_intelligence.tools.diagnostic_items import Diagnostic
from lm_tools_bridge.code_intelligence.tools.error_journal import ErrorJournal
from lm_tools_bridge.code_intelligence.tools.error_reports import ErrorReport
from lm_tools_bridge.code_intelligence.wire.positions import Position, Span


def error(path: str, line: int, message: str) -> Diagnostic:
    span = Span(Position(line, 1), Position(line, 2))
    return Diagnostic(Path(path), 0, span, message, "py", "E1", (), None)


def report(
    files: Mapping[str, Sequence[tuple[int, str]]], *, provider: str = "py", is_whole: bool = True
) -> ErrorReport:
    by_path = {
        Path(path): [error(path, line, message) for line, message in errors] for path, errors in files.items()
    }
    return ErrorReport(provider, by_path, is_whole)


def news(journal: ErrorJournal, client: str = "a") -> list[tuple[str, int, str]]:
    return [
        (str(entry.error.path), entry.error.span.start.line, entry.error.message)
        for entry in journal.news(client)
    ]


def test_errors_of_the_first_check_are_new_to_nobody() -> None:
    journal = ErrorJournal()
    assert news(journal) == []
    journal.take([report({"a.py": [(1, "old")]})])
    assert news(journal) == []
    journal.take([report({"a.py": [(1, "old"), (2, "new")]})])
    assert news(journal) == [("a.py", 2, "new")]
    assert news(journal) == []


def test_an_error_that_moves_or_stays_is_not_new_and_one_that_comes_again_is() -> None:
    journal = ErrorJournal()
    news(journal)
    for files in ({"a.py": [(1, "x")]}, {"a.py": [(5, "x")]}, {}, {"a.py": [(5, "x")]}):
        journal.take([report(files)])
    assert news(journal) == [("a.py", 5, "x")]


def test_a_second_error_with_the_same_message_is_new() -> None:
    journal = ErrorJournal()
    news(journal)
    journal.take([report({"a.py": [(1, "x")]})])
    journal.take([report({"a.py": [(1, "x"), (9, "x")]})])
    assert news(journal) == [("a.py", 9, "x")]


def test_each_client_is_told_once_and_an_error_that_was_mended_meanwhile_is_told_to_nobody() -> None:
    journal = ErrorJournal()
    journal.take([report({})])
    assert news(journal, "a") == news(journal, "b") == []
    journal.take([report({"a.py": [(1, "x"), (2, "y")]})])
    assert news(journal, "a") == [("a.py", 1, "x"), ("a.py", 2, "y")]
    journal.take([report({"a.py": [(2, "y")]})])
    assert news(journal, "b") == [("a.py", 2, "y")]
    assert news(journal, "a") == news(journal, "b") == news(journal, "c") == []


def test_a_server_that_does_not_answer_makes_nothing_new() -> None:
    journal = ErrorJournal()
    news(journal)
    journal.take([report({"a.py": [(1, "x")]})])
    journal.take([])
    journal.take([report({"a.py": [(1, "x")]})])
    assert news(journal) == []


def test_errors_of_a_file_that_was_never_checked_may_be_old() -> None:
    journal = ErrorJournal()
    news(journal)
    journal.take([report({"a.ts": [(1, "x")]}, is_whole=False)])
    (entry,) = journal.news("a")
    assert not entry.is_dated
    journal.take([report({"a.ts": [(1, "x"), (2, "y")]}, is_whole=False)])
    (entry,) = journal.news("a")
    assert (entry.is_dated, entry.error.message) == (True, "y")


def test_what_two_servers_say_alike_is_told_once() -> None:
    journal = ErrorJournal()
    news(journal)
    journal.take([report({}), report({}, provider="ruff")])
    journal.take([report({"a.py": [(1, "x")]}), report({"a.py": [(1, "x")]}, provider="ruff")])
    assert news(journal) == [("a.py", 1, "x")]


def test_errors_of_a_file_that_is_gone_are_dropped() -> None:
    journal = ErrorJournal()
    news(journal)
    journal.take([report({"a.ts": [(1, "x")]}, is_whole=False)])
    journal.forget_files({Path("a.ts"): True})
    assert news(journal) == []


def test_clients_and_files_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(error_journal, "MAX_CLIENTS", 2)
    monkeypatch.setattr(error_journal, "MAX_FILES", 2)
    journal = ErrorJournal()
    for client in "abc":
        journal.news(client)
    journal.take([report({f"{name}.ts": [(1, "x")] for name in "abc"}, is_whole=False)])
    assert len(journal.files()) == 2
    assert journal.news("a") == []  # it was forgotten, and begins anew
    assert len(journal.news("c")) == 2
