"""Results between the marks of documents."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.benchmarks.__main__ import SECTIONS
from scripts.benchmarks.documents import NoPlace, write, written
from scripts.benchmarks.plan import ROOT

DOCUMENT = "before\n<!-- bench:begin a -->\nold\n<!-- bench:end a -->\nafter\n"


def test_only_what_is_between_the_marks_changes_and_again_the_same() -> None:
    once = written(DOCUMENT, "a", r"new \1")
    assert once == "before\n<!-- bench:begin a -->\n\nnew \\1\n\n<!-- bench:end a -->\nafter\n"
    assert written(once, "a", r"new \1") == once


def test_a_document_without_the_marks_stays_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "document.md"
    file.write_text(DOCUMENT)
    with pytest.raises(NoPlace, match="bench:begin b"):
        write(file, {"a": "new", "b": "new"})
    assert file.read_text() == DOCUMENT


def test_every_section_has_its_place_in_the_documents() -> None:
    performance = (ROOT / "docs" / "performance.md").read_text()
    for name in (*SECTIONS, "targets"):
        written(performance, name, "new")
    written((ROOT / "README.md").read_text(), "quick", "new")
