"""Tests that a remembered change comes back byte for byte, and that nobody else can read it."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from lm_tools_bridge.client_setup.editing import undo_records
from lm_tools_bridge.client_setup.editing.undo_records import UndoRecord
from lm_tools_bridge.machine.private_files import UnsafePathError

RECORD = UndoRecord(Path("/x/f"), b"\xef\xbb\xbf\x00old\r\n", b"new", (Path("/x"),))


@pytest.mark.parametrize("record", [RECORD, UndoRecord(Path("/x/f"), None, b"")])
def test_a_record_comes_back_as_it_was(tmp_path: Path, record: UndoRecord) -> None:
    undo_records.save(tmp_path, "codex", record)
    assert undo_records.load(tmp_path, "codex") == record
    assert undo_records.load(tmp_path, "cursor") is None


def test_a_record_is_private(tmp_path: Path) -> None:
    undo_records.save(tmp_path / "state", "codex", RECORD)
    folder = tmp_path / "state" / "client-files"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "codex.json").stat().st_mode) == 0o600


def test_a_forgotten_record_is_gone(tmp_path: Path) -> None:
    undo_records.save(tmp_path, "codex", RECORD)
    undo_records.forget(tmp_path, "codex")
    undo_records.forget(tmp_path, "codex")
    assert undo_records.load(tmp_path, "codex") is None


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"{}", b'{"path": "/x", "before": "?", "after": "", "folders": []}']
)
def test_a_damaged_record_counts_as_none(tmp_path: Path, content: bytes) -> None:
    undo_records.save(tmp_path, "codex", RECORD)
    (tmp_path / "client-files" / "codex.json").write_bytes(content)
    assert undo_records.load(tmp_path, "codex") is None


def test_a_record_that_others_can_read_is_not_used(tmp_path: Path) -> None:
    undo_records.save(tmp_path, "codex", RECORD)
    (tmp_path / "client-files" / "codex.json").chmod(0o644)
    with pytest.raises(UnsafePathError):
        undo_records.load(tmp_path, "codex")
