"""Remembers the bytes of a client's file from before its last change, to restore them. Blocks.

The records may have tokens of other servers in them: they are files of mode 0600 in a folder of mode 0700.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from host import private_files

FOLDER: Final = "client-files"
_MAX_RECORD: Final = 32 * 1024 * 1024


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
    folder = state_dir / FOLDER
    private_files.make_private(state_dir)
    private_files.make_private(folder)
    value = {
        "path": str(record.path),
        "before": None if record.before is None else base64.b64encode(record.before).decode(),
        "after": base64.b64encode(record.after).decode(),
        "folders": [str(one) for one in record.folders],
    }
    private_files.write(_file(state_dir, client), json.dumps(value).encode())


def load(state_dir: Path, client: str) -> UndoRecord | None:
    """The last change of a client's file; None if there is none, or its record is damaged.

    Raises:
        OSError, UnsafePathError: the record cannot be read, or is not the user's own.
    """
    content = private_files.read(_file(state_dir, client), _MAX_RECORD)
    if content is None:
        return None
    try:
        value = json.loads(content)
        before = value["before"]
        return UndoRecord(
            Path(value["path"]),
            None if before is None else base64.b64decode(before, validate=True),
            base64.b64decode(value["after"], validate=True),
            tuple(Path(one) for one in value["folders"]),
        )
    except (ValueError, KeyError, TypeError, binascii.Error):
        return None


def forget(state_dir: Path, client: str) -> None:
    """Delete the record of a client."""
    _file(state_dir, client).unlink(missing_ok=True)


def _file(state_dir: Path, client: str) -> Path:
    return state_dir / FOLDER / f"{client}.json"
