"""Results between the markers of documents."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.benchmarks.__main__ import SECTIONS
from scripts.benchmarks.plan import ROOT
from scripts.benchmarks.results.documents import MissingMarkers, replaced, write

DOCUMENT = "before\n<!-- bench:begin a -->\nold\n<!-- bench:end a -->\nafter\n"


def test_only_the_text_between_the_markers_changes_and_twice_is_as_once() -> None:
    once = replaced(DOCUMENT, "a", r"new \1")
    assert once == "before\n<!-- bench:begin a -->\n\nnew \\1\n\n<!-- bench:end a -->\nafter\n"
    assert replaced(once, "a", r"new \1") == once


def test_a_document_without_the_markers_is_not_changed(tmp_path: Path) -> None:
    file = tmp_path / "document.md"
    file.write_text(DOCUMENT)
    with pytest.raises(MissingMarkers, match="bench:begin b"):
        write(file, {"a": "new", "b": "new"})
    assert file.read_text() == DOCUMENT


def test_the_documents_have_markers_for_every_section() -> None:
    performance = (ROOT / "docs" / "build" / "performance.md").read_text()
    for name in (*SECTIONS, "targets", "quick"):
        replaced(performance, name, "new")
