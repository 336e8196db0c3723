"""What is remembered of a trusted workspace: which folder it was, and what each item was. Shapes and JSON.

Pure. Reading a record is strict: one that is not exactly of this shape is worth nothing, and whoever reads it
goes on as if nobody was ever asked.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from workspace_server.trust.item import TrustItem

VERSION: Final = 1
MAX_TEXT: Final = 64 * 1024
MAX_TEXTS: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class FolderIdentity:
    """One folder: its link-free path, and which one it is on its file system."""

    path: str
    device: int
    inode: int


@dataclass(frozen=True, slots=True)
class RecordedFile:
    """A file as it was trusted. `text` is None for binary and large files, which are known by their hash."""

    size: int
    sha256: str
    text: str | None = None


@dataclass(frozen=True, slots=True)
class RecordedItem:
    """An item as it was trusted."""

    digest: str
    title: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, RecordedFile] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TrustRecord:
    """Everything trusted of one workspace, by item key."""

    folder: FolderIdentity
    items: Mapping[str, RecordedItem]


class InvalidRecordError(Exception):
    """These bytes are no record."""


def record_of(folder: FolderIdentity, items: Sequence[TrustItem]) -> TrustRecord:
    """The record of these items. Texts are kept while there is room for them; for the rest hashes must do.

    Raises:
        ValueError: two items have one key: which of them was meant could not be told later.
    """
    room = MAX_TEXTS
    recorded: dict[str, RecordedItem] = {}
    for item in items:
        if item.key in recorded:
            raise ValueError(f"two items with the key {item.key!r}")
        files: dict[str, RecordedFile] = {}
        for name, content in item.files.items():
            files[name] = recorded_file(content, room)
            room -= len(content) if files[name].text is not None else 0
        recorded[item.key] = RecordedItem(item.digest(), item.title, item.facts, files)
    return TrustRecord(folder, recorded)


def recorded_file(content: bytes, room: int = MAX_TEXT) -> RecordedFile:
    """A file's content as a record keeps it; its text only if that has at most `room` bytes."""
    text = text_of(content) if len(content) <= room else None
    return RecordedFile(len(content), hashlib.sha256(content).hexdigest(), text)


def text_of(content: bytes) -> str | None:
    """The content as text, or None for what is binary or longer than anybody reads."""
    if len(content) > MAX_TEXT or b"\0" in content:
        return None
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return None


def encode(record: TrustRecord) -> bytes:
    """The record as JSON; paths that are no UTF-8 survive as escaped surrogates."""
    folder = {"path": record.folder.path, "device": record.folder.device, "inode": record.folder.inode}
    items = {
        key: {
            "digest": one.digest,
            "title": one.title,
            "facts": one.facts,
            "files": {name: _file_as_json(file) for name, file in one.files.items()},
        }
        for key, one in record.items.items()
    }
    whole = {"version": VERSION, "folder": folder, "items": items}
    return json.dumps(whole, ensure_ascii=True, indent=1, sort_keys=True, default=str).encode("ascii")


def _file_as_json(file: RecordedFile) -> dict[str, Any]:
    text = {} if file.text is None else {"text": file.text}
    return {"size": file.size, "sha256": file.sha256, **text}


def decode(raw: bytes) -> TrustRecord:
    """The record in these bytes.

    Raises:
        InvalidRecordError: it is not exactly of this version's shape.
    """
    try:
        whole = json.loads(raw)
        if whole["version"] != VERSION:
            raise InvalidRecordError(f"it is of version {whole['version']!r}, not {VERSION}")
        folder = whole["folder"]
        identity = FolderIdentity(
            _is(str, folder["path"]), _is(int, folder["device"]), _is(int, folder["inode"])
        )
        items = _is(dict, whole["items"])
        return TrustRecord(identity, {key: _item(one) for key, one in items.items()})
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InvalidRecordError(f"it is damaged ({type(error).__name__})") from None


def _item(value: Any) -> RecordedItem:
    files = {
        name: RecordedFile(
            _is(int, one["size"]),
            _is(str, one["sha256"]),
            None if one.get("text") is None else _is(str, one["text"]),
        )
        for name, one in _is(dict, value["files"]).items()
    }
    return RecordedItem(_is(str, value["digest"]), _is(str, value["title"]), _is(dict, value["facts"]), files)


def _is(kind: type, value: Any) -> Any:
    if type(value) is not kind:  # a bool is no number here
        raise TypeError(kind.__name__)
    return value
