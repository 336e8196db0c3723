"""Tests that a remembered change comes back byte for byte, and that nobody else can read it."""

from __future__ import annotations

import json
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


def test_changes_are_remembered_in_their_order(tmp_path: Path) -> None:
    other = UndoRecord(Path("/x/g"), None, b"more")
    undo_records.save_stack(tmp_path, "project-1", [[RECORD, other], [other]])
    assert undo_records.load_stack(tmp_path, "project-1") == [[RECORD, other], [other]]
    undo_records.save_stack(tmp_path, "project-1", [])
    assert undo_records.load_stack(tmp_path, "project-1") == []


def test_what_could_not_be_read_again_is_refused_and_what_was_there_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    undo_records.save_stack(tmp_path, "project-1", [[RECORD]])
    monkeypatch.setattr(undo_records, "_MAX_RECORD", 1000)
    with pytest.raises(OSError, match="undo some first"):
        undo_records.save_stack(
            tmp_path, "project-1", [[RECORD], [UndoRecord(Path("/x"), None, b"x" * 1000)]]
        )
    assert undo_records.load_stack(tmp_path, "project-1") == [[RECORD]]


@pytest.mark.parametrize("is_list", [False, True])
def test_a_record_of_an_earlier_version_is_the_last_change(tmp_path: Path, is_list: bool) -> None:
    value = {"path": "/x/f", "before": None, "after": "bmV3", "folders": []}
    (tmp_path / "client-files").mkdir(mode=0o700)
    file = tmp_path / "client-files" / "codex.json"
    file.write_text(json.dumps([value, value] if is_list else value))
    file.chmod(0o600)
    record = UndoRecord(Path("/x/f"), None, b"new")
    assert undo_records.load_stack(tmp_path, "codex") == [[record] * (1 + is_list)]
