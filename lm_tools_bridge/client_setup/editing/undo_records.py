"""Remembers the bytes of files from before their changes, to restore them. Blocks.

Of a client's file, the last change is remembered; of the files of a project, or of the user, every change
that was not taken back, as a stack.

The records may have tokens of other servers in them: they are files of mode 0600 in a folder of mode 0700.
"""

from __future__ import annotations

import base64
import binascii
import errno
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.machine import private_files

FOLDER: Final = "client-files"
_MAX_RECORD: Final = 32 * 1024 * 1024
"""Two files of the largest size (5 MiB), each before and after its change, are 27 MiB in base64."""


@dataclass(frozen=True, slots=True)
class UndoRecord:
    """One change.

    Attributes:
        path: the file that was changed.
        before: its content before; None if there was no file.
        after: its content after.
        folders: the folders that were made for it, outermost first.
    """

    path: Path
    before: bytes | None
    after: bytes
    folders: tuple[Path, ...] = ()


def save(state_dir: Path, client: str, record: UndoRecord) -> None:
    """Remember the last change of a client's file.

    Raises:
        OSError, UnsafePathError: the record cannot be written.
    """
    save_stack(state_dir, client, [[record]])


def save_stack(state_dir: Path, name: str, changes: Sequence[Sequence[UndoRecord]]) -> None:
    """Remember the changes of several files, the oldest first; without any, their record is deleted.

    Raises:
        OSError, UnsafePathError: the record cannot be written, or would be too large to be read again.
    """
    if not changes:
        forget(state_dir, name)
        return
    folder = state_dir / FOLDER
    private_files.make_private(state_dir)
    private_files.make_private(folder)
    content = json.dumps({"changes": [[_value(record) for record in change] for change in changes]}).encode()
    if len(content) > _MAX_RECORD:
        text = f"the changes that can be undone are larger than {_MAX_RECORD >> 20} MiB; undo some first"
        raise OSError(errno.EFBIG, text, str(_file(state_dir, name)))
    private_files.write(_file(state_dir, name), content)


def load(state_dir: Path, client: str) -> UndoRecord | None:
    """The last change of a client's file; None if there is none, or its record is damaged.

    Raises:
        OSError, UnsafePathError: the record cannot be read, or is not the user's own.
    """
    changes = load_stack(state_dir, client)
    return changes[-1][0] if changes and len(changes[-1]) == 1 else None


def load_stack(state_dir: Path, name: str) -> list[list[UndoRecord]]:
    """The changes of several files, the oldest first; empty without a usable record. Raises like `load`."""
    content = private_files.read(_file(state_dir, name), _MAX_RECORD)
    if content is None:
        return []
    try:
        return [[_record(value) for value in change] for change in _changes(json.loads(content)) if change]
    except (ValueError, KeyError, TypeError, binascii.Error):
        return []


def _changes(values: Any) -> list[list[Any]]:
    """The changes in a record. Earlier versions wrote the last one alone: its records, or its only one."""
    if isinstance(values, dict) and "changes" in values:
        return list(values["changes"])
    return [values if isinstance(values, list) else [values]]


def _value(record: UndoRecord) -> dict[str, Any]:
    return {
        "path": str(record.path),
        "before": None if record.before is None else base64.b64encode(record.before).decode(),
        "after": base64.b64encode(record.after).decode(),
        "folders": [str(folder) for folder in record.folders],
    }


def _record(value: Any) -> UndoRecord:
    before = value["before"]
    return UndoRecord(
        Path(value["path"]),
        None if before is None else base64.b64decode(before, validate=True),
        base64.b64decode(value["after"], validate=True),
        tuple(Path(folder) for folder in value["folders"]),
    )


def forget(state_dir: Path, client: str) -> None:
    """Delete the record of a client."""
    _file(state_dir, client).unlink(missing_ok=True)


def _file(state_dir: Path, client: str) -> Path:
    return state_dir / FOLDER / f"{client}.json"
